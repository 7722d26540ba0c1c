"""The algorithms by name: each file of this package registers its own."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from opdop.model import InvalidParameterError, suggestion

Build = Callable[..., Any]
DOUBLING = "doubling"


@dataclass(frozen=True)
class Algorithm:
    """An algorithm that `train` can run: `build(task, preset, dual_bound=..., **parameters)` returns a learner."""

    name: str
    summary: str
    build: Build


_found: dict[str, Algorithm] = {}


def algorithm(name: str, *, summary: str) -> Callable[[Build], Build]:
    """Register a function (task, preset, *, dual_bound, **parameters) that returns a learner."""

    def register(build: Build) -> Build:
        if name in _found and _found[name].build.__module__ != build.__module__:
            raise InvalidParameterError(
                f"there are two algorithms named {name!r}: {_found[name].build.__module__} and {build.__module__}."
            )
        _found[name] = Algorithm(name, summary, build)
        return build

    return register


def algorithms() -> Mapping[str, Algorithm]:
    """Return the algorithms by name.

    >>> sorted(algorithms())
    ['opdop', 'opdop-lstd', 'oppo']
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
    wrapper, colon, inner = name.partition(":")
    if colon and wrapper == DOUBLING:
        from opdop.algorithms.doubling import Doubling

        base = find(inner)

        def build(task: Any, preset: str, **options: Any) -> Any:
            return Doubling(task, lambda phase: base.build(phase, preset, **options))

        return Algorithm(name, f"{base.summary}; restarted with twice the plan whenever the plan ends", build)
    if name not in known:
        raise InvalidParameterError(
            f"there is no algorithm {name!r}; there are {', '.join(known)}.{suggestion(name, known)}"
        )
    return known[name]
