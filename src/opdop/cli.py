"""The command line: parses, calls, prints."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from rich.console import Console, RenderableType
from rich.text import Text
from typer.core import TyperGroup

import opdop
from opdop.algorithms import algorithms as known_algorithms
from opdop.envs import environments, make, parse
from opdop.experiment import CHECKPOINT, DamagedFileError, Run, read_config, train
from opdop.model import InfeasibleError, InvalidParameterError, OpdopError
from opdop.report import tables
from opdop.report.answer import Answer, answer, plain_value
from opdop.report.learnt import Learnt
from opdop.report.live import Watch

ENVS_FORMAT, ALGORITHMS_FORMAT = "opdop.envs/1", "opdop.algorithms/1"
INFEASIBLE, WRONG, INTERRUPTED = 1, 2, 130

_SOON = 1.0  # seconds in which compiled kernels are loaded; what takes longer is being compiled
_RUN_FILES = ("run.npz", "history.parquet", "figure.svg", "figure.png", "summary.json")
_KEPT_ARGUMENTS = (
    "algorithm",
    "episodes",
    "seed",
    "preset",
    "knobs",
    "planned_episodes",
    "confidence",
    "slater_gap",
    "dual_bound",
    "noisy",
    "doubling",
    "measure_every",
    "records",
)


class _Commands(TyperGroup):
    """Turns errors that opdop raises on purpose into one line, and Ctrl-C into a quiet end."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except OpdopError as error:
            _complain(str(error))
            raise typer.Exit(INFEASIBLE if isinstance(error, InfeasibleError) else WRONG) from error
        except KeyboardInterrupt as error:
            raise typer.Exit(INTERRUPTED) from error


app = typer.Typer(
    name="opdop",
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"opdop {opdop.__version__}")
        raise typer.Exit


