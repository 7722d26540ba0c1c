"""What the algorithms of other papers share: the constants of a primal-dual method, and how a run describes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from opdop.algorithms.baseline import Baseline
from opdop.algorithms.constants import Preset
from opdop.algorithms.counts import Counts
from opdop.algorithms.opdop import OPDOP
from opdop.algorithms.radius_rules import Radius
from opdop.algorithms.replanning import Plan, ReplanningLearner
from opdop.algorithms.task import Task
from opdop.confidence import Observations
from opdop.kernels import dynamic_programming
from opdop.model import InvalidParameterError, TabularPolicy
from opdop.model.validation import Floats

# Added to every count it changes none, and an unvisited pair has the largest value: means are plain ones.
NO_RIDGE = 1e-300


@dataclass(frozen=True)
class BonusRadius:
    """A bonus that falls with the root of the visits; below it a class gives the `bonus` after one visit.

    `scale` multiplies the bonus; only 1 is the paper's. Until a pair is visited, its value is the largest one.
    """

    scale: float = 1.0
    pools: bool = False  # whether visits are pooled where the task is stationary

    def bonus(self, task: Task) -> float:
        """Return the bonus of a pair that was visited once."""
        raise NotImplementedError

    def radii(self, task: Task, ridge: float) -> Floats:
        """Return the radii [H] of a task: half the bonus after one visit, whatever the ridge."""
        return np.full(task.horizon, 0.5 * self.scale * self.bonus(task))


@dataclass(frozen=True)
class PrimalDualConstants:
    """The constants of a primal-dual method without mixing."""

    step_size: float
    dual_step_size: float
    dual_bound: float
    radius: Radius

    def learner(self, task: Task, preset: Preset, source: str) -> OPDOP:
        """Return the learner that takes these steps with plain means and bonuses, in the loop of Algorithm 1."""
        numbers = {name: getattr(self, name) for name in ("step_size", "dual_step_size", "dual_bound")}
        return OPDOP(
            task,
            Counts(task, radius=self.radius, ridge=NO_RIDGE),
            step_size=self.step_size,
            dual_step_size=self.dual_step_size,
            mixing=0.0,
            dual_bound=self.dual_bound,
            constants=told(task, preset, source, **numbers),
        )


def refuse_continuous(name: str, task: Task) -> None:
    """Raise InvalidParameterError if the task's states are continuous."""
    if task.is_continuous:
        raise InvalidParameterError(
            f"`{name}` counts visits, so it needs finitely many states, and those of this task are continuous."
        )


def refuse_several(name: str, task: Task) -> None:
    """Raise InvalidParameterError if the task has several constraints."""
    if task.num_constraints > 1:
        raise InvalidParameterError(
            f"`{name}` is proven for one constraint, and this task has {task.num_constraints}; use another algorithm."
        )


def required_baseline(name: str, task: Task) -> Baseline:
    """Return the task's safe baseline.

    Raises InvalidParameterError if it has none, continuous states, or several constraints, of which the papers of the
    algorithms with a baseline say nothing.
    """
    refuse_continuous(name, task)
    refuse_several(name, task)
    if task.baseline is None:
        raise InvalidParameterError(
            f"`{name}` plays a safe baseline policy until it knows better, and the task has none: give the task "
            "baseline=opdop.Baseline(policy, slack), a policy that keeps the constraint with positive slack. For a "
            "known model it is the max-slack policy, if there is one with slack."
        )
    return task.baseline


def scaled(reward: Floats, utility: Floats) -> tuple[Floats, Floats]:
    """Return both signals [2, M, S, A] divided by their largest sizes, and the sizes [2]: errors stay relative."""
    sizes = np.array([max(1.0, float(np.abs(reward).max())), max(1.0, float(np.abs(utility).max()))])
    return np.stack([reward / sizes[0], utility / sizes[1]]), sizes


class SafePlanner(Protocol):
    """Plans for a policy that is safe whatever the data allow, or finds none."""

    def safe_plan(self, data: Observations, baseline: Baseline) -> Plan | None:
        """Return the plan; None if the data are too few for one."""
        ...

    def described(self) -> dict[str, Any]:
        """Return the planner's name and numbers as plain data."""
        ...


class BaselineFirst:
    """A planner that plays the baseline as long as another planner finds no safe policy."""

    def __init__(self, planner: SafePlanner, baseline: Baseline) -> None:
        self.planner, self.baseline = planner, baseline

    def plan(self, data: Observations) -> Plan:
        """Return the safe plan, or the baseline with its values in the empirical model."""
        found = self.planner.safe_plan(data, self.baseline)
        if found is not None:
            return found
        return Plan(self.baseline.policy, empirical_values(data, self.baseline.policy), np.zeros(data.num_constraints))

    def described(self) -> dict[str, Any]:
        """Return the planner's name and numbers, and the slack of the baseline that the learner was told."""
        return {**self.planner.described(), "told_baseline_slack": self.baseline.slack.tolist()}


def learner_from_baseline(
    name: str, task: Task, preset: Preset, planner: Callable[[Task, Any], SafePlanner]
) -> ReplanningLearner:
    """Return the learner that plays the task's baseline until the planner finds safe plans.

    The preset's constants have a `growth`, and `planner` takes the task and them. Raises InvalidParameterError if
    states are continuous, there are several constraints, or no baseline is known.
    """
    baseline = required_baseline(name, task)
    constants = preset.constants(task)
    return ReplanningLearner(
        task,
        BaselineFirst(planner(task, constants), baseline),
        growth=constants.growth,
        constants={"preset": preset.name},
    )


def empirical_values(data: Observations, policy: TabularPolicy, signals: Floats | None = None) -> Floats:
    """Return the values [1+I] of a policy in the empirical kernel, with mean signals or others [1+I, M, S, A]."""
    shape = (1 + data.num_constraints, data.signal_stages, data.num_states, data.num_actions)
    means = data.signal_means().reshape(shape) if signals is None else signals
    v = np.empty((shape[0], 2, data.num_states))
    dynamic_programming.evaluate(data.kernel(), means, policy.table, v)
    values: Floats = v[:, 0] @ data.initial
    return values


def told(task: Task, preset: Preset, source: str, **own: Any) -> dict[str, Any]:
    """Return what a run stores of an algorithm: its preset, its paper, its numbers, and what the learner was told."""
    return {"preset": preset.name, "source": source, **own, **preset.used(), **task.plan()}
