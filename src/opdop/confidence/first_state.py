"""The distribution of the first state: known, or one more row of the confidence set, from the first states observed."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opdop.kernels.balls import (
    Balls,
    l1_width,
    log_pairs_of_sets,
    move_mass,
    rank_states,
    room_for_ranks,
    unseen_mass,
)
from opdop.model import InvalidModelError
from opdop.model.validation import Floats, shown

UNSEEN_SHARE = 0.1  # of the failure probability of rows, for the bound on successors that did not occur
FIRST_SHARE = 0.1  # of the failure probability, where the distribution of the first state is not known

Ints = NDArray[np.int64]


def row_bounds(number: Any, possible: Any, risk: float) -> tuple[Floats, Floats]:
    """Return eps_n and u_n of rows, see `TabularSet`; together they may fail with probability `risk`.

    Args:
        number: the visits of each row, [R].
        possible: the number of its possible successors, [R].
        risk: of all rows together.

    """
    rows = len(number)
    log_rows, log_rows_unseen = (math.log(rows / (share * risk)) for share in (1.0 - UNSEEN_SHARE, UNSEEN_SHARE))
    # Few distinct pairs of (visits, possible successors) occur, compared with the number of rows.
    distinct, inverse = np.unique(np.stack([number, possible]), axis=1, return_inverse=True)
    place, log_two = inverse.reshape(-1), math.log(2.0)  # a set and its complement are two sets here
    widths = np.array([l1_width(float(n), log_pairs_of_sets(m) + log_rows) for n, m in distinct.T])[place]
    sets = [(float(n), log_pairs_of_sets(m) + log_two + log_rows_unseen) for n, m in distinct.T]
    unseen = np.array([unseen_mass(n, log_sets) for n, log_sets in sets])[place]
    # A row that was never visited has no centre: with width 2 all mass goes to the best possible successor.
    return np.where(np.asarray(number) > 0, widths, 2.0), unseen


def as_first_visits(value: Any, num_states: int) -> Ints | None:
    """Return how often each state was observed as a first state, [S]; None stays None: the distribution is known.

    Raises InvalidModelError if it does not have one whole number for each state, at least 0.
    """
    if value is None:
        return None
    found = np.asarray(value)
    if found.dtype.kind not in "iuf" or found.shape != (num_states,) or (found != np.floor(found)).any():
        raise InvalidModelError(f"first_visits is {shown(value)}; expected whole numbers [S], one each, or None.")
    if (found < 0).any() or found.sum() >= 2.0**53:
        raise InvalidModelError("first_visits has a negative or a very large number; expected counts, at least 0.")
    visits = found.astype(np.int64)
    visits.setflags(write=False)
    return visits


def add_visits(one: Ints | None, two: Ints | None) -> Ints | None:
    """Return the first states of two data sets together; None if both take their distribution as known.

    Raises InvalidModelError if only one of them does.
    """
    if one is None and two is None:
        return None
    if one is None or two is None:
        raise InvalidModelError(
            "the two data sets do not fit together: one takes the distribution of the first state as known."
        )
    return one + two


@dataclass(frozen=True, eq=False)
class FirstState:
    """What the data say about the distribution of the first state.

    A known one is `initial` [S]. Otherwise `visits` [S] are how often each state was observed as the first of an
    episode, n in all: the true distribution is within eps_n of their shares, and gives no more than u_n to the states
    that did not occur, with the widths of one row of S possible successors and a failure probability of `risk`.
    """

    initial: Floats
    visits: Ints | None = None
    risk: float = 0.0
    ball: Balls | None = field(init=False)

    def __post_init__(self) -> None:
        if self.visits is None:
            object.__setattr__(self, "ball", None)
            return
        S, number = len(self.visits), int(self.visits.sum())
        widths, unseen = row_bounds([number], [S], self.risk)
        there = np.flatnonzero(self.visits)
        ball = Balls(
            starts=np.array([0, len(there)]),
            successors=there.astype(np.int32),
            probabilities=self.visits[there] / max(number, 1),
            widths=widths,
            unseen=unseen,
            possible_starts=np.zeros(1, dtype=np.int64),
            possible=np.zeros(0, dtype=np.int32),
            weights=np.zeros(1),
            **room_for_ranks(S),
            slots=np.full(S, -1, dtype=np.int64),
        )
        object.__setattr__(self, "ball", ball)

    @classmethod
    def of(cls, initial: Floats, visits: Ints | None, risk: float) -> tuple[FirstState, float]:
        """Return what is known of the first state, and the failure probability that is left for everything else."""
        if visits is None:
            return cls(initial), risk
        return cls(initial, visits, FIRST_SHARE * risk), (1.0 - FIRST_SHARE) * risk

    @property
    def basis(self) -> str:
        """What this rests on, in words, to be added to those of a confidence set; nothing if it is known."""
        return "" if self.visits is None else f", first state from {int(self.visits.sum()):,} observed"

    def expect(self, v: Floats, weights: Any) -> Floats:
        """Return the expectation [J] of values v [J, S] at the first state.

        The distribution is the one that is allowed and has the largest expectation of `weights` [J] @ v.
        """
        if self.ball is None:
            return np.asarray(v @ self.initial)
        ball = self.ball._replace(weights=np.array(weights, dtype=np.float64))
        values = np.asfortranarray(v)  # as backward passes lay them out, so that nothing more is compiled
        found = np.ascontiguousarray(values[:, ball.successors] @ ball.probabilities[:, None])
        rank_states(ball, values)
        move_mass(ball, 0, 1, values, found)
        return found[:, 0]