@app.callback()
def commands(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Learn good policies that keep promises, in constrained Markov decision processes.

    \b
    Examples:
      opdop envs                          all problems, with what is known of each
      opdop envs gridworld                one problem: words, units, parameters
      opdop solve gridworld               its exact optimum, with a map
      opdop solve gridworld --set size=9 --figure map.svg
      opdop algorithms                    what learns, and with which constants
      opdop run factored --episodes 2e4   learns, and shows what it has learnt

    \b
    Exit status: 0 done; 1 no policy keeps every promise; 2 a wrong name or value;
    130 or 143 interrupted.
    """


@app.command()
def envs(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="One problem; all of them if left out.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """List the problems that ship, or say all about one of them.

    \b
    Examples:
      opdop envs
      opdop envs media-streaming
      opdop envs --json | jq '.problems[].name'
    """
    with _busy("solving all problems" if name is None else f"solving {name}"):
        chosen = [name] if name is not None else list(environments())
        answers = [answer(make(each)) for each in chosen]
    if as_json:
        _print_json({"format": ENVS_FORMAT, "problems": [problem_record(each) for each in answers]})
    elif name is None:
        console = _console()
        _show(console, tables.overview(answers, width=console.width))
    else:
        _show(_console(), tables.problem_page(environments()[name], answers[0]))


@app.command()
def solve(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A problem, as `opdop envs` lists them.", show_default=False)
    ],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", "-s", metavar="KEY=VALUE", help="Set a parameter; may be repeated.", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
    figure: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Save a picture: .svg, .png or .pdf.", show_default=False),
    ] = None,
    plane: Annotated[
        bool, typer.Option("--plane", help="Let --figure draw the reward-utility plane even if there is a map.")
    ] = False,
    policy: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Save the optimal policy [H, S, A]: .npy.", show_default=False),
    ] = None,
) -> None:
    """Find the exact optimum of a problem.

    \b
    Examples:
      opdop solve media-streaming
      opdop solve media-streaming --set fast_services=3 --set stages=20
      opdop solve gridworld -s size=9 -s seed=4 --figure map.svg
      opdop solve inventory --figure plane.png
      opdop solve queue --json | jq '.reward.optimum.own'

    The optimum is shown beside the best without promises, with what the promises cost.

    The picture is the map with the optimal policy's visits where a problem has a map,
    otherwise the reward-utility plane with all that policies can attain.
    """
    if figure is not None:
        from opdop.report import figures

        figures.check_target(figure)
    with _busy(f"solving {name}"):
        found = answer(make(name, **parse(name, settings or [])))
    if policy is not None:
        _save_policy(policy, found)
    if figure is not None:
        with _busy("drawing"):
            figures.save(figures.picture(found, plane=plane), figure)
    if as_json:
        _print_json(found.record())
        return
    console = _console()
    _show(console, tables.answer_page(found, width=console.width))
    for what, file in (("policy", policy), ("figure", figure)):
        if file is not None:
            console.print(Text(f"{what} saved to {file}"), soft_wrap=True)


@app.command()
def algorithms(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """List what learns, and the presets of constants with their knobs.

    \b
    Examples:
      opdop algorithms
      opdop algorithms --json | jq '.presets.practical'
    """
    known = list(known_algorithms().values())
    if as_json:
        summaries = [{"name": each.name, "summary": each.summary} for each in known]
        _print_json({"format": ALGORITHMS_FORMAT, "algorithms": summaries, "presets": tables.preset_knobs()})
    else:
        _show(_console(), tables.algorithms_page(known))


@app.command()
def run(
    ctx: typer.Context,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="A problem, as `opdop envs` lists them.", show_default=False)
    ] = None,
    episodes: Annotated[str, typer.Option("--episodes", "-k", metavar="K", help="Episodes to play.")] = "100000",
    seed: Annotated[int, typer.Option(metavar="S", help="The same seed gives the same run, bit for bit.")] = 0,
    preset: Annotated[str, typer.Option(help="Where the constants come from: see `opdop algorithms`.")] = "practical",
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
    knobs: Annotated[
        list[str] | None,
        typer.Option(
            "--knob", metavar="NAME=VALUE", help="Set a knob of the preset; may be repeated.", show_default=False
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
    noisy: Annotated[bool, typer.Option("--noisy", help="Observe rewards and utilities as 0 or 1 at random.")] = False,
    confidence: Annotated[float, typer.Option(metavar="P", help="How likely the guarantee may fail.")] = 0.05,
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
    doubling: Annotated[bool, typer.Option("--doubling", help="Plan as if K were not known.")] = False,
    measure_every: Annotated[
        int, typer.Option(metavar="N", help="Measure one episode in N: faster, sums not exact.")
    ] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
    figure: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Save a picture: .svg, .png or .pdf.", show_default=False),
    ] = None,
) -> None:
    """Learn a policy without knowing the problem, and show what came of it.

    \b
    Examples:
      opdop run factored --episodes 2e4
      opdop run queue -k 20000 --set throughput=4 --figure learning.svg
      opdop run factored -k 2e4 --preset certified
      opdop run factored -k 2e4 --knob step_scale=10 --knob dual_step_scale=1
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
    if resume is not None:
        _refuse_others(ctx, {"resume", "as_json", "figure"})
        done = _go_on(resume)
    elif name is None:
        raise InvalidParameterError("no problem is named; expected opdop run NAME, or opdop run --resume DIR.")
    else:
        arguments = {
            "problem": make(name, **parse(name, settings or [])),
            "algorithm": algorithm,
            "episodes": _count("episodes", episodes),
            "seed": seed,
            "preset": preset,
            "knobs": _knobs(knobs or []),
            "planned_episodes": None if planned_episodes is None else _count("planned-episodes", planned_episodes),
            "confidence": confidence,
            "slater_gap": slater_gap,
            "dual_bound": dual_bound,
            "noisy": noisy,
            "doubling": doubling,
            "measure_every": measure_every,
        }
        done = _train(arguments, out)
    folder, learnt = resume or out, Learnt(done.run)
    if figure is not None:
        with _busy("drawing"):
            figures.save(figures.run_figure(done.run), figure)
    if folder is not None and not done.kept:
        with _busy("saving"):
            _save_run(folder, learnt)
    if as_json:
        _print_json(learnt.record())
        return
    console = _console()
    _show(console, tables.run_page(learnt))
    console.print()
    if done.complete:
        console.print(Text(f"nothing to do: the run in {folder} is complete; above is its result"), soft_wrap=True)
    elif folder is not None:
        console.print(Text(f"saved in {folder}: {', '.join(_RUN_FILES)}"), soft_wrap=True)
    if figure is not None:
        console.print(Text(f"figure saved to {figure}"), soft_wrap=True)


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # names may have letters that a terminal lacks
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)
    app(prog_name="opdop")


