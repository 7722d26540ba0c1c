"""`opdop report` and `opdop compare`: what runs say together, as a page, and which differences are clear."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bar
from rich.text import Text

from opdop.cli.application import INTERRUPTED, app
from opdop.cli.options import Open, Preset
from opdop.cli.output import busy, console, count, parameter_values, show
from opdop.envs import environments, make, parse
from opdop.model import InvalidParameterError
from opdop.report.summary.groups import Collection, collect
from opdop.report.summary.verdicts import verdict_page
from opdop.report.terminal.sweep_tables import SweepWatch
from opdop.sweeps.sweep import Spec, run_sweep

_FAILED = 1


@app.command()
def report(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A run, a sweep, or any folder of runs.", show_default=False)
    ],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The page; DIR/report.html if left out.", show_default=False),
    ] = None,
    show_page: Open = False,
    figures: Annotated[
        bool, typer.Option("--figures/--no-figures", help="Also save each figure as .svg, .pdf and .png.")
    ] = True,
) -> None:
    """Make one page of all runs in a folder, with figures for papers.

    \b
    Examples:
      opdop run factored -k 2e4 --out results/one
      opdop report results/one
      opdop sweep spec.toml --out results/first
      opdop report results/first --open
      opdop report results/first --out pages/first.html --no-figures

    The page is one HTML file that needs no network: what was asked and what came
    out, tables in the problem's own units, regret, violation and multipliers with
    bands over seeds, the way of the average policies through the reward-utility
    plane to the exact optimum, maps, constants, versions, and commands that make
    the same runs again. The figures are beside it: DIR/report/figures.

    Runs that are the same but for the seed are one group; several groups of one
    problem are compared. A run that cannot be read is listed with its error.
    """
    with busy("reading the runs"):
        found = collect(folder)
    _write(found, out or folder / "report.html", figures=figures, show_page=show_page)


@app.command()
def compare(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A problem, as `opdop envs` lists them.", show_default=False)
    ],
    algorithms: Annotated[
        str, typer.Option(metavar="A,B,...", help="What to compare; NAME:PRESET for a preset of its own.")
    ] = "opdop,oppo",
    seeds: Annotated[int, typer.Option(metavar="N", help="Runs of each, with seeds 0 to N-1.")] = 10,
    episodes: Annotated[str, typer.Option("--episodes", "-k", metavar="K", help="Episodes of each run.")] = "20000",
    preset: Preset = "practical",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", "-s", metavar="KEY=VALUE", help="Set a parameter of the problem.", show_default=False),
    ] = None,
    parameters: Annotated[
        list[str] | None,
        typer.Option("--param", metavar="NAME=VALUE", help="Set a parameter of the preset.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep everything here; comparisons/NAME if left out.", show_default=False),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(metavar="N", help="Processes; one for each core if left out.", show_default=False)
    ] = None,
    show_page: Open = False,
    figures: Annotated[
        bool, typer.Option("--figures/--no-figures", help="Also save each figure as .svg, .pdf and .png.")
    ] = True,
) -> None:
    """Compare algorithms on a problem over many seeds, and say which differences are clear.

    \b
    Examples:
      opdop compare media-streaming --algorithms opdop,oppo --seeds 10
      opdop compare factored --algorithms opdop,opdop:certified --seeds 5
      opdop compare inventory -s budget=50 --seeds 20 --out results/stock --open

    This is a sweep and a report in one line. Interrupted, the same command goes
    on where it was; with more seeds it makes those that are new.
    """
    spec = _spec(name, algorithms, seeds, episodes, preset, settings or [], parameters or [])
    folder = out or Path("comparisons") / name
    screen = Console(stderr=True, highlight=False, markup=False, emoji=False)
    with SweepWatch(screen) as watch:
        try:
            made = run_sweep(spec, folder, workers=workers, progress=watch)
        except (KeyboardInterrupt, SystemExit) as stop:
            status = stop.code if isinstance(stop, SystemExit) else INTERRUPTED
        else:
            status = None
    if status is not None:
        screen.print(Text(f"interrupted; the same command goes on with what is in {folder}"), soft_wrap=True)
        raise typer.Exit(status if isinstance(status, int) else INTERRUPTED)
    failed = len(made.failed)
    with busy("reading the runs"):
        found = collect(folder)
    _write(found, folder / "report.html", figures=figures, show_page=show_page)
    if failed:
        screen.print(Text(f"{failed} of {len(made.jobs)} runs failed: see {folder / 'failed'}"), soft_wrap=True)
        raise typer.Exit(_FAILED)


def _spec(
    name: str, algorithms: str, seeds: int, episodes: str, preset: str, settings: list[str], parameters: list[str]
) -> Spec:
    """Return the sweep that a comparison stands for."""
    if name not in environments():
        make(name)  # raises, with a suggestion
    entries: list[dict[str, Any]] = []
    chosen = [each.strip() for each in algorithms.split(",") if each.strip()]
    if not chosen:
        raise InvalidParameterError(f"--algorithms is {algorithms!r}; expected names, as in opdop,oppo.")
    for each in chosen:
        algorithm, _, own = each.partition(":")
        entries.append({"name": algorithm, "preset": own or preset})
        if parameters:
            entries[-1]["parameters"] = parameter_values(parameters)
    return Spec.of(
        {
            "episodes": count("episodes", episodes),
            "seeds": seeds,
            "problem": [{"name": name, **_plain(parse(name, settings))}],
            "algorithm": entries,
        }
    )


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """Return parameters as a spec has them: TOML has no null, and a list alone is a grid."""
    listed = {key: [list(value)] if isinstance(value, tuple) else value for key, value in values.items()}
    return {key: "none" if value is None else value for key, value in listed.items()}


def _write(found: Collection, file: Path, *, figures: bool, show_page: bool) -> None:
    """Write the report, with a bar while it is drawn, and print the verdicts and where everything is."""
    from opdop.report.figures import KINDS
    from opdop.report.html.write import write_report

    columns = TextColumn("drawing"), BarColumn(), MofNCompleteColumn(), TextColumn("figures")
    errors = Console(stderr=True)
    with Bar(*columns, console=errors, transient=True, disable=not errors.is_terminal) as bar:
        task = bar.add_task("", total=None)
        written = write_report(
            found,
            file,
            kinds=KINDS if figures else (),
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
    screen = console()
    for section in found.sections:
        show(screen, verdict_page(section))
    for missing in found.missing:
        screen.print(Text(f"not shown: {missing.place}: {missing.reason}"), soft_wrap=True)
    screen.print(Text(f"report: {written.page}"), soft_wrap=True)
    if written.figures:
        screen.print(Text(f"figures: {written.figures[0].parent}"), soft_wrap=True)
    if show_page and not webbrowser.open(written.page.resolve().as_uri()):
        screen.print(Text("there is no browser that could be opened; open the file yourself"), soft_wrap=True)
