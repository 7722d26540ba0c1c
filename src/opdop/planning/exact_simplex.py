"""The master program in exact arithmetic: for constraints so nearly tied that floating point cannot solve it.

A number of Python's `Fraction` has no rounding error and no tolerance, and Bland's rule cannot cycle. The programs have
one row for each constraint and few columns, so this takes milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from opdop.model.validation import Floats

_LARGEST_PRICE = 10**15  # beyond, a multiplier says no more than that the threshold cannot be raised

Row = list[Fraction]


def best_mixture(slacks: Floats, rewards: Floats | None = None) -> tuple[Floats, Floats]:
    """Return the mixture of columns with the largest smallest slack, and the constraints' prices.

    Args:
        slacks: of each column in each constraint, [M, I].
        rewards: of each column, [M]. If they are given, the mixture is the one with the largest reward of those without
            a negative slack; if every mixture has one, of those with the largest smallest slack.

    Returns the shares of the columns [M], which sum to 1, and the multipliers of the constraints [I].
    """
    M, I = slacks.shape
    exact = [[Fraction(float(slack)) for slack in column] for column in slacks]
    shift = max(Fraction(0), -min(min(column) for column in exact))
    # Columns: shares of the M columns, surplus of the I constraints, gap. Slack - surplus - gap = 0, all at least 0.
    rows: list[Row] = [
        [*(column[i] + shift for column in exact), *(Fraction(-(i == k)) for k in range(I)), Fraction(-1), Fraction(0)]
        for i in range(I)
    ]
    rows.append([Fraction(1)] * M + [Fraction(0)] * (I + 1) + [Fraction(1)])
    tightest = min(range(I), key=lambda i: exact[0][i])
    basis = [*(M + I if i == tightest else M + i for i in range(I)), 0]
    for r in (I, tightest, *(i for i in range(I) if i != tightest)):  # begin with all of the first column
        _pivot(rows, r, basis[r])
    gap = [Fraction(0)] * (M + I) + [Fraction(1)]
    reduced = _maximise(rows, basis, gap)
    if rewards is not None:
        for row, j in zip(rows, basis, strict=True):
            if j == M + I:  # from here on, the gap beyond zero, or beyond the largest there is
                row[-1] = max(row[-1] - shift, Fraction(0))
        reduced = _maximise(rows, basis, [*(Fraction(float(r)) for r in rewards), *[Fraction(0)] * (I + 1)])
    shares = np.zeros(M)
    for row, j in zip(rows, basis, strict=True):
        if j < M:
            shares[j] = float(row[-1])
    return shares, np.array([float(min(-reduced[M + i], Fraction(_LARGEST_PRICE))) for i in range(I)])


def _maximise(rows: list[Row], basis: list[int], costs: Sequence[Fraction]) -> Row:
    """Make pivots until the basis is the best one; return the reduced costs, none of which is above 0."""
    while True:
        reduced = [
            cost - sum((costs[j] * row[column] for row, j in zip(rows, basis, strict=True)), Fraction(0))
            for column, cost in enumerate(costs)
        ]
        entering = next((column for column, cost in enumerate(reduced) if cost > 0), None)
        if entering is None:
            return reduced
        bounding = [r for r, row in enumerate(rows) if row[entering] > 0]
        r = min(bounding, key=lambda r: (rows[r][-1] / rows[r][entering], basis[r]))
        _pivot(rows, r, entering)
        basis[r] = entering


def _pivot(rows: list[Row], r: int, column: int) -> None:
    """Make a column the unit vector of row r."""
    rows[r] = [entry / rows[r][column] for entry in rows[r]]
    for other, row in enumerate(rows):
        if other != r and row[column]:
            factor = row[column]
            rows[other] = [entry - factor * pivot for entry, pivot in zip(row, rows[r], strict=True)]
