"""Episodes, and simulators that play them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from opdop.kernels import dynamic_programming
from opdop.model.errors import InvalidModelError
from opdop.model.policy import Policy, PolicyMixture, TabularPolicy, as_policy
from opdop.model.validation import Floats

if TYPE_CHECKING:
    from opdop.model.cmdp import TabularCMDP
    from opdop.model.problem import Problem

Seed = int | np.random.SeedSequence | np.random.Generator | None


@dataclass(frozen=True, eq=False)
class Episode:
    """The states, actions and signals of one episode."""

    states: NDArray[Any]  # [H+1]; or [H+1, dim] where they are continuous
    actions: NDArray[np.int64]  # [H]
    signals: Floats  # [1+I, H], 0 the reward


class Simulator(Protocol):
    """Anything that plays one episode with a policy."""

    def play(self, policy: Policy) -> Episode:
        """Play one episode."""
        ...


@runtime_checkable
class KnownSimulator(Simulator, Protocol):
    """A simulator that says which problem it plays, so that policies can be measured exactly."""

    problem: Problem
    noisy: bool


class ModelSimulator:
    """Plays episodes in a known model; the same seed gives the same episodes.

    With `noisy` the observed signals are 0 or 1 with the model's means, otherwise the means themselves.
    Each episode takes `uniforms_per_episode` uniforms from one stream in a fixed order; the compiled loop takes them in
    the same order, and so plays the same episodes.
    """

    def __init__(self, cmdp: TabularCMDP, *, seed: Seed = 0, noisy: bool = False) -> None:
        self.cmdp = cmdp
        self.problem: Problem = cmdp
        self.noisy = noisy
        self.generator = np.random.default_rng(seed)
        self.uniforms_per_episode = int(
            dynamic_programming.count_uniforms(cmdp.horizon, 1 + cmdp.num_constraints, noisy)
        )

    def play(self, policy: Policy | PolicyMixture | Floats) -> Episode:
        """Play one episode; of a mixture, first draw the part that plays it."""
        cmdp = self.cmdp
        if isinstance(policy, PolicyMixture):
            policy = policy.parts[dynamic_programming.draw(policy.weights, self.generator.random())]
        table = self._table(policy)
        states = np.empty(cmdp.horizon + 1, dtype=np.int64)
        actions = np.empty(cmdp.horizon, dtype=np.int64)
        signals = np.empty((1 + cmdp.num_constraints, cmdp.horizon))
        uniforms = self.generator.random(self.uniforms_per_episode)
        dynamic_programming.play(
            cmdp.transitions, cmdp.signals, table, cmdp.initial, self.noisy, uniforms, states, actions, signals
        )
        return Episode(states, actions, signals)

    def _table(self, policy: Any) -> Floats:
        """Return any policy as a table [H, S, A]."""
        H, S, A = self.cmdp.horizon, self.cmdp.num_states, self.cmdp.num_actions
        if not isinstance(policy, TabularPolicy) and isinstance(policy, Policy):
            policy = [[policy.probabilities(h, x) for x in range(S)] for h in range(H)]
        table = as_policy(policy).table
        if table.shape != (H, S, A):
            raise InvalidModelError(f"policy has shape {list(table.shape)}; expected [H,S,A] = [{H},{S},{A}].")
        return table
