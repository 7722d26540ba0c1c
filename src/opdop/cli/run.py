"""`opdop run`: learn, watch, keep and go on."""

from __future__ import annotations

import math
import shlex
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from rich.console import Console
from rich.text import Text

from opdop.cli.application import INTERRUPTED, app
from opdop.cli.options import AsJson, FailureProbability, Noisy, Preset
from opdop.cli.output import busy, console, count, parameter_values, print_json, show, to_json
from opdop.envs import environments, make, parse
from opdop.model import InvalidParameterError, OpdopError
from opdop.report.summary.run_summary import Learnt
from opdop.report.terminal import tables
from opdop.report.terminal.progress import Watch
from opdop.runs import CHECKPOINT, DamagedFileError, Run, RunConfig, read_config, train
from opdop.runs import settings as run_settings

_SOON = 1.0  # seconds in which compiled kernels are loaded; what takes longer is being compiled
_RUN_FILES = ("run.npz", "history.parquet", "figure.svg", "figure.png", "summary.json")


@app.command()
def run(
    ctx: typer.Context,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="A problem, as `opdop envs` lists them.", show_default=False)
    ] = None,
    episodes: Annotated[
        str | None,
        typer.Option(
            "--episodes",
            "-k",
            metavar="K",
            help="Episodes to play.  [default: 100000; 5000 if states are continuous]",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="S", help="The same seed gives the same run, bit for bit.")] = 0,
    preset: Preset = "practical",
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            "-s",
            metavar="KEY=VALUE",
            help="Set a parameter of the problem; may be repeated.",
            show_default=False,
        ),
    ] = None,
    parameters: Annotated[
        list[str] | None,
        typer.Option(
            "--param", metavar="NAME=VALUE", help="Set a parameter of the preset; may be repeated.", show_default=False
        ),
    ] = None,
    algorithm: Annotated[str, typer.Option(help="What learns: see `opdop algorithms`.")] = "opdop",
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep the run here: checkpoints, result, figures.", show_default=False),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Go on with the run that is kept here.", show_default=False),
    ] = None,
    noisy: Noisy = False,
    failure_probability: FailureProbability = 0.05,
    slater_gap: Annotated[
        float | None,
        typer.Option(metavar="G", help="Slack that some policy has; computed if left out.", show_default=False),
    ] = None,
    dual_bound: Annotated[
        float | None,
        typer.Option(metavar="C", help="The largest multiplier, instead of 2H / gap.", show_default=False),
    ] = None,
    planned_episodes: Annotated[
        str | None,
        typer.Option(metavar="K", help="K in the constants, if not --episodes.", show_default=False),
    ] = None,
    measure_every: Annotated[
        int, typer.Option(metavar="N", help="Measure one episode in N: faster, sums not exact.")
    ] = 1,
    as_json: AsJson = False,
    figure: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Save a picture: .svg, .png or .pdf.", show_default=False),
    ] = None,
    bound: Annotated[
        bool, typer.Option("--bound", help="Let --figure draw the certified bounds too; needs --preset certified.")
    ] = False,
) -> None:
    """Learn a policy without knowing the problem, and show what came of it.

    \b
    Examples:
      opdop run factored --episodes 2e4
      opdop run queue -k 20000 --set throughput=4 --figure learning.svg
      opdop run factored -k 2e4 --preset certified --figure f.svg --bound
      opdop run factored -k 2e4 --param step_scale=10 --param dual_step_scale=1
      opdop run media-streaming -k 2e4 --out runs/first
      opdop run --resume runs/first
      opdop run factored -k 2e4 --json | jq '.regret.per_episode.own'

    The learner sees only the episodes that it plays. What it attains is measured
    exactly, with the true model, beside the exact optimum.

    With --out the run is saved every few seconds. Interrupted, it goes on with
    --resume, and ends bit for bit as if it had never been interrupted.
    """
    if figure is not None:
        from opdop.report import figures

        figures.check_target(figure)
    elif bound:
        raise InvalidParameterError("--bound draws into a figure; expected --figure FILE with it.")
    if resume is not None:
        _refuse_others(ctx, {"resume", "as_json", "figure", "bound"})
        done = _go_on(resume)
    elif bound and preset != "certified":
        raise InvalidParameterError(
            f"preset {preset!r} promises no bound to draw; use --preset certified with --bound."
        )
    elif name is None:
        raise InvalidParameterError("no problem is named; expected opdop run NAME, or opdop run --resume DIR.")
    else:
        problem = make(name, **parse(name, settings or []))
        if bound and problem.num_states == math.inf:
            raise InvalidParameterError(
                f"{name} has continuous states, for which no bound is proved; leave out --bound."
            )
        arguments = {
            "problem": problem,
            "algorithm": algorithm,
            "episodes": count("episodes", episodes or str(problem.usual_episodes)),
            "seed": seed,
            "preset": preset,
            "parameters": parameter_values(parameters or []),
            "planned_episodes": None if planned_episodes is None else count("planned-episodes", planned_episodes),
            "failure_probability": failure_probability,
            "slater_gap": slater_gap,
            "dual_bound": dual_bound,
            "noisy": noisy,
            "measure_every": measure_every,
        }
        done = _train(arguments, out)
    folder, learnt = resume or out, Learnt(done.run)
    if figure is not None:
        with busy("drawing"):
            figures.save(figures.run_figure(done.run, bound=bound), figure)
    if folder is not None and not done.kept:
        with busy("saving"):
            _save_run(folder, learnt)
    if as_json:
        print_json(learnt.record())
        return
    screen = console()
    show(screen, tables.run_page(learnt))
    screen.print()
    if done.complete:
        screen.print(Text(f"nothing to do: the run in {folder} is complete; above is its result"), soft_wrap=True)
    elif folder is not None:
        screen.print(Text(f"saved in {folder}: {', '.join(_RUN_FILES)}"), soft_wrap=True)
    if figure is not None:
        screen.print(Text(f"figure saved to {figure}"), soft_wrap=True)


