"""Confidence boxes: each probability of a row has a lower and an upper end, and the best kernel between them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opdop.kernels.balls import rank_states
from opdop.kernels.caching import njit
from opdop.kernels.records import as_record


@as_record
class Boxes(NamedTuple):
    """Rows of transitions of which each probability lies between two ends.

    An expectation under boxes is that of the row's member that maximises the expectation of weights @ v. The members of
    a row are the distributions between the ends; there must be one.
    """

    lower: np.ndarray  # [L*S*A, S]: at least 0
    room: np.ndarray  # [L*S*A, S]: the upper end less the lower one
    left: np.ndarray  # [L*S*A]: 1 less the sum of the lower ends
    weights: np.ndarray  # [J]
    rank: np.ndarray  # [S] int64, room: 0 is the best state
    order: np.ndarray  # [S] int64, room: the states from the best to the worst
    worth: np.ndarray  # [1, 1, S], room: weights @ v


@njit(cache=True, allocates=False, fastmath=False)
def expect_in_boxes(boxes, first_row, count, v, out):
    """Write the expectations of v [J, S] under the best members of some rows into out [J, count].

    The states have been ranked by weights @ v. In descending order each state gets its lower end, and as much of what
    is left as it has room for.
    """
    lower, room, left, order = boxes.lower, boxes.room, boxes.left, boxes.order
    S = order.shape[0]
    for n in range(count):
        row, rest = first_row + n, left[first_row + n]
        for j in range(v.shape[0]):
            out[j, n] = 0.0
        for place in range(S):
            y = order[place]
            more = min(room[row, y], rest)
            rest -= more
            probability = lower[row, y] + more
            if probability > 0.0:
                for j in range(v.shape[0]):
                    out[j, n] += probability * v[j, y]


def visit_boxes(boxes, v, actions, num_actions, initial):
    """Return the probabilities d [H, S] of the states under a deterministic policy and its own best kernel.

    The kernel is the member of each box that is best for weights @ v [J, H+1, S], the policy's own values; actions are
    [H, S].
    """
    d = np.zeros(actions.shape)
    _visit_boxes(boxes, v, actions, num_actions, initial, d)
    return d


@njit(cache=True, allocates=False, fastmath=False)
def _visit_boxes(boxes, v, actions, num_actions, initial, d):
    """Write the same into d [H, S], which is 0."""
    H, S = actions.shape
    lower, room, left, order = boxes.lower, boxes.room, boxes.left, boxes.order
    rows = lower.shape[0]
    for x in range(S):
        d[0, x] = initial[x]
    for h in range(H - 1):
        rank_states(boxes, v[:, h + 1])
        first_row = (h * S * num_actions) % rows
        for x in range(S):
            if d[h, x] > 0.0:
                row = first_row + x * num_actions + actions[h, x]
                rest = left[row]
                for place in range(S):
                    y = order[place]
                    more = min(room[row, y], rest)
                    rest -= more
                    d[h + 1, y] += d[h, x] * (lower[row, y] + more)
