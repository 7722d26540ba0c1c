"""The command line: parses, calls, prints."""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console, RenderableType
from rich.text import Text
from typer.core import TyperGroup

import opdop
from opdop.envs import environments, make, parse
from opdop.model import InfeasibleError, InvalidParameterError, OpdopError
from opdop.report import tables
from opdop.report.answer import Answer, answer, plain_value

ENVS_FORMAT = "opdop.envs/1"
INFEASIBLE, WRONG, INTERRUPTED = 1, 2, 130


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
    """Constrained Markov decision processes: the problems that ship, and their exact optima.

    \b
    Examples:
      opdop envs                          all problems, with what is known of each
      opdop envs gridworld                one problem: words, units, parameters
      opdop solve gridworld               its exact optimum, with a map
      opdop solve gridworld --set size=9 --figure map.svg

    \b
    Exit status: 0 done; 1 no policy keeps every promise; 2 a wrong name or value.
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
    typer.echo(json.dumps(record, indent=2, allow_nan=False))


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
