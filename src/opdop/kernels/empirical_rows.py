"""The empirical kernel of counts as a table of rows, renewed where an episode has added visits."""

from __future__ import annotations

from opdop.kernels.caching import njit
from opdop.kernels.counts import CountTable, by_form
from opdop.kernels.parts import overload
from opdop.kernels.visits import stored_stage


def renew_row(counts, k, x, a, rows):
    """Write n(x, a, y) / n(x, a) into row (k*S + x)*A + a of rows [L*S*A, S]; the pair must have been visited."""
    (_table_renew_row if isinstance(counts, CountTable) else _lists_renew_row)(counts, k, x, a, rows)


def _table_renew_row(counts, k, x, a, rows):
    S = rows.shape[1]
    pair, row = a * S + x, (k * S + x) * (counts.seen.shape[2] // S) + a
    n = counts.visits.number[k, pair]
    for y in range(S):
        rows[row, y] = counts.seen[k, y, pair] / n


def _lists_renew_row(counts, k, x, a, rows):
    S = rows.shape[1]
    pairs = counts.visits.number.shape[1]
    pair, row = a * S + x, (k * S + x) * (pairs // S) + a
    n, place = counts.visits.number[k, pair], k * pairs + pair
    for y in range(S):
        rows[row, y] = 0.0
    for entry in range(counts.starts[place], counts.starts[place] + counts.used[place]):
        rows[row, counts.successors[entry]] = counts.seen[entry] / n


@overload(renew_row)
def _overload_renew_row(counts, k, x, a, rows):
    return by_form(counts, _table_renew_row, _lists_renew_row)


@njit(cache=True, fastmath=False)
def renew_visited(counts, states, actions, rows):
    """Renew the rows of the pairs that an episode has visited."""
    for h in range(actions.shape[0]):
        renew_row(counts, stored_stage(h, counts.visits.number.shape[0]), states[h], actions[h], rows)


@njit(cache=True, fastmath=False)
def renew_all(counts, rows):
    """Renew all rows; those of unvisited pairs are 0."""
    L, pairs = counts.visits.number.shape
    S = rows.shape[1]
    for k in range(L):
        for x in range(S):
            for a in range(pairs // S):
                if counts.visits.number[k, a * S + x] > 0.0:
                    renew_row(counts, k, x, a, rows)
                else:
                    for y in range(S):
                        rows[(k * S + x) * (pairs // S) + a, y] = 0.0
