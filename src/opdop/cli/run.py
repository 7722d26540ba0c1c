"""`opdop run`: train, show the result, save it, and resume an interrupted run."""

from __future__ import annotations

import gc
import math
import os
import shlex
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opdop.cli.application import INTERRUPTED, app
from opdop.cli.options import AsJson, Figure, with_settings
from opdop.cli.output import PlainConsole, busy, console, print_json, say, show, to_json
from opdop.model import InvalidParameterError, OpdopError
from opdop.runs.config import DEFAULT_EPISODES, RunConfig

if TYPE_CHECKING:
    from opdop.model import DescribedSimulator, Problem
    from opdop.runs import Run

    Played = Problem | DescribedSimulator


_SOON = 1.0  # seconds in which compiled kernels are loaded; what takes longer is being compiled
_SIMULATOR_EPISODES = 5000  # by default, where the model is not known
_CERTIFICATES, _QUICK = 25, 10_000  # by default, for one constraint and at most so many stages x states x actions
_RUN_FILES = ("run.npz", "history.parquet", "figure.svg", "figure.png", "summary.json")


@app.command()
@with_settings(
    algorithm="replan, or opdop-lstd if features are known; opdop with --preset, --param or --dual-bound",
    preset="practical",
    episodes=f"{DEFAULT_EPISODES}, or {_SIMULATOR_EPISODES} if states are continuous or the model is not known",
    certificates=f"{_CERTIFICATES} if they are quick to make, otherwise 0",
)
def run(
    ctx: typer.Context,
    given: dict[str, Any],
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="A problem: see `opdop envs`.", show_default=False)
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Save the run here: checkpoints, result, figures.", show_default=False),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Resume the run that is saved here.", show_default=False),
    ] = None,
    as_json: AsJson = False,
    figure: Figure = None,
    bound: Annotated[
        bool, typer.Option("--bound", help="Also draw the certified bounds into --figure; needs --preset certified.")
    ] = False,
) -> None:
    """Learn a policy from episodes alone, and compare it with the exact optimum.

    \b
    Examples:
      opdop run factored --episodes 2e4
      opdop run queue -k 20000 --set throughput=4 --figure learning.svg
      opdop run factored -k 2e4 --preset certified --figure f.svg --bound
      opdop run factored -k 2e4 --param step_scale=0.5 --param damping=0.4
      opdop run factored -k 2e4 --algorithm doubling:opdop
      opdop run factored -k 1e6 --until 0.05
      opdop run media-streaming -k 1e6 --until '0.5 steps' --out runs/good
      opdop run media-streaming -k 2e4 --out runs/first
      opdop run --resume runs/first
      opdop run my_module.py:make_simulator --out runs/own
      opdop run my_module.py:make_simulator --resume runs/own
      opdop run factored -k 2e4 --json | jq '.regret.per_episode.own'

    The learner sees only the episodes that it plays. Its policies are evaluated
    exactly on the true model; where a function returns a simulator, whose model
    is not known, realised totals are shown instead. The certificate says what the
    data alone prove; with --until the run ends once that is good enough.

    With --out the run is saved every few seconds. An interrupted run continues
    with --resume and ends with the same result, bit for bit. Code is never run
    because a folder names it: name the function of your own again.
    """
    if figure is not None:
        from opdop.report import figures

        figures.check_target(figure)
    elif bound:
        raise InvalidParameterError("--bound draws into a figure; expected --figure FILE with it.")
    folder = resume or out
    if resume is not None:
        from opdop.envs.own_problems import is_code

        functions = {"name"} if name is not None and is_code(name) else set()
        _refuse_others(ctx, {*functions, "resume", "as_json", "figure", "bound"})
        found, complete = _resume(resume, name)
    elif name is None:
        raise InvalidParameterError("no problem is named; expected opdop run NAME, or opdop run --resume DIR.")
    else:
        config, problem = _asked(name, given)
        if bound:
            _check_bound(config, problem)
        found, complete = _train(config, problem, out)
    from opdop.report.summary.realised_summary import RealisedSummary, summary_of
    from opdop.report.terminal import tables
    from opdop.report.terminal.realised_page import realised_page

    summary = summary_of(found)
    if figure is not None:
        with busy("drawing"):
            figures.save(_figure(found, bound=bound), figure)
    if as_json:
        print_json(summary.record())
        return
    show(console(), realised_page(summary) if isinstance(summary, RealisedSummary) else tables.run_page(summary))
    typer.echo()
    if complete:
        say(f"nothing to do: the run in {folder} is complete; above is its result")
    elif folder is not None:
        say(f"saved in {folder}: {', '.join(_RUN_FILES)}")
    if figure is not None:
        say(f"figure saved to {figure}")


