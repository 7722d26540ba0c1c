"""An environment of Gymnasium as a simulator: episodes of a fixed number of stages, with signals in [0, 1]."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from opdop.interop.gymnasium_costs import CostReader, SignalMaps, Transition
from opdop.model import Display, Episode, InvalidModelError, Policy, PolicyMixture, Space
from opdop.model.html_tables import html_table, problem_rows
from opdop.model.policy import draw_action
from opdop.model.validation import Floats, as_generator, call, restore_generator, shown

__all__ = ["GymnasiumSimulator", "Transition"]


class GymnasiumSimulator:
    """Plays episodes of an environment whose model is not known; `opdop.from_gymnasium` makes it.

    States are the numbered observations, and one more: an episode that terminates early spends its remaining stages in
    the state `absorbing`, without reward and cost. A learner is told so, hence these stages teach it nothing wrong. The
    horizon is the end of every other episode.

    Args:
        env: the environment.
        space: how observations and actions are numbered.
        horizon: the number of stages.
        costs: reads the costs of a step.
        maps: the maps of rewards and costs to [0, 1], with the thresholds.
        initial: the distribution of the first state over the observations, if it is known; None estimates it from
            `resets` resets, which `first_visits` counts. Certificates take these counts and not the estimate.
        display: the words and units.
        seed: of the environment and of the actions that are drawn.
        resets: the number of resets for that estimate.

    Raises InvalidParameterError if the seed is none, and InvalidModelError if the environment cannot be reset.

    `state` and `restore` keep the random streams of the actions and of the environment (`np_random`), so that a run
    can be resumed between episodes if the environment draws all its random numbers from there.
    """

    def __init__(
        self,
        env: Any,
        *,
        space: Space,
        horizon: int,
        costs: CostReader,
        maps: SignalMaps,
        initial: Floats | None,
        display: Display,
        seed: int,
        resets: int,
    ) -> None:
        self.env, self.space, self.horizon = env, space, horizon
        self.costs, self.maps, self.display = costs, maps, display
        self.num_states, self.num_actions = space.num_states + 1, space.num_actions
        self.absorbing: int | None = space.num_states
        self.rest: Floats | None = maps.rest
        self.thresholds, self.noisy = maps.thresholds, True
        self.stationary = True  # a step does not see the stage
        self.generator: np.random.Generator
        self.reseed(seed)
        self.first_visits: NDArray[np.int64] | None = None
        if initial is None:
            self.first_visits = self._first_visits(resets)
            self.initial: Floats = self.first_visits / resets
        else:
            self.initial = np.append(initial, 0.0)

    def _first_visits(self, resets: int) -> NDArray[np.int64]:
        """Return how often each state was the first after a number of resets, [S]."""
        visits = np.zeros(self.num_states, dtype=np.int64)
        for _ in range(resets):
            visits[self.space.state(self._reset())] += 1
        return visits

    def _reset(self) -> Any:
        observation, _ = call("reset() of the environment", self.env.reset)
        return observation

    def play(self, policy: Policy | PolicyMixture) -> Episode:
        """Play one episode with a policy on the numbered states, and return it.

        Raises InvalidModelError if a reward or a cost is outside its stated range, or if the environment truncates the
        episode before the horizon.
        """
        H, absorbing = self.horizon, self.num_states - 1
        acting: Policy = policy.sample(self.generator) if isinstance(policy, PolicyMixture) else policy
        states = np.full(H + 1, absorbing, dtype=np.int64)
        actions = np.zeros(H, dtype=np.int64)
        signals = np.repeat(self.maps.rest[:, None], H, axis=1)
        observation = self._reset()
        states[0] = self.space.state(observation)
        for h in range(H):
            actions[h] = draw_action(acting.probabilities(h, int(states[h])), self.generator)
            step, truncated, own = self._step(observation, self.space.action(int(actions[h])))
            values = np.concatenate([[step.reward], self.costs.read(step, own)])
            signals[:, h] = self.maps.signals(h, values)
            observation = step.next_observation
            if step.terminated:
                break
            states[h + 1] = self.space.state(observation)
            if truncated and h + 1 < H:
                raise InvalidModelError(
                    f"the environment truncated an episode after {h + 1} of {H} stages; expected a horizon of at most "
                    f"{h + 1}, or an environment that goes on."
                )
        return Episode(states, actions, signals)

    def _step(self, observation: Any, action: Any) -> tuple[Transition, bool, float | None]:
        """Return a step, whether it was truncated, and the cost if the environment returns six entries."""
        found = call("step() of the environment", self.env.step, action)
        own = None
        if isinstance(found, tuple) and len(found) == 6:
            after, reward, own, terminated, truncated, info = found
        elif isinstance(found, tuple) and len(found) == 5:
            after, reward, terminated, truncated, info = found
        else:
            raise InvalidModelError(f"step() has returned {shown(found)}; expected five entries, or six with a cost.")
        return Transition(observation, action, float(reward), after, bool(terminated), info), bool(truncated), own

    def reseed(self, seed: int) -> None:
        """Begin the random streams of the actions and of the environment that belong to a seed.

        Raises InvalidParameterError if it is no seed.
        """
        self.generator = as_generator(seed)
        self.env.reset(seed=int(self.generator.integers(2**31)))

    def state(self) -> dict[str, Any]:
        """Return the random streams as JSON data; call it between episodes."""
        return {
            "actions": dict(self.generator.bit_generator.state),
            "environment": dict(self.env.unwrapped.np_random.bit_generator.state),
        }

    def restore(self, state: Any) -> None:
        """Return to the random streams of a saved `state`; raises OpdopError if they are none."""
        restore_generator(self.generator, state["actions"])
        restore_generator(self.env.unwrapped.np_random, state["environment"])

    def _repr_html_(self) -> str:
        """Return the sizes, and each constraint in own units, as notebooks show it."""
        return html_table(repr(self), problem_rows(self.display, self.thresholds), self.display.summary)

    def __repr__(self) -> str:
        sizes = f"{self.num_states} states, {self.num_actions} actions, {self.horizon} stages"
        many = f"{len(self.thresholds)} constraint{'' if len(self.thresholds) == 1 else 's'}"
        return f"{type(self).__name__}({self.display.name!r}: {sizes}, {many})"
