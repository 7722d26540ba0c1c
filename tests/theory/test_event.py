"""The event behind certificates and `certified` fails no more often than stated, and with smaller widths more often."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import trapezoid

from opdop.kernels.balls import l1_width, log_pairs_of_sets, mean_width

WALKS, VISITS = 600, 300


def largest_ratios(probabilities: np.ndarray, log_sets: float, rows: int, seed: int) -> np.ndarray:
    """Return for each walk the largest ||P_n - P||_1 / eps_n over all rows and n: above 1 the event fails."""
    rng, worst = np.random.default_rng(seed), np.zeros(WALKS)
    n = np.arange(1, VISITS + 1)
    widths = np.array([2.0 * mean_width(float(each), log_sets) for each in n])
    for _ in range(rows):
        drawn = rng.random((WALKS, VISITS))
        edges = np.append(np.cumsum(probabilities)[:-1], 2.0)
        distance, low = np.zeros((WALKS, VISITS)), 0.0
        for p, high in zip(probabilities, edges, strict=True):
            distance += np.abs(np.cumsum((drawn >= low) & (drawn < high), axis=1) / n - p)
            low = high
        worst = np.maximum(worst, (distance / widths).max(axis=1))
    return worst


@pytest.mark.parametrize("successors", [2, 4])
def test_the_event_holds_at_all_visits_and_rows_as_often_as_stated(successors: int):
    # 600 walks: a share of 0.2 has a standard error of 0.016; the upper margin is four of them.
    p, rows = 0.2, 3
    probabilities = np.full(successors, 1.0 / successors)
    log_sets = log_pairs_of_sets(successors) + math.log(rows / p)
    worst = largest_ratios(probabilities, log_sets, rows, seed=0)
    assert (worst > 1.0).mean() <= p
    assert (worst > 0.5).mean() > p + 0.07  # half the width is left too often


def test_forgetting_the_union_over_rows_or_sets_is_noticed():
    # As many rows and sets as a small problem has: each alone may fail with p, all together would far more often.
    p, rows = 0.2, 12
    probabilities = np.full(6, 1.0 / 6.0)
    forgotten = largest_ratios(probabilities, math.log(1.0 / p), rows, seed=1)
    assert (forgotten > 1.0).mean() > p + 0.07
    right = largest_ratios(probabilities, log_pairs_of_sets(6) + math.log(rows / p), rows, seed=1)
    assert (right > 1.0).mean() <= p


def test_the_mixture_of_exponentials_is_the_formula_of_the_docs():
    # Its integral by a fine sum, against (n+1)^(-1/2) exp(2 S^2 / (n+1)).
    rates = np.linspace(-40.0, 40.0, 400_001)
    density = np.exp(-(rates**2) / 8.0) / math.sqrt(8.0 * math.pi)
    for n, total in ((1, 0.5), (7, -2.0), (100, 12.0)):
        integral = trapezoid(np.exp(rates * total - rates**2 * n / 8.0) * density, rates)
        assert integral == pytest.approx(math.exp(2.0 * total**2 / (n + 1)) / math.sqrt(n + 1), rel=1e-9)


def test_the_width_is_where_the_mixture_reaches_its_level():
    for n in (1.0, 30.0, 1e5):
        log_sets = 3.0
        total = n * mean_width(n, log_sets)
        assert 2.0 * total**2 / (n + 1) - 0.5 * math.log(n + 1) == pytest.approx(log_sets)
        assert l1_width(n, log_sets) == min(2.0, 2.0 * mean_width(n, log_sets))
