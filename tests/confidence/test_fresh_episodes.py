"""Bets bound a mean; fresh episodes certify policies of any problem."""

from __future__ import annotations

import numpy as np
import pytest

import opdop
from opdop import InvalidParameterError, Task
from opdop.confidence.fresh_episodes import lower_mean


def test_the_bound_is_below_the_mean_as_often_as_stated():
    # 400 samples at p = 0.2: more than 108 failures have probability below 0.1 % if the bound is right.
    rng = np.random.default_rng(3)
    for draws, mean in ((rng.random((400, 60)) ** 3, 0.25), ((rng.random((400, 60)) < 0.1).astype(float), 0.1)):
        failures = sum(lower_mean(sample, 0.2) > mean for sample in draws)
        assert failures <= 108


def test_the_bound_uses_a_small_variance():
    rng = np.random.default_rng(0)
    sample = 0.5 + 0.01 * (rng.random(1000) - 0.5)
    hoeffding = sample.mean() - np.sqrt(np.log(20.0) / 2000)
    assert hoeffding < lower_mean(sample, 0.05) < 0.5
    assert 0.5 - lower_mean(sample, 0.05) < 0.01
    assert lower_mean(np.zeros(5), 0.05) == pytest.approx(0.0, abs=1e-9)
    assert 0.99 < lower_mean(np.ones(5000), 0.05) < 1.0


def test_fresh_episodes_certify_a_policy_of_a_problem():
    model = opdop.make("factored").tabular()
    table = np.full((model.horizon, model.num_states, model.num_actions), 1.0 / model.num_actions)
    truth = opdop.evaluate(model, table)
    for data in ("factored", model):
        certificate = opdop.certify(data, table, episodes=2000, failure_probability=0.01)
        assert certificate.reward_lower <= truth.reward <= certificate.reward_upper
        assert (certificate.utility_lower <= truth.utilities).all()
        assert certificate.reward_upper - certificate.reward_lower < 0.1 * model.horizon
        assert certificate.optimum_upper == np.inf
        assert certificate.record()["gap"] is None
        assert "2,000 fresh episodes" in certificate.basis
    unknown = type("Unknown", (), {"play": model.simulator(seed=5).play})()
    task = Task.of(model, episodes=1, slater_gap=0.1)
    assert opdop.certify(unknown, table, episodes=100, task=task).reward_lower <= truth.reward


def test_the_episodes_are_not_those_of_training():
    run = opdop.train("factored", episodes=50, seed=0)
    certificate = opdop.certify(run, "final", episodes=200)
    assert run.last is not None
    assert certificate.reward_lower <= run.last.reward <= certificate.reward_upper
    with pytest.raises(InvalidParameterError, match="expected the policy that plays the fresh episodes"):
        opdop.certify(run, episodes=10)
    with pytest.raises(InvalidParameterError, match="expected a problem, or a simulator with task"):
        opdop.certify(object(), np.ones((1, 1, 1)), episodes=3)


def test_continuous_problems_are_certified_by_fresh_episodes():
    problem = opdop.make("reservoir")
    A = problem.tabular().num_actions

    class Uniform:
        def probabilities(self, stage: int, state: object) -> np.ndarray:
            return np.full(A, 1.0 / A)

    certificate = opdop.certify(problem, Uniform(), episodes=300)
    truth = opdop.evaluate(problem, np.full((problem.tabular().horizon, problem.tabular().num_states, A), 1.0 / A))
    assert certificate.reward_lower <= truth.reward <= certificate.reward_upper
    assert "at least 95 %" in str(certificate)
