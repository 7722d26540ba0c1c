"""Algorithm 1 by name: with counts, with least squares, without constraints; whatever the states are."""

from __future__ import annotations

from opdop.algorithms.continuous import ContinuousOPDOP, ContinuousOPPO, is_continuous
from opdop.algorithms.counts import Counts
from opdop.algorithms.lstd import LSTD
from opdop.algorithms.opdop import OPDOP, OPPO
from opdop.algorithms.registry import algorithm
from opdop.algorithms.task import Task


@algorithm("opdop", summary="Algorithms 1 and 3: optimistic primal-dual policy optimisation with counts")
def opdop(task: Task, preset: str, *, dual_bound: float | None = None, **parameters: float) -> OPDOP:
    """Return Algorithm 1 with counts; with least squares where states are continuous, and nothing can be counted."""
    if is_continuous(task):
        return ContinuousOPDOP.build(task, preset, dual_bound=dual_bound, **parameters)
    return OPDOP.preset(task, Counts, preset, dual_bound=dual_bound, **parameters)


@algorithm("opdop-lstd", summary="Algorithms 1 and 2: the same with least squares on features, for linear kernels")
def opdop_lstd(task: Task, preset: str, *, dual_bound: float | None = None, **parameters: float) -> OPDOP:
    """Return Algorithm 1 with least squares on the task's features; one-hot ones if it has none."""
    if is_continuous(task):
        return ContinuousOPDOP.build(task, preset, dual_bound=dual_bound, **parameters)
    return OPDOP.preset(task, LSTD, preset, dual_bound=dual_bound, **parameters)


@algorithm("oppo", summary="The same without constraints and mixing: optimistic PPO")
def oppo(task: Task, preset: str, *, dual_bound: float | None = None, **parameters: float) -> OPDOP:
    """Return optimistic PPO; it has no multipliers, so nothing needs to be known of the Slater gap."""
    bound = 1.0 if dual_bound is None else dual_bound
    if is_continuous(task):
        return ContinuousOPPO.build(task, preset, dual_bound=bound, **parameters)
    return OPPO.preset(task, Counts, preset, dual_bound=bound, **parameters)
