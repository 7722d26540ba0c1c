"""The algorithms by name: Algorithm 1 with counts, with least squares, and without constraints.

Where states are continuous nothing can be counted, and each name means Algorithm 1 with least squares.
"""

from __future__ import annotations

from dataclasses import replace

from opdop.algorithms.constants import Preset
from opdop.algorithms.continuous import ContinuousOPDOP, ContinuousOPPO, with_visitors
from opdop.algorithms.counts import Counts
from opdop.algorithms.lstd import LSTD
from opdop.algorithms.opdop import OPDOP, OPPO
from opdop.algorithms.registry import algorithm
from opdop.algorithms.task import Task


@algorithm("opdop", summary="Algorithms 1 and 3: optimistic primal-dual policy optimisation with counts")
def with_counts(task: Task, preset: Preset) -> OPDOP:
    """Return Algorithm 1 with counts."""
    if task.is_continuous:
        return with_least_squares(task, preset)
    return OPDOP.preset(task, Counts, preset)


@algorithm("opdop-lstd", summary="Algorithms 1 and 2: the same with least squares on features, for linear kernels")
def with_least_squares(task: Task, preset: Preset) -> OPDOP:
    """Return Algorithm 1 with least squares on the task's features; one-hot ones if it has none."""
    if task.is_continuous:
        return ContinuousOPDOP.preset(with_visitors(task), LSTD, preset)
    return OPDOP.preset(task, LSTD, preset)


@algorithm("oppo", summary="The same without constraints and mixing: optimistic PPO")
def without_constraints(task: Task, preset: Preset) -> OPDOP:
    """Return optimistic PPO; it has no multipliers, so the Slater gap may be unknown."""
    if preset.dual_bound is None:
        preset = replace(preset, dual_bound=1.0)  # not used
    if task.is_continuous:
        return ContinuousOPPO.preset(with_visitors(task), LSTD, preset)
    return OPPO.preset(task, Counts, preset)
