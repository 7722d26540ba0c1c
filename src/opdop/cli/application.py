"""The `opdop` command itself: its help, its errors and its exit statuses."""

from __future__ import annotations

import importlib
import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command_from_info

import opdop
from opdop.cli.output import complain
from opdop.model import InfeasibleError, OpdopError
from opdop.model.validation import printable

INFEASIBLE, WRONG, INTERRUPTED, PIPE_CLOSED = 1, 2, 130, 141  # exit statuses

# The module of each command, and its line in the list of commands. A module is imported when its command is used.
COMMANDS = {
    "envs": ("problems", "List the problems that ship, or describe one."),
    "solve": ("problems", "Compute the exact optimum of a problem."),
    "check": ("check", "Validate a problem, and say what to know before a run."),
    "algorithms": ("problems", "List the algorithms and the presets of constants."),
    "run": ("run", "Train on a problem and show the result."),
    "policy": ("policy", "Save a policy of a run as a file that acts elsewhere."),
    "certify": ("certify", "Say what data alone prove about a policy."),
    "sweep": ("sweeps", "Make many runs: problems x algorithms x seeds."),
    "runs": ("sweeps", "List the runs of a sweep."),
    "report": ("report", "Write an HTML report of all runs in a folder."),
    "compare": ("report", "Compare algorithms on a problem over many seeds."),
    "verify": ("verify", "Check the paper's statements on real runs."),
}


class _Commands(TyperGroup):
    """Imports commands when they are used, prints errors in one line, and ends quietly on Ctrl-C or a closed pipe."""

    def list_commands(self, _ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, _ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        importlib.import_module(f"opdop.cli.{COMMANDS[cmd_name][0]}")
        info = next(each for each in app.registered_commands if each.callback and each.callback.__name__ == cmd_name)
        return get_command_from_info(info, pretty_exceptions_short=False, rich_markup_mode=None)

    def format_commands(self, _ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        with _ends_quietly():  # this parses the arguments, and prints the help
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: Any) -> Any:
        with _ends_quietly():
            return super().invoke(ctx)


@contextmanager
def _ends_quietly() -> Iterator[None]:
    """Turn errors that opdop raises on purpose, Ctrl-C, and a closed pipe into exit statuses."""
    try:
        yield
    except OpdopError as error:
        complain(str(error))
        raise typer.Exit(INFEASIBLE if isinstance(error, InfeasibleError) else WRONG) from error
    except KeyboardInterrupt as error:
        raise typer.Exit(INTERRUPTED) from error
    except BrokenPipeError as error:
        if not _output_is_closed():
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is flushed at exit
        raise typer.Exit(PIPE_CLOSED) from error
    except Exception as error:
        if hasattr(error, "format_message"):  # about a wrong command line: it repeats what was typed
            vars(error)["message"] = printable(str(getattr(error, "message", "")))
        raise


def _output_is_closed() -> bool:
    """Whether nobody reads standard output any more, as after `| head`; other pipes are those to worker processes."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), select.POLLOUT)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


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
    """Learn good policies under constraints, in constrained Markov decision processes.

    \b
    Examples:
      opdop envs                          all problems, with their optima
      opdop envs gridworld                one problem: units and parameters
      opdop solve gridworld               its exact optimum, with a map
      opdop solve gridworld --set size=9 --figure map.svg
      opdop algorithms                    algorithms and presets of constants
      opdop run factored --episodes 2e4   trains, and shows the result
      opdop run factored --until 0.05 --out RUN   until a policy is certified
      opdop policy RUN --out policy.json   the policy of a run, for production
      opdop certify RUN                   what the data of a run prove
      opdop certify LOG.csv --task FILE   what a log proves, and a policy from it
      opdop sweep spec.toml --out DIR     many runs, on all cores
      opdop runs DIR                      lists the runs of a sweep
      opdop report DIR --no-figures       a page of all runs, with verdicts
      opdop compare factored --seeds 3 --episodes 2e3 --no-figures
      opdop verify                        checks the paper's statements

    \b
    Exit status: 0 done; 1 the problem is infeasible, runs of a sweep failed, a
    check failed, or a policy is not certified; 2 a wrong name or value; 130 or
    143 interrupted; 141 the reader of the output closed the pipe, as `| head`
    does.
    """
