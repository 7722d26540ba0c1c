"""Compare the quadrature rules with which a learner on continuous states integrates: `python -m studies.quadrature`.

For each rule, prints the largest error of an integral of V after some episodes, measured against 1,024 cells, and the
smallest bonus of the kernel; then regret and violation per episode, in the problem's own units.
"""

from __future__ import annotations

import math

import numpy as np
from rich.progress import Progress

import opdop
from opdop.algorithms.continuous import ContinuousOPDOP, with_visitors
from opdop.kernels.lstd import kernel_radius
from opdop.theory import expected_next
from studies.common import per_episode

PROBLEM = "reservoir"
EPISODES, SEEDS, CELLS = 1000, 3, 1024
RULES = (
    ("gauss-legendre", 8),
    ("gauss-legendre", 16),
    ("gauss-legendre", 64),
    ("midpoint", 16),
    ("midpoint", 64),
    ("monte-carlo", 16),
    ("monte-carlo", 64),
    ("monte-carlo", 256),
)


def integral_error(rule: str, nodes: int, seed: int) -> tuple[float, float]:
    """Return the largest error of <phi, theta> = P V at any signal, stage and pair, and the smallest bonus."""
    problem = opdop.make(PROBLEM, rule=rule, nodes=nodes, cells=CELLS, seed=seed)
    assert isinstance(problem, opdop.ContinuousCMDP)
    cmdp, features = problem.tabular(), problem.learner_features
    task = with_visitors(opdop.Task.of(problem, episodes=EPISODES))
    learner = ContinuousOPDOP.preset(task, opdop.LSTD, "scaled")
    assert isinstance(learner, ContinuousOPDOP)
    simulator = problem.simulator(seed=seed)
    for _ in range(EPISODES // 4):
        learner.learn(simulator.play(learner.propose()))
    v = learner.estimates.v[:, :, : cmdp.num_states]
    exact, state = expected_next(cmdp, v), learner.regressions
    worst, bonus = 0.0, math.inf
    for h in range(cmdp.horizon - 1):
        for j in range(len(v)):
            phi = features.integrate(v[j, h + 1])
            worst = max(worst, float(np.abs(phi @ problem.kernel_weights[h] - exact[j, h]).max()))
            forms = np.einsum("xad,de,xae->xa", phi, state.inverse[j, h], phi)
            bonus = min(bonus, kernel_radius(state.radii, h, state.information[j, h]) * math.sqrt(forms.min()))
    return worst, bonus


def main() -> None:
    """Run the study and print its table."""
    rows = []
    with Progress(transient=True) as progress:
        bar = progress.add_task(PROBLEM, total=len(RULES) * SEEDS)
        for rule, nodes in RULES:
            found = []
            for seed in range(SEEDS):
                problem = opdop.make(PROBLEM, rule=rule, nodes=nodes, seed=seed)
                run = opdop.train(problem, episodes=EPISODES, seed=seed, preset="scaled")
                regret, violation, _ = per_episode(run, own_units=True)
                found.append([*integral_error(rule, nodes, seed), regret, violation])
                progress.advance(bar)
            rows.append((rule, nodes, np.mean(found, axis=0), np.std(found, axis=0)))
    print(f"{PROBLEM}, preset scaled, mean (and spread) of {SEEDS} seeds: errors and bonuses after {EPISODES // 4}")
    print(f"episodes in model units, where V is at most 6; regret and violation per episode over {EPISODES} episodes\n")
    print("| rule | nodes | largest error | smallest bonus | regret, thousand EUR | violation, hm³ |")
    print("|---|--:|--:|--:|--:|--:|")
    for rule, nodes, mean, spread in rows:
        lost = " | ".join(f"{mean[i]:.1f} ({spread[i]:.1f})" for i in (2, 3))
        print(f"| {rule} | {nodes} | {mean[0]:.2g} | {mean[1]:.2g} | {lost} |")


if __name__ == "__main__":
    main()
