"""Record every number of 37 runs, or compare them bit for bit with a recording.

A refactoring must not change a result. Record with the code before it, compare with the code after it, on one machine:

    python -m studies.same_bits record FILE.npz
    python -m studies.same_bits compare FILE.npz
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np

import opdop

RUNS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    # name: problem, its parameters, the arguments of `opdop.train`
    "counts, practical": ("factored", {}, {"episodes": 3000}),
    "counts, certified": ("media-streaming", {}, {"episodes": 3000, "preset": "certified", "seed": 5}),
    "counts, paper": ("inventory", {}, {"episodes": 1000, "preset": "paper", "parameters": {"C1": 0.01}}),
    "counts, lists": ("random-tabular", {"states": 60}, {"episodes": 600}),
    "several constraints": ("queue", {}, {"episodes": 3000, "seed": 2}),
    "noisy, certified": ("hospital-beds", {}, {"episodes": 1500, "preset": "certified", "noisy": True}),
    "noisy, practical": ("random-tabular", {}, {"episodes": 2000, "noisy": True}),
    "own parameters": (
        "river-crossing",
        {},
        {"episodes": 2000, "parameters": {"radius_scale": 0.03, "step_scale": 30.0, "optimistic_init": 0.5}},
    ),
    "plan and gap": (
        "media-streaming",
        {"fast_services": 4},
        {"episodes": 1500, "planned_episodes": 4000, "slater_gap": 1.5, "failure_probability": 0.1},
    ),
    "dual bound, sampled measuring": ("gridworld", {}, {"episodes": 800, "dual_bound": 7.0, "measure_every": 7}),
    "oppo": ("gridworld", {"seed": 3}, {"episodes": 800, "algorithm": "oppo"}),
    "doubling": ("factored", {}, {"episodes": 5000, "algorithm": "doubling:opdop", "preset": "certified"}),
    "step by step": ("factored", {}, {"episodes": 800, "compiled": False, "seed": 9}),
    "lstd, mixture": ("random-mixture", {}, {"episodes": 2000, "algorithm": "opdop-lstd"}),
    "lstd, embedding": ("random-embedding", {}, {"episodes": 1000, "algorithm": "opdop-lstd", "preset": "certified"}),
    "lstd, one-hot": ("random-tabular", {}, {"episodes": 1500, "algorithm": "opdop-lstd", "seed": 4}),
    "lstd, doubling": ("random-mixture", {}, {"episodes": 1500, "algorithm": "doubling:opdop-lstd"}),
    "continuous": ("reservoir", {}, {"episodes": 60}),
    "continuous, evaluated rarely": (
        "reservoir",
        {},
        {"episodes": 150, "parameters": {"reevaluate_at_growth": 2.0}, "seed": 1},
    ),
    "opt-primal-dual": ("media-streaming", {}, {"episodes": 1000, "algorithm": "opt-primal-dual"}),
    "opt-primal-dual, paper": ("queue", {}, {"episodes": 500, "algorithm": "opt-primal-dual", "preset": "paper"}),
    "optpess-primal-dual": ("media-streaming", {}, {"episodes": 1000, "algorithm": "optpess-primal-dual"}),
    "regularised": ("queue", {}, {"episodes": 1000, "algorithm": "regularised-primal-dual", "measure_every": 3}),
    "dope": ("media-streaming", {}, {"episodes": 600, "algorithm": "dope"}),
    "optpess-lp": ("media-streaming", {}, {"episodes": 600, "algorithm": "optpess-lp"}),
    "triple-q": ("gridworld", {}, {"episodes": 2000, "algorithm": "triple-q"}),
    "linear primal-dual": ("random-embedding", {}, {"episodes": 1000, "algorithm": "linear-primal-dual"}),
    "linear primal-dual, one-hot": ("media-streaming", {}, {"episodes": 1000, "algorithm": "linear-primal-dual"}),
}
RESUMED = (
    "counts, certified",
    "several constraints",
    "doubling",
    "lstd, mixture",
    "continuous",
    "regularised",
    "dope",
    "triple-q",
    "linear primal-dual",
)


def made(name: str, train: Callable[..., Any] = opdop.train) -> dict[str, np.ndarray]:
    """Return the numbers of one run; that of a name ending in ", resumed" is interrupted by a checkpoint."""
    problem, parameters, arguments = RUNS[name.removesuffix(", resumed")]
    arguments = {**arguments, "records": 2 * arguments["episodes"]}  # every episode
    cmdp = opdop.make(problem, **parameters)
    if name.endswith(", resumed"):
        arguments = {"planned_episodes": arguments["episodes"], **arguments}
        with tempfile.TemporaryDirectory() as folder:
            train(cmdp, **{**arguments, "episodes": arguments["episodes"] // 3}, checkpoint=folder)
            run = train(cmdp, **arguments, checkpoint=folder)
    else:
        run = train(cmdp, **arguments)
    table = run.history.to_numpy()
    return {
        "history": table,
        "policy": run.policy.table,
        "average policy": run.mixture.table,
        "optimum": np.append(run.optimum.value, run.optimum.dual),
    }


def numbers(train: Callable[..., Any] = opdop.train) -> dict[str, np.ndarray]:
    """Return the numbers of all runs by name."""
    names = [*RUNS, *(f"{name}, resumed" for name in RESUMED)]
    return {f"{name} / {what}": array for name in names for what, array in made(name, train).items()}


def main(arguments: list[str]) -> int:
    """Record or compare; return 1 if a bit differs."""
    if len(arguments) != 2 or arguments[0] not in ("record", "compare"):
        print(__doc__)
        return 2
    ours = numbers()
    if arguments[0] == "record":
        np.savez(arguments[1], **ours)
        print(f"recorded {len(ours)} arrays of {len(RUNS) + len(RESUMED)} runs")
        return 0
    with np.load(arguments[1], allow_pickle=False) as file:
        theirs = dict(file)
    for name in ours.keys() & theirs.keys():
        if name.endswith("/ history"):
            ours[name], theirs[name] = _of_common_episodes(ours[name], theirs[name])
    different = [name for name in {**ours, **theirs} if not _same(ours.get(name), theirs.get(name))]
    values = sum(array.size for array in ours.values())
    for name in different:
        print(f"differs: {name}")
    print(f"{len(ours)} arrays of {len(RUNS) + len(RESUMED)} runs, {values:,} numbers: {len(different)} arrays differ")
    return 1 if different else 0


def _of_common_episodes(ours: np.ndarray, theirs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of the episodes that both histories keep: a run far shorter than its plan keeps only some."""
    kept = np.intersect1d(ours[:, 0], theirs[:, 0])
    return ours[np.isin(ours[:, 0], kept)], theirs[np.isin(theirs[:, 0], kept)]


def _same(ours: np.ndarray | None, theirs: np.ndarray | None) -> bool:
    if ours is None or theirs is None:
        return False
    return ours.shape == theirs.shape and ours.dtype == theirs.dtype and ours.tobytes() == theirs.tobytes()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
