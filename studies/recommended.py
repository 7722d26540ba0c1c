"""What the plan of `opdop check` reaches: `python -m studies.recommended [RANDOM_PROBLEMS]`.

Every shipped problem, and RANDOM_PROBLEMS random ones of several sizes, is learnt once with the algorithm and the
number of episodes that `opdop check` recommends, and the preset `practical`. The table has how far the average and the
final policy are from the optimum, and by how much they violate a constraint, in percent of the most that an episode can
have.
It ends with status 1 if an average policy is further off than the accuracy that `opdop check` states.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

import opdop
from opdop.report.summary.model_check import ACCURACY, check_model
from studies.common import numbers_from

SIZES = ((5, 3, 4), (10, 2, 6), (8, 4, 10), (20, 3, 5))  # states, actions, stages of random problems


def problems(random: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and the parameters of each problem."""
    for name in opdop.environments():
        yield name, {}
    for seed in range(1, random + 1):
        states, actions, stages = SIZES[seed % len(SIZES)]
        yield "random-tabular", {"states": states, "actions": actions, "stages": stages, "seed": seed}


def shares(run: opdop.Run, values: Any) -> tuple[float, float]:
    """Return the lost reward and the largest violation of a policy with these values, each as a share of H.

    Signals are in [0, 1], so an episode of H stages has at most H of each.
    """
    assert run.optimum is not None
    horizon = run.policy.table.shape[0]
    lost = max(run.optimum.value - values.reward, 0.0) / horizon
    return lost, float(np.max(np.maximum(run.thresholds - values.utilities, 0.0))) / horizon


def main() -> None:
    """Print the table, one row as soon as it is known."""
    (random,) = numbers_from(sys.argv[1:], [12])
    print("| problem | algorithm | episodes | average: lost | violated | final: lost | violated |")
    print("|---|---|--:|--:|--:|--:|--:|")
    worst = 0.0
    for name, parameters in problems(random):
        problem = opdop.make(name, **parameters)
        plan = check_model(problem)
        run = opdop.train(problem, plan.algorithm, episodes=plan.episodes, seed=0, records=2, progress=False)
        average, final = shares(run, run.average), shares(run, opdop.evaluate(problem, run.policy))
        worst = max(worst, *average)
        listed = " ".join(str(value) for value in parameters.values())
        words = [f"{100 * share:.2f} %" for share in (*average, *final)]
        print(
            f"| {f'{name} {listed}'.strip()} | {plan.algorithm} | {plan.episodes} | {' | '.join(words)} |", flush=True
        )
    print(f"\nThe average policies lose or violate at most {100 * worst:.2f} %; stated: {100 * ACCURACY:g} %.")
    if worst > ACCURACY:
        sys.exit("the recommended number of episodes is too small")


if __name__ == "__main__":
    main()
