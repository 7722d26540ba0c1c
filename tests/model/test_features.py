"""Feature families: each one's cheap integral is the plain sum, and different forms of one kernel agree."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from opdop import InvalidModelError
from opdop.kernels import features as kernel
from opdop.model.features import Features, array, embedding, mixture, one_hot
from tests.support.plain_linear import FAMILIES, linear_sketch, random_bases
from tests.support.strategies import SEEDS, Array

every_family = pytest.mark.parametrize("family", FAMILIES)
SIZES = {"states": st.integers(1, 9), "actions": st.integers(1, 4), "dimension": st.integers(1, 5)}


def as_dense(matrix: Any) -> Array:
    return np.asarray(matrix.toarray() if sparse.issparse(matrix) else matrix)


# Integrals


@every_family
@settings(max_examples=40)
@given(seed=SEEDS, **SIZES)
def test_integrals_are_plain_sums(family: str, seed: int, states: int, actions: int, dimension: int):
    sketch = linear_sketch(seed, family, states=states, actions=actions, dimension=dimension, horizon=2)
    v = np.random.default_rng(seed).normal(size=states)
    found = sketch.features.integrate(v)
    np.testing.assert_allclose(found, np.einsum("xayd,y->xad", sketch.psi, v), rtol=0, atol=1e-13)
    np.testing.assert_array_equal(sketch.features.integrate(v.tolist()), found)
    assert (sketch.features.kernel_dim, sketch.features.signal_dim) == (sketch.psi.shape[-1], sketch.varphi.shape[-1])


@every_family
@settings(max_examples=30)
@given(seed=SEEDS, **SIZES)
def test_kernel_and_signals_are_plain_products(family: str, seed: int, states: int, actions: int, dimension: int):
    sketch = linear_sketch(seed, family, states=states, actions=actions, dimension=dimension, horizon=2)
    rng = np.random.default_rng(seed)
    weights, others = rng.normal(size=sketch.psi.shape[-1]), rng.normal(size=sketch.varphi.shape[-1])
    expected = np.einsum("xayd,d->xay", sketch.psi, weights).reshape(-1, states)
    np.testing.assert_allclose(as_dense(sketch.features.kernel(weights)), expected, rtol=0, atol=1e-13)
    np.testing.assert_allclose(sketch.features.signals(others), sketch.varphi @ others, rtol=0, atol=1e-13)
    np.testing.assert_array_equal(sketch.features.signal_features(), sketch.varphi)


@pytest.mark.parametrize("family", ["mixture", "embedding", "array"])
def test_compiled_integral_equals_its_source_in_parts_and_as_a_whole(family: str):
    sketch = linear_sketch(1, family, states=7)
    form, v = sketch.features.form, np.random.default_rng(0).normal(size=7)
    d, pairs = sketch.psi.shape[-1], 7 * 3
    assert kernel.dimension(form) == d
    for J in (1, 2, 3, 4):  # signals are integrated two at a time
        values = np.stack([v + j for j in range(J)])[:, None]
        common = kernel.empty_common(form, J, 7)
        whole, parts = np.empty((J, d, pairs)), np.empty((J, d, pairs))
        kernel.integrate_all.py_func(form, values, whole)
        for j in range(J):
            expected = sketch.features.integrate(values[j, 0])
            np.testing.assert_allclose(whole[j].reshape(d, 3, 7).T, expected, rtol=0, atol=1e-13)
        kernel.find_common(form, values, 0, common)
        for first, count in ((0, 4), (4, 1), (5, 16)):
            kernel.integrate(form, values, 0, common, first, count, parts[:, :, first : first + count])
        np.testing.assert_array_equal(parts, whole)


# Different forms of one kernel


def three_forms(seed: int, S: int, A: int, d: int) -> tuple[dict[str, Features], Array]:
    """Return a mixture whose bases do not depend on the pair, which is also an embedding and an array; and psi."""
    rng = np.random.default_rng(seed)
    right = rng.dirichlet(np.full(S, 0.5), d).T
    bases = np.broadcast_to(right.T[:, None, None, :], (d, S, A, S))
    varphi = rng.dirichlet(np.ones(2), (S, A))
    psi = np.moveaxis(bases, 0, -1)
    forms = {
        "mixture": mixture(list(bases), varphi),
        "embedding": embedding(np.ones((S, A, 1)), right, varphi),
        "array": array(psi, varphi),
    }
    return forms, psi


@settings(max_examples=40)
@given(SEEDS, st.integers(1, 8), st.integers(1, 4), st.integers(1, 4))
def test_mixture_embedding_and_array_of_one_kernel_agree(seed: int, S: int, A: int, d: int):
    forms, psi = three_forms(seed, S, A, d)
    rng = np.random.default_rng(seed + 1)
    v, weights, others = rng.normal(size=S), rng.normal(size=d), rng.normal(size=2)
    for name, features in forms.items():
        assert features.name == name
        assert features.kernel_dim == d
        np.testing.assert_allclose(features.integrate(v), psi.transpose(0, 1, 3, 2) @ v, rtol=0, atol=1e-13)
        np.testing.assert_allclose(
            as_dense(features.kernel(weights)), (psi @ weights).reshape(-1, S), rtol=0, atol=1e-13
        )
        np.testing.assert_array_equal(features.signals(others), forms["array"].signals(others))
        np.testing.assert_allclose(features.integral_norms(), forms["array"].integral_norms(), rtol=1e-13)


@settings(max_examples=60)
@given(SEEDS, st.integers(1, 40), st.integers(1, 3), st.integers(1, 4), st.sampled_from([0.0, 0.05, 0.15, 0.3, 1.0]))
def test_an_array_is_kept_as_lists_where_it_is_mostly_zero(seed: int, S: int, A: int, d: int, share: float):
    rng = np.random.default_rng(seed)
    psi = rng.normal(size=(S, A, S, d)) * (rng.random((S, A, S, d)) < share)
    v, weights = rng.normal(size=S), rng.normal(size=d)
    features = array(psi, np.ones((S, A, 1)))
    entries = np.count_nonzero(psi) + 2 * S * A * d  # a list costs as much to begin as two of its entries
    assert isinstance(features.form, kernel.Listed if entries <= psi.size / 4 else kernel.Table)
    np.testing.assert_allclose(features.integrate(v), psi.transpose(0, 1, 3, 2) @ v, rtol=0, atol=1e-13)
    np.testing.assert_allclose(as_dense(features.kernel(weights)), (psi @ weights).reshape(-1, S), rtol=0, atol=1e-13)
    most = np.maximum(np.maximum(psi, 0.0).sum(axis=2), np.maximum(-psi, 0.0).sum(axis=2))
    np.testing.assert_allclose(features.integral_norms(), np.linalg.norm(most, axis=2), rtol=1e-13, atol=1e-15)


@settings(max_examples=30)
@given(SEEDS, st.integers(1, 8), st.integers(1, 4), st.integers(1, 4))
def test_one_hot_is_the_array_of_unit_vectors(seed: int, S: int, A: int, d: int):
    plain = array(np.eye(S * A * S).reshape(S, A, S, -1), np.eye(S * A).reshape(S, A, -1))
    features, rng = one_hot(S, A), np.random.default_rng(seed)
    v, weights, others = rng.normal(size=S), rng.normal(size=S * A * S), rng.normal(size=S * A)
    np.testing.assert_allclose(features.integrate(v), plain.integrate(v), rtol=0, atol=1e-14)
    np.testing.assert_allclose(features.kernel(weights), as_dense(plain.kernel(weights)), rtol=0, atol=1e-14)
    np.testing.assert_allclose(features.signals(others), plain.signals(others), rtol=0, atol=1e-14)
    np.testing.assert_array_equal(features.signal_features(), plain.signal_features())
    np.testing.assert_allclose(features.integral_norms(), plain.integral_norms(), rtol=1e-14)


@pytest.mark.parametrize("make", [sparse.csr_array, sparse.csc_array, sparse.coo_array, sparse.csr_matrix])
def test_sparse_and_dense_bases_agree(make: Any):
    S, A, d = 6, 3, 4
    rng = np.random.default_rng(0)
    bases, varphi = random_bases(rng, d, S, A), rng.random((S, A, 2))
    dense = mixture(list(bases), varphi)
    listed = mixture([make(base.reshape(S * A, S)) for base in bases], varphi)
    mixed = mixture([bases[0], *(make(base.reshape(S * A, S)) for base in bases[1:])], varphi)
    for features in (listed, mixed, mixture(bases, varphi)):
        for ours, theirs in zip(features.form, dense.form, strict=True):
            np.testing.assert_array_equal(ours, theirs)
            assert ours.dtype == theirs.dtype
    # Only successors that a base allows are kept.
    assert isinstance(dense.form, kernel.Listed)
    assert len(dense.form.psi) == np.count_nonzero(bases)


def test_duplicate_entries_of_a_sparse_base_add_up():
    half = sparse.coo_array(([0.5, 0.5, 1.0], ([0, 0, 1], [1, 1, 0])), shape=(2, 2))
    features = mixture([half], np.ones((2, 1, 1)))
    np.testing.assert_array_equal(as_dense(features.kernel(np.ones(1))), [[0.0, 1.0], [1.0, 0.0]])


# Norms of integrals


@pytest.mark.parametrize("family", ["mixture", "embedding", "one-hot"])
@settings(max_examples=25)
@given(seed=SEEDS, **SIZES)
def test_integral_norms_are_attained_at_one_for_nonnegative_features(
    family: str, seed: int, states: int, actions: int, dimension: int
):
    features = linear_sketch(seed, family, states=states, actions=actions, dimension=dimension).features
    attained = np.linalg.norm(features.integrate(np.ones(states)), axis=2)
    np.testing.assert_allclose(features.integral_norms(), attained, rtol=1e-12)


@settings(max_examples=40)
@given(seed=SEEDS, form=st.sampled_from(["array", "embedding", "mixture"]), **SIZES)
def test_integral_norms_bound_every_value_function(seed: int, form: str, states: int, actions: int, dimension: int):
    rng = np.random.default_rng(seed)
    varphi = np.ones((states, actions, 1))
    if form == "array":
        features = array(rng.normal(size=(states, actions, states, dimension)), varphi)
    elif form == "embedding":
        left, right = rng.normal(size=(states, actions, 2)), rng.normal(size=(states, dimension))
        features = embedding(left, right, varphi)
    else:
        features = mixture(list(random_bases(rng, dimension, states, actions)), varphi)
    bound = features.integral_norms()
    for _ in range(20):
        v = rng.integers(0, 2, states).astype(float) if rng.random() < 0.5 else rng.random(states)
        assert (np.linalg.norm(features.integrate(v), axis=2) <= bound * (1 + 1e-12)).all()
    if form == "array" and dimension == 1:  # one component: V picks the larger of both parts, so it is attained
        psi = features.form.psi[:, 0]
        best = np.maximum(np.maximum(psi, 0).sum(axis=0), np.maximum(-psi, 0).sum(axis=0))
        np.testing.assert_allclose(bound.ravel(), best, rtol=1e-12)


# Bad input


def ones(*shape: int) -> Array:
    return np.ones(shape)


def with_entry(shape: tuple[int, ...], index: tuple[int, ...], value: float) -> Array:
    table = np.full(shape, 1.0 / shape[-1])
    table[index] = value
    return table


GOOD = ones(2, 3, 2) / 2.0  # a kernel of 2 states and 3 actions
BAD: dict[str, tuple[Any, str]] = {
    "varphi without features": (lambda: mixture([GOOD], ones(2, 3)), r"varphi has shape \[2, 3\]; expected \[S,A,d2\]"),
    "varphi empty": (lambda: array(ones(2, 3, 2, 1), ones(2, 3, 0)), r"varphi has shape \[2, 3, 0\]"),
    "varphi nan": (lambda: mixture([GOOD], with_entry((2, 3, 1), (1, 2, 0), np.nan)), r"varphi\[1, 2, 0\] is nan"),
    "varphi text": (lambda: mixture([GOOD], "abc"), "varphi has 'abc'"),
    "no bases": (lambda: mixture([], ones(2, 3, 1)), "bases is empty"),
    "bases are a number": (lambda: mixture(3, ones(2, 3, 1)), "bases is 3 .*expected a list of kernels"),
    "one sparse matrix for bases": (
        lambda: mixture(sparse.csr_array(GOOD.reshape(6, 2)), ones(2, 3, 1)),
        "bases is a scipy.sparse matrix; expected a list of kernels",
    ),
    "base of another shape": (
        lambda: mixture([GOOD, ones(2, 2, 3)], ones(2, 3, 1)),
        r"bases\[1\] has shape \[2, 2, 3\]",
    ),
    "sparse base of another shape": (
        lambda: mixture([sparse.csr_array(np.eye(6))], ones(2, 3, 1)),
        r"bases\[0\] has shape \[6, 6\]; expected \[S\*A,S\] = \[6,2\]",
    ),
    "base that does not sum to 1": (
        lambda: mixture([GOOD, with_entry((2, 3, 2), (1, 2, 0), 0.75)], ones(2, 3, 1)),
        r"bases\[1\]\[5, :\] sums to 1.25; expected a probability distribution, sum 1. \(state 1, action 2\)",
    ),
    "base with a negative entry": (
        lambda: mixture([np.where(np.arange(12).reshape(2, 3, 2) == 10, -0.5, GOOD) + 0.0], ones(2, 3, 1)),
        r"bases\[0\] .*state 1, action 2",
    ),
    "base with a negative entry that sums to 1": (
        lambda: mixture([np.array([[[1.0, 0.0]], [[1.5, -0.5]]])], ones(2, 1, 1)),
        r"bases\[0\]\[1, 1\] \(state 1, action 0, next state 1\) is -0.5; expected a finite probability",
    ),
    "sparse base with nan": (
        lambda: mixture([sparse.csr_array(with_entry((6, 2), (4, 1), np.nan))], ones(2, 3, 1)),
        r"bases\[0\]\[4, 1\] \(state 1, action 1, next state 1\) is nan",
    ),
    "dense base with nan": (
        lambda: mixture([with_entry((2, 3, 2), (1, 0, 1), np.nan)], ones(2, 3, 1)),
        r"bases\[0\]\[1, 0, 1\] is nan",
    ),
    "sparse base with broken indices": (
        lambda: mixture([broken()], ones(2, 1, 1)),
        r"bases\[0\] has indices out of range",
    ),
    "sparse base of complex numbers": (
        lambda: mixture([sparse.csr_array(np.eye(2) * 1j)], ones(2, 1, 1)),
        r"bases\[0\] has entries of type complex128",
    ),
    "left of another size": (
        lambda: embedding(ones(2, 2, 1), ones(2, 1), ones(2, 3, 1)),
        r"left has shape \[2, 2, 1\]; expected \[S,A,dl\] = \[2,3,dl\]",
    ),
    "left flat": (lambda: embedding(ones(2, 3), ones(2, 1), ones(2, 3, 1)), r"left has shape \[2, 3\]"),
    "left empty": (lambda: embedding(ones(2, 3, 0), ones(2, 1), ones(2, 3, 1)), r"left has shape \[2, 3, 0\]"),
    "right of another size": (
        lambda: embedding(ones(2, 3, 1), ones(3, 1), ones(2, 3, 1)),
        r"right has shape \[3, 1\]; expected \[S,dr\] = \[2,dr\]",
    ),
    "right empty": (lambda: embedding(ones(2, 3, 1), ones(2, 0), ones(2, 3, 1)), r"right has shape \[2, 0\]"),
    "right infinite": (
        lambda: embedding(ones(2, 3, 1), with_entry((2, 2), (1, 0), np.inf), ones(2, 3, 1)),
        r"right\[1, 0\] is inf",
    ),
    "psi of another size": (
        lambda: array(ones(2, 3, 3, 1), ones(2, 3, 1)),
        r"psi has shape \[2, 3, 3, 1\]; expected \[S,A,S,d1\] = \[2,3,2,d1\]",
    ),
    "psi flat": (lambda: array(ones(2, 3, 2), ones(2, 3, 1)), r"psi has shape \[2, 3, 2\]"),
    "psi empty": (lambda: array(ones(2, 3, 2, 0), ones(2, 3, 1)), r"psi has shape \[2, 3, 2, 0\]"),
    "psi nan": (
        lambda: array(with_entry((2, 3, 2, 1), (1, 2, 0, 0), np.nan), ones(2, 3, 1)),
        r"psi\[1, 2, 0, 0\] is nan",
    ),
    "no states": (lambda: one_hot(0, 2), "num_states is 0"),
    "half an action": (lambda: one_hot(2, 1.5), "num_actions is 1.5"),  # type: ignore[arg-type]
    "values of another size": (
        lambda: one_hot(3, 2).integrate(np.ones(2)),
        r"V has shape \[2\]; expected \[S\] = \[3\]",
    ),
}


def broken() -> Any:
    """Return a sparse kernel that points outside itself."""
    matrix = sparse.csr_array(np.eye(2))
    matrix.indices = np.array([0, 9], dtype=np.int32)
    return matrix


@pytest.mark.parametrize("name", BAD)
def test_bad_features_are_refused_with_what_and_where(name: str):
    build, said = BAD[name]
    with pytest.raises(InvalidModelError, match=said):
        build()


# Data


@every_family
def test_features_are_copies_of_what_was_handed_in_and_survive_pickling(family: str):
    sketch = linear_sketch(3, family)
    features, v = sketch.features, np.arange(5.0)
    before = features.integrate(v)
    again = pickle.loads(pickle.dumps(features))
    np.testing.assert_array_equal(again.integrate(v), before)
    np.testing.assert_array_equal(again.signal_features(), features.signal_features())
    assert repr(again) == repr(features)
    assert f"d1 = {sketch.psi.shape[-1]}, d2 = {sketch.varphi.shape[-1]}" in repr(features)
    sketch.psi[:] = 0.0
    sketch.varphi[:] = 0.0
    np.testing.assert_array_equal(features.integrate(v), before)
    assert features.signal_features().any()