def _leave(_signal: int, _frame: object) -> None:
    """End at once: an exception raised while Numba loads a kernel crashes the process."""
    if sys.stderr.isatty():
        sys.stderr.write("\x1b[?25h\n")  # the cursor, which the busy sign hides
        sys.stderr.flush()
    os._exit(INTERRUPTED)


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
            with _busy("compiling, once"):
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


def _started_with(config: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return the arguments of `train` with which a run was started."""
    name, algorithm = str(config.get("problem")), str(config.get("algorithm"))
    if name not in environments() or algorithm not in known_algorithms():
        raise InvalidParameterError(
            f"the run in {str(folder)!r} is of {algorithm!r} on {name!r}, which are not both opdop's own; "
            f"go on with it where it was started: opdop.train(..., checkpoint={str(folder)!r})."
        )
    try:
        arguments = {key: config[key] for key in _KEPT_ARGUMENTS}
        return {"problem": make(name, **config["parameters"]), **arguments}
    except (KeyError, TypeError) as error:
        raise DamagedFileError(f"{folder / CHECKPOINT} does not say how its run was started: {error}.") from error


def _save_run(folder: Path, learnt: Learnt) -> None:
    from opdop.report import figures

    drawn = figures.run_figure(learnt.run)
    try:
        learnt.run.save(folder)
        (folder / "summary.json").write_text(_json(learnt.record()), encoding="utf-8")
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


def _count(label: str, text: str) -> int:
    """Return a whole number that may be written 100000, 100_000 or 1e5."""
    try:
        value = float(text)
        if value.is_integer():
            return int(text) if "e" not in text.lower() else int(value)
    except (ValueError, OverflowError):
        pass
    raise InvalidParameterError(f"{label} is {text!r}; expected a whole number, as 100000 or 1e5.")


def _knobs(settings: list[str]) -> dict[str, float]:
    """Return the knobs that "name=value" texts set."""
    values: dict[str, float] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        name = name.strip().replace("-", "_")
        try:
            value = float(text)
        except ValueError:
            equals = ""
        if not equals or not name:
            raise InvalidParameterError(f"{setting!r} is not a knob; expected name=number.")
        if name in values:
            raise InvalidParameterError(f"the knob {name} is set twice; expected one value.")
        values[name] = value
    return values


def _console() -> Console:
    return Console(highlight=False, markup=False, emoji=False)


def _show(console: Console, page: RenderableType) -> None:
    """Print a page; into a file or pipe without the blanks that fill its lines."""
    if console.is_terminal:
        console.print(page)
        return
    with console.capture() as capture:
        console.print(page)
    typer.echo("\n".join(line.rstrip() for line in capture.get().splitlines()))


def _complain(message: str) -> None:
    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    console.print(Text(f"error: {' '.join(message.split())}", style="red"), soft_wrap=True)


def _busy(words: str) -> AbstractContextManager[Any]:
    """Say on a terminal that something is going on: kernels are compiled at their first use."""
    console = Console(stderr=True)
    return console.status(f"{words} ...") if console.is_terminal else nullcontext()


def _print_json(record: dict[str, Any]) -> None:
    typer.echo(_json(record))


def _json(record: dict[str, Any]) -> str:
    return json.dumps(record, indent=2, allow_nan=False)


def problem_record(found: Answer) -> dict[str, Any]:
    """Return all that is known of a problem as plain data; docs/command-line.md explains every key."""
    entry = environments()[found.cmdp.display.name]
    bounds = ("low", "above", "high", "below")
    return {
        "name": entry.name,
        "summary": entry.summary,
        "description": entry.description,
        "source": tables.source(entry),
        "parameters": {
            key: {
                "help": parameter.help,
                "type": parameter.type.__name__,
                "default": plain_value(parameter.default),
                "optional": parameter.optional,
                "choices": list(parameter.choices),
                "expected": parameter.expected,
                **{bound: getattr(parameter, bound) for bound in bounds},
            }
            for key, parameter in entry.parameters.items()
        },
        "solution": found.record(),
    }


def _save_policy(file: Path, found: Answer) -> None:
    if file.suffix != ".npy":
        raise InvalidParameterError(f"{str(file)!r} is not a name for a policy; expected a file ending in .npy.")
    try:
        np.save(file, found.optimum.policy.table, allow_pickle=False)
    except OSError as error:
        raise InvalidParameterError(f"cannot write {str(file)!r}: {error.strerror}.") from error


if __name__ == "__main__":
    main()
