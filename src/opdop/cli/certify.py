"""`opdop certify`: what data alone prove about a policy: the data of a saved run, a log, or fresh episodes."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opdop.cli.application import app
from opdop.cli.options import AsJson, FailureProbability, ProblemParameters
from opdop.cli.output import busy, console, count, print_json, say, show
from opdop.model import InvalidParameterError

if TYPE_CHECKING:
    from opdop.confidence import Certificate
    from opdop.confidence.data import Data
    from opdop.runs import Run
    from opdop.runs.log_task import LogTask

CERTIFY_FORMAT = "opdop.certify/1"
_NOT_CERTIFIED = 1
_NAMED = ("final", "average", "recommended")
_LOGS = (".parquet", ".csv")
_LOG_OPTIONS = ("horizon", "states", "actions", "initial", "reward", "ranges", "noisy")


@app.command()
def certify(
    ctx: typer.Context,
    data: Annotated[
        Path,
        typer.Argument(
            metavar="DATA",
            help="A folder of a run, a log (.parquet or .csv), or a problem: see `opdop run`.",
            show_default=False,
        ),
    ],
    delta: FailureProbability = 0.05,
    policy: Annotated[
        str | None,
        typer.Option(
            metavar="POLICY",
            help="final, average or recommended, or a file that policy.save wrote; by default all three of a run.",
            show_default=False,
        ),
    ] = None,
    budgets: Annotated[
        list[str] | None,
        typer.Option("--budget", metavar="[NAME=]N", help="Budget of a cost, in its own unit; may be repeated."),
    ] = None,
    thresholds: Annotated[
        list[str] | None,
        typer.Option("--threshold", metavar="[NAME=]N", help="Threshold of a utility, in its own unit."),
    ] = None,
    stationary: Annotated[
        bool | None,
        typer.Option(
            "--stationary/--per-stage",
            help="Whether the kernel is the same at every stage; by default as the run or the task says.",
            show_default=False,
        ),
    ] = None,
    episodes: Annotated[
        str | None,
        typer.Option(metavar="N", help="Play N fresh episodes of the problem, and use only them.", show_default=False),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="S", help="Seed of the fresh episodes.")] = 0,
    problem: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The run's own problem, FILE.py:FUNCTION, which plays the fresh episodes.",
            show_default=False,
        ),
    ] = None,
    settings: ProblemParameters = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Save the certified policy: .npz or .json.", show_default=False),
    ] = None,
    as_json: AsJson = False,
    task: Annotated[
        Path | None, typer.Option(metavar="FILE.toml", help="What the log is about.", show_default=False)
    ] = None,
    horizon: Annotated[int | None, typer.Option(metavar="H", help="Log: stages of an episode.")] = None,
    states: Annotated[str | None, typer.Option(metavar="N|A,B,...", help="Log: states, or their names.")] = None,
    actions: Annotated[str | None, typer.Option(metavar="N|A,B,...", help="Log: actions, or their names.")] = None,
    initial: Annotated[
        str | None,
        typer.Option(metavar="X", help="Log: the first state; by default estimated from the log."),
    ] = None,
    reward: Annotated[str, typer.Option(metavar="COLUMN", help="Log: the column of the reward.")] = "reward",
    ranges: Annotated[
        list[str] | None,
        typer.Option("--range", metavar="COLUMN=LOW:HIGH", help="Log: range of a column in a stage; 0:1 by default."),
    ] = None,
    noisy: Annotated[bool, typer.Option("--noisy", help="Log: rewards and costs are random.")] = False,
) -> None:
    """Say what data alone prove about a policy, and find the best policy that they prove to keep every constraint.

    \b
    Examples:
      opdop run media-streaming -k 2e4 --out runs/first
      opdop certify runs/first                       final, average, recommended
      opdop certify runs/first --delta 0.001 --budget 5.5
      opdop certify runs/first --policy recommended --out best.json
      opdop certify runs/first --policy best.json --episodes 2000
      opdop certify runs/own --episodes 500 --problem my_module.py:make_simulator
      opdop certify my_module.py:make_simulator --policy best.json --episodes 500
      opdop certify log.csv --task task.toml --out best.npz
      opdop certify log.parquet --horizon 10 --states 11 --actions slow,fast
          --budget cost=5 --range reward=-20:0 --stationary --out best.npz

    A log has one row for each step, whoever chose the actions: episode, stage
    (from 0), state, action, reward, a column for each cost or utility, and
    next_state. States and actions are numbers from 0, or names. Ranges must hold
    for every step that can occur, not only for those in the log.

    The answer holds with probability at least 1 - delta, for every policy at
    once. If the data do not suffice, it names the pairs of state and action that
    they say too little about. Fresh episodes bound the values of one policy, not
    its distance from the best.

    Exit status: 0 the policy (the recommended one, if there are several) is
    certified to keep every constraint; 1 it is not; 2 a wrong file or value.
    """
    if out is not None and out.suffix not in (".npz", ".json"):
        raise InvalidParameterError(f"--out is {str(out)!r}; expected a file in .npz or .json.")
    if os.path.isdir(data) or data.name == "run.npz":
        _refuse(ctx, ("task", "settings", *_LOG_OPTIONS), f"{data} is a run, which says that itself")
        limits = [*(budgets or []), *(thresholds or [])]
        if problem is not None and episodes is None:
            raise InvalidParameterError("--problem plays fresh episodes; expected --episodes N with it.")
        found, facts = _of_run(data, policy, delta, limits, stationary, episodes, seed, problem)
    elif data.suffix.lower() not in _LOGS and task is None and horizon is None:
        _refuse(ctx, ("stationary", "budgets", "thresholds", *_LOG_OPTIONS), f"the problem {data} says that")
        _refuse(ctx, ("problem",), f"{data} is the problem")
        found, facts = _of_problem(str(data), settings or [], policy, delta, episodes, seed)
    else:
        _refuse(ctx, ("episodes", "seed", "problem", "settings"), f"{data} is a log, and there is nothing to play")
        if task is not None:
            _refuse(ctx, (*_LOG_OPTIONS, "budgets", "thresholds"), "--task says that")
            from opdop.runs.log_task import read_task

            about = read_task(task)
        else:
            about = _task(horizon, states, actions, initial, reward, budgets, thresholds, ranges, noisy)
        if stationary is not None:
            about = replace(about, stationary=stationary)
        found, facts = _of_log(data, about, policy, delta)
    _answer(found, facts, out, as_json=as_json)


def _answer(found: dict[str, Certificate], facts: dict[str, Any], out: Path | None, *, as_json: bool) -> None:
    """Print the certificates, save the last one's policy, and end with the status that says whether it is certified."""
    from opdop.report.summary.certificate_card import certificate_record
    from opdop.report.terminal.certificate_page import certificate_page

    best = found[list(found)[-1]]
    saved = None
    if out is not None and best.keeps_constraints:
        saved = str(best.policy.save(out))
    if as_json:
        records = {name: certificate_record(each) for name, each in found.items()}
        print_json({"format": CERTIFY_FORMAT, **facts, "certificates": records, "saved": saved})
    else:
        show(console(), certificate_page(found, facts))
        if saved:
            say(f"policy saved to {saved}")
        elif out is not None:
            say("no policy is saved, because none is certified to keep every constraint")
    if not best.keeps_constraints:
        raise typer.Exit(_NOT_CERTIFIED)


