"""Widths of confidence sets that hold for any number of observations at once (docs/guarantees.md derives them)."""

from __future__ import annotations

import math

from opdop.kernels.caching import njit


@njit(cache=True, fastmath=False)
def mean_width(n, log_sets):
    """Return how far the mean of n observations in [0, 1] may be from its expectation; infinite for n = 0.

    With log_sets = log(N / delta), this holds for N means and all n >= 1 at once with probability 1 - delta: the
    mixture of exp(l S - l^2 n / 8) over l ~ N(0, 4), which is (n+1)^(-1/2) exp(2 S^2 / (n+1)), is a supermartingale in
    n for the centred sum S of each, and Ville's inequality bounds it by N / delta.
    """
    if n <= 0.0:
        return math.inf
    return math.sqrt(0.5 * (n + 1.0) * (log_sets + 0.5 * math.log(n + 1.0))) / n


@njit(cache=True, fastmath=False)
def l1_width(n, log_sets):
    """Return how far, in L1, the empirical distribution of n draws may be from the true one: at most 2.

    With m possible outcomes, log_sets = log((2^(m-1) - 1) / delta) covers every set of outcomes, hence half the L1
    distance; it is -inf for m = 1, and the width 0.
    """
    if log_sets == -math.inf:
        return 0.0
    return min(2.0, 2.0 * mean_width(n, log_sets))
