"""`opdop envs`, `opdop solve` and `opdop algorithms`: the problems that ship, their optima, and the algorithms."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opdop.cli.application import app
from opdop.cli.options import AsJson, Figure, Problem, ProblemParameters
from opdop.cli.output import busy, console, print_json, say, show
from opdop.model import InvalidParameterError

if TYPE_CHECKING:
    from opdop.report.summary.solution import Solution

ENVS_FORMAT, ALGORITHMS_FORMAT = "opdop.envs/2", "opdop.algorithms/1"


@app.command()
def envs(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="One problem; all of them if left out.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the problems that ship and the installed ones, or describe one of them.

    \b
    Examples:
      opdop envs
      opdop envs media-streaming
      opdop envs --json | jq '.problems[].name'
    """
    from opdop.envs import environment_of, environments, make
    from opdop.envs.own_problems import installed_names
    from opdop.report.summary.solution import solution_of
    from opdop.report.terminal import tables

    with busy("solving all problems" if name is None else f"solving {name}"):
        chosen = [name] if name is not None else list(environments())
        solutions = [solution_of(make(each)) for each in chosen]
    if as_json:
        print_json({"format": ENVS_FORMAT, "problems": [problem_record(each) for each in solutions]})
    elif name is None:
        screen = console()
        show(screen, tables.overview(solutions, width=screen.width))
        if installed := installed_names():
            say(f"installed entry points: {', '.join(installed)}")
    else:
        show(console(), tables.problem_page(environment_of(name), solutions[0]))


@app.command()
def solve(
    name: Problem,
    parameters: ProblemParameters = None,
    as_json: AsJson = False,
    figure: Figure = None,
    plane: Annotated[
        bool, typer.Option("--plane", help="Let --figure draw the reward-utility plane even if there is a map.")
    ] = False,
    policy: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Save the optimal policy [H, S, A]: .npy.", show_default=False),
    ] = None,
) -> None:
    """Compute the exact optimum of a problem.

    \b
    Examples:
      opdop solve media-streaming
      opdop solve media-streaming --set fast_services=3 --set stages=20
      opdop solve gridworld -s size=9 -s seed=4 --figure map.svg
      opdop solve inventory --figure plane.png
      opdop solve queue --json | jq '.reward.optimum.own'

    The optimum is shown beside the unconstrained policy, which maximises the reward
    alone, and the max-slack policy, which attains the Slater gap.

    The figure is the map with the optimal policy's visits if the problem has a map,
    otherwise the reward-utility plane with everything that policies can attain.
    """
    if figure is not None:
        from opdop.report import figures

        figures.check_target(figure)
    from opdop.envs import make, parse
    from opdop.report.summary.solution import solution_of
    from opdop.report.terminal import tables

    with busy(f"solving {name}"):
        found = solution_of(make(name, **parse(name, parameters or [])))
    if policy is not None:
        _save_policy(policy, found)
    if figure is not None:
        with busy("drawing"):
            figures.save(figures.picture(found, plane=plane), figure)
    if as_json:
        print_json(found.record())
        return
    screen = console()
    show(screen, tables.solution_page(found, width=screen.width))
    for what, file in (("policy", policy), ("figure", figure)):
        if file is not None:
            say(f"{what} saved to {file}")


@app.command()
def algorithms(
    as_json: AsJson = False,
) -> None:
    """List the algorithms, and the presets of constants with their parameters.

    \b
    Examples:
      opdop algorithms
      opdop algorithms --json | jq '.presets.practical'
    """
    from opdop.algorithms.registry import algorithms as known_algorithms
    from opdop.report.terminal import tables

    known = list(known_algorithms().values())
    if as_json:
        summaries = [
            {"name": each.name, "summary": each.summary, "presets": tables.preset_parameters(each.presets)}
            for each in known
        ]
        print_json({"format": ALGORITHMS_FORMAT, "algorithms": summaries, "presets": tables.preset_parameters()})
    else:
        show(console(), tables.algorithms_page(known))


def problem_record(found: Solution) -> dict[str, Any]:
    """Return a problem, its parameters and its solution as plain data; docs/command-line.md explains every key."""
    from opdop.envs import environment_of
    from opdop.report.summary.solution import plain_value
    from opdop.report.terminal.tables import source

    entry = environment_of(found.cmdp.display.name)
    bounds = ("low", "above", "high", "below")
    return {
        "name": entry.name,
        "summary": entry.summary,
        "description": entry.description,
        "source": source(entry),
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


def _save_policy(file: Path, found: Solution) -> None:
    if file.suffix != ".npy":
        raise InvalidParameterError(f"{str(file)!r} is not a name for a policy; expected a file ending in .npy.")
    import numpy as np

    try:
        np.save(file, found.optimum.policy.table, allow_pickle=False)
    except OSError as error:
        raise InvalidParameterError(f"cannot write {str(file)!r}: {error.strerror}.") from error
