"""What the commands share: reading numbers, and printing pages, JSON, errors and signs of life."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import typer
from rich.console import Console, RenderableType
from rich.text import Text

from opdop.model import InvalidParameterError


def count(label: str, text: str) -> int:
    """Return a whole number that may be written 100000, 100_000 or 1e5."""
    try:
        value = float(text)
        if value.is_integer():
            return int(text) if "e" not in text.lower() else int(value)
    except (ValueError, OverflowError):
        pass
    raise InvalidParameterError(f"{label} is {text!r}; expected a whole number, as 100000 or 1e5.")


def parameter_values(settings: list[str]) -> dict[str, float]:
    """Return the parameters that "name=value" texts set."""
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


def console() -> Console:
    """Return the screen to print on: no colours or signs made of what is only text."""
    return Console(highlight=False, markup=False, emoji=False)


def show(console: Console, page: RenderableType) -> None:
    """Print a page; into a file or pipe without the blanks that fill its lines."""
    if console.is_terminal:
        console.print(page)
        return
    with console.capture() as capture:
        console.print(page)
    typer.echo("\n".join(line.rstrip() for line in capture.get().splitlines()))


def complain(message: str) -> None:
    """Print an error in one line."""
    screen = Console(stderr=True, highlight=False, markup=False, emoji=False)
    screen.print(Text(f"error: {' '.join(message.split())}", style="red"), soft_wrap=True)


def busy(words: str) -> AbstractContextManager[Any]:
    """Say on a terminal that something is going on: kernels are compiled at their first use."""
    console = Console(stderr=True)
    return console.status(f"{words} ...") if console.is_terminal else nullcontext()


def print_json(record: dict[str, Any]) -> None:
    """Print a record as JSON and nothing else."""
    typer.echo(to_json(record))


def to_json(record: dict[str, Any]) -> str:
    """Return a record as strict JSON text."""
    return json.dumps(record, indent=2, allow_nan=False)
