"""What is worth knowing of a simulator before it is learnt: what random actions see, earn and cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opdop.model import DescribedSimulator, Quantity, ReseedableSimulator, TabularPolicy
from opdop.model.rounding import digits_for, plain, short_number
from opdop.model.validation import Floats, call
from opdop.report.summary.model_check import recommended_episodes

EPISODES = 200
_Z = 1.96  # of a 95 % interval of a mean


@dataclass(frozen=True, eq=False)
class SimulatorCheck:
    """Episodes of a simulator that was played with random actions, each as likely as the others."""

    simulator: DescribedSimulator
    states: int  # different ones that were seen, without the end of an episode
    early: int  # episodes that ended before the horizon
    signals: Floats  # [episodes, 1+I, H]
    played: NDArray[np.bool_]  # [episodes, H], whether the episode had not ended

    @property
    def totals(self) -> Floats:
        """The total of each signal in each episode, in own units, [episodes, 1+I]."""
        sums = self.signals.sum(axis=-1)
        return np.stack([q.offset + q.scale * sums[:, j] for j, q in enumerate(self._quantities)], axis=1)

    @property
    def episodes(self) -> int:
        """The recommended number of episodes, as for a model in which the states that were seen can be reached."""
        return recommended_episodes(self.states, self.simulator.num_actions)

    @property
    def _quantities(self) -> tuple[Quantity, ...]:
        return self.simulator.display.quantities

    def _range(self, j: int) -> tuple[float, float]:
        """Return the smallest and the largest value of a signal in one step, in own units."""
        quantity, H = self._quantities[j], self.simulator.horizon
        own = quantity.offset / H + quantity.scale * self.signals[:, j][self.played]
        return float(own.min()), float(own.max())

    def lines(self) -> list[tuple[str, str]]:
        """Return the findings in words, each with a label."""
        n, H = len(self.signals), self.simulator.horizon
        lines = [
            ("played", f"{n} episodes with random actions; no reward and no cost was out of its stated range"),
            ("states", f"{self.states:,} seen, of {self._observable:,} that are stated"),
            ("length", f"{self.early} of {n} episodes ended before stage {H}, the horizon"),
        ]
        means, halves = self.totals.mean(axis=0), _Z * self.totals.std(axis=0, ddof=1) / np.sqrt(n)
        for j, quantity in enumerate(self._quantities):
            low, high = self._range(j)
            found = f"{_plus_minus(means[j], halves[j])} {quantity.unit}".rstrip()
            label, words = quantity.name, f"random actions have {found} per episode"
            if j:
                threshold = float(self.simulator.thresholds[j - 1])
                label, limit = quantity.constraint(threshold), quantity.shown(threshold)
                slack = (limit - means[j]) if quantity.scale < 0.0 else (means[j] - limit)
                words += ", which keeps the constraint" if slack >= 0.0 else ", which violates the constraint"
            lines.append((label, f"{words}; {short_number(low)} to {short_number(high)} in a step"))
        lines.append(("not known", "the Slater gap, the optimum, and what a constraint costs: these need a model"))
        lines.append(("recommended", f"--algorithm opdop --episodes {self.episodes}"))
        return lines

    @property
    def _observable(self) -> int:
        return self.simulator.num_states - (self.simulator.absorbing is not None)

    def record(self) -> dict[str, Any]:
        """Return the findings as plain data for JSON."""
        means = self.totals.mean(axis=0)
        return {
            "format": "opdop.simulator_check/1",
            "played": len(self.signals),
            "states": self.states,
            "ended_early": self.early,
            "random_actions": {
                quantity.name: {"mean": float(means[j]), "unit": quantity.unit, "step_range": list(self._range(j))}
                for j, quantity in enumerate(self._quantities)
            },
            "algorithm": "opdop",
            "episodes": self.episodes,
        }


def check_simulator(simulator: DescribedSimulator, *, episodes: int = EPISODES, seed: int = 0) -> SimulatorCheck:
    """Play episodes with random actions; raises what `train` would raise if the simulator breaks what it states."""
    if isinstance(simulator, ReseedableSimulator):
        call("reseed() of the simulator", simulator.reseed, seed)
    H, S, A = simulator.horizon, simulator.num_states, simulator.num_actions
    policy, end = TabularPolicy.uniform(H, S, A), simulator.absorbing
    played = [simulator.play(policy) for _ in range(episodes)]
    states = np.array([episode.states for episode in played])
    goes_on = np.ones((episodes, H), dtype=bool) if end is None else states[:, :-1] != end
    seen = np.unique(states[:, :-1][goes_on])
    early = int((~goes_on).any(axis=1).sum())
    return SimulatorCheck(simulator, len(seen), early, np.array([episode.signals for episode in played]), goes_on)


def _plus_minus(mean: float, half: float) -> str:
    digits = digits_for(half)
    return f"{plain(mean, digits)} ± {plain(half, digits)}"
