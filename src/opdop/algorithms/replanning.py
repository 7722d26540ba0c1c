"""Learners that plan on their data, play the plan until the data have grown by a share, and plan again.

The planner is a part: a function of the data. Between two plans the policy stays the same, so that episodes are played
and counted in a compiled loop, and the policy is measured once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from opdop.algorithms.counted_learner import CountedLearner
from opdop.algorithms.counts import Counts
from opdop.algorithms.radius_rules import BallRadius
from opdop.algorithms.saved_state import fitting, fitting_policy, prefixed, restore_counts
from opdop.algorithms.sizes import as_task, check_room, required_proposal
from opdop.algorithms.task import Task, by_action
from opdop.confidence import Observations
from opdop.kernels import fixed_policy_loop, loops
from opdop.model import Episode, InvalidParameterError, OpdopError, TabularPolicy
from opdop.model.validation import Floats, as_number

GROWTH = 0.02
EVERY_EPISODE = 1e-9  # a growth with which a plan is made before every episode


@dataclass(frozen=True, eq=False)
class Plan:
    """What a planner decides: one Markov policy, what it expects of it, and its multipliers."""

    policy: TabularPolicy
    estimates: Floats  # [1+I]
    dual: Floats  # [I]


class Planner(Protocol):
    """Makes a plan from data."""

    def plan(self, data: Observations) -> Plan:
        """Return the plan for the next episodes, from the data so far."""
        ...

    def described(self) -> dict[str, Any]:
        """Return the planner's name and numbers as plain data."""
        ...


class ReplanningLearner(CountedLearner):
    """Plans, plays the plan until there are `growth` times more episodes, and plans again.

    Args:
        task: what the learner is told.
        planner: makes a plan from the data.
        growth: by which share the episodes grow between two plans.
        constants: plain data to be stored with the run, beside those of the task and the planner.

    Raises InvalidParameterError if the task has continuous states, or if growth is not positive.
    """

    def __init__(
        self, task: Task, planner: Planner, *, growth: float = GROWTH, constants: Mapping[str, Any] | None = None
    ) -> None:
        self.task, self.planner = as_task(task), planner
        if task.is_continuous:
            raise InvalidParameterError("a planner needs finitely many states, and those of this task are continuous.")
        self.growth = as_number("growth", growth, "a positive number")
        if self.growth <= 0.0:
            raise InvalidParameterError(f"growth is {self.growth}; expected a positive number.")
        check_room(task, 4.0, "the plan")
        self.counts = Counts(task, radius=BallRadius(0.0))  # it only counts: a planner makes its own confidence sets
        self.constants = {
            "preset": "none",
            **task.plan(),
            **(constants or {}),
            "growth": self.growth,
            **planner.described(),
        }
        self.episodes = 0
        self.plans = 0
        self._next = 0  # the episode before which the next plan is made
        uniform = TabularPolicy.uniform(task.horizon, task.num_states, task.num_actions)
        self._plan = Plan(uniform, np.zeros(1 + task.num_constraints), np.zeros(task.num_constraints))
        self._is_proposed = False

    def propose(self) -> TabularPolicy:
        """Return the policy of the current plan."""
        self._plan_if_due()
        self._is_proposed = True
        return self._plan.policy

    def learn(self, episode: Episode) -> None:
        """Count the episode played with the policy proposed last.

        Raises OpdopError if no policy was proposed, and InvalidModelError if the episode does not fit the task.
        """
        required_proposal(self._is_proposed)
        self.counts.observe(episode)
        self._is_proposed = False
        self.episodes += 1

    @property
    def policy(self) -> Floats:
        """The policy of the last episode, [H, S, A]."""
        return self._plan.policy.table

    def diagnostics(self) -> dict[str, float]:
        """Return the estimates and the multipliers of the last plan."""
        plan = self._plan
        numbers = {"episodes": float(self.episodes), "estimated_reward": float(plan.estimates[0])}
        for i in range(self.task.num_constraints):
            numbers[f"estimated_utility_{i}"] = float(plan.estimates[1 + i])
            numbers[f"dual_{i}"] = float(plan.dual[i])
        return {**numbers, "plans": float(self.plans)}

    def _plan_if_due(self) -> None:
        if self.episodes >= self._next:
            self._plan = self.planner.plan(self.counts.observations())
            self.plans += 1
            self._next = max(self.episodes + 1, math.ceil(self.episodes * (1.0 + self.growth)))

    def state(self) -> dict[str, NDArray[Any]]:
        """Return everything that later proposals depend on."""
        own = {
            "episodes": np.array(self.episodes),
            "plans": np.array(self.plans),
            "next": np.array(self._next),
            "policy": self._plan.policy.table.copy(),
            "estimates": self._plan.estimates.copy(),
            "dual": self._plan.dual.copy(),
        }
        return own | prefixed("counts.", self.counts.state())

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Return to a saved state; raises OpdopError if it does not fit."""
        table = fitting_policy(state, self.policy)
        estimates, dual = (fitting(state, name, getattr(self._plan, name)) for name in ("estimates", "dual"))
        episodes, plans, due = (int(fitting(state, name, np.array(0))) for name in ("episodes", "plans", "next"))
        if not 0 <= plans <= episodes + 1 or not 0 <= episodes <= due or (episodes and not plans):
            raise OpdopError(f"the saved learner has {plans} plans for {episodes} episodes, and the next before {due}.")
        restore_counts(self.counts, state, episodes)
        self.episodes, self.plans, self._next = episodes, plans, due
        self._plan = Plan(TabularPolicy.trusted(table.copy()), estimates.copy(), dual.copy())
        self._is_proposed = False

    def _run(self, model: loops.Model, uniforms: Floats, record: loops.Record) -> int:
        done = 0
        while done < len(uniforms):
            self._plan_if_due()
            last = min(done + self._next - self.episodes, len(uniforms))
            done += self._play(model, uniforms[done:last], _rest(record, done))
        self._is_proposed = False
        return done

    def _play(self, model: loops.Model, uniforms: Floats, record: loops.Record) -> int:
        """Play the plan; it stops early when the counts must make room."""
        counts, plan = self.counted(), self._plan
        table = np.ascontiguousarray(plan.policy.table)
        totals, masses = np.full((1, len(plan.estimates)), np.nan), np.zeros(table.shape)
        policy = by_action(table)
        if record.measure_every:
            loops.measure(model, policy[None], 1.0, masses, totals)
        played = fixed_policy_loop.run_policy(
            policy, counts, model, uniforms, totals[0], masses, plan.estimates, plan.dual, record
        )
        self.episodes += int(played)
        return int(played)


def _rest(record: loops.Record, done: int) -> loops.Record:
    """Return the record of the episodes after the first `done`."""
    return record._replace(
        totals=record.totals[done:],
        estimates=record.estimates[done:],
        dual=record.dual[done:],
        first=record.first + done,
    )