class _Done(NamedTuple):
    """A run that is at its end."""

    run: Run
    complete: bool  # it was at its end before
    kept: bool  # its folder has all its files


def _train(arguments: dict[str, Any], folder: Path | None) -> _Done:
    """Train with a progress bar; say so if it is interrupted."""
    _compile(arguments)
    quantities = arguments["problem"].display.quantities
    with Watch(Console(stderr=True), quantities) as watch:
        try:
            found = train(**arguments, checkpoint=folder, progress=watch)
        except (KeyboardInterrupt, SystemExit) as stop:
            status = stop.code if isinstance(stop, SystemExit) else INTERRUPTED
        except OSError as error:
            raise InvalidParameterError(f"cannot write into {str(folder)!r}: {error.strerror or error}.") from error
        else:
            return _Done(found, complete=watch.episode is None, kept=False)
    _say_interrupted(watch.episode or 0, folder)
    raise typer.Exit(status if isinstance(status, int) else INTERRUPTED)


def _compile(arguments: dict[str, Any]) -> None:
    """Train for one episode, which loads the kernels that the run needs, or compiles them if that was never done.

    This is done in a thread of its own: the main one can then say so, and can be interrupted.
    """
    with ThreadPoolExecutor(1) as worker:
        done = worker.submit(train, **{**arguments, "episodes": 1})
        try:
            done.result(timeout=_SOON)
        except TimeoutError:
            with busy("compiling, once"):
                done.result()


def _go_on(folder: Path) -> _Done:
    """Return the run that is kept in a folder, played to its end."""
    if not (folder / CHECKPOINT).exists():
        try:
            return _Done(Run.load(folder), complete=True, kept=True)
        except DamagedFileError as error:
            raise InvalidParameterError(f"there is no run in {str(folder)!r}: {error}") from error
    config = read_config(folder)
    try:
        found = Run.load(folder)
    except OpdopError:
        found = None  # not there yet, or damaged: it will be written again
    if found is not None and found.config == config:
        return _Done(found, complete=True, kept=True)
    return _train(_started_with(config, folder), folder)


def _started_with(config: RunConfig, folder: Path) -> dict[str, Any]:
    """Return the arguments of `train` with which a run was started."""
    if config.problem not in environments() or config.preset is None:
        raise InvalidParameterError(
            f"the run in {str(folder)!r} is of {config.algorithm!r} on {config.problem!r}, which are not both opdop's "
            f"own; go on with it where it was started: opdop.train(..., checkpoint={str(folder)!r})."
        )
    arguments = {name: getattr(config, name) for name in run_settings() if not name.startswith("problem")}
    return {"problem": make(config.problem, **config.problem_parameters), **arguments}


def _save_run(folder: Path, learnt: Learnt) -> None:
    from opdop.report import figures

    drawn = figures.run_figure(learnt.run)
    try:
        learnt.run.save(folder)
        (folder / "summary.json").write_text(to_json(learnt.record()), encoding="utf-8")
    except OSError as error:
        raise InvalidParameterError(f"cannot write into {str(folder)!r}: {error.strerror or error}.") from error
    for file in ("figure.svg", "figure.png"):
        figures.save(drawn, folder / file)


def _say_interrupted(episode: int, folder: Path | None) -> None:
    rest = "nothing is kept without --out DIR"
    if folder is not None:
        rest = f"go on with: opdop run --resume {shlex.quote(str(folder))}"
    Console(stderr=True, highlight=False, markup=False, emoji=False).print(
        Text(f"interrupted at episode {episode}; {rest}"), soft_wrap=True
    )


def _refuse_others(ctx: typer.Context, allowed: set[str]) -> None:
    """Refuse options that --resume takes from the folder instead."""
    for parameter in ctx.command.params:
        given = ctx.get_parameter_source(parameter.name or "")
        if given is not None and given.name == "COMMANDLINE" and parameter.name not in allowed:
            what = "NAME" if parameter.name == "name" else parameter.opts[0]
            raise InvalidParameterError(f"--resume takes everything from its folder; leave out {what}.")
