"""Facts about objects that others wrote: broken matrices, densities and functions end in errors of opdop's own."""

import time
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import opdop
from attack.api_models import FORMATS, G, P, R, break_sparse
from opdop.model import InvalidModelError, OpdopError
from opdop.model.continuous_features import general
from opdop.model.quadrature import gauss_legendre


@pytest.mark.parametrize("form", FORMATS)
def test_sparse_matrices_with_broken_indices_are_refused(form: str) -> None:
    """SciPy's own conversions crash the process for some of them."""
    random = np.random.default_rng(10)
    whole = sparse.coo_array(P.reshape(4, 2)).asformat(form)
    truth = opdop.solve(opdop.TabularCMDP(whole, R, G, thresholds=5.0, horizon=6)).value
    refused = 0
    for _ in range(150):
        broken = break_sparse(whole, random)
        try:
            value = opdop.solve(opdop.TabularCMDP(broken, R, G, thresholds=5.0, horizon=6)).value
        except OpdopError:
            refused += 1
        else:
            assert np.isfinite(value)
    assert refused > 75
    assert opdop.solve(opdop.TabularCMDP(whole, R, G, thresholds=5.0, horizon=6)).value == truth


def features_of(psi: Any, highest: float = 2.0) -> Any:
    return general(psi, lambda states: np.full((len(states), 2, 1), 0.5), gauss_legendre(4), highest=highest)


def psi_with(value: float) -> Any:
    """A density that is 1, but at states above 0.5 the given value."""

    def psi(states: Any, points: Any) -> Any:
        odd = np.where(np.asarray(states)[:, 0] > 0.5, value, 1.0)
        return np.broadcast_to(odd[:, None, None, None], (len(states), 2, len(points), 1))

    return psi


@pytest.mark.parametrize("value", [0.0, np.nan, np.inf, -1.0])
def test_a_density_that_is_none_at_a_point_does_not_draw_for_ever(value: float) -> None:
    """Margin: ten seconds, for what never ended."""
    began = time.monotonic()
    with pytest.raises(InvalidModelError):
        features_of(psi_with(value)).draw(np.ones(1), np.array([0.75]), 0, np.random.default_rng(0))
    assert time.monotonic() - began < 10.0


def test_a_bound_that_would_reject_nearly_every_draw_is_refused() -> None:
    with pytest.raises(InvalidModelError, match=r"highest is 1e.12; expected a bound on a density"):
        features_of(psi_with(1.0), highest=1e12)


class Unreadable:
    """An object that raises whatever is done with it."""

    def __repr__(self) -> str:
        raise RuntimeError("\x1b[31mno\u202e")

    __array__ = __len__ = __iter__ = __repr__  # type: ignore[assignment]


@pytest.mark.parametrize("odd", [Unreadable(), object(), b"x", 1j, int, "\x1b[31m\u202e", np.zeros(2, dtype="V8")])
def test_odd_objects_are_refused_in_one_printable_line(odd: Any) -> None:
    right = {"transitions": P, "rewards": R, "utilities": G, "thresholds": 5.0, "initial": 0, "horizon": 6}
    for name in right:
        with pytest.raises(OpdopError) as caught:
            opdop.TabularCMDP(**{**right, name: odd})
        assert str(caught.value).isprintable()
    for call in (opdop.solve, opdop.train, opdop.make, opdop.TabularPolicy, opdop.ModelSimulator):
        with pytest.raises(OpdopError) as caught:
            call(odd, **({"episodes": 2} if call is opdop.train else {}))
        assert str(caught.value).isprintable()
