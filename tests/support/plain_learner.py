"""The paper's Algorithms 1 and 3 in plain Python: slow, from a list of episodes, sharing no code with the package.

Line numbers are the paper's. Nothing here is incremental: every estimate is made anew from all episodes so far.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

from opdop import Episode
from tests.support.strategies import Array


def random_episodes(
    seed: int, count: int, sizes: tuple[int, int, int, int], steps: int = 0, spread: float = 1.0
) -> list[Episode]:
    """Return episodes without any model behind them; sizes H, S, A and I.

    Signals are uniform, or multiples of 1/steps. States are drawn from the first share `spread` of all.
    """
    rng = np.random.default_rng(seed)
    H, S, A, I = sizes
    states = max(1, math.ceil(S * spread))
    episodes = []
    for _ in range(count):
        signals = rng.integers(0, steps + 1, (1 + I, H)) / steps if steps else rng.random((1 + I, H))
        episodes.append(Episode(rng.integers(0, states, H + 1), rng.integers(0, A, H), signals))
    return episodes


def estimate(
    episodes: Sequence[Episode],
    policy: Array,
    radii: Sequence[float],
    ridge: float,
    signals: int,
    optimistic_init: float = 0.0,
) -> tuple[Array, Array]:
    """Algorithm 3: return q [J, H, S, A] and v [J, H+1, S] of a policy [H, S, A].

    A pair that was never visited is worth at least the share `optimistic_init` of the most, H - h; the paper has none.
    """
    H, S, A = policy.shape
    n: Counter[tuple[int, int, int]] = Counter()
    n_next: defaultdict[tuple[int, int, int], Counter[int]] = defaultdict(Counter)
    observed: defaultdict[tuple[int, int, int, int], list[float]] = defaultdict(list)
    for episode in episodes:
        for h in range(H):
            x, a, y = int(episode.states[h]), int(episode.actions[h]), int(episode.states[h + 1])
            n[h, x, a] += 1
            n_next[h, x, a][y] += 1
            for j in range(signals):
                observed[j, h, x, a].append(float(episode.signals[j, h]))
    q, v = np.zeros((signals, H, S, A)), np.zeros((signals, H + 1, S))
    for h in reversed(range(H)):  # line 3
        for j in range(signals):
            for x in range(S):
                for a in range(A):
                    whole = n[h, x, a] + ridge
                    mean = math.fsum(observed[j, h, x, a]) / whole  # line 5
                    ahead = math.fsum(count / whole * v[j, h + 1, y] for y, count in n_next[h, x, a].items())
                    bonus = radii[h] / math.sqrt(whole)  # line 6
                    least = 0.0 if n[h, x, a] else optimistic_init * (H - h)
                    q[j, h, x, a] = min(max(mean + ahead + 2.0 * bonus, least), H - h)  # line 7; h from 0
                v[j, h, x] = math.fsum(q[j, h, x, a] * policy[h, x, a] for a in range(A))  # line 8
    return q, v


class PlainOPDOP:
    """Algorithm 1 with Algorithm 3, one episode at a time."""

    def __init__(
        self,
        sizes: tuple[int, int, int, int],
        thresholds: Sequence[float],
        initial: Sequence[float],
        *,
        alpha: float,
        eta: float,
        theta: float,
        chi: float,
        radii: Sequence[float],
        ridge: float,
    ) -> None:
        H, S, A, I = sizes
        self.thresholds, self.initial, self.radii, self.ridge = thresholds, initial, radii, ridge
        self.alpha, self.eta, self.theta, self.chi = alpha, eta, theta, chi
        self.policy = np.full((H, S, A), 1.0 / A)  # line 1
        self.q = np.zeros((1 + I, H, S, A))
        self.dual = [0.0] * I
        self.utility = list(thresholds)
        self.episodes: list[Episode] = []

    def propose(self) -> Array:
        """Lines 4 to 6."""
        H, S, A = self.policy.shape
        policy = np.zeros((H, S, A))
        for h in range(H):
            for x in range(S):
                weights = []
                for a in range(A):
                    mixed = (1.0 - self.theta) * self.policy[h, x, a] + self.theta / A
                    score = self.q[0, h, x, a]
                    for i, y in enumerate(self.dual):
                        score += y * self.q[1 + i, h, x, a]
                    weights.append(mixed * math.exp(self.alpha * score))
                policy[h, x] = [weight / math.fsum(weights) for weight in weights]
        self.policy = policy
        return policy

    def learn(self, episode: Episode) -> None:
        """Lines 9 and 10, then the data grow."""
        for i, b in enumerate(self.thresholds):
            self.dual[i] = min(max(self.dual[i] + self.eta * (b - self.utility[i]), 0.0), self.chi)
        self.q, v = estimate(self.episodes, self.policy, self.radii, self.ridge, len(self.q))
        self.utility = [
            math.fsum(rho * value for rho, value in zip(self.initial, v[1 + i, 0], strict=True))
            for i in range(len(self.dual))
        ]
        self.episodes.append(episode)
