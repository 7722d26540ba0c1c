"""Runs of a simulator whose model is not known: what the learner is told, and a bound on multipliers that grows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opdop.algorithms import Doubling, Preset, Task, find
from opdop.algorithms.saved_state import fitting, prefixed, under
from opdop.algorithms.task import Observing
from opdop.confidence.data import Data
from opdop.model import DescribedSimulator, Display, Episode, InvalidParameterError, OpdopError, Simulator
from opdop.runs.config import RunConfig

FIRST_BOUND = 2.0  # of the multipliers: 2H / gap for a Slater gap of H, the largest there can be
PATIENCE = 20  # episodes at the bound before it doubles for the first time
_LARGEST_BOUND = 1e12


def task_of(config: RunConfig, simulator: Simulator, task: Task | None, before: int) -> Task:
    """Return what a learner is told of a simulator: a given task completed by the configuration, or one made from both.

    A setting that only one of them states applies. Raises InvalidParameterError if both state it differently, or if
    neither the task nor the simulator says what there is to learn.
    """
    planned = config.planned_episodes or before + config.episodes
    if task is None:
        if not isinstance(simulator, DescribedSimulator):
            raise InvalidParameterError(
                f"{type(simulator).__name__} is a simulator whose model is not known: describe it with "
                "task=opdop.Task(horizon, num_states, num_actions, thresholds, initial, episodes, ...)."
            )
        told = simulator.stationary if config.stationary is None else config.stationary
        return Task(
            simulator.horizon,
            simulator.num_states,
            simulator.num_actions,
            simulator.thresholds,
            simulator.initial,
            planned,
            failure_probability=config.failure_probability,
            slater_gap=config.slater_gap,
            noisy=config.noisy or simulator.noisy,
            stationary=told,
            stationary_signals=told,
            absorbing=simulator.absorbing,
            rest=simulator.rest,
            first_visits=getattr(simulator, "first_visits", None),
        )
    usual = RunConfig()
    changes: dict[str, Any] = {}
    for name in ("slater_gap", "failure_probability", "noisy"):
        ours, theirs, default = getattr(config, name), getattr(task, name), getattr(usual, name)
        if ours in (default, theirs):
            continue
        if theirs != default and name != "noisy":
            raise InvalidParameterError(f"{name} is {ours}, and the task's is {theirs}; expected it in one place.")
        changes[name] = ours
    if config.stationary not in (None, task.stationary):
        raise InvalidParameterError(
            f"stationary is {config.stationary}, and the task's is {task.stationary}; expected the same."
        )
    if config.planned_episodes not in (None, task.episodes):
        raise InvalidParameterError(
            f"planned_episodes is {config.planned_episodes}, and the task plans {task.episodes}; expected the same."
        )
    if config.planned_episodes is None and not before and config.episodes > task.episodes:
        raise InvalidParameterError(
            f"episodes is {config.episodes}, but the task plans {task.episodes}, on which its constants depend. Plan "
            f"as many, or say planned_episodes={task.episodes} to go beyond the plan."
        )
    return replace(task, **changes) if changes else task


def display_of(simulator: Simulator, task: Task) -> Display:
    """Return the words and units of a simulator, if it has any that fit its task."""
    display = getattr(simulator, "display", None)
    if isinstance(display, Display) and len(display.quantities) == 1 + task.num_constraints:
        return display
    return Display.plain(task.num_constraints)


class StandIn:
    """Plays episodes that never leave the likeliest first state, for loading the kernels that a simulator needs."""

    def __init__(self, simulator: DescribedSimulator) -> None:
        self.horizon, self.num_states, self.num_actions = (
            simulator.horizon,
            simulator.num_states,
            simulator.num_actions,
        )
        self.thresholds, self.initial, self.display = simulator.thresholds, simulator.initial, simulator.display
        self.noisy, self.stationary = simulator.noisy, simulator.stationary
        self.absorbing, self.rest = simulator.absorbing, simulator.rest

    def play(self, policy: Any) -> Episode:
        """Return an episode in one state, with one action and no signals; the policy is not used."""
        states = np.full(self.horizon + 1, int(np.argmax(self.initial)))
        signals = np.zeros((1 + len(self.thresholds), self.horizon))
        return Episode(states, np.zeros(self.horizon, dtype=np.int64), signals)


def build_growing(name: str, task: Task, preset: Preset) -> Any:
    """Return the learner of an algorithm with a growing bound on its multipliers, if it has multipliers."""
    learner = find(name).build(task, replace(preset, dual_bound=FIRST_BOUND))
    if isinstance(learner, Doubling):
        return Doubling(task, lambda phase: _growing(learner.build(phase), preset.name), first=learner.first)
    return _growing(learner, preset.name)


def _growing(learner: Any, preset: str) -> Any:
    has_bound = isinstance(getattr(learner, "dual", None), np.ndarray) and getattr(learner, "dual_bound", 0.0) > 0.0
    if has_bound and preset == "certified":
        raise InvalidParameterError(
            "the guarantee of preset 'certified' needs a lower bound on the Slater gap, and the model is not known; "
            "give slater_gap=, or --slater-gap on the command line. Other presets begin with a small bound on the "
            "multipliers, which grows."
        )
    return GrowingBound(learner) if has_bound else learner


class GrowingBound:
    """A learner whose bound on the multipliers grows, for an unknown Slater gap.

    The bound begins at 2, which is right if some policy has the largest slack there can be, H. When a multiplier has
    been at the bound for 20 episodes in a row, the bound doubles; then after 40, after 80, and so on. A feasible
    problem ends with a bound of at most twice what its multipliers need, and an infeasible one lets it grow in
    proportion to the episodes.
    """

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.waited, self.patience = 0, PATIENCE

    @property
    def task(self) -> Any:
        """The task of the learner."""
        return self.inner.task

    @property
    def episodes(self) -> int:
        """Episodes learnt from."""
        return int(self.inner.episodes)

    @property
    def constants(self) -> dict[str, Any]:
        """The constants of the learner, with the bound as it is now."""
        return {**self.inner.constants, "dual_bound": float(self.inner.dual_bound), "dual_bound_grows": True}

    @property
    def policy(self) -> Any:
        """The policy of the last episode, [H, S, A]."""
        return self.inner.policy

    def propose(self) -> Any:
        """Return the policy for the next episode."""
        return self.inner.propose()

    def learn(self, episode: Episode) -> None:
        """Learn from an episode; then double the bound if a multiplier has been at it for long."""
        self.inner.learn(episode)
        at_bound = bool((self.inner.dual >= self.inner.dual_bound).any())
        self.waited = self.waited + 1 if at_bound else 0
        if self.waited >= self.patience and self.inner.dual_bound < _LARGEST_BOUND:
            self.inner.dual_bound *= 2.0
            self.waited, self.patience = 0, 2 * self.patience

    def observations(self) -> Data | None:
        """Return the data that the learner keeps; None if it keeps none."""
        return self.inner.observations() if isinstance(self.inner, Observing) else None

    def diagnostics(self) -> dict[str, float]:
        """Return the learner's numbers and the bound."""
        return {**self.inner.diagnostics(), "dual_bound": float(self.inner.dual_bound)}

    def state(self) -> dict[str, NDArray[Any]]:
        """Return everything that later proposals depend on."""
        own = {
            "waited": np.array(self.waited),
            "patience": np.array(self.patience),
            "bound": np.array(float(self.inner.dual_bound)),
        }
        return own | prefixed("inner.", self.inner.state())

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Return to a saved state; raises OpdopError if it does not fit."""
        waited, patience = (int(fitting(state, name, np.array(0))) for name in ("waited", "patience"))
        bound = float(fitting(state, "bound", np.array(0.0)))
        if not (0 <= waited < patience and FIRST_BOUND <= bound <= 2.0 * _LARGEST_BOUND):
            raise OpdopError(f"the saved bound of the multipliers is {bound}, after {waited} of {patience} episodes.")
        self.inner.dual_bound = bound
        self.inner.restore(under(state, "inner."))
        self.waited, self.patience = waited, patience
