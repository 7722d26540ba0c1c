"""When the estimate of a pair is trusted, and how much it is doubted; so exploration never ends.

A pair (x, a) whose first visits were unlucky looks bad, and a learner that only follows its estimates never tries it
again. Two rules prevent this, at O(1) a visit:

- With n visits, a pair is doubted by log2+(m / (A n)) / n, where m is the larger of the visits n(x) to its state and
  their mean over all states. The doubt grows while other pairs are visited, and is 0 for what is played as often as
  others. It is multiplied by a share of the range of the values that may follow, and added to the estimate.
- As long as there are states that were never visited, a pair is trusted only from a number of visits on that grows
  with the logarithm of the mean number of visits of all pairs: until then it may lead to them.

Logarithms are rounded down, so that they change only when a number has doubled.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from opdop.kernels.caching import njit
from opdop.kernels.records import as_record


@as_record
class Trust(NamedTuple):
    """The constants of both rules, and the counts that they need."""

    least: float  # visits from which on a pair's estimate is used; before, its width is the first one
    growth: float  # further visits whenever the mean number of visits has doubled, while states are unvisited
    value_doubt: float  # multiplies the range of the values that follow
    signal_doubt: float  # the same for the range of a signal, which is 1
    first_width: np.ndarray  # [L]: the width of a pair that is not trusted
    state_number: np.ndarray  # [L, S]: n(x)
    unvisited: np.ndarray  # [L] int64: states that were never visited at the stage after this one, or at any if L = 1
    total: np.ndarray  # [1]: observed visits of all pairs


@njit(cache=True, fastmath=False, allocates=False)
def doublings(number):
    """Return log2 of a number, rounded down, and -1 if it is below 1."""
    return (np.float64(max(number, 0.5)).view(np.int64) >> 52) - 1023


@njit(cache=True, fastmath=False, allocates=False)
def trusted_from(visits, k):
    """Return the visits from which on the pairs at stage k are trusted."""
    trust = visits.trust
    if trust.growth == 0.0 or trust.unvisited[k] == 0:
        return trust.least
    return max(trust.least, trust.growth * (1 + doublings(trust.total[0] / visits.number.size)))


@njit(cache=True, fastmath=False, allocates=False)
def doubted(n, state_number, mean_number, actions):
    """Return how much an estimate from n visits is doubted: log2+(max(n(x), its mean) / (A n)) / n."""
    return max(doublings(max(state_number, mean_number)) - doublings(actions * n), 0) / n


def exact_doubts(number):
    """Return how much each pair is doubted, [L, S, A], from its visits [L, S, A]; an unvisited one counts as seen once.

    Logarithms are not rounded here: nothing is kept up to date, so that it may change with every visit.
    """
    out = np.empty(number.shape)
    _exact_doubts(number, out)
    return out


@njit(cache=True, fastmath=False, allocates=False)
def _exact_doubts(number, out):
    """Write the same into out [L, S, A]."""
    L, S, A = number.shape
    total = 0.0
    for k in range(L):
        for x in range(S):
            for a in range(A):
                total += number[k, x, a]
    mean = total / (L * S)
    for k in range(L):
        for x in range(S):
            visits = 0.0
            for a in range(A):
                visits += number[k, x, a]
            visits = max(visits, mean)
            for a in range(A):
                n = max(number[k, x, a], 1.0)
                out[k, x, a] = math.log2(max(visits / (A * n), 1.0)) / n


@njit(cache=True, fastmath=False, allocates=False)
def renew_pairs(visits, k, first, step):
    """Write the widths and the doubts of the pairs first, first + step, ... at stage k."""
    S, pairs = visits.touched.shape[1], visits.number.shape[1]
    least, number, state_number = trusted_from(visits, k), visits.number[k], visits.trust.state_number[k]
    mean = visits.trust.total[0] / visits.trust.state_number.size
    for pair in range(first, pairs, step):
        n = number[pair]
        visits.width[k, pair] = math.sqrt(visits.inverse[k, pair]) if n >= least else visits.trust.first_width[k]
        if n > 0.0:
            visits.doubt[k, pair] = doubted(n, state_number[pair % S], mean, pairs // S)


@njit(cache=True, fastmath=False, allocates=False)
def renew_visited(visits, states, actions):
    """Write the widths and the doubts that an episode has changed, after its visits were counted."""
    trust = visits.trust
    least, growth, doubts = trust.least, trust.growth, trust.value_doubt > 0.0 or trust.signal_doubt > 0.0
    if not (least > 1.0 or growth > 0.0 or doubts):
        return  # counting has written the widths, and nothing else is needed
    number, state_number, total, unvisited = visits.number, trust.state_number, trust.total, trust.unvisited
    inverse, width, doubt = visits.inverse, visits.width, visits.doubt
    H, S, L = visits.touched.shape[0], visits.touched.shape[1], number.shape[0]
    A = number.shape[1] // S
    mean_pair, mean_state = total[0] / number.size, total[0] / state_number.size
    total[0] += H
    level = doublings(total[0] / number.size)
    has_doubled = level > doublings(mean_pair) or doublings(total[0] / state_number.size) > doublings(mean_state)
    mean_state = total[0] / state_number.size
    for h in range(H):
        k, x = h if L > 1 else 0, states[h]
        pair = actions[h] * S + x
        state_number[k, x] += 1.0
        n = np.int64(state_number[k, x])
        if n == 1 and (h > 0 if L > 1 else H > 1):  # one state fewer is unvisited after the stage before
            before = h - 1 if L > 1 else 0
            unvisited[before] -= 1
            if unvisited[before] == 0:
                renew_pairs(visits, before, 0, 1)
        if n & (n - 1) == 0:  # the visits of the state have doubled, so all its actions are concerned
            renew_pairs(visits, k, x, S)
        else:
            wanted = max(least, growth * (1 + level)) if unvisited[k] > 0 else least
            n = number[k, pair]
            width[k, pair] = math.sqrt(inverse[k, pair]) if n >= wanted else trust.first_width[k]
            doubt[k, pair] = doubted(n, state_number[k, x], mean_state, A)
    if has_doubled:
        for k in range(L):
            renew_pairs(visits, k, 0, 1)


@njit(cache=True, fastmath=False)
def renew_all(visits, known):
    """Compute again all that follows from the numbers of visits, `known` of which were not observed."""
    touched, number, trust = visits.touched, visits.number, visits.trust
    H, S, L = touched.shape[0], touched.shape[1], number.shape[0]
    trust.total[0] = number.sum() - known
    trust.state_number[:] = 0.0
    for k in range(L):
        trust.unvisited[k] = S - touched[k + 1 if L > 1 else 0].sum() if k < H - 1 else 0
        for pair in range(number.shape[1]):
            trust.state_number[k, pair % S] += number[k, pair]
            visits.inverse[k, pair] = 1.0 / (number[k, pair] + visits.ridge)
    for k in range(L):
        renew_pairs(visits, k, 0, 1)
