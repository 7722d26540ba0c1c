"""The algorithms by name: each file of this package registers its own."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, TypeVar

from opdop.algorithms.constants import ALGORITHM_1, Preset
from opdop.algorithms.doubling import Doubling
from opdop.algorithms.preset_makers import MakeConstants, Presets
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
    presets: Presets = ALGORITHM_1
    needs_baseline: bool = False  # whether its task must have a safe baseline policy

    def preset(
        self, name: str, parameters: Mapping[str, float] | None = None, dual_bound: float | None = None
    ) -> Preset:
        """Return one of the algorithm's presets by name, with parameters and `dual_bound`, a bound on the multipliers.

        Raises InvalidParameterError, with the nearest name, if there is no such preset or parameter.
        """
        return Preset(name, {} if parameters is None else parameters, dual_bound, self.presets)

    def build(self, task: Task, preset: str | Preset = "practical") -> Any:
        """Return a learner for a task, with the constants of a preset.

        Raises InvalidParameterError if the algorithm has no such preset or parameter, or does not cover the task.
        """
        given = preset if isinstance(preset, Preset) else self.preset(preset)
        return self.make(task, replace(given, family=self.presets))


_found: dict[str, Algorithm] = {}


def algorithm(
    name: str,
    *,
    summary: str,
    presets: Mapping[str, MakeConstants] | None = None,
    needs_baseline: bool = False,
) -> Callable[[_Make], _Make]:
    """Return a decorator that registers a function (task, preset: Preset) -> learner under a name.

    `presets` has for each preset of its own the function (task, dual_bound, parameter=default, ...) that computes what
    `preset.constants(task)` returns; without it the algorithm has the presets of Algorithm 1. With `needs_baseline` the
    trainer tells the learner the max-slack policy of a known model as its safe baseline. Raises InvalidParameterError
    if another module registers the same name.
    """

    def register(make: _Make) -> _Make:
        if name in _found and _found[name].make.__module__ != make.__module__:
            raise InvalidParameterError(
                f"there are two algorithms named {name!r}: {_found[name].make.__module__} and {make.__module__}."
            )
        own = ALGORITHM_1 if presets is None else Presets(name, presets)
        _found[name] = Algorithm(name, summary, make, own, needs_baseline)
        return make

    return register


def algorithms() -> Mapping[str, Algorithm]:
    """Return the algorithms by name.

    >>> algorithms()["uniform"].summary
    'Plays every action with the same probability: a baseline'
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
            base.presets,
            base.needs_baseline,
        )
    if not isinstance(name, str) or name not in known:
        raise InvalidParameterError(
            f"there is no algorithm {shown(name)}; there are {', '.join(known)}.{suggestion(name, known)}"
        )
    return known[name]


def recommended(features: Any) -> str:
    """Return the algorithm that `opdop run` uses and `opdop check` recommends where none is named.

    `features` are those of the linear kernel that a learner is told, or None. docs/practical.md has the comparison that
    the choice follows from.
    """
    return "replan" if features is None else "opdop-lstd"
