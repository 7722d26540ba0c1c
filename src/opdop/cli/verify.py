"""`opdop verify`: check every inequality of the paper on real runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

from opdop.cli.application import app
from opdop.cli.options import AsJson, FailureProbability, Noisy, Preset
from opdop.cli.output import busy, console, count, print_json, show
from opdop.envs import parse
from opdop.model import InvalidParameterError
from opdop.report.terminal import verification_tables as tables
from opdop.report.terminal.progress_bar import ProgressBar
from opdop.theory import CoverageStudy, coverage
from opdop.theory.problems import chosen_simulations
from opdop.theory.verification import verify as verify_simulations

CHECK_FAILED = 1  # exit status


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
    """Check every inequality of the paper on real runs, and count how often it held.

    \b
    Examples:
      opdop verify                           all checks on small problems
      opdop verify gridworld --seeds 10      on one problem
      opdop verify factored -k 5000          longer runs
      opdop verify factored --preset scaled
      opdop verify --coverage                only optimism, over 225 runs
      opdop verify --json | jq '.checks[] | select(.failed or .vacuous)'

    The learner is played step by step beside the true model, which it never sees. Its
    estimates are compared with those of an independent re-implementation of Algorithms
    2 and 3, with the true values, and with what the proofs say.

    A claim that is proved to hold always fails its check by one failure. A claim that
    is guaranteed with a probability fails if it held so rarely that this probability
    can be excluded (95 % interval). A check is vacuous if its bound is so large that
    it could not fail; vacuous checks are counted apart.

    Exit status: 0 all checks passed; 1 one failed; 2 a wrong name or value.
    """
    if settings and len(names or []) > 1:
        raise InvalidParameterError("--set needs one problem; expected opdop verify NAME --set KEY=VALUE.")
    with busy("solving"):
        parameters = parse((names or [""])[0], settings) if settings and names else dict.fromkeys(settings or [])
        chosen: list[Any] = list(names or [])
        simulations = chosen_simulations(chosen, parameters, algorithm, preset, noisy, only_optimism)
    runs = seeds if seeds is not None else (25 if only_optimism else 3)
    length = count("episodes", episodes) if episodes is not None else (2000 if only_optimism else 300)
    if markdown is not None and not os.path.isdir(markdown.absolute().parent):
        raise InvalidParameterError(f"cannot write {str(markdown)!r}: there is no folder {str(markdown.parent)!r}.")
    with _bar(len(simulations) * max(runs, 1) * max(length, 1)) as progress:
        found = (coverage if only_optimism else verify_simulations)(
            simulations, seeds=runs, episodes=length, failure_probability=failure_probability, progress=progress
        )
    if isinstance(found, CoverageStudy):
        page, text = tables.coverage_page(found), tables.markdown_coverage(found)
    else:
        page, text = tables.verification_page(found, width=console().width), tables.markdown_verification(found)
    if markdown is not None:
        try:
            markdown.write_text(text, encoding="utf-8")
        except OSError as error:
            raise InvalidParameterError(f"cannot write {str(markdown)!r}: {error.strerror or error}.") from error
    if as_json:
        print_json(found.record())
    else:
        show(console(), page)
    if found.failed:
        raise typer.Exit(CHECK_FAILED)


@contextmanager
def _bar(episodes: int) -> Iterator[Callable[[], None]]:
    """Show the progress on a terminal."""
    screen = Console(stderr=True)
    columns = (TextColumn("verifying"), BarColumn(), MofNCompleteColumn(), TextColumn("episodes,"))
    with ProgressBar(
        *columns, TimeRemainingColumn(compact=True), TextColumn("left"), console=screen, disable=not screen.is_terminal
    ) as bar:
        task = bar.add_task("", total=episodes)
        yield lambda: bar.advance(task)
