"""The policy of an optimistic plan has the plan's values under one kernel of the confidence set."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import opdop
from opdop import Counts, ModelSimulator, TabularCMDP, TabularPolicy, Task
from opdop.algorithms.replan import DoubtedMeans, ReplanConstants
from opdop.confidence import Observations, TabularSet, optimistic_policy, plan_optimistically
from opdop.confidence.markov_policy import _RememberingOracle
from opdop.confidence.optimism import OptimisticOracle
from opdop.kernels import dynamic_programming
from opdop.planning import evaluate, solve, solve_by_oracle

CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("random-tabular", {}, {}),
    ("random-tabular", {"stationary": True}, {"noisy": True}),
    ("media-streaming", {}, {}),
    ("queue", {}, {}),
    ("factored", {}, {"stationary": False}),
]


def observed(name: str, parameters: dict[str, Any], options: dict[str, Any], episodes: int) -> Observations:
    """Return the data of a uniform policy."""
    cmdp = opdop.make(name, **parameters)
    task = Task.of(cmdp, episodes=1000, **options)
    counts = Counts(task, radius=opdop.algorithms.BallRadius(0.0))
    simulator = ModelSimulator(cmdp, seed=0, noisy=task.noisy)
    uniform = TabularPolicy.uniform(cmdp.horizon, cmdp.num_states, cmdp.num_actions)
    for _ in range(episodes):
        counts.observe(simulator.play(uniform))
    return counts.observations()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("episodes", [0, 3, 300])
def test_the_policy_has_the_plans_value_and_no_policy_has_more(case: Any, episodes: int):
    data = observed(*case, episodes)
    kernels = TabularSet(data, 0.05)
    policy, mixture = optimistic_policy(kernels, data.thresholds)
    weights = np.concatenate([[1.0], mixture.dual])
    v = np.empty((len(weights), data.horizon + 1, data.num_states))
    dynamic_programming.evaluate(kernels.balls(weights), kernels.signal_up, policy.table, v)
    best, planned = weights @ (v[:, 0] @ data.initial), weights @ mixture.totals
    assert best == pytest.approx(planned, abs=1e-9)
    plan = plan_optimistically(OptimisticOracle(kernels))
    assert mixture.totals[0] == pytest.approx(plan.upper, abs=1e-9)
    assert (mixture.totals[1:] >= data.thresholds - 1e-9).all()
    assert (kernels.upper_values(policy)[:, 0] @ data.initial >= mixture.totals - 1e-9).all()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("episodes", [0, 3, 300])
def test_the_occupancy_of_a_corner_has_the_corners_values(case: Any, episodes: int):
    data = observed(*case, episodes)
    kernels = TabularSet(data, 0.05)
    oracle = _RememberingOracle(kernels, data.thresholds)
    for corner in solve_by_oracle(oracle).corners:
        table = TabularPolicy.deterministic(corner.actions, data.num_actions).table
        states = oracle.states(corner, table)
        np.testing.assert_allclose(states.sum(axis=1), 1.0, rtol=1e-12)
        assert (states >= 0.0).all()
        totals = (kernels.signal_up * (states[:, :, None] * table)).sum(axis=(1, 2, 3))
        np.testing.assert_allclose(totals, corner.totals, rtol=0, atol=1e-9)


def test_without_width_the_plan_is_the_optimum_of_the_empirical_model():
    data = observed("random-tabular", {}, {}, 3000)
    H, S, A = data.horizon, data.num_states, data.num_actions
    unseen = np.flatnonzero(data.number == 0)
    assert unseen.tolist() == list(range(A, S * A))  # only at the first stage, where there is one state
    P = np.zeros((H * S * A, S))
    P[unseen, 0] = 1.0
    P[np.repeat(np.arange(H * S * A), np.diff(data.starts)), data.successors] = data.kernel().probabilities
    signals = data.signal_means().reshape(-1, H, S, A)
    model = TabularCMDP(P.reshape(H, S, A, S), signals[0], signals[1:], data.thresholds, data.initial)
    policy, mixture = optimistic_policy(DoubtedMeans(data, ReplanConstants(doubt_scale=0.0)), data.thresholds)
    assert mixture.totals[0] == pytest.approx(solve(model).value, abs=1e-9)
    np.testing.assert_allclose(evaluate(model, policy).totals, mixture.totals, rtol=0, atol=1e-9)
    assert len(mixture.corners) == 2


def test_thresholds_that_no_kernel_reaches_are_lowered_alike():
    data = observed("queue", {}, {}, 300)
    lowered = data.thresholds + 100.0
    policy, mixture = optimistic_policy(TabularSet(data, 0.05), lowered)
    slack = mixture.totals[1:] - lowered
    assert slack.min() == pytest.approx(-100.0, abs=12.0)
    assert policy.table.shape == (data.horizon, data.num_states, data.num_actions)
