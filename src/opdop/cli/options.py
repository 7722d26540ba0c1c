"""Options that several commands have, each written once; those of a run's settings are read from `RunConfig`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer

from opdop.cli.output import count, parameter_values
from opdop.runs.config import RunConfig, settings

_LETTERS = {"episodes": "-k", "problem_parameters": "-s"}


def setting_option(name: str, *, default: str | None = None) -> Any:
    """Return the command-line option of a setting of `RunConfig`, with its flag and its help.

    Args:
        name: the setting.
        default: what the help says of the default, where it is not the value in the command's signature.
    """
    setting = settings()[name]
    flags = [setting.flag, *([_LETTERS[name]] if name in _LETTERS else [])]
    return typer.Option(*flags, metavar=setting.metavar or None, help=setting.help, show_default=default or True)


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
Figure = Annotated[
    Path | None, typer.Option("--figure", metavar="FILE", help="Save a figure: .svg, .png or .pdf.", show_default=False)
]
Open = Annotated[bool, typer.Option("--open", help="Open the page in the browser.")]
PROBLEM_HELP = "A problem: see `opdop envs`; or a model file, FILE.py:FUNCTION, or an installed entry point."
Problem = Annotated[str, typer.Argument(metavar="NAME", help=PROBLEM_HELP, show_default=False)]

Episodes = Annotated[str, setting_option("episodes")]
FailureProbability = Annotated[float, setting_option("failure_probability")]
Noisy = Annotated[bool, setting_option("noisy")]
Preset = Annotated[str, setting_option("preset")]
PresetParameters = Annotated[list[str] | None, setting_option("parameters")]
ProblemParameters = Annotated[list[str] | None, setting_option("problem_parameters")]


def with_settings(**defaults: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that gives a command an option for each setting of `RunConfig`.

    The options take the place of the command's parameter `given`, which receives them by name, as `RunConfig` takes
    them. Two things are left to the command: settings without a value are not in `given`, and `problem_parameters` is
    a list of texts KEY=VALUE, which only the problem can read.

    Args:
        defaults: the settings whose defaults the command chooses itself, each with what the help says of its default.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        options = {
            each.name: _parameter(each.name, None if each.name in defaults else each.default, defaults.get(each.name))
            for each in fields(RunConfig)
            if settings()[each.name].flag
        }

        @functools.wraps(command)
        def wrapper(**values: Any) -> None:
            found = {name: values.pop(name) for name in options}
            command(**values, given={name: _read(name, value) for name, value in found.items() if value is not None})

        own = inspect.signature(command, eval_str=True)
        parameters: list[inspect.Parameter] = []
        for each in own.parameters.values():
            parameters += options.values() if each.name == "given" else [each.replace(kind=each.KEYWORD_ONLY)]
        wrapper.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
        wrapper.__annotations__ = {each.name: each.annotation for each in parameters}
        return wrapper

    return decorate


def _parameter(name: str, default: Any, words: str | None) -> inspect.Parameter:
    """Return the parameter of a command for a setting; whole numbers are read as text, so that 1e5 is one."""
    kind = _kind(name)
    shape: Any
    if kind is Mapping:
        shape, default = list[str] | None, None
    elif kind is int:
        shape, default = str | None, None if default is None else str(default)
    else:
        shape = bool if kind is bool and default is not None else kind | None
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[shape, setting_option(name, default=words)],
    )


def _read(name: str, value: Any) -> Any:
    """Return the value of a setting from the value of its option."""
    if _kind(name) is int:
        return count(settings()[name].flag.lstrip("-"), value)
    return parameter_values(value) if name == "parameters" else value


def _kind(name: str) -> Any:
    """Return the type of a setting, without None: int, float, bool, str or Mapping."""
    hint = get_type_hints(RunConfig)[name]
    return get_origin(hint) if get_origin(hint) is Mapping else (get_args(hint) or (hint,))[0]
