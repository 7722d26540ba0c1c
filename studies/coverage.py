"""How often certificates are false: `python -m studies.coverage [RUNS_PER_CASE] [EPISODES] [PERCENT]`.

Every run ends with the certificates of its final, average and recommended policy. A run is counted as false if any of
their bounds is: a lower value above the true one, an upper value below it, or a bound on the optimum below the optimum.
This may happen with probability PERCENT / 100 (default 5).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import opdop
from opdop.confidence import Certificate
from opdop.theory.verification import interval
from studies.common import numbers_from

ROUNDING = 1e-9
LOGGED = "log of a fixed policy"


@dataclass(frozen=True)
class Case:
    """A problem, and how its data are collected."""

    problem: str
    learner: str  # an algorithm, or `LOGGED`
    preset: str = "practical"
    noisy: bool = False
    parameters: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The problem and how its data are collected."""
        words = [self.learner] + ([self.preset] if self.learner.startswith("opdop") else [])
        return f"{self.problem}, {' '.join(words)}{', noisy' if self.noisy else ''}"


TINY = {"states": 2, "actions": 2, "stages": 3, "seed": 1}
SMALL_MIXTURE = {"states": 6, "stages": 3, "dimension": 2, "successors": 3}
CASES = (
    Case("random-tabular", "opdop", "scaled"),
    Case("random-tabular", "opdop", "practical"),
    Case("random-tabular", "opdop", "certified"),
    Case("random-tabular", "optimistic", "certified"),
    Case("random-tabular", "opdop", "scaled", noisy=True, parameters=TINY),
    Case("random-tabular", "optimistic", "certified", noisy=True, parameters=TINY),
    Case("factored", "opdop", "scaled"),
    Case("factored", "opdop", "practical"),
    Case("factored", "opdop", "certified"),
    Case("factored", "optimistic", "certified"),
    Case("queue", "opdop", "scaled"),
    Case("inventory", "optimistic", "certified"),
    Case("random-tabular", LOGGED),
    Case("factored", LOGGED, noisy=True),
    Case("random-mixture", "opdop-lstd", "scaled", parameters=SMALL_MIXTURE),
    Case("random-mixture", "opdop-lstd", "certified", parameters=SMALL_MIXTURE),
)


def certificates(case: Case, cmdp: opdop.TabularCMDP, episodes: int, seed: int, p: float) -> Iterator[Certificate]:
    """Yield the certificates of one run, or of one log."""
    if case.learner == LOGGED:
        yield from logged_certificates(cmdp, case.noisy, episodes, seed, p)
        return
    run = opdop.train(cmdp, case.learner, episodes=episodes, seed=seed, preset=case.preset, noisy=case.noisy, records=2)
    for policy in ("final", "average", "recommended"):
        yield opdop.certify(run, policy, failure_probability=p)


def logged_certificates(
    cmdp: opdop.TabularCMDP, noisy: bool, episodes: int, seed: int, p: float
) -> Iterator[Certificate]:
    """Yield the certificates of the collecting policy and of the recommended one, from a table of transitions alone."""
    H, S, A = cmdp.horizon, cmdp.num_states, cmdp.num_actions
    rng = np.random.default_rng(seed)
    policy = opdop.TabularPolicy(rng.dirichlet(np.ones(A), size=(H, S)))
    simulator = opdop.ModelSimulator(cmdp, seed=seed, noisy=noisy)
    played = [simulator.play(policy) for _ in range(episodes)]
    columns: dict[str, Any] = {
        "episode": np.repeat(np.arange(episodes), H),
        "stage": np.tile(np.arange(H), episodes),
        "state": np.concatenate([each.states[:-1] for each in played]),
        "action": np.concatenate([each.actions for each in played]),
        "next_state": np.concatenate([each.states[1:] for each in played]),
        "reward": np.concatenate([each.signals[0] for each in played]),
    }
    for i in range(len(cmdp.thresholds)):
        columns[f"utility_{i}"] = np.concatenate([each.signals[1 + i] for each in played])
    task = opdop.Task.of(cmdp, episodes=episodes, noisy=noisy)
    for asked in (policy, None):
        yield opdop.certify(columns, asked, failure_probability=p, task=task)


def is_true(certificate: Certificate, cmdp: opdop.TabularCMDP, best: float) -> bool:
    """Return whether every bound of a certificate is true of the model."""
    policy = certificate.policy
    parts = policy.parts if isinstance(policy, opdop.PolicyMixture) else [policy]
    weights = policy.weights if isinstance(policy, opdop.PolicyMixture) else np.ones(1)
    values = weights @ np.array([opdop.evaluate(cmdp, part).totals for part in parts])
    low = np.append(certificate.reward_lower, certificate.utility_lower)
    high = np.append(certificate.reward_upper, certificate.utility_upper)
    within = (low <= values + ROUNDING).all() and (values <= high + ROUNDING).all()
    return bool(within and best <= certificate.optimum_upper + ROUNDING)


def false_runs(case: Case, runs: int, episodes: int, p: float) -> tuple[int, float, int]:
    """Return how many runs had a false bound, the mean gap of the last certificate of a run, and how many kept all."""
    cmdp = opdop.make(case.problem, **case.parameters)
    problem = cmdp.tabular()
    best = opdop.solve(problem).value
    false, gaps, kept = 0, [], 0
    for seed in range(runs):
        found = list(certificates(case, cmdp, episodes, seed, p))
        false += not all(is_true(each, problem, best) for each in found)
        gaps.append(found[-1].gap)
        kept += found[-1].keeps_constraints
    return false, float(np.mean(gaps)), kept


def main() -> None:
    """Print the table, one row as soon as it is known; end with status 1 if certificates were false too often."""
    runs, episodes, percent = numbers_from(sys.argv[1:], [40, 300, 5])
    p = percent / 100.0
    print(f"{runs} runs of {episodes} episodes each, failure probability {p:g}.\n")
    print("| data | false | allowed, on average | certified to keep all constraints | certified distance to the best |")
    print("|---|--:|--:|--:|--:|")
    total = 0
    for case in CASES:
        false, gap, kept = false_runs(case, runs, episodes, p)
        total += false
        print(f"| {case.name} | {false} of {runs} | {p * runs:g} | {kept} | {gap:.3f} |", flush=True)
    number = runs * len(CASES)
    low, high = interval(number - total, number)
    print(f"\nFalse: {total} of {number} runs; true with a probability of {low:.4f} to {high:.4f} (95 % interval).")
    if high < 1.0 - p:
        sys.exit("certificates are false more often than stated")


if __name__ == "__main__":
    main()
