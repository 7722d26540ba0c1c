"""The algorithms by name: each file of this package registers its own."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar

from opdop.algorithms.constants import Preset
from opdop.algorithms.doubling import Doubling
from opdop.algorithms.task import Task
from opdop.model import InvalidParameterError, suggestion
from opdop.model.validation import shown

Build = Callable[[Task, Preset], Any]  # returns a Learner
DOUBLING = "doubling"
_Make = TypeVar("_Make", bound=Build)


@dataclass(frozen=True)
class Algorithm:
    """An algorithm that `train` can run."""

    name: str
    summary: str
    make: Build

    def build(self, task: Task, preset: str | Preset = "practical") -> Any:
        """Return a learner for a task, with the constants of a preset."""
        return self.make(task, Preset.of(preset))


_found: dict[str, Algorithm] = {}


def algorithm(name: str, *, summary: str) -> Callable[[_Make], _Make]:
    """Return a decorator that registers a function (task, preset: Preset) -> learner under a name.

    Raises InvalidParameterError if another module registers the same name.
    """

    def register(make: _Make) -> _Make:
        if name in _found and _found[name].make.__module__ != make.__module__:
            raise InvalidParameterError(
                f"there are two algorithms named {name!r}: {_found[name].make.__module__} and {make.__module__}."
            )
        _found[name] = Algorithm(name, summary, make)
        return make

    return register


def algorithms() -> Mapping[str, Algorithm]:
    """Return the algorithms by name.

    >>> sorted(algorithms())
    ['opdop', 'opdop-lstd', 'oppo', 'optimistic', 'replan']
    """
    package = importlib.import_module("opdop.algorithms")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"opdop.algorithms.{module.name}")
    return MappingProxyType(dict(sorted(_found.items())))


def find(name: str) -> Algorithm:
    """Return an algorithm by name; "doubling:NAME" composes NAME with `Doubling`, for an unknown number of episodes.

    Raises InvalidParameterError, with the nearest name, if there is no such algorithm.
    """
    known = algorithms()
    wrapper, colon, inner = str(name).partition(":")
    if colon and wrapper == DOUBLING and not inner.startswith(f"{DOUBLING}:"):
        base = find(inner)
        return Algorithm(
            name,
            f"{base.summary}; restarted with twice the plan whenever the plan ends",
            lambda task, preset: Doubling(task, lambda phase: base.build(phase, preset)),
        )
    if not isinstance(name, str) or name not in known:
        raise InvalidParameterError(
            f"there is no algorithm {shown(name)}; there are {', '.join(known)}.{suggestion(name, known)}"
        )
    return known[name]
