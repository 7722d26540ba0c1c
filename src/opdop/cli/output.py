"""What the commands share: reading numbers, and printing pages, JSON, errors and messages that something takes time."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import typer
from rich.console import Console, RenderableType

from opdop.model import InvalidParameterError
from opdop.model.validation import printable


def count(label: str, text: str) -> int:
    """Return a whole number that may be written 100000, 100_000 or 1e5.

    Raises InvalidParameterError, which calls the number `label`, for any other text.
    """
    try:
        value = float(text)
        if value.is_integer():
            return int(text) if "e" not in text.lower() else int(value)
    except (ValueError, OverflowError):
        pass
    raise InvalidParameterError(f"{label} is {text!r}; expected a whole number, such as 100000 or 1e5.")


def parameter_values(settings: list[str]) -> dict[str, float]:
    """Return the parameters that "name=value" texts set.

    Raises InvalidParameterError if a text has another form, or a parameter is set twice.
    """
    values: dict[str, float] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        name = name.strip().replace("-", "_")
        try:
            value = float(text)
        except ValueError:
            equals = ""
        if not equals or not name:
            raise InvalidParameterError(f"{setting!r} is not a parameter; expected name=number.")
        if name in values:
            raise InvalidParameterError(f"the parameter {name} is set twice; expected one value.")
        values[name] = value
    return values


class PlainConsole(Console):
    """A console that prints text as it is, without markup, colours of its own or emoji."""

    def __init__(self, *, errors: bool = False) -> None:
        super().__init__(stderr=errors, highlight=False, markup=False, emoji=False)

    def on_broken_pipe(self) -> None:
        """Leave it to the application, which has an exit status of its own for a closed pipe."""
        raise BrokenPipeError


def console() -> Console:
    """Return the console for standard output."""
    return PlainConsole()


def show(console: Console, page: RenderableType) -> None:
    """Print a page; into a file or pipe without the blanks that fill its lines."""
    if console.is_terminal:
        console.print(page)
        return
    with console.capture() as capture:
        console.print(page)
    typer.echo("\n".join(line.rstrip() for line in capture.get().splitlines()))


def say(words: str, *, errors: bool = False) -> None:
    """Print a line of plain text, which a terminal may wrap but nothing cuts."""
    PlainConsole(errors=errors).print(printable(words), soft_wrap=True)


def complain(message: str) -> None:
    """Print an error in one line."""
    PlainConsole(errors=True).print(f"error: {' '.join(printable(message).split())}", style="red", soft_wrap=True)


def busy(words: str) -> AbstractContextManager[Any]:
    """Say on a terminal that something takes time, as compiling kernels at their first use does."""
    screen = PlainConsole(errors=True)
    return screen.status(f"{words} ...") if screen.is_terminal else nullcontext()


def print_json(record: dict[str, Any]) -> None:
    """Print a record as JSON and nothing else."""
    typer.echo(to_json(record))


def to_json(record: dict[str, Any]) -> str:
    """Return a record as strict JSON text."""
    return json.dumps(record, indent=2, allow_nan=False)
