"""The algorithms by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from opdop.algorithms.counts import Counts
from opdop.algorithms.lstd import LSTD
from opdop.algorithms.opdop import OPDOP, OPPO
from opdop.algorithms.task import Task
from opdop.model import InvalidParameterError, suggestion


@dataclass(frozen=True)
class Algorithm:
    """An algorithm that `train` can run: `build(task, preset, dual_bound=..., **knobs)` returns a learner."""

    name: str
    summary: str
    build: Callable[..., OPDOP]


def _opdop(task: Task, preset: str, *, dual_bound: float | None = None, **knobs: float) -> OPDOP:
    return OPDOP.preset(task, Counts, preset, dual_bound=dual_bound, **knobs)


def _oppo(task: Task, preset: str, *, dual_bound: float | None = None, **knobs: float) -> OPDOP:
    return OPPO.preset(task, Counts, preset, dual_bound=1.0 if dual_bound is None else dual_bound, **knobs)


def _opdop_lstd(task: Task, preset: str, *, dual_bound: float | None = None, **knobs: float) -> OPDOP:
    return OPDOP.preset(task, LSTD, preset, dual_bound=dual_bound, **knobs)


_ALGORITHMS = {
    "opdop": Algorithm("opdop", "Algorithms 1 and 3: optimistic primal-dual policy optimisation with counts", _opdop),
    "opdop-lstd": Algorithm(
        "opdop-lstd", "Algorithms 1 and 2: the same with least squares on features, for linear kernels", _opdop_lstd
    ),
    "oppo": Algorithm("oppo", "The same without constraints and mixing: optimistic PPO", _oppo),
}


def algorithms() -> Mapping[str, Algorithm]:
    """Return the algorithms by name.

    >>> sorted(algorithms())
    ['opdop', 'opdop-lstd', 'oppo']
    """
    return MappingProxyType(_ALGORITHMS)


def find(name: str) -> Algorithm:
    """Return an algorithm, or say which there are."""
    if name not in _ALGORITHMS:
        raise InvalidParameterError(
            f"there is no algorithm {name!r}; there are {', '.join(_ALGORITHMS)}.{suggestion(name, _ALGORITHMS)}"
        )
    return _ALGORITHMS[name]
