"""A linear model is its features and weights; what the paper's assumption demands of them is checked and named."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import opdop
from opdop import Display, InvalidModelError, LinearCMDP, ModelSimulator, Quantity, TabularPolicy, Task, evaluate, solve
from opdop.model.features import array, embedding, mixture, one_hot
from tests.support.plain_linear import LinearSketch, linear_sketch, random_bases
from tests.support.strategies import SEEDS, Array, evaluate_plainly

FAMILIES = ("one-hot", "mixture", "embedding")
every_family = pytest.mark.parametrize("family", FAMILIES)


def linear_of(sketch: LinearSketch, **changes: Any) -> LinearCMDP:
    arguments = {
        "features": sketch.features,
        "kernel_weights": sketch.kernel_weights,
        "reward_weights": sketch.signal_weights[0],
        "utility_weights": sketch.signal_weights[1:],
        "thresholds": sketch.thresholds,
        "initial": sketch.initial,
    }
    return LinearCMDP(**{**arguments, **changes})


def kernel_of(cmdp: Any) -> Array:
    H, S, A = cmdp.horizon, cmdp.num_states, cmdp.num_actions
    matrices = [cmdp.transition_matrix(h) for h in range(H)]
    return np.array([m.toarray() if sparse.issparse(m) else m for m in matrices]).reshape(H, S, A, S)


# What it makes


@every_family
@settings(max_examples=25)
@given(SEEDS, st.integers(1, 6), st.integers(1, 3), st.integers(1, 4), st.integers(1, 3), st.integers(1, 4))
def test_tabular_model_has_the_kernel_and_signals_of_the_weights(
    family: str, seed: int, S: int, A: int, H: int, I: int, d: int
):
    sketch = linear_sketch(seed, family, states=S, actions=A, horizon=H, constraints=I, dimension=d)
    linear = linear_of(sketch)
    cmdp = linear.tabular()
    assert (linear.horizon, cmdp.num_constraints) == (H, I)
    P = np.einsum("xayd,hd->hxay", sketch.psi, sketch.kernel_weights)
    np.testing.assert_allclose(kernel_of(cmdp), P, rtol=0, atol=1e-12)
    signals = np.einsum("xad,jhd->jhxa", sketch.varphi, sketch.signal_weights)
    np.testing.assert_allclose(cmdp.rewards, signals[0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(cmdp.utilities, signals[1:], rtol=0, atol=1e-12)
    np.testing.assert_array_equal(cmdp.initial, sketch.initial)
    np.testing.assert_array_equal(cmdp.thresholds, sketch.thresholds)
    assert cmdp.features is sketch.features
    assert Task.of(cmdp, episodes=10, slater_gap=0.1).features is sketch.features


@every_family
def test_solving_and_evaluating_a_linear_model_is_that_of_its_kernel(family: str):
    sketch = linear_sketch(1, family)
    cmdp, plain = linear_of(sketch).tabular(), sketch.build(features=False)
    assert solve(cmdp).value == pytest.approx(solve(plain).value, abs=1e-9)
    assert solve(cmdp).slater_gap == pytest.approx(solve(plain).slater_gap, abs=1e-9)
    policy = np.random.default_rng(0).dirichlet(np.ones(3), (4, 5))
    expected = evaluate_plainly(sketch.P, sketch.signals, policy)[:, 0] @ sketch.initial
    np.testing.assert_allclose(evaluate(cmdp, TabularPolicy(policy)).totals, expected, rtol=0, atol=1e-12)


@every_family
def test_weights_of_one_stage_serve_all_stages(family: str):
    sketch = linear_sketch(2, family)
    theta, signals = sketch.kernel_weights[0], sketch.signal_weights[:, 0]
    stationary = linear_of(
        sketch, kernel_weights=theta, reward_weights=signals[0], utility_weights=signals[1], horizon=4
    ).tabular()
    repeated = linear_of(
        sketch,
        kernel_weights=np.tile(theta, (4, 1)),
        reward_weights=np.tile(signals[0], (4, 1)),
        utility_weights=np.tile(signals[1], (1, 4, 1)),
    ).tabular()
    assert stationary.is_stationary
    assert not repeated.is_stationary
    assert stationary.signals.shape[1] == 1
    np.testing.assert_array_equal(kernel_of(stationary), kernel_of(repeated))
    np.testing.assert_array_equal(stationary.rewards, repeated.rewards)
    assert solve(stationary).value == pytest.approx(solve(repeated).value, abs=1e-12)


def test_signals_of_one_stage_go_with_kernels_of_many():
    sketch = linear_sketch(3, "mixture", constraints=2)
    shared = sketch.signal_weights[:, 0]
    cmdp = linear_of(sketch, reward_weights=shared[0], utility_weights=shared[1:]).tabular()
    assert not cmdp.is_stationary
    for h in range(4):
        np.testing.assert_array_equal(cmdp.utilities[:, h], cmdp.utilities[:, 0])
    mixed = linear_of(sketch, reward_weights=shared[0]).tabular()  # the utilities still differ from stage to stage
    np.testing.assert_array_equal(mixed.rewards[3], mixed.rewards[0])
    np.testing.assert_allclose(mixed.utilities, sketch.signals[1:], rtol=0, atol=1e-12)


def test_one_stage_is_enough():
    sketch = linear_sketch(4, "mixture", horizon=1)
    for weights, horizon in ((sketch.kernel_weights, None), (sketch.kernel_weights[0], 1), (sketch.kernel_weights, 1)):
        assert linear_of(sketch, kernel_weights=weights, horizon=horizon).tabular().horizon == 1


def test_a_mixture_of_sparse_bases_stays_sparse():
    S, A, d = 30, 2, 3
    rng = np.random.default_rng(0)
    bases = [sparse.csr_array(np.eye(S)[rng.integers(0, S, S * A)]) for _ in range(d)]
    features = mixture(bases, np.ones((S, A, 1)))
    cmdp = LinearCMDP(features, rng.dirichlet(np.ones(d), 4), [0.5], [0.5], 1.0).tabular()
    assert cmdp.is_sparse
    assert len(cmdp.transitions.probabilities) <= 4 * S * A * d


@pytest.mark.parametrize("form", ["sparse", "dense"])
def test_weights_that_cancel_up_to_rounding_make_a_kernel(form: str):
    # 1.3 times a base less .3 times an equal one: a few of the numbers come out a hair below 0 or above 1.
    S, A = 6, 2
    base = random_bases(np.random.default_rng(1), 1, S, A)[0]
    other = random_bases(np.random.default_rng(2), 1, S, A)[0]
    varphi, theta = np.ones((S, A, 1)), np.array([0.1, 0.2, -0.3, 1.0])
    bases = np.array([other, other, other, base])
    features = mixture(list(bases), varphi) if form == "sparse" else array(np.moveaxis(bases, 0, -1), varphi)
    cmdp = LinearCMDP(features, theta, [1.0], [1.0], 1.0, horizon=2).tabular()
    assert cmdp.is_sparse == (form == "sparse")
    np.testing.assert_allclose(kernel_of(cmdp)[0], base, rtol=0, atol=1e-12)
    assert (kernel_of(cmdp) >= 0.0).all()


# What the assumption demands

S, A, H = 4, 2, 3


def good(seed: int = 0) -> dict[str, Any]:
    """Return the arguments of a sound mixture of two bases with two signal features."""
    rng = np.random.default_rng(seed)
    return {
        "features": mixture(list(random_bases(rng, 2, S, A)), rng.dirichlet(np.ones(2), (S, A))),
        "kernel_weights": np.full((H, 2), 0.5),
        "reward_weights": np.full((H, 2), 0.5),
        "utility_weights": np.full((1, H, 2), 0.5),
        "thresholds": 1.0,
    }


def changed(table: Array, index: tuple[int, ...], value: Any) -> Array:
    table = np.array(table)
    table[index] = value
    return table


def wild_embedding() -> Any:
    """Return features whose integrals are three times what the assumption allows, at one pair."""
    left = changed(np.ones((S, A, 1)), (2, 1), 3.0)
    return embedding(left, np.full((S, 1), 1.0 / S), np.ones((S, A, 2)) / 2.0)


def wild_array() -> Any:
    psi = changed(np.full((S, A, S, 2), 1.0 / S), (3, 0, 1), 9.0)
    return array(psi, np.ones((S, A, 2)) / 2.0)


HALF = np.full((H, 2), 0.5)
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no features": ({"features": "mixture"}, "features is str; expected opdop.model.features.Features"),
    "kernel weights of another dimension": (
        {"kernel_weights": np.ones((H, 3)) / 3.0},
        r"kernel_weights have shape \[3, 3\]; expected \[H,2\] or \[2\]",
    ),
    "kernel weights a number": ({"kernel_weights": 1.0}, r"kernel_weights have shape \[\]"),
    "kernel weights of no stage": ({"kernel_weights": np.ones((0, 2))}, r"kernel_weights have shape \[0, 2\]"),
    "kernel weights nan": ({"kernel_weights": changed(HALF, (1, 0), np.nan)}, r"kernel_weights\[1, 0\] is nan"),
    "no horizon": ({"kernel_weights": [0.5, 0.5]}, "horizon is needed: pass horizon=H"),
    "another horizon": ({"horizon": 5}, "kernel_weights have 3 stages but horizon is 5"),
    "half a horizon": ({"kernel_weights": [0.5, 0.5], "horizon": 2.5}, "horizon is 2.5"),
    "kernel does not sum to 1": (
        {"kernel_weights": changed(HALF, (1, 0), 0.25)},
        r"do not make a model: transitions\[1\]\[0, :\] sums to 0.75.*state 0, action 0",
    ),
    "kernel negative": (
        {"kernel_weights": changed(HALF, (2,), [1.25, -0.25])},
        r"do not make a model: transitions\[2\]\[\d+, \d+\] \(state \d, action \d, next state \d\) is -",
    ),
    "kernel weights too long": (
        {"kernel_weights": changed(HALF, (1,), [3.0, -2.0])},
        r"kernel_weights\[1\] have norm 3.60555; the assumption allows sqrt\(d1\) = 1.41421",
    ),
    "reward weights too long": (
        {"reward_weights": changed(HALF, (2,), [2.0, 0.0])},
        r"reward_weights\[2\] have norm 2; the assumption allows sqrt\(d2\) = 1.41421",
    ),
    "utility weights too long": (
        {"utility_weights": changed(np.full((2, H, 2), 0.5), (1, 0), [0.0, 7.0]), "thresholds": [1.0, 1.0]},
        r"utility_weights\[1, 0\] have norm 7; the assumption allows sqrt\(d2\)",
    ),
    "integrals too long, embedding": (
        {"features": wild_embedding(), "kernel_weights": np.ones((H, 1))},
        r"psi of state 2, action 1 can integrate .* norm 3 H; the assumption allows sqrt\(d1\) H = 1 H",
    ),
    "integrals too long, array": ({"features": wild_array()}, r"psi of state 3, action 0 can integrate"),
    "reward outside [0, 1]": (
        {"reward_weights": changed(HALF, (0,), [1.2, -0.2])},
        r"do not make a model: rewards\[0, \d, \d\] is .*signals must lie in \[0, 1\]",
    ),
    "reward weights of another shape": ({"reward_weights": np.ones((2, 2))}, r"reward_weights have shape \[2, 2\]"),
    "utility weights of another shape": (
        {"utility_weights": np.ones((2, 2)) / 2.0, "thresholds": [1.0, 1.0, 1.0]},
        r"utility_weights have shape \[2, 2\]; expected \[3, 3, 2\] or \[3, 1, 2\] or \[3, 2\]",
    ),
    "threshold too large": ({"thresholds": 4.0}, r"do not make a model: thresholds\[0\] is 4"),
    "first state unknown": ({"initial": 4}, "do not make a model: initial is state 4"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_breaks_the_assumption_is_named(name: str):
    changes, said = BAD[name]
    with pytest.raises(InvalidModelError, match=said):
        LinearCMDP(**{**good(), **changes})


def test_what_the_assumption_allows_is_accepted():
    linear = LinearCMDP(**good())
    assert repr(linear) == "LinearCMDP('model': 4 states, 2 actions, 3 stages, 1 constraint, sparse, per-stage)"
    # Exactly at the bounds: weights of norm sqrt(d2), integrals of norm sqrt(d1) H.
    at_bound = {**good(), "reward_weights": np.ones((H, 2)), "utility_weights": np.ones(2)}
    np.testing.assert_allclose(LinearCMDP(**at_bound).tabular().rewards, 1.0, rtol=1e-15)
    np.testing.assert_allclose(good()["features"].integral_norms(), np.sqrt(2.0), rtol=1e-12)


# Data


@every_family
def test_features_travel_with_the_model(family: str):
    sketch = linear_sketch(5, family)
    cmdp = linear_of(sketch).tabular()
    named = cmdp.with_display(Display("other", quantities=(Quantity("reward", "points"), Quantity("use", "points"))))
    for model in (cmdp.dense(), cmdp.sparse(), cmdp.sparse().dense(), named):
        assert model.features is sketch.features
    assert cmdp.dense().is_sparse is False
    np.testing.assert_allclose(kernel_of(cmdp.sparse()), kernel_of(cmdp.dense()), rtol=0, atol=1e-15)
    assert sketch.build(features=False).features is None
    with pytest.raises(InvalidModelError, match="are not for 5 states, 3 actions"):
        cmdp.with_features(one_hot(5, 2))


@every_family
def test_a_linear_model_survives_pickling_and_does_not_follow_its_arguments(family: str):
    sketch = linear_sketch(6, family)
    weights = sketch.kernel_weights.copy()
    linear = linear_of(sketch, kernel_weights=weights)
    weights[:] = 0.0
    np.testing.assert_array_equal(linear.kernel_weights, sketch.kernel_weights)
    again = pickle.loads(pickle.dumps(linear))
    assert repr(again) == repr(linear)
    np.testing.assert_array_equal(kernel_of(again.tabular()), kernel_of(linear.tabular()))
    v = np.arange(5.0)
    model = again.tabular()
    assert model.features is not None
    np.testing.assert_array_equal(model.features.integrate(v), sketch.features.integrate(v))
    with pytest.raises(AttributeError):
        linear.horizon = 7  # type: ignore[misc]
    one = opdop.train(linear.tabular(), "opdop-lstd", episodes=20, slater_gap=0.3)
    two = opdop.train(model, "opdop-lstd", episodes=20, slater_gap=0.3)
    np.testing.assert_array_equal(one.policy.table, two.policy.table)


def test_display_and_simulation_of_a_linear_model():
    display = Display("mine", quantities=(Quantity("reward", "points"), Quantity("use", "points")))
    linear = LinearCMDP(**good(), display=display)
    assert linear.tabular().display.name == "mine"
    episode = ModelSimulator(linear.tabular(), seed=0).play(TabularPolicy.uniform(H, S, A))
    np.testing.assert_allclose(episode.signals, 0.5, rtol=1e-12)


# The shipped ones


@pytest.mark.parametrize("name", ["random-mixture", "random-embedding"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_shipped_linear_problems_are_linear_in_their_features_and_bind(name: str, seed: int):
    cmdp = opdop.make(name, seed=seed)
    features = cmdp.features
    assert features is not None
    psi = np.stack([features.integrate(np.eye(20)[y]) for y in range(20)], axis=2)  # [S, A, S, d1]
    varphi = features.signal_features()
    for h in range(cmdp.horizon):
        rows = kernel_of(cmdp)[h].ravel()
        matrix = psi.reshape(-1, features.kernel_dim)
        theta, *_ = np.linalg.lstsq(matrix, rows, rcond=None)
        np.testing.assert_allclose(matrix @ theta, rows, rtol=0, atol=1e-9)
        assert np.linalg.norm(theta) <= features.kernel_norm * (1 + 1e-9)
        for signal in (cmdp.rewards[h], cmdp.utilities[0, h]):
            table = varphi.reshape(-1, features.signal_dim)
            weights, *_ = np.linalg.lstsq(table, signal.ravel(), rcond=None)
            np.testing.assert_allclose(table @ weights, signal.ravel(), rtol=0, atol=1e-9)
            assert np.linalg.norm(weights) <= features.signal_norm * (1 + 1e-9)
    optimum = solve(cmdp)
    assert optimum.slater_gap > 0.0
    assert optimum.dual[0] > 0.0
