"""When the estimate of a pair is trusted, and how much it is doubted: so exploration never ends.

A pair (x, a) whose first visits were unlucky looks bad, and a learner that only follows its estimates never tries it
again. Two rules, which cost O(1) a visit, prevent this:

- With n of the n(x) visits to a state, an action is doubted by `doubt_scale` log2+(n(x) / (A n)) / n, a share of the
  range of the values that it may lead to. This grows while others are played, and is 0 for what is played.
- A pair is trusted from a number of visits on that grows with the logarithm of the mean number of visits of all pairs,
  as long as there are states that were never visited: it may lead there.

Logarithms are rounded down, so that they change when a number has doubled.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from opdop.kernels.caching import njit


class Trust(NamedTuple):
    """The numbers of both rules, and the counts that they need."""

    least: float  # visits from which on a pair's estimate is used; before, its width is the first one
    growth: float  # further visits whenever the mean number of visits has doubled, while states are unvisited
    doubt_scale: float
    signal_span: float  # the range of a signal, if signals are random; 0 if they are known after one visit
    first_width: np.ndarray  # [L]: the width of a pair that is not trusted
    state_number: np.ndarray  # [L, S]: n(x)
    unvisited: np.ndarray  # [L] int64: states that were never visited at the stage after this one, or at any if L = 1
    total: np.ndarray  # [1]: observed visits of all pairs


@njit(cache=True, fastmath=False)
def doublings(number):
    """Return log2 of a positive number, rounded down: its exponent."""
    return (np.float64(number).view(np.int64) >> 52) - 1023


@njit(cache=True, fastmath=False)
def trusted_from(visits, k):
    """Return the visits from which on the pairs of a row of stages are trusted."""
    trust = visits.trust
    if trust.growth == 0.0 or trust.unvisited[k] == 0:
        return trust.least
    return max(trust.least, trust.growth * (1 + doublings(max(trust.total[0] / visits.number.size, 0.5))))


@njit(cache=True, fastmath=False)
def doubted(n, state_number, actions, scale):
    """Return how much the estimate from n of the visits to a state is doubted."""
    return scale * max(doublings(state_number) - doublings(actions * n), 0) / n


@njit(cache=True, fastmath=False)
def renew_pair(visits, k, pair, least):
    """Write the width and the doubt of a pair, which is trusted from `least` visits on."""
    S, trust = visits.touched.shape[1], visits.trust
    n = visits.number[k, pair]
    visits.width[k, pair] = np.sqrt(visits.inverse[k, pair]) if n >= least else trust.first_width[k]
    if trust.doubt_scale > 0.0 and n > 0.0:
        actions = visits.number.shape[1] // S
        here = max(trust.state_number[k, pair % S], trust.total[0] / trust.state_number.size)
        visits.doubt[k, pair] = doubted(n, here, actions, trust.doubt_scale)


@njit(cache=True, fastmath=False)
def renew_stages(visits, k):
    """Write the widths and the doubts of all pairs of a row of stages."""
    least = trusted_from(visits, k)
    for pair in range(visits.number.shape[1]):
        renew_pair(visits, k, pair, least)


@njit(cache=True, fastmath=False)
def renew_visited(visits, h, k, x, pair, is_new):
    """Write what a visit to a pair at stage h has changed; `is_new` says whether it is the first to its state there."""
    S, L, trust = visits.touched.shape[1], visits.number.shape[0], visits.trust
    least = trusted_from(visits, k)
    trust.state_number[k, x] += 1.0
    n = np.int64(trust.state_number[k, x])
    if trust.doubt_scale > 0.0 and n & (n - 1) == 0:  # its logarithm has changed, so all its actions are concerned
        for each in range(x, visits.number.shape[1], S):
            renew_pair(visits, k, each, least)
    else:
        renew_pair(visits, k, pair, least)
    before = 0 if L == 1 else h - 1
    if is_new and before >= 0 and trust.unvisited[before] > 0:
        trust.unvisited[before] -= 1
        if trust.growth > 0.0 and trust.unvisited[before] == 0:
            renew_stages(visits, before)


@njit(cache=True, fastmath=False)
def count_stages(visits, stages):
    """Count the visits of an episode; renew all pairs if their mean number has doubled."""
    total, size = visits.trust.total, visits.trust.state_number.size
    earlier = doublings(max(total[0] / size, 0.5))
    total[0] += stages
    if (visits.trust.growth > 0.0 or visits.trust.doubt_scale > 0.0) and doublings(max(total[0] / size, 0.5)) > earlier:
        for k in range(visits.number.shape[0]):
            renew_stages(visits, k)


@njit(cache=True, fastmath=False)
def renew_all(visits, ridge, known):
    """Compute again all that follows from the numbers of visits, `known` of which were not observed."""
    touched, number, trust = visits.touched, visits.number, visits.trust
    H, S, L = touched.shape[0], touched.shape[1], number.shape[0]
    trust.total[0] = number.sum() - known
    trust.state_number[:] = 0.0
    for k in range(L):
        after = 0 if L == 1 else k + 1
        trust.unvisited[k] = S - touched[after].sum() if k < H - 1 else 0
        for pair in range(number.shape[1]):
            trust.state_number[k, pair % S] += number[k, pair]
            visits.inverse[k, pair] = 1.0 / (number[k, pair] + ridge)
        renew_stages(visits, k)
