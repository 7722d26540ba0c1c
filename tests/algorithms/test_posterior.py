"""Posterior sampling: the draws are those of the posterior, and planning for them learns."""

from __future__ import annotations

import numpy as np
import pytest

import opdop
from opdop import InvalidParameterError, ModelSimulator, TabularPolicy, Task, train
from opdop.algorithms import find
from opdop.algorithms.posterior import PosteriorPlanner, draw_kernel, draw_signals, stream_of
from opdop.confidence import Observations
from opdop.kernels.transitions import Dense, Sparse


def observed(
    name: str, episodes: int, noisy: bool = False, **parameters: float
) -> tuple[opdop.TabularCMDP, Observations]:
    """Return a problem, and what the uniform policy observes of it."""
    cmdp = opdop.make(name, **parameters)
    counts = opdop.Counts(Task.of(cmdp, episodes=episodes, noisy=noisy), radius=opdop.algorithms.BallRadius())
    simulator = ModelSimulator(cmdp, seed=3, noisy=noisy)
    uniform = TabularPolicy.uniform(cmdp.horizon, cmdp.num_states, cmdp.num_actions)
    for _ in range(episodes):
        counts.observe(simulator.play(uniform))
    return cmdp, counts.observations()


def rows(kernel: Dense | Sparse, states: int) -> np.ndarray:
    if isinstance(kernel, Dense):
        return kernel.rows
    table = np.zeros((len(kernel.starts) - 1, states))
    table[np.repeat(np.arange(len(table)), np.diff(kernel.starts)), kernel.successors] = kernel.probabilities
    return table


def test_sampled_rows_have_the_moments_of_the_dirichlet_posterior():
    _, data = observed("factored", 8)
    stream, S = np.random.default_rng(0), data.num_states
    draws = np.array([rows(draw_kernel(data, 0.5, stream), S) for _ in range(4000)])
    shape = np.full((len(data.starts) - 1, S), 0.5)
    for row in range(len(shape)):
        shape[row, data.successors[data.starts[row] : data.starts[row + 1]]] += data.seen[
            data.starts[row] : data.starts[row + 1]
        ]
    total = shape.sum(axis=1, keepdims=True)
    mean = shape / total
    variance = mean * (1.0 - mean) / (total + 1.0)
    np.testing.assert_allclose(draws.sum(axis=2), 1.0, atol=1e-9)
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=0.02)  # 4 standard errors are below 0.02
    np.testing.assert_allclose(draws.var(axis=0), variance, atol=0.015)


def test_small_priors_give_sparse_rows_with_the_same_draws():
    _, data = observed("random-tabular", 30, states=40, successors=3)
    sampled = draw_kernel(data, 0.001, np.random.default_rng(1))
    assert isinstance(sampled, Sparse)
    np.testing.assert_allclose(rows(sampled, 40).sum(axis=1), 1.0, atol=1e-12)


def test_signals_are_known_after_one_visit_and_beta_distributed_if_random():
    cmdp, data = observed("factored", 5)
    drawn, seen = draw_signals(data, stream_of(data)), data.signal_number.reshape(1, -1, 3, 2) > 0
    np.testing.assert_allclose(np.where(seen, drawn, 0.0), np.where(seen, cmdp.signals, 0.0), atol=1e-12)
    _, data = observed("random-tabular", 20, noisy=True)
    stream = np.random.default_rng(2)
    draws = np.array([draw_signals(data, stream) for _ in range(3000)])
    mean = (1.0 + data.signal_sums) / (2.0 + data.signal_number)
    np.testing.assert_allclose(draws.mean(axis=0), mean.reshape(draws.shape[1:]), atol=0.03)


def test_the_draw_is_a_function_of_the_data():
    _, data = observed("factored", 6)
    _, more = observed("factored", 7)
    planner = PosteriorPlanner(prior_visits=1.0)
    np.testing.assert_array_equal(planner.plan(data).policy.table, planner.plan(data).policy.table)
    assert stream_of(data).random() != stream_of(more).random()


def test_with_many_data_the_plan_is_the_optimum():
    cmdp, data = observed("factored", 20_000)
    plan = PosteriorPlanner(prior_visits=1.0).plan(data)
    values, optimum = opdop.evaluate(cmdp, plan.policy), opdop.solve(cmdp)
    assert values.reward == pytest.approx(optimum.value, abs=0.02)
    assert values.utilities[0] == pytest.approx(optimum.utility_values[0], abs=0.02)


@pytest.mark.parametrize("preset", ["paper", "practical"])
def test_the_average_regret_and_violation_fall(preset: str):
    run = train("factored", "posterior", episodes=3000, preset=preset, seed=1)
    regret, violation, episodes = run.regret, run.hard_violation, run.episodes
    early = int(np.searchsorted(episodes, 100))
    assert regret[-1] / 3000 < 0.2 * max(regret[early], 0.0) / 100 + 0.01
    assert violation[-1] / 3000 < 0.2 * violation[early] / 100 + 0.01


def test_thresholds_that_a_draw_does_not_reach_are_lowered():
    cmdp = opdop.make("factored")
    task = Task(6, 3, 2, np.array([6.0]), cmdp.initial, episodes=50, stationary=True)
    # With a prior of 0.01 visits a draw is nearly the empirical model, which may reach the threshold.
    preset = find("posterior").preset("practical", {"prior_visits": 0.1})
    learner, simulator = find("posterior").build(task, preset), ModelSimulator(cmdp, seed=0)
    for _ in range(50):
        learner.learn(simulator.play(learner.propose()))
    assert learner.diagnostics()["estimated_utility_0"] < 6.0


def test_continuous_states_are_refused():
    with pytest.raises(InvalidParameterError, match="`posterior` counts visits, so it needs finitely many states"):
        train("reservoir", "posterior", episodes=5)
