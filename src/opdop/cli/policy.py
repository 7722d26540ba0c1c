"""`opdop policy`: take the policy out of a run's folder, as a file that acts elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opdop.cli.application import app
from opdop.cli.output import busy, say
from opdop.model import InvalidParameterError

KINDS = ("final", "average", "recommended")


@app.command()
def policy(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a run.", show_default=False)],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The file: .npz or .json.", show_default=False)],
    kind: Annotated[str, typer.Option(metavar="KIND", help="final, average or recommended.")] = "recommended",
) -> None:
    """Save a policy of a run as a file that acts elsewhere.

    \b
    Examples:
      opdop run factored -k 2e3 --out runs/first
      opdop policy runs/first --out policy.json
      opdop policy runs/first --kind final --out policy.npz

    The recommended policy is the best that the run's data certify to keep every
    constraint, or the one that comes nearest; the certificate is printed with it.
    docs/policies.md describes the files, with a reader that needs NumPy only.
    """
    from opdop.runs import Run

    if kind not in KINDS:
        raise InvalidParameterError(f"--kind is {kind!r}; expected {', '.join(KINDS)}.")
    if out.suffix not in (".npz", ".json"):
        raise InvalidParameterError(f"--out is {str(out)!r}; expected a file in .npz or .json.")
    run = Run.load(folder)
    words = ""
    if kind == "recommended":
        with busy("certifying"):
            certificate = run.certificate()
        found, words = certificate.policy, str(certificate)
    else:
        found = run.policy_of(kind)
    found.save(out)
    say(f"{kind} policy saved to {out}: {found!r}")
    if words:
        say(words)
