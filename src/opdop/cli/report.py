"""`opdop report` and `opdop compare`: write an HTML page of many runs, and print which differences are clear."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opdop.cli.application import INTERRUPTED, app
from opdop.cli.options import Episodes, Open, Preset, PresetParameters, Problem, ProblemParameters
from opdop.cli.output import PlainConsole, busy, console, count, parameter_values, say, show
from opdop.model import InvalidParameterError

if TYPE_CHECKING:
    from opdop.report.summary.collection import Collection

_FAILED = 1
Figures = Annotated[bool, typer.Option("--figures/--no-figures", help="Also save each figure as .svg, .pdf and .png.")]


@app.command()
def report(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A run, a sweep, or any folder of runs.", show_default=False)
    ],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The page; DIR/report.html by default.", show_default=False),
    ] = None,
    show_page: Open = False,
    figures: Figures = True,
) -> None:
    """Make one page of all runs in a folder, with figures for papers.

    \b
    Examples:
      opdop run factored -k 2e4 --out results/one
      opdop report results/one
      opdop sweep spec.toml --out results/first
      opdop report results/first --open
      opdop report results/first --out pages/first.html --no-figures

    The page is one HTML file that needs no network: a summary in sentences,
    tables in the problem's own units, regret, violation and multipliers with
    bands over seeds, the path of the average policies through the reward-utility
    plane to the exact optimum, maps, constants, versions, commands that repeat
    the runs, and a glossary. The figures are beside it: DIR/report/figures.

    Runs that differ only in their seed are one group; groups of one problem are
    compared. A run that cannot be read is listed with its error. Runs whose model
    is not known have no optimum to be compared with: they are shown with realised
    totals, moving averages with intervals, and certified bounds.
    """
    _write(_read(folder), out or folder / "report.html", figures=figures, show_page=show_page)


@app.command()
def compare(
    name: Problem,
    algorithms: Annotated[
        str, typer.Option(metavar="A,B,...", help="What to compare; NAME:PRESET for a preset of its own.")
    ] = "opdop,oppo",
    seeds: Annotated[int, typer.Option(metavar="N", help="Runs of each, with seeds 0 to N-1.")] = 10,
    episodes: Episodes = "20000",
    preset: Preset = "practical",
    settings: ProblemParameters = None,
    parameters: PresetParameters = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Save everything here; comparisons/NAME by default.", show_default=False),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(metavar="N", help="Processes; one for each core by default.", show_default=False)
    ] = None,
    show_page: Open = False,
    figures: Figures = True,
) -> None:
    """Compare algorithms on a problem over many seeds, and say which differences are clear.

    \b
    Examples:
      opdop compare media-streaming --algorithms opdop,oppo --seeds 10
      opdop compare factored --algorithms opdop,opdop:certified --seeds 5
      opdop compare inventory -s budget=50 --seeds 20 --out results/stock --open

    This is a sweep and a report in one line. If it is interrupted, the same
    command continues; with more seeds it makes only the new runs.
    """
    from opdop.envs import parse
    from opdop.report.comparison import comparison_data, usual_folder
    from opdop.report.terminal.sweep_tables import SweepWatch
    from opdop.sweeps.sweep import run_sweep

    chosen = [each.strip() for each in algorithms.split(",") if each.strip()]
    if not chosen:
        raise InvalidParameterError(f"--algorithms is {algorithms!r}; expected names, as in opdop,oppo.")
    values = parse(name, settings or [])
    spec = comparison_data(
        name, chosen, seeds, count("episodes", episodes), preset, values, parameter_values(parameters or [])
    )
    folder = out or usual_folder(name)
    with SweepWatch(PlainConsole(errors=True)) as watch:
        try:
            made = run_sweep(spec, folder, workers=workers, progress=watch)
        except (KeyboardInterrupt, SystemExit) as stop:
            status = stop.code if isinstance(stop, SystemExit) else INTERRUPTED
        else:
            status = None
    if status is not None:
        say(f"interrupted; the same command continues with the runs in {folder}", errors=True)
        raise typer.Exit(status if isinstance(status, int) else INTERRUPTED)
    failed = len(made.failed)
    _write(_read(folder), folder / "report.html", figures=figures, show_page=show_page)
    if failed:
        say(f"{failed} of {len(made.jobs)} runs failed: see {folder / 'failed'}", errors=True)
        raise typer.Exit(_FAILED)


def _read(folder: Path) -> Collection:
    from opdop.report.summary.collection import collect

    with busy("reading the runs"):
        return collect(folder)


def _write(found: Collection, file: Path, *, figures: bool, show_page: bool) -> None:
    """Write the report, with a progress bar, and print the verdicts and the paths of all files."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn

    from opdop.report.figures import KINDS
    from opdop.report.html.write import write_report
    from opdop.report.terminal.progress_bar import ProgressBar
    from opdop.report.terminal.verdict_table import verdict_page

    columns = TextColumn("drawing"), BarColumn(), MofNCompleteColumn(), TextColumn("figures")
    errors = PlainConsole(errors=True)
    with ProgressBar(*columns, console=errors, transient=True, disable=not errors.is_terminal) as bar:
        task = bar.add_task("", total=None)
        written = write_report(
            found,
            file,
            kinds=KINDS if figures else (),
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
    for section in found.sections:
        show(console(), verdict_page(section))
    for missing in found.missing:
        say(f"not shown: {missing.place}: {missing.reason}")
    say(f"report: {written.page}")
    if written.figures:
        say(f"figures: {written.figures[0].parent}")
    if show_page and not webbrowser.open(written.page.resolve().as_uri()):
        say("no browser could be opened; open the file yourself")