def _figure(found: Run, *, bound: bool = False) -> Any:
    """Return the figure of a run, its model known or not."""
    from opdop.report import figures

    if found.optimum is None:
        return figures.realised_figure(found)
    return figures.run_figure(found, bound=bound)


def _asked(name: str, given: dict[str, Any]) -> tuple[RunConfig, Played]:
    """Return the configuration that the options ask for, and the problem or simulator."""
    from opdop.envs import make_trainable, parse

    parameters = parse(name, given.pop("problem_parameters", []))
    problem = make_trainable(name, **parameters)
    usual = getattr(problem, "usual_episodes", _SIMULATOR_EPISODES)
    given = {"algorithm": _usual_algorithm(problem, given), "episodes": usual, **given}
    given = {"certificates": _usual_certificates(problem, given), **given}
    return RunConfig(problem=name, problem_parameters=parameters, **given), problem


def _usual_algorithm(problem: Played, given: dict[str, Any]) -> str:
    """Return the algorithm if the user does not name one; a preset or a parameter that is named belongs to `opdop`."""
    from opdop.algorithms import recommended

    if {"preset", "parameters", "dual_bound"} & given.keys():
        return str(RunConfig.algorithm)
    return recommended(getattr(problem, "learner_features", None))


def _usual_certificates(problem: Played, given: dict[str, Any]) -> int:
    """Return at how many sizes of the data certificates are recorded if the user does not say it."""
    from opdop.model import Problem

    if problem.num_states == math.inf or "lstd" in given["algorithm"]:
        return 0
    sizes: Any = problem.tabular() if isinstance(problem, Problem) else problem
    quick = sizes.horizon * sizes.num_states * sizes.num_actions <= _QUICK
    return _CERTIFICATES if len(sizes.thresholds) == 1 and quick else 0


def _check_bound(config: RunConfig, problem: Played) -> None:
    """Refuse --bound before a long run if there will be no bound to draw."""
    from opdop.model import Problem

    if not isinstance(problem, Problem):
        raise InvalidParameterError(f"the model of {config.problem} is not known, and no bound is drawn without one.")
    if config.preset != "certified":
        raise InvalidParameterError(
            f"preset {config.preset!r} has no bound to draw; use --preset certified with --bound."
        )
    if problem.num_states == math.inf:
        raise InvalidParameterError(
            f"{config.problem} has continuous states, for which no bound is proved; leave out --bound."
        )


def _train(config: RunConfig, problem: Played, folder: Path | None) -> tuple[Run, bool]:
    """Train with a progress bar, save the run, and return it and whether it was complete before.

    If it is interrupted, say how to resume it, and end the program.
    """
    from opdop.report.terminal.progress import Watch
    from opdop.runs import execute

    _compile(config, problem)
    with Watch(PlainConsole(errors=True), problem.display.quantities) as watch:
        try:
            found = execute(config, problem, checkpoint=folder, progress=watch)
        except (KeyboardInterrupt, SystemExit) as stop:
            status = stop.code if isinstance(stop, SystemExit) else INTERRUPTED
        else:
            status = None
    if status is None:
        whole = folder is None or _make_whole(folder, found)
        return found, whole and watch.episode is None
    rest = "nothing is saved without --out DIR"
    if folder is not None:
        rest = f"resume with: opdop run --resume {shlex.quote(str(folder))}"
    say(f"interrupted at episode {watch.episode or 0}; {rest}", errors=True)
    raise typer.Exit(status if isinstance(status, int) else INTERRUPTED)


