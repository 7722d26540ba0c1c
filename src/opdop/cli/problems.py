"""`opdop envs`, `opdop solve` and `opdop algorithms`: what there is, and what is true of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.text import Text

from opdop.algorithms import algorithms as known_algorithms
from opdop.cli.application import app
from opdop.cli.options import AsJson
from opdop.cli.output import busy, console, print_json, show
from opdop.envs import environments, make, parse
from opdop.model import InvalidParameterError
from opdop.report.summary.solution import Answer, answer, plain_value
from opdop.report.terminal import tables

ENVS_FORMAT, ALGORITHMS_FORMAT = "opdop.envs/1", "opdop.algorithms/1"


@app.command()
def envs(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="One problem; all of them if left out.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the problems that ship, or say all about one of them.

    \b
    Examples:
      opdop envs
      opdop envs media-streaming
      opdop envs --json | jq '.problems[].name'
    """
    with busy("solving all problems" if name is None else f"solving {name}"):
        chosen = [name] if name is not None else list(environments())
        answers = [answer(make(each)) for each in chosen]
    if as_json:
        print_json({"format": ENVS_FORMAT, "problems": [problem_record(each) for each in answers]})
    elif name is None:
        screen = console()
        show(screen, tables.overview(answers, width=screen.width))
    else:
        show(console(), tables.problem_page(environments()[name], answers[0]))


@app.command()
def solve(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A problem, as `opdop envs` lists them.", show_default=False)
    ],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", "-s", metavar="KEY=VALUE", help="Set a parameter; may be repeated.", show_default=False),
    ] = None,
    as_json: AsJson = False,
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
    with busy(f"solving {name}"):
        found = answer(make(name, **parse(name, settings or [])))
    if policy is not None:
        _save_policy(policy, found)
    if figure is not None:
        with busy("drawing"):
            figures.save(figures.picture(found, plane=plane), figure)
    if as_json:
        print_json(found.record())
        return
    screen = console()
    show(screen, tables.answer_page(found, width=screen.width))
    for what, file in (("policy", policy), ("figure", figure)):
        if file is not None:
            screen.print(Text(f"{what} saved to {file}"), soft_wrap=True)


@app.command()
def algorithms(
    as_json: AsJson = False,
) -> None:
    """List what learns, and the presets of constants with their parameters.

    \b
    Examples:
      opdop algorithms
      opdop algorithms --json | jq '.presets.practical'
    """
    known = list(known_algorithms().values())
    if as_json:
        summaries = [{"name": each.name, "summary": each.summary} for each in known]
        print_json({"format": ALGORITHMS_FORMAT, "algorithms": summaries, "presets": tables.preset_parameters()})
    else:
        show(console(), tables.algorithms_page(known))


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
