"""How often a policy visits each state under the best kernel of a confidence set."""

from __future__ import annotations

import numpy as np

from opdop.kernels.balls import best_possible, rank_states, split_mass
from opdop.kernels.caching import njit


def visit_balls(balls, v, actions, num_actions, initial):
    """Return the probabilities d [H, S] of being in each state at each stage under a deterministic policy.

    The kernel is the member of each ball that is best for weights @ v [J, H+1, S], the policy's own values; actions
    are [H, S].
    """
    d = np.zeros(actions.shape)
    _visit_balls(balls, v, actions, num_actions, initial, d)
    return d


@njit(cache=True, allocates=False, fastmath=False)
def _visit_balls(balls, v, actions, num_actions, initial, d):
    """Write the same into d [H, S], which is 0."""
    H, S = actions.shape
    rows = balls.starts.shape[0] - 1
    for x in range(S):
        d[0, x] = initial[x]
    for h in range(H - 1):
        rank_states(balls, v[:, h + 1])
        first_row = (h * S * num_actions) % rows
        for x in range(S):
            if d[h, x] > 0.0:
                _push_member(balls, first_row + x * num_actions + actions[h, x], d[h, x], d, h + 1)


@njit(cache=True, allocates=False, fastmath=False)
def _push_member(balls, row, mass, d, h):
    """Add a mass times the best member of a row's ball to d[h]: mass moves as in `move_mass`."""
    first, last = balls.starts[row], balls.starts[row + 1]
    best = best_possible(balls, row)
    room, count, is_listed = 1.0, 0, False
    for entry in range(first, last):  # slots: the list's entries from the worst to the best
        if balls.successors[entry] == best:
            room -= balls.probabilities[entry]
            is_listed = True
        place = count
        while place > 0 and _rank(balls, balls.slots[place - 1]) < _rank(balls, entry):
            balls.slots[place] = balls.slots[place - 1]
            place -= 1
        balls.slots[place] = entry
        count += 1
    moved = max(min(0.5 * balls.widths[row], room), 0.0)
    if not is_listed and count > 0 and balls.unseen[row] < moved:
        second = balls.slots[count - 1]
        outside, inside = split_mass(0.5 * balls.widths[row], balls.unseen[row], balls.probabilities[second])
        d[h, best] += mass * outside
        d[h, balls.successors[second]] += mass * inside
        moved = outside + inside
    else:
        d[h, best] += mass * moved
    for place in range(count):
        entry = balls.slots[place]
        balls.slots[place] = -1  # as other functions expect them
        y = balls.successors[entry]
        taken = 0.0 if y == best else min(balls.probabilities[entry], moved)
        moved -= taken
        d[h, y] += mass * (balls.probabilities[entry] - taken)


@njit(cache=True, allocates=False, fastmath=False)
def _rank(balls, entry):
    return balls.rank[balls.successors[entry]]
