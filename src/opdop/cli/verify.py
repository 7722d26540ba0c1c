"""`opdop verify`: every inequality of the paper, tested on real runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from opdop.cli.application import app
from opdop.cli.options import AsJson, FailureProbability, Noisy, Preset
from opdop.cli.output import busy, console, count, print_json, show
from opdop.envs import make, parse
from opdop.model import InvalidParameterError
from opdop.report.terminal import verification_tables as verification
from opdop.theory import Case, coverage, coverage_cases, standard_cases
from opdop.theory.verification import Tell
from opdop.theory.verification import verify as verify_cases

BROKEN = 1  # exit status


@app.command()
def verify(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Problems, as `opdop envs` lists them.", show_default=False),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(metavar="N", help="Runs of each problem: 3, or 25 with --coverage.", show_default=False),
    ] = None,
    episodes: Annotated[
        str | None,
        typer.Option(
            "--episodes",
            "-k",
            metavar="K",
            help="Episodes of each run: 300, or 2000 with --coverage.",
            show_default=False,
        ),
    ] = None,
    preset: Preset = "certified",
    algorithm: Annotated[
        str | None,
        typer.Option(help="opdop or opdop-lstd; by default the latter for models with features.", show_default=False),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", "-s", metavar="KEY=VALUE", help="Set a parameter of the one problem.", show_default=False
        ),
    ] = None,
    noisy: Noisy = False,
    failure_probability: FailureProbability = 0.05,
    only_optimism: Annotated[
        bool, typer.Option("--coverage", help="Only count how often estimates are optimistic, over many runs.")
    ] = False,
    markdown: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also write the table as Markdown.", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Test every inequality of the paper on real runs, and say how often it held.

    \b
    Examples:
      opdop verify                           all statements on small problems
      opdop verify gridworld --seeds 10      on one problem
      opdop verify factored -k 5000          longer runs
      opdop verify factored --preset practical
      opdop verify --coverage                only optimism, over 225 runs
      opdop verify --json | jq '.statements[] | select(.broken)'

    The learner is played step by step beside the true model, which it never sees. A
    second bookkeeper keeps its own accounts of the episodes; what the learner found is
    compared with them, with the truth, and with what the proofs say.

    A statement that is proved to hold always is broken by one failure. One that is
    promised with a probability is broken if it held so rarely that this probability
    can be excluded (95 % interval).

    Exit status: 0 no promise is broken; 1 one is; 2 a wrong name or value.
    """
    cases = _cases(names or [], settings or [], algorithm, preset, noisy, only_optimism)
    runs = seeds if seeds is not None else (25 if only_optimism else 3)
    length = count("episodes", episodes) if episodes is not None else (2000 if only_optimism else 300)
    if markdown is not None and not markdown.absolute().parent.is_dir():
        raise InvalidParameterError(f"cannot write {str(markdown)!r}: there is no folder {str(markdown.parent)!r}.")
    with _bar(len(cases) * max(runs, 1) * max(length, 1)) as tell:
        if only_optimism:
            study = coverage(cases, seeds=runs, episodes=length, failure_probability=failure_probability, progress=tell)
            page, record, broken = verification.coverage_page(study), study.record(), study.broken
            text = verification.markdown_coverage(study)
        else:
            found = verify_cases(
                cases, seeds=runs, episodes=length, failure_probability=failure_probability, progress=tell
            )
            page, record, broken = (
                verification.verification_page(found, width=console().width),
                found.record(),
                found.broken,
            )
            text = verification.markdown_verification(found)
    if markdown is not None:
        try:
            markdown.write_text(text, encoding="utf-8")
        except OSError as error:
            raise InvalidParameterError(f"cannot write {str(markdown)!r}: {error.strerror or error}.") from error
    if as_json:
        print_json(record)
    else:
        show(console(), page)
    if broken:
        raise typer.Exit(BROKEN)


def _cases(
    names: list[str], settings: list[str], algorithm: str | None, preset: str, noisy: bool, only_optimism: bool
) -> list[Case]:
    if only_optimism and preset != "certified":
        raise InvalidParameterError(f"--coverage is about promises, and preset {preset!r} makes none of optimism.")
    with busy("solving"):
        if names:
            if settings and len(names) > 1:
                raise InvalidParameterError("--set needs one problem; expected opdop verify NAME --set KEY=VALUE.")
            models = [make(name, **parse(name, settings)) for name in names]
            return [Case.of(model, algorithm=algorithm, noisy=noisy, preset=preset) for model in models]
        given = {"--set": bool(settings), "--algorithm": algorithm is not None, "--noisy": noisy}
        for option in (option for option, there in given.items() if there):
            raise InvalidParameterError(f"{option} needs a problem; expected opdop verify NAME {option}.")
        if only_optimism:
            return coverage_cases()
        if preset == "certified":
            return standard_cases()
        return list({case.name: case for case in (each.with_preset(preset) for each in standard_cases())}.values())


@contextmanager
def _bar(episodes: int) -> Iterator[Tell]:
    """Show on a terminal how far it is."""
    screen = Console(stderr=True)
    columns = (TextColumn("verifying"), BarColumn(), MofNCompleteColumn(), TextColumn("episodes,"))
    with Progress(
        *columns, TimeRemainingColumn(compact=True), TextColumn("left"), console=screen, disable=not screen.is_terminal
    ) as bar:
        task = bar.add_task("", total=episodes)
        yield lambda done: bar.advance(task, done)
