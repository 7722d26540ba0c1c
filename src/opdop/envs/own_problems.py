"""Problems that do not ship, by name: model files, functions in Python files or modules, and installed entry points."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import inspect
import os
import sys
import typing
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from opdop.envs.registry import Environment, Parameter, environments
from opdop.model import DescribedSimulator, InvalidModelError, InvalidParameterError, Problem
from opdop.model.model_files import SUFFIXES, load_model
from opdop.model.validation import call, printable, shown

_GYMNASIUM = ("gym", "gymnasium")  # what a newcomer may write before the id of an environment
GROUP = "opdop.problems"  # of entry points
GIVEN = "given object"  # begins the name that a sweep has for an object; no module has a name with a space


def find_own(name: str) -> Environment | None:
    """Return a problem that does not ship, or None if the name means none.

    A name is a file in .npz, .toml or .json; `file.py:function` or `module:function`; or an entry point of the group
    `opdop.problems`. Raises InvalidParameterError if a file or a function is named that is not there.
    """
    if is_data_file(name):
        return Environment(name, "", f"The model in {name}.", {}, lambda: with_name(load_model(name), name, {}))
    place, colon, function = name.rpartition(":")
    if place == GIVEN:
        raise InvalidParameterError(
            f"{printable(name)} was given to opdop.sweep or opdop.compare as an object, which no file holds; call that "
            "function again with the object, and the same folder."
        )
    if place in _GYMNASIUM:
        raise InvalidParameterError(
            f"{printable(name)} is an environment of Gymnasium, which has no budget; write a function that returns "
            f"opdop.from_gymnasium({function!r}, horizon=..., budgets=..., cost=...) and name it FILE.py:FUNCTION."
        )
    if colon and function.isidentifier():
        return _environment(name, _function(name, place, function))
    for entry in importlib.metadata.entry_points(group=GROUP):
        if entry.name == name:
            return _environment(name, call(f"loading the entry point {name!r}", entry.load))
    return None


def installed_names() -> list[str]:
    """Return the names of the installed entry points that are problems; none of them is loaded."""
    return sorted({entry.name for entry in importlib.metadata.entry_points(group=GROUP)})


def is_data_file(name: str) -> bool:
    """Return whether a name is that of a model file, which holds data only."""
    return Path(name).suffix in SUFFIXES


def is_code(name: str) -> bool:
    """Return whether a name means a function to be run: neither a shipped problem nor a model file."""
    return not is_data_file(name) and name not in environments()


def names_function(name: str) -> bool:
    """Return whether a name is that of a function, in a file or a module, or of an installed entry point."""
    return ":" in name or (is_code(name) and name in installed_names())


def _function(name: str, place: str, function: str) -> Callable[..., Any]:
    """Return a function of a Python file or of a module."""
    if place.endswith(".py"):
        path = Path(place)
        if not os.path.isfile(path):
            raise InvalidParameterError(f"there is no file {printable(place)}.")
        spec = importlib.util.spec_from_file_location(f"opdop_problem_{path.stem}", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module  # so that its dataclasses can be defined
        call(f"running {printable(place)}", spec.loader.exec_module, module)
    else:
        module = call(f"importing {printable(place)}", importlib.import_module, place)
    found = getattr(module, function, None)
    if not callable(found):
        raise InvalidParameterError(f"{printable(place)} has no function {function!r}; found {shown(found)}.")
    return found  # type: ignore[no-any-return]


def _environment(name: str, function: Callable[..., Any]) -> Environment:
    """Return a problem built by a function; its parameters are those with defaults of a plain type."""
    parameters = {}
    hints = call(f"reading the annotations of {name!r}", typing.get_type_hints, function, None, None, True)
    for key, found in inspect.signature(function).parameters.items():
        declared = [note for note in typing.get_args(hints.get(key)) if isinstance(note, Parameter)]
        kind = type(found.default)
        if found.default is found.empty or kind not in (bool, int, float, str, tuple):
            raise InvalidParameterError(
                f"parameter {key!r} of {name!r} has the default {shown(found.default)}; expected a number, a text, a "
                "truth value, or a tuple of numbers."
            )
        about = declared[0] if declared else Parameter(key)
        parameters[key] = replace(about, type=kind, default=found.default)
    summary = (inspect.getdoc(function) or "").partition("\n")[0]

    def build(**given: Any) -> Any:
        values = entry.check(given)
        return with_name(call(f"{name}()", lambda: function(**values)), name, values, summary)

    entry = Environment(name, summary, summary, parameters, build)
    return entry


def with_name(problem: Any, name: str, values: dict[str, Any], summary: str = "") -> Problem | DescribedSimulator:
    """Return a problem or a simulator that shows the name by which it is found again, and its parameters `values`.

    A `summary`, as the first line of a function's docstring, replaces the problem's own.

    Raises InvalidModelError if it is neither, or its display cannot be set.
    """
    if isinstance(problem, type) or not isinstance(problem, Problem | DescribedSimulator):
        raise InvalidModelError(
            f"{name} has returned {shown(problem)}; expected a problem, such as a TabularCMDP, or a simulator that "
            "describes itself, such as that of opdop.from_functions."
        )
    display = replace(problem.display, name=name, parameters=values, summary=summary or problem.display.summary)
    if isinstance(problem, Problem):
        return problem.with_display(display)
    try:
        problem.display = display
    except Exception as error:  # a foreign object may refuse it with any error
        raise InvalidModelError(f"the display of what {name} has returned cannot be set.") from error
    return problem
