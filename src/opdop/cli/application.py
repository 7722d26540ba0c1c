"""The `opdop` command itself: its help, its errors and its exit statuses."""

from __future__ import annotations

import os
import signal
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import opdop
from opdop.cli.output import complain
from opdop.model import InfeasibleError, OpdopError

INFEASIBLE, WRONG, INTERRUPTED = 1, 2, 130


class _Commands(TyperGroup):
    """Turns errors that opdop raises on purpose into one line, and Ctrl-C into a quiet end."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except OpdopError as error:
            complain(str(error))
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
      opdop sweep spec.toml --out DIR     many runs, on all cores
      opdop runs DIR                      what came of them
      opdop report DIR --no-figures       a page of all of them, with verdicts
      opdop compare factored --seeds 3 --episodes 2e3 --no-figures
      opdop verify                        tests the paper's inequalities on runs

    \b
    Exit status: 0 done; 1 no policy keeps every promise, runs of a sweep have
    failed, or a proof is broken; 2 a wrong name or value; 130 or 143 interrupted.
    """


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