def _of_run(
    folder: Path,
    policy: str | None,
    delta: float,
    limits: list[str],
    stationary: bool | None,
    episodes: str | None,
    seed: int,
    problem: str | None,
) -> tuple[dict[str, Certificate], dict[str, Any]]:
    """Return the certificates of a saved run's policies, by their names, and facts about the run."""
    from opdop.runs import Run, certify

    run = Run.load(folder if os.path.isdir(folder) else folder.parent)
    player = run if problem is None else _player(run, problem)
    bounds = _thresholds(run, limits) if limits else None
    names = _NAMED if policy is None and episodes is None else (policy or "recommended",)
    found: dict[str, Certificate] = {}
    with busy("certifying"):
        for name in names:
            wanted = _policy(name)
            given: dict[str, Any] = {"failure_probability": delta, "thresholds": bounds}
            if episodes is None:
                found[name] = certify(run, wanted, stationary=stationary, **given)
                continue
            if wanted == "recommended":
                wanted = certify(run, wanted, stationary=stationary, **given).policy
            elif isinstance(wanted, str):
                wanted = run.policy_of(wanted)
            given |= {"display": run.display, "noisy": run.config.noisy}
            found[name] = certify(player, wanted, episodes=count("episodes", episodes), seed=seed, **given)
    played = int(run.episodes[-1])
    data = None if run.observations is None or episodes is not None else run.observations.as_declared(stationary)
    return found, _facts(folder, run.config.problem, data, found, played)


def _player(run: Run, problem: str) -> Any:
    """Return the run's own problem or simulator, made by the function that the user names."""
    from opdop.envs import make_trainable

    if problem != run.config.problem:
        raise InvalidParameterError(f"the run is of {run.config.problem!r}, and --problem is {problem!r}.")
    return make_trainable(problem, **run.config.problem_parameters)


def _of_problem(
    name: str, settings: list[str], policy: str | None, delta: float, episodes: str | None, seed: int
) -> tuple[dict[str, Certificate], dict[str, Any]]:
    """Return the certificate of the policy in a file from fresh episodes of a problem, by its name, and facts."""
    from opdop.envs import environment_of, make_trainable
    from opdop.runs import certify

    try:
        parameters = environment_of(name).parse(settings)
    except InvalidParameterError as error:
        raise InvalidParameterError(f"{name!r} is no folder of a run and no log (.parquet, .csv); {error}") from error
    if policy is None or policy in _NAMED or episodes is None:
        raise InvalidParameterError(
            f"{name} is a problem, which has no data; expected --policy FILE and --episodes N, to play fresh ones."
        )
    played = count("episodes", episodes)
    with busy("certifying"):
        problem = make_trainable(name, **parameters)
        made = certify(problem, _policy(policy), episodes=played, seed=seed, failure_probability=delta)
    return {policy: made}, _facts(Path(name), name, None, {policy: made}, played)


