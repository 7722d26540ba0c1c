"""Episodes per second of the peers in the compiled loop, against their public implementations."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import sparse

from opdop.model import LinearCMDP, TabularCMDP
from opdop.model.features import embedding
from opdop.runs import train

# Episodes per second of public implementations, measured on a machine with two cores as in issue 17.
PUBLIC = {"triple-q": 480, "linear-primal-dual": 680}
AIM = 50


def grid(side: int = 18, horizon: int = 25) -> TabularCMDP:
    """Return a grid world with four moves: the reward grows towards a corner, and two cells in five are costly."""
    S, A, rng = side * side, 4, np.random.default_rng(0)
    row, column = np.divmod(np.arange(S), side)
    following = np.empty((S, A), dtype=np.int64)
    for a, (down, right) in enumerate(((-1, 0), (1, 0), (0, -1), (0, 1))):
        there = np.clip(row + down, 0, side - 1) * side + np.clip(column + right, 0, side - 1)
        following[:, a] = there
    kernel = sparse.csr_array((np.ones(S * A), following.ravel(), np.arange(S * A + 1)), shape=(S * A, S))
    near = 1.0 - np.hypot(row, column) / (side * np.sqrt(2.0))
    safe = (rng.random(S) > 0.4).astype(float)
    return TabularCMDP(kernel, near[following], safe[following], 0.7 * horizon, initial=S - 1, horizon=horizon)


def linear(states: int = 100, actions: int = 3, horizon: int = 4, dimension: int = 5) -> LinearCMDP:
    """Return a linear MDP whose kernel and signals are linear in the same features."""
    rng = np.random.default_rng(0)
    phi = rng.dirichlet(np.full(dimension, 0.3), size=(states, actions))
    mu = rng.dirichlet(np.full(states, 0.1), size=dimension).T
    theta = np.tile(np.eye(dimension).ravel(), (horizon, 1))
    reward, utility = rng.random((2, horizon, dimension))
    return LinearCMDP(embedding(phi, mu, phi), theta, reward, utility, 0.4 * horizon)


MODELS: dict[str, tuple[str, Callable[[], TabularCMDP], int]] = {
    "triple-q": ("S324 A4 H25", grid, 100_000),
    "linear-primal-dual": ("S100 A3 H4 d5", linear, 40_000),
}


def episodes_per_second(cmdp: TabularCMDP, algorithm: str, episodes: int, measure_every: int) -> float:
    """Return the speed of the fastest of three new runs."""
    options = {"records": 10, "measure_every": measure_every}
    train(cmdp, algorithm, episodes=20, **options)  # compile
    return episodes / min(train(cmdp, algorithm, episodes=episodes, **options).seconds for _ in range(3))


def main() -> None:
    for name, (sizes, make, episodes) in MODELS.items():
        cmdp = make()
        learning = episodes_per_second(cmdp, name, episodes, measure_every=1000)
        measuring = episodes_per_second(cmdp, name, episodes // 4, measure_every=1)
        ratios = f"{learning / PUBLIC[name]:.0f} and {measuring / PUBLIC[name]:.0f} times the public {PUBLIC[name]:,}"
        print(
            f"  {name} {sizes}: {learning:9,.0f} episodes/s learning, {measuring:9,.0f} with every policy measured: "
            f"{ratios} (aim: learning at least {AIM} times)"
        )


if __name__ == "__main__":
    main()
