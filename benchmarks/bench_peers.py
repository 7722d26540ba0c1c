"""Episodes per second of the algorithms of other papers, against their public implementations where there are any."""

from __future__ import annotations

import time

import numpy as np
from scipy import sparse

from benchmarks.bench_learn import dense_model
from opdop.model import LinearCMDP, TabularCMDP
from opdop.model.features import embedding
from opdop.runs import train

# Algorithm, presets, sizes S A H, episodes; the public implementation's episodes per second at these sizes, as measured
# on such a machine (issue 17), or None.
CASES = (
    ("opdop", ("practical",), (30, 3, 10), 20_000, None),
    ("opt-primal-dual", ("paper", "practical"), (30, 3, 10), 20_000, 2_800.0),
    ("optpess-primal-dual", ("paper", "practical"), (30, 3, 10), 20_000, None),
    ("regularised-primal-dual", ("paper", "practical"), (30, 3, 10), 20_000, None),
    ("dope", ("paper", "practical"), (10, 2, 10), 2_000, 7.0),
    ("optpess-lp", ("paper", "practical"), (10, 2, 10), 2_000, None),
    ("posterior", ("paper", "practical"), (10, 2, 10), 2_000, None),
)
AIM = 50.0  # times the public implementation
FEW = 20  # episodes of a run that is nearly set-up only


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


# With what the public code does besides learning while it is timed, and so which of our two speeds compares with it.
MODEL_FREE = (
    ("triple-q", "S324 A4 H25", grid(), 100_000, 480.0, "plays one test episode: compare learning only"),
    ("linear-primal-dual", "S100 A3 H4 d5", linear(), 40_000, 680.0, "evaluates every policy: compare all measured"),
)


def episodes_per_second(
    cmdp: TabularCMDP, algorithm: str, episodes: int, preset: str = "practical", measure_every: int = 1
) -> tuple[float, float]:
    """Return the episodes per second of the fastest of five new runs, by processor time and by the clock.

    Both are of the episodes alone; processor time is what a run takes beyond one of `FEW` episodes. By the clock there
    are fewer than a free core would give where other jobs have their share of it.
    """
    options = {"preset": preset, "records": 10, "measure_every": measure_every}
    train(cmdp, algorithm, episodes=FEW, **options)  # compile
    set_up, busy, passed = [], [], []
    for _ in range(5):
        began = time.process_time()
        train(cmdp, algorithm, episodes=FEW, **options)
        between = time.process_time()
        passed.append(train(cmdp, algorithm, episodes=episodes, **options).seconds)
        set_up.append(between - began)
        busy.append(time.process_time() - between)
    return (episodes - FEW) / (min(busy) - min(set_up)), episodes / min(passed)


def compared(rates: tuple[float, float], public: float | None) -> str:
    """Return both rates in words, and how many times the public implementation's they are."""
    busy, passed = rates
    words = f"{busy:9,.0f} episodes/s of processor time, {passed:9,.0f} by the clock"
    if public is not None:
        words += f"; public {public:,.0f}: {busy / public:6.1f} and {passed / public:6.1f} times (aim: {AIM:g})"
    return words


def main() -> None:
    """Print the episodes per second of each algorithm, every episode measured exactly, on one core."""
    print("new runs, every episode measured exactly, one core")
    print("`paper` of dope and optpess-lp plans before every episode, that of posterior when the episodes have doubled")
    for name, presets, (S, A, H), episodes, public in CASES:
        cmdp = dense_model(S, A, H)
        for preset in presets:
            rates = episodes_per_second(cmdp, name, episodes, preset)
            print(f"  {name:24} {preset:10} S{S} A{A} H{H}: {compared(rates, public)}", flush=True)
    print("model-free and linear, practical: learning only (one policy in 1,000 measured), and with all measured")
    for name, sizes, cmdp, episodes, public, meanwhile in MODEL_FREE:
        print(f"  {name} {sizes}; the public code {meanwhile}")
        for what, every, count in (("learning only", 1000, episodes), ("all measured", 1, episodes // 4)):
            rates = episodes_per_second(cmdp, name, count, measure_every=every)
            print(f"    {what:14} {compared(rates, public)}", flush=True)


if __name__ == "__main__":
    main()
