"""`opdop sweep` and `opdop runs`: make many runs, and list their results."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from math import inf, nan
from pathlib import Path
from typing import Annotated, Any

import polars.selectors as cs
import typer
from rich.console import Console
from rich.text import Text

from opdop.cli.application import INTERRUPTED, WRONG, app
from opdop.cli.options import AsJson
from opdop.cli.output import busy, complain, console, print_json, say, show
from opdop.model.validation import printable
from opdop.report.terminal.sweep_tables import SweepWatch, clock, failures_text, kinds_table, realised_table, runs_table
from opdop.sweeps import InvalidSpecError, Listing, Spec, SweepError, group_of, key_of, list_runs, run_sweep
from opdop.sweeps.store import Store
from opdop.sweeps.summaries import read_summaries
from opdop.sweeps.sweep import rehearse

RUNS_FORMAT = "opdop.runs/1"
FAILED = 1


@app.command()
def sweep(
    spec: Annotated[Path, typer.Argument(metavar="SPEC", help="The specification, in TOML.", show_default=False)],
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of the sweep, new or to be continued.", show_default=False),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(metavar="N", help="Processes; by default one for each core.", show_default=False),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Use the workers of this Dask scheduler.", show_default=False),
    ] = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Try failed runs again.")] = False,
    allow_code: Annotated[
        bool, typer.Option("--allow-code", help="Let the spec name functions, FILE.py:FUNCTION, and run them.")
    ] = False,
    check: Annotated[bool, typer.Option("--check", help="List the kinds of runs, and try one of each.")] = False,
) -> None:
    """Make many runs: problems x algorithms x constants x seeds.

    \b
    A spec, of which only the problem is needed:
      episodes = 20000
      seeds = 10                 # 0 to 9; or a list
      [[problem]]
      name = "media-streaming"
      [[problem]]
      name = "random-tabular"
      seed = [0, 1, 2]           # a list: one problem for each value
      [[algorithm]]
      name = "opdop"
      preset = ["certified", "practical"]
      [[algorithm]]
      name = "oppo"
      parameters = {radius_scale = [0.03, 0.1]}

    \b
    Examples:
      opdop sweep spec.toml --check
      opdop sweep spec.toml --out results/first
      opdop sweep spec.toml --out results/first --workers 8
      opdop sweep spec.toml --out results/first --retry-failed
      opdop sweep own.toml --out results/own --allow-code
      opdop sweep spec.toml --out results/first --scheduler tcp://10.0.0.1:8786
      opdop runs results/first

    If it is interrupted or killed, the same command continues: finished runs are
    not repeated. Any number of workers gives the same results, bit for bit, on
    processors with the same instructions; a sweep over unlike processors warns.
    A run that raises is recorded as failed, and the others continue; the exit
    status is then 1.
    """
    try:
        asked = Spec.read(spec, allow_code=allow_code)
    except InvalidSpecError as error:
        complain(f"{error.origin} has {len(error.errors)} error{'s' if len(error.errors) > 1 else ''}:")
        for each in error.errors:
            typer.echo(f"  {each}", err=True)
        raise typer.Exit(WRONG) from error
    if check:
        _list(asked)
        return
    if out is None:
        complain("--out is missing; expected a folder to keep the runs in.")
        raise typer.Exit(WRONG)
    screen = Console(stderr=True, highlight=False, markup=False, emoji=False)
    with SweepWatch(screen) as watch:
        try:
            made = run_sweep(
                asked, out, workers=workers, scheduler=scheduler, progress=watch, retry_failed=retry_failed
            )
        except (KeyboardInterrupt, SystemExit) as stop:
            status = stop.code if isinstance(stop, SystemExit) else INTERRUPTED
            words = "interrupted"
        except SweepError as error:
            status, words = WRONG, f"error: {' '.join(str(error).split())}\nthe sweep has stopped"
        else:
            status, words = None, ""
    if words:
        finished, _ = read_summaries(Store(out), map(key_of, asked.jobs()))  # the progress shown last may be older
        done = f"{len(finished)} of {len(asked)} runs are done"
        screen.print(
            Text(f"{words}: {done}; go on with: {_command(spec, out, workers, scheduler, allow_code)}"), soft_wrap=True
        )
        raise typer.Exit(status if isinstance(status, int) else INTERRUPTED)
    _conclude(made.listing(), out, tried=retry_failed)


def _command(spec: Path, out: Path, workers: int | None, scheduler: str | None, allow_code: bool) -> str:
    words = ["opdop", "sweep", str(spec), "--out", str(out)]
    words += [] if workers is None else ["--workers", str(workers)]
    words += [] if scheduler is None else ["--scheduler", scheduler]
    words += ["--allow-code"] if allow_code else []
    return shlex.join(words)


def _list(spec: Spec) -> None:
    """Print the kinds of runs, and which of them cannot be made."""
    typer.echo(
        f"{len(spec)} runs of {spec.settings()['episodes']} episodes: "
        f"{len(spec.kinds)} kinds with {len(spec.seeds)} seeds each"
    )
    for kind in spec.kinds:
        typer.echo(f"  {printable(group_of(kind))}")
    with busy("trying one episode of each kind"):
        tried, errors = rehearse(spec)
    if tried < len(spec.kinds):
        typer.echo(f"only the first {tried} kinds were tried, for lack of time")
    for group, error in errors.items():
        complain(f"each run of {group} fails: {error}")
    if errors:
        raise typer.Exit(FAILED)


def _conclude(made: Listing, out: Path, *, tried: bool) -> None:
    """Print the results of a sweep that has ended."""
    screen = console()
    _show_results(made, screen, kinds=True)
    screen.print(Text(f"{_counts(made)}; all is in {out}"), soft_wrap=True)
    if made.failed:
        words = "the failed ones were tried once more" if tried else "--retry-failed tries the failed ones once more"
        screen.print(Text(f"{words}; {out / 'failed'} has their errors in full"), soft_wrap=True)
        raise typer.Exit(FAILED)


def _show_results(found: Listing, screen: Console, *, kinds: bool) -> None:
    """Print the finished runs as a table, and then those that failed."""
    known = {key: about for key, about in found.finished.items() if about["optimum"] is not None}
    realised = {key: about for key, about in found.finished.items() if about["optimum"] is None}
    if known:
        show(screen, (kinds_table if kinds else runs_table)(known))
        typer.echo()
    if realised:
        show(screen, realised_table(realised, kinds=kinds))
        say("The models of these runs are not known: their totals are realised.")
        typer.echo()
    if found.failed:
        screen.print(failures_text(found.failed), soft_wrap=True)


def _counts(found: Listing) -> str:
    """Return how many runs there are in each state."""
    states = ("failed", "unfinished", "damaged", "missing")
    others = [f", {len(each)} {state}" for state in states if (each := getattr(found, state))]
    return f"{len(found.finished)} of {found.total} runs are done{''.join(others)}"


@app.command()
def runs(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A sweep, a run, or a folder of runs.", show_default=False)
    ],
    kinds: Annotated[bool, typer.Option("--kinds", help="One row for each kind of run: means over seeds.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the runs in a folder: finished, running, failed and missing.

    \b
    Examples:
      opdop runs results/first
      opdop runs results/first --kinds
      opdop runs results/first --json | jq '.runs[] | [.key, .regret]'

    DIR is the folder of `opdop sweep --out` or `opdop run --out`, or a folder of
    several of the latter. Reward, violation and hard violation are per episode,
    on average over all episodes, in the problem's own units. Runs whose model is
    not known have realised totals instead, in a table of their own.
    """
    found = list_runs(folder)
    if as_json:
        print_json(_record(found))
        return
    screen = console()
    for each in found.running:
        say(f"running: {each.key}: episode {each.episode} of {each.episodes}, on {each.host}")
    for each in found.unfinished:
        words = f"episode {each.episode} of {each.episodes}, saved {clock(each.seconds)} ago"
        say(f"running or interrupted: {each.key}: {words}")
    for key, error in found.damaged.items():
        say(f"damaged: {key}: {error}")
    _show_results(found, screen, kinds=kinds)
    screen.print(Text(_counts(found)))


def _record(found: Listing) -> dict[str, Any]:
    """Return the runs in a folder as plain data; docs/command-line.md and docs/experiments.md explain every key."""
    return {
        "format": RUNS_FORMAT,
        "runs": found.table().with_columns(cs.float().replace([nan, inf, -inf], None)).to_dicts(),
        "running": [asdict(each) for each in found.running],
        "unfinished": [asdict(each) for each in found.unfinished],
        "failed": [asdict(failure) for failure in found.failed],
        "damaged": dict(found.damaged),
        "missing": list(found.missing),
    }
