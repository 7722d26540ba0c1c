"""`opdop sweep` and `opdop runs`: many runs, and what came of them."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from opdop.cli.application import INTERRUPTED, WRONG, app
from opdop.cli.options import AsJson
from opdop.cli.output import complain, console, print_json, show
from opdop.report.terminal.sweep_tables import SweepWatch, failures_text, kinds_table, runs_table
from opdop.sweeps.store import Store
from opdop.sweeps.sweep import InvalidSpecError, Spec, Sweep, SweepError, run_sweep

RUNS_FORMAT = "opdop.runs/1"
FAILED = 1


@app.command()
def sweep(
    spec: Annotated[Path, typer.Argument(metavar="SPEC", help="What to run, in TOML.", show_default=False)],
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep everything here; goes on where it was.", show_default=False)
    ] = None,
    workers: Annotated[
        int | None, typer.Option(metavar="N", help="Processes; one for each core if left out.", show_default=False)
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Use the workers of this Dask scheduler.", show_default=False),
    ] = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Try failed runs again.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Only check the spec, and list what it asks for.")] = False,
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
      opdop sweep spec.toml --out results/first --scheduler tcp://10.0.0.1:8786
      opdop runs results/first

    Interrupted or killed, the same command goes on where it was: finished runs
    are not repeated, and the results are the same, bit for bit, for any number
    of workers. A run that fails is kept as failed, and the others go on; the
    exit status is then 1.
    """
    try:
        asked = Spec.read(spec)
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
        finished = Store(out).finished()  # what was shown last may be older
        done = f"{sum(job.key in finished for job in asked.jobs())} of {len(asked)} runs are done"
        screen.print(Text(f"{words}: {done}; go on with: {_command(spec, out, workers, scheduler)}"), soft_wrap=True)
        raise typer.Exit(status if isinstance(status, int) else INTERRUPTED)
    _conclude(made, out, tried=retry_failed)


def _command(spec: Path, out: Path, workers: int | None, scheduler: str | None) -> str:
    words = ["opdop", "sweep", str(spec), "--out", str(out)]
    words += [] if workers is None else ["--workers", str(workers)]
    words += [] if scheduler is None else ["--scheduler", scheduler]
    return shlex.join(words)


def _list(spec: Spec) -> None:
    groups = list(dict.fromkeys(job.group for job in spec.jobs()))
    typer.echo(
        f"{len(spec)} runs of {spec.settings.episodes} episodes: {len(groups)} kinds with {len(spec.seeds)} seeds each"
    )
    for group in groups:
        typer.echo(f"  {group}")


def _conclude(made: Sweep, out: Path, *, tried: bool) -> None:
    """Say what came of a sweep that has gone through."""
    screen = console()
    found = made.summaries()
    if found:
        show(screen, kinds_table(found))
        typer.echo()
    failed = made.failed
    if failed:
        screen.print(failures_text(failed), soft_wrap=True)
    rest = f", {len(failed)} failed" if failed else ""
    screen.print(Text(f"{len(found)} of {len(made.jobs)} runs are done{rest}; all is in {out}"), soft_wrap=True)
    if failed:
        words = "the failed ones were tried once more" if tried else "--retry-failed tries the failed ones once more"
        screen.print(Text(f"{words}; {out / 'failed'} has their errors in full"), soft_wrap=True)
        raise typer.Exit(FAILED)


@app.command()
def runs(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a sweep.", show_default=False)],
    kinds: Annotated[bool, typer.Option("--kinds", help="One row for each kind of run: means over seeds.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the runs of a sweep: finished, running, failed and missing.

    \b
    Examples:
      opdop runs results/first
      opdop runs results/first --kinds
      opdop runs results/first --json | jq '.runs[] | [.key, .regret]'

    Reward, violation and hard violation are per episode, on average over all
    episodes, in the problem's own units.
    """
    found = Sweep.open(folder)
    done = found.summaries()
    if as_json:
        print_json(_record(found))
        return
    screen = console()
    if done:
        show(screen, (kinds_table if kinds else runs_table)(done))
        typer.echo()
    for each in found.underway:
        typer.echo(f"running: {each.key}: episode {each.episode} of {each.episodes}, on {each.host}")
    for key, error in found.damaged.items():
        screen.print(Text(f"damaged: {key}: {error}"), soft_wrap=True)
    failed, missing = found.failed, found.missing
    if failed:
        screen.print(failures_text(failed), soft_wrap=True)
    typer.echo(f"{len(done)} of {len(found.jobs)} runs are done, {len(failed)} failed, {len(missing)} missing")


def _record(found: Sweep) -> dict[str, Any]:
    """Return what a sweep has come to as plain data; docs/command-line.md explains every key."""
    return {
        "format": RUNS_FORMAT,
        "runs": found.table().to_dicts(),
        "running": [asdict(each) for each in found.underway],
        "failed": [asdict(failure) for failure in found.failed],
        "damaged": found.damaged,
        "missing": [job.key for job in found.missing],
    }