def _compile(config: RunConfig, problem: Played) -> None:
    """Load the kernels that the run needs.

    This is done in another thread, so that the main thread can say so and can be interrupted. Compiling leaves cyclic
    garbage, about 100 MB, which is never looked for: that takes longer than to load all kernels, and the program ends
    soon.
    """
    from opdop.runs.compiling import helper, load_kernels

    with helper(config, problem), ThreadPoolExecutor(1) as worker:
        gc.disable()
        done = worker.submit(load_kernels, config, problem)
        try:
            done.result(timeout=_SOON)
        except TimeoutError:
            with busy("compiling, once"):
                done.result()
        finally:
            gc.freeze()
            gc.enable()


def _resume(folder: Path, name: str | None) -> tuple[Run, bool]:
    """Return the run that is saved in a folder, played to its end, and whether it was complete before."""
    from opdop.envs import make_trainable
    from opdop.envs.own_problems import is_code
    from opdop.runs import CHECKPOINT, DamagedFileError, Run, read_config

    if not os.path.exists(folder / CHECKPOINT):
        try:
            saved = Run.load(folder)
        except DamagedFileError as error:
            raise InvalidParameterError(f"there is no run in {str(folder)!r}: {error}") from error
        return saved, _make_whole(folder, saved)
    config = read_config(folder)
    try:
        found: Run | None = Run.load(folder)
    except OpdopError:
        found = None  # not there yet, or damaged: it will be written again
    if found is not None and found.config == config:
        return found, _make_whole(folder, found)
    if config.preset is None:
        raise InvalidParameterError(
            f"the run in {str(folder)!r} is of a learner of your own, {config.algorithm!r}; resume it where it was "
            f"started: opdop.train(..., checkpoint={str(folder)!r})."
        )
    if is_code(config.problem) and name != config.problem:  # code is not run because a folder names it
        raise InvalidParameterError(
            f"the run in {str(folder)!r} is of {config.problem!r}, a function or a model of your own, and no code is "
            f"run because a folder names it. If it is yours: opdop run {shlex.quote(config.problem)} --resume "
            f"{shlex.quote(str(folder))}. If it was made in Python, resume it where it was started: "
            f"opdop.train(..., checkpoint={str(folder)!r})."
        )
    return _train(config, make_trainable(config.problem, **config.problem_parameters), folder)


def _make_whole(folder: Path, found: Run) -> bool:
    """Write all files of a run into its folder if one is missing or damaged; return whether none was."""
    from opdop.runs.files import has_right_checksums

    if has_right_checksums(folder, _RUN_FILES):
        return True
    with busy("saving"):
        _save_run(folder, found)
    return False


def _save_run(folder: Path, found: Run) -> None:
    """Write all files of a run into its folder, each whole or not at all, and at the end their checksums."""
    from opdop.report import figures
    from opdop.report.summary.realised_summary import summary_of
    from opdop.runs.files import write_checksums, write_whole

    drawn = _figure(found)
    text = to_json(summary_of(found).record())
    found.save(folder)
    write_whole(folder / "summary.json", text)
    for file in ("figure.svg", "figure.png"):
        figures.save(drawn, folder / file)
    write_checksums(folder, _RUN_FILES)


def _refuse_others(ctx: typer.Context, allowed: set[str]) -> None:
    """Refuse options that --resume takes from the folder instead."""
    for parameter in ctx.command.params:
        source = ctx.get_parameter_source(parameter.name or "")
        if source is not None and source.name == "COMMANDLINE" and parameter.name not in allowed:
            what = "NAME" if parameter.name == "name" else parameter.opts[0]
            raise InvalidParameterError(f"--resume takes everything from its folder; leave out {what}.")