def _of_log(
    log: Path, about: LogTask, policy: str | None, delta: float
) -> tuple[dict[str, Certificate], dict[str, Any]]:
    """Return the certificate of a policy from a log, by its name, and facts about the log."""
    from opdop.runs import certify

    if policy in ("final", "average"):
        raise InvalidParameterError(f"--policy is {policy}, which only a run has; expected recommended, or a file.")
    name = policy or "recommended"
    with busy("reading the log"):
        data, episodes = about.read(log)
    with busy("certifying"):
        made = certify(data, _policy(name), failure_probability=delta, display=about.display)
    return {name: made}, _facts(log, None, data.as_declared(), {name: made}, episodes)


def _facts(
    source: Path, problem: str | None, data: Data | None, found: dict[str, Certificate], episodes: int
) -> dict[str, Any]:
    """Return what is said beside certificates: where the data are from, and how many episodes to expect."""
    from opdop.confidence import Observations
    from opdop.confidence.forecast import episodes_until_kept

    best = found[list(found)[-1]]
    facts = {"source": str(source), "problem": problem, "episodes": episodes}
    if not isinstance(data, Observations) or best.keeps_constraints or best.proves_infeasible:
        return facts
    return {**facts, "expected_episodes": episodes_until_kept(data.with_thresholds(best.thresholds), best, episodes)}


def _policy(name: str) -> Any:
    """Return the name of a run's policy, or the policy in a file."""
    from opdop.model import load_policy

    return name if name in _NAMED else load_policy(name)


def _thresholds(run: Run, limits: list[str]) -> Any:
    """Return the thresholds of a run with some replaced by limits [NAME=]N in own units."""
    from opdop.model import suggestion

    quantities = run.display.quantities[1:]
    names = [each.name for each in quantities]
    bounds = run.thresholds.copy()
    for text in limits:
        name, equals, number = text.rpartition("=")
        if not equals and len(names) == 1:
            name = names[0]
        if name not in names:
            raise InvalidParameterError(
                f"{text!r} sets no limit of this run; expected NAME=NUMBER, NAME being {' or '.join(map(repr, names))}."
                f"{suggestion(name, names)}"
            )
        i = names.index(name)
        bounds[i] = (_number(text, number) - quantities[i].offset) / quantities[i].scale
    return bounds


def _task(
    horizon: int | None,
    states: str | None,
    actions: str | None,
    initial: str | None,
    reward: str,
    budgets: list[str] | None,
    thresholds: list[str] | None,
    ranges: list[str] | None,
    noisy: bool,
) -> LogTask:
    """Return what the options say about a log."""
    from opdop.runs.log_task import LogTask, logged_signal

    if horizon is None or states is None or actions is None:
        raise InvalidParameterError("a log needs --task FILE.toml, or --horizon, --states, --actions and --budget.")
    stated = {}
    for text in ranges or []:
        column, _, pair = text.rpartition("=")
        if not column or pair.count(":") != 1:
            raise InvalidParameterError(f"--range is {text!r}; expected COLUMN=LOW:HIGH, as cost=0:5.")
        stated[column] = [_number(text, each) for each in pair.split(":")]
    constraints = []
    for kind, texts in (("budget", budgets), ("threshold", thresholds)):
        for text in texts or []:
            column, equals, number = text.rpartition("=")
            limit = {kind: _number(text, number)}
            column = column if equals else ("cost" if kind == "budget" else "utility")
            constraints.append(logged_signal(column, stated.pop(column, [0, 1]), **limit))
    paid = logged_signal(reward, stated.pop(reward, [0, 1]))
    for column in stated:
        raise InvalidParameterError(f"--range names {column!r}, which is neither the reward nor a column with a limit.")
    first = int(initial) if initial is not None and initial.isdecimal() else initial
    return LogTask(
        horizon=horizon,
        states=_sizes("states", states),
        actions=_sizes("actions", actions),
        reward=paid,
        constraints=tuple(constraints),
        initial=first,
        noisy=noisy,
    )


def _sizes(name: str, text: str) -> int | tuple[str, ...]:
    """Return a number, or names separated by commas."""
    from opdop.runs.log_task import sized

    return sized(name, count(name, text) if "," not in text else [each.strip() for each in text.split(",")])


def _number(text: str, number: str) -> float:
    from opdop.model.validation import as_number

    try:
        return as_number("it", float(number), "a number")
    except (ValueError, InvalidParameterError) as error:
        raise InvalidParameterError(f"{text!r} has no number at its end; expected one, as in cost=5.") from error


def _refuse(ctx: typer.Context, names: tuple[str, ...], why: str) -> None:
    """Refuse options that do not go with the data."""
    for parameter in ctx.command.params:
        source = ctx.get_parameter_source(parameter.name or "")
        if parameter.name in names and source is not None and source.name == "COMMANDLINE":
            raise InvalidParameterError(f"leave out {parameter.opts[0]}: {why}.")
