"""The compiled master program against exact arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from opdop.kernels.mixtures import mix_columns
from opdop.planning.exact_simplex import best_mixture

KINDS = "random", "whole numbers", "scales", "nearly tied"


def columns(kind: str, random: np.random.Generator) -> tuple[Any, Any]:
    """Return slacks [M, I] and rewards [M]; whole numbers have many ties, and scales reach from 1 to 1e-9."""
    M, I = int(random.integers(1, 12)), int(random.integers(1, 6))
    if kind == "whole numbers":
        return random.integers(-2, 3, (M, I)).astype(np.float64), random.integers(0, 4, M).astype(np.float64)
    slacks = random.standard_normal((M, I))
    if kind == "scales":
        slacks *= 10.0 ** random.integers(-9, 1, I)
    if kind == "nearly tied":
        slacks = slacks[:, :1] + 10.0 ** -random.integers(1, 12) * slacks
    return slacks, random.random(M)


def first_basis(slacks: Any) -> Any:
    """Return the basis of all of the first column: it, the gap, and the surplus of all but the tightest constraint."""
    basis = -1 - np.arange(slacks.shape[1] + 1)
    basis[np.argmin(slacks[0])], basis[-1] = -1 - slacks.shape[1], 0
    return basis


@pytest.mark.parametrize("kind", KINDS)
def test_the_compiled_master_finds_what_exact_arithmetic_finds(kind: str) -> None:
    raised = 0
    for seed in range(60):
        slacks, rewards = columns(kind, np.random.default_rng([16, seed]))
        basis, shares, prices = first_basis(slacks), np.zeros(len(slacks)), np.zeros(slacks.shape[1])
        assert mix_columns(slacks, rewards, True, basis, shares, prices)
        size = np.abs(slacks).max()
        gap, exact_gap = (shares @ slacks).min(), (best_mixture(slacks)[0] @ slacks).min()
        assert gap == pytest.approx(exact_gap, abs=1e-13 * size)
        assert shares.sum() == pytest.approx(1.0, abs=1e-14)
        assert prices.sum() == pytest.approx(1.0, abs=1e-12)
        if gap > 1e-6 * size:  # with less, multipliers are large and say nothing
            raised += 1
            assert mix_columns(slacks, rewards, False, basis, shares, prices)
            exact_shares, exact_prices = best_mixture(slacks, rewards)
            assert shares @ rewards == pytest.approx(
                exact_shares @ rewards, abs=1e-12 * (1.0 + exact_prices.sum() * size)
            )
            assert (shares @ slacks).min() >= -2e-11 * size
            # The multipliers prove it: no column is better than the mixture.
            values = rewards + slacks @ prices
            assert (prices >= 0.0).all()
            assert values.max() <= shares @ rewards + 1e-12 * (1.0 + prices.sum() * size)
    assert raised >= 10


def test_python_and_machine_code_make_the_same_pivots() -> None:
    slacks, rewards = columns("random", np.random.default_rng(3))
    found = []
    for mix in (mix_columns, mix_columns.py_func):
        basis, shares, prices = first_basis(slacks), np.zeros(len(slacks)), np.zeros(slacks.shape[1])
        assert mix(slacks, rewards, True, basis, shares, prices)
        found.append((basis.tolist(), shares.tolist(), prices.tolist()))
    assert found[0] == found[1]
