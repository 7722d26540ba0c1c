"""Ellipsoids of linear kernels enclose the values of every policy, as plain NumPy computes them too."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import opdop
from opdop import LSTD, InvalidModelError, Task
from opdop.confidence import Certifier, LinearSet, Regressions
from opdop.kernels import ellipsoids as kernel
from opdop.kernels.lstd import kernel_radius
from opdop.model.features import one_hot
from opdop.runs import Run
from tests.support.strategies import Array

PROBLEMS = ("random-mixture", "random-embedding", "one-hot")


def learnt(name: str, episodes: int = 60, *, noisy: bool = False) -> tuple[opdop.TabularCMDP, LSTD]:
    model = opdop.make("random-tabular" if name == "one-hot" else name).tabular()
    S, A = model.num_states, model.num_actions
    features = one_hot(S, A) if name == "one-hot" else model.features
    evaluator = LSTD(Task.of(model, episodes=episodes, slater_gap=0.1, noisy=noisy), features)
    simulator = model.simulator(seed=1, noisy=noisy)
    uniform = opdop.TabularPolicy.uniform(model.horizon, S, A)
    for _ in range(episodes):
        evaluator.evaluate(uniform)
        evaluator.observe(simulator.play(uniform))
    return model, evaluator


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("noisy", [False, True])
def test_lower_and_upper_values_enclose_the_truth(name: str, noisy: bool):
    model, evaluator = learnt(name, noisy=noisy)
    data = evaluator.observations()
    assert data is not None
    makes = Certifier(LinearSet(data), model.display)
    rng = np.random.default_rng(0)
    tables = rng.dirichlet(np.ones(model.num_actions), (3, model.horizon, model.num_states))
    optimum = opdop.solve(model)
    for table in (*tables, optimum.policy.table):
        certificate = makes.certificate(table)
        totals = opdop.evaluate(model, table).totals
        assert certificate.reward_lower <= totals[0] <= certificate.reward_upper
        assert (certificate.utility_lower <= totals[1:]).all()
        assert (totals[1:] <= certificate.utility_upper).all()
    assert makes.optimum_upper >= optimum.value
    best = makes.recommend()
    totals = opdop.evaluate(model, best.policy).totals
    assert best.reward_lower <= totals[0]
    assert (best.utility_lower <= totals[1:]).all()


def lower_plainly(confidence: LinearSet, model: opdop.TabularCMDP, j: int, policy: Array) -> float:
    """Return the lower bound on one signal by the formula, with matrices of NumPy."""
    data = confidence.data
    v = np.zeros(model.num_states)
    for h in reversed(range(model.horizon)):
        phi = data.features.integrate(v).reshape(-1, data.features.kernel_dim)
        gram, target, radius = data.gram[j, h], data.target[j, h], confidence.radius[j, h]
        width = np.sqrt(np.einsum("pi,pi->p", phi, np.linalg.solve(gram, phi.T).T))
        mean = np.clip(phi @ np.linalg.solve(gram, target) - radius * width, v.min(), v.max())
        q = confidence.signal_low[j, h] + mean.reshape(model.num_states, -1)
        v = (policy[h] * q).sum(axis=1)
    return float(v @ model.initial)


@pytest.mark.parametrize("name", PROBLEMS[:2])
def test_the_lower_bound_is_the_formula(name: str):
    model, evaluator = learnt(name, 200)
    data = evaluator.observations()
    assert data is not None
    confidence = LinearSet(data, 0.1)
    object.__setattr__(confidence, "radius", 0.05 * confidence.radius)  # else all is clipped
    policy = np.random.default_rng(1).dirichlet(np.ones(model.num_actions), (model.horizon, model.num_states))
    plain = [lower_plainly(confidence, model, j, policy) for j in range(2)]
    np.testing.assert_allclose(confidence.lower(policy), plain, rtol=0, atol=1e-9)
    assert min(plain) > 0.01


def test_one_hot_blocks_equal_the_plain_formula():
    model, evaluator = learnt("one-hot", 100)
    data = evaluator.observations()
    assert data is not None
    confidence = LinearSet(data)
    blocks = confidence.ellipsoids([1.0], 0, radius=0.01)
    assert isinstance(blocks, kernel.BlockEllipsoids)
    S, A = model.num_states, model.num_actions
    v = np.random.default_rng(0).random(S)
    kernel.store_values(blocks.values, v[None])
    out = np.empty((1, S * A))
    kernel.expect_in_blocks(blocks, 0, S * A, out)
    for row in range(S * A):
        x, a = divmod(row, A)
        pair = a * S + x
        inverse = np.linalg.inv(data.gram[0, 0, pair])
        mean = v @ inverse @ data.target[0, 0, pair]
        expected = mean + 0.01 * confidence.radius[0, 0, pair] * np.sqrt(v @ inverse @ v)
        assert out[0, row] == pytest.approx(np.clip(expected, v.min(), v.max()), abs=1e-9)


def test_the_radii_are_the_learners_with_all_of_the_failure_probability():
    # The learner's optimism may fail with p/2, so half the failure probability gives the certificate's radii.
    model, evaluator = learnt("random-mixture")
    data = evaluator.observations()
    assert data is not None
    confidence = LinearSet(data, evaluator.task.failure_probability / 2.0)
    arrays = evaluator.arrays
    for j in range(2):
        for h in range(model.horizon):
            expected = kernel_radius(evaluator.radii, h, arrays.information[j, h])
            assert confidence.radius[j, h] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("name", PROBLEMS)
def test_regressions_survive_their_file_and_are_merged(name: str):
    _, evaluator = learnt(name, 20)
    data = evaluator.observations()
    assert data is not None
    again = Regressions.from_arrays(data.arrays())
    assert all(np.array_equal(again.arrays()[key], value) for key, value in data.arrays().items())
    both = data.merged(again)
    np.testing.assert_allclose(both.target, 2.0 * data.target)
    ridge = data.ridge * np.eye(data.gram.shape[-1])
    np.testing.assert_allclose(both.gram - ridge, 2.0 * (data.gram - ridge), atol=1e-12)
    with pytest.raises(InvalidModelError, match="cannot be used"):
        Regressions.from_arrays({key: value for key, value in data.arrays().items() if key != "sizes"})
    with pytest.raises(InvalidModelError, match="has shape"):
        Regressions.from_arrays(data.arrays() | {"target": data.target[:, :1]})


def test_a_least_squares_run_is_certified_also_from_its_folder(tmp_path: Path):
    run = opdop.train("random-mixture", "opdop-lstd", episodes=100)
    certificate = run.certificate("final")
    assert "least squares" in certificate.basis
    run.save(tmp_path)
    assert Run.load(tmp_path).certificate("final").record() == certificate.record()
