"""How often certificates are false: `python -m studies.coverage [RUNS_PER_CASE] [EPISODES] [PERCENT]`.

Every run ends with the certificates of its final, average and recommended policy. A run is counted as false if any of
their bounds is: a lower value above the true one, an upper value below it, or a bound on the optimum below the optimum.
This may happen with probability PERCENT / 100 (default 5).

In the last cases the distribution of the first state is not known. Each run draws one at random, and the data are the
first states of its episodes. The logs among them are certified once more as if the shares of these first states were
the true distribution, to show how often such certificates are false, which this study would notice.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
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
    first_known: bool = True  # whether the distribution of the first state is

    @property
    def name(self) -> str:
        """The problem and how its data are collected."""
        words = [self.learner] + ([self.preset] if self.learner.startswith("opdop") else [])
        first = "" if self.first_known else ", first state not known"
        return f"{self.problem}, {' '.join(words)}{', noisy' if self.noisy else ''}{first}"


ONE_STAGE = "one stage"  # without transitions that matter, so the first state is all that is uncertain
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
    Case(ONE_STAGE, "opdop", "practical", first_known=False),
    Case(ONE_STAGE, LOGGED, first_known=False),
    Case("factored", "opdop", "practical", first_known=False),
    Case("factored", "optimistic", "certified", first_known=False),
    Case("random-tabular", "opdop", "practical", first_known=False),
    Case("random-tabular", LOGGED, first_known=False),
    Case("random-mixture", "opdop-lstd", "scaled", parameters=SMALL_MIXTURE, first_known=False),
)


class Hidden:
    """Plays the episodes of a model, and does not tell which model it is."""

    def __init__(self, cmdp: opdop.TabularCMDP, seed: int, noisy: bool) -> None:
        self._inner = opdop.ModelSimulator(cmdp, seed=seed, noisy=noisy)

    def play(self, policy: Any) -> opdop.Episode:
        """Play one episode of a policy."""
        return self._inner.play(policy)


def made(case: Case, seed: int) -> opdop.TabularCMDP:
    """Return the problem of a case; where its first state is not known, with a random distribution of it."""
    if case.first_known:
        return opdop.make(case.problem, **case.parameters)  # type: ignore[return-value]
    rng = np.random.default_rng([seed, 7])
    if case.problem == ONE_STAGE:
        S, A = 6, 2
        signals = rng.random((2, S, A))
        signals[1, :, 0] = 1.0  # the first action keeps the constraint everywhere
        rest = np.full((S, A, S), 1.0 / S)
        return opdop.TabularCMDP(rest, signals[0], signals[1], 0.7, initial=_first(rng, S), horizon=1)
    cmdp = opdop.make(case.problem, **case.parameters)
    assert isinstance(cmdp, opdop.TabularCMDP)
    while True:
        moved = cmdp.with_initial(_first(rng, cmdp.num_states))
        try:
            opdop.solve(moved)
        except opdop.InfeasibleError:
            continue
        return moved


def _first(rng: np.random.Generator, states: int) -> Any:
    """Return a random distribution in which some states are rare."""
    return rng.dirichlet(np.full(states, 0.4))


def told(case: Case, cmdp: opdop.TabularCMDP, episodes: int) -> opdop.Task:
    """Return what the learner is told; nothing about a first state that is not known, and nothing about the gap."""
    task = opdop.Task.of(cmdp, episodes=episodes, noisy=case.noisy)
    if case.first_known:
        return task
    S = cmdp.num_states
    return replace(task, initial=np.full(S, 1.0 / S), first_visits=np.zeros(S, dtype=np.int64), slater_gap=None)


def certificates(case: Case, cmdp: opdop.TabularCMDP, episodes: int, seed: int, p: float) -> Iterator[Certificate]:
    """Yield the certificates of one run, or of one log."""
    if case.learner == LOGGED:
        yield from logged_certificates(case, cmdp, episodes, seed, p)
        return
    run = run_of(case, cmdp, episodes, seed)
    for policy in ("final", "average", "recommended"):
        yield opdop.certify(run, policy, failure_probability=p)


def run_of(case: Case, cmdp: opdop.TabularCMDP, episodes: int, seed: int) -> opdop.Run:
    """Return a run of a case; the learner of one whose first state is not known sees episodes only."""
    options: dict[str, Any] = {"episodes": episodes, "seed": seed, "preset": case.preset, "records": 2}
    if case.first_known:
        return opdop.train(cmdp, case.learner, noisy=case.noisy, **options)
    simulator, task = Hidden(cmdp, seed, case.noisy), told(case, cmdp, episodes)
    return opdop.train(simulator, case.learner, task=task, noisy=case.noisy, **options)


def log_of(case: Case, cmdp: opdop.TabularCMDP, episodes: int, seed: int) -> tuple[opdop.TabularPolicy, dict[str, Any]]:
    """Return a policy, and the table of the transitions that it collected."""
    H, S, A = cmdp.horizon, cmdp.num_states, cmdp.num_actions
    rng = np.random.default_rng(seed)
    policy = opdop.TabularPolicy(rng.dirichlet(np.ones(A), size=(H, S)))
    simulator = opdop.ModelSimulator(cmdp, seed=seed, noisy=case.noisy)
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
    return policy, columns


def logged_certificates(
    case: Case, cmdp: opdop.TabularCMDP, episodes: int, seed: int, p: float
) -> Iterator[Certificate]:
    """Yield the certificates of the collecting policy and of the recommended one, from a table of transitions alone."""
    policy, columns = log_of(case, cmdp, episodes, seed)
    for asked in (policy, None):
        yield opdop.certify(columns, asked, failure_probability=p, task=told(case, cmdp, episodes))


def as_if_known(case: Case, cmdp: opdop.TabularCMDP, episodes: int, seed: int, p: float) -> Certificate:
    """Return the certificate of the collecting policy if the shares of its first states were taken as the truth."""
    policy, columns = log_of(case, cmdp, episodes, seed)
    first = columns["state"][columns["stage"] == 0]
    shares = np.bincount(first, minlength=cmdp.num_states) / len(first)
    task = replace(told(case, cmdp, episodes), initial=shares, first_visits=None)
    return opdop.certify(columns, policy, failure_probability=p, task=task)


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


def false_runs(case: Case, runs: int, episodes: int, p: float) -> tuple[int, float, int, int]:
    """Return how many runs had a false bound, the mean gap of the last certificate of a run, and how many kept all.

    The last number is how many had a false bound with the observed first states taken as the truth.
    """
    false, gaps, kept, naive = 0, [], 0, 0
    for seed in range(runs):
        cmdp = made(case, seed)
        problem = cmdp.tabular()
        best = opdop.solve(problem).value
        found = list(certificates(case, cmdp, episodes, seed, p))
        false += not all(is_true(each, problem, best) for each in found)
        gaps.append(found[-1].gap)
        kept += found[-1].keeps_constraints
        if not case.first_known and case.learner == LOGGED:
            naive += not is_true(as_if_known(case, cmdp, episodes, seed, p), problem, best)
    return false, float(np.mean(gaps)), kept, naive


def main() -> None:
    """Print the table, one row as soon as it is known; end with status 1 if certificates were false too often."""
    runs, episodes, percent = numbers_from(sys.argv[1:], [40, 300, 5])
    p = percent / 100.0
    print(f"{runs} runs of {episodes} episodes each, failure probability {p:g}.\n")
    print("| data | false | allowed, on average | certified to keep all constraints | certified distance to the best |")
    print("|---|--:|--:|--:|--:|")
    total, naive = 0, []
    for case in CASES:
        false, gap, kept, naively = false_runs(case, runs, episodes, p)
        total += false
        if not case.first_known and case.learner == LOGGED:
            naive.append(f"{naively} of {runs} logs ({case.problem})")
        print(f"| {case.name} | {false} of {runs} | {p * runs:g} | {kept} | {gap:.3f} |", flush=True)
    number = runs * len(CASES)
    low, high = interval(number - total, number)
    print(f"\nFalse: {total} of {number} runs; true with a probability of {low:.4f} to {high:.4f} (95 % interval).")
    print(f"With the observed first states taken as the truth, false: {', '.join(naive)}.")
    if high < 1.0 - p:
        sys.exit("certificates are false more often than stated")


if __name__ == "__main__":
    main()
