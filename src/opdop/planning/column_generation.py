"""Any number of constraints: the exact optimum by column generation.

The master problem is a small linear program that mixes the deterministic policies found so far. Its multipliers weight
the signals, and one backward induction finds the best policy for these weights. The method ends when that policy is no
better than the mixture. Where rounding keeps the master from being solved, exact arithmetic does it.

Multipliers of a master with few columns jump from one end to the other. So a policy is looked for between them and the
best ones so far, those with the least bound on the optimum (Wentges 1997); where that policy does not improve the
mixture, at the multipliers themselves.
"""

from __future__ import annotations

import numpy as np

from opdop.kernels.mixtures import mix_columns
from opdop.model import Problem, as_tabular
from opdop.model.validation import Floats
from opdop.planning.exact_simplex import best_mixture
from opdop.planning.optimum import (
    FEASIBILITY,
    ROUNDING,
    Corner,
    MixedCorners,
    ModelOracle,
    Optimum,
    Oracle,
    as_optimum,
    settle_slater_gap,
)

_STAY = 0.5  # the share of the best multipliers so far


def solve_by_column_generation(problem: Problem) -> Optimum:
    """Return the exact optimum of a problem with any number of constraints.

    Raises InfeasibleError if no policy satisfies all of them.
    """
    oracle = ModelOracle(as_tabular(problem))
    return as_optimum(oracle, generate_columns(oracle))


def generate_columns(oracle: Oracle) -> MixedCorners:
    """Return the optimum over what an oracle with any number of thresholds can answer.

    Raises InfeasibleError if no mixture of its policies reaches all of them.
    """
    I, H = len(oracle.thresholds), oracle.horizon
    reward = np.eye(1 + I)[0]
    greedy = oracle.best(reward, second=1.0 - reward)
    master, weights = _widen_gap(oracle, greedy)
    slater = weights @ master.totals
    slack = float((slater[1:] - oracle.thresholds).min())
    slater_gap = settle_slater_gap(oracle, slack, slater[1:])
    # Without slack the thresholds are attained only up to rounding, which must not make the master infeasible.
    thresholds = np.minimum(oracle.thresholds, slater[1:]) if slater_gap == 0.0 else oracle.thresholds

    if (greedy.totals[1:] >= thresholds).all():
        weights, dual = np.eye(len(master.pool))[0], np.zeros(I)
    else:
        room = 0.0 if slater_gap else FEASIBILITY * H
        weights, dual = _generate(oracle, master, thresholds, widens=False, room=room)
    return MixedCorners.of(
        master.pool,
        weights,
        dual=dual,
        slater_gap=slater_gap,
        unconstrained=greedy,
        slater=slater,
        method="column generation",
    )


def max_slack_corners(oracle: Oracle) -> tuple[list[Corner], Floats]:
    """Return the corners and shares of the mixture with the largest smallest slack that an oracle can find."""
    reward = np.eye(1 + len(oracle.thresholds))[0]
    master, weights = _widen_gap(oracle, oracle.best(reward, second=1.0 - reward))
    return master.pool, weights


def _widen_gap(oracle: Oracle, greedy: Corner) -> tuple[_Master, Floats]:
    """Return columns of which a mixture has the largest smallest slack, and its weights."""
    I = len(oracle.thresholds)
    master = _Master(greedy, oracle.thresholds)
    for prices in np.eye(1 + I)[1:]:
        master.add(oracle.best(prices, second=np.eye(1 + I)[0]))
    weights, _ = _generate(oracle, master, oracle.thresholds, widens=True)
    return master, weights


def _generate(
    oracle: Oracle, master: _Master, thresholds: Floats, *, widens: bool, room: float = 0.0
) -> tuple[Floats, Floats]:
    """Add columns until no policy improves the best mixture; return its weights and multipliers.

    The best mixture has the largest smallest slack if `widens`; otherwise the largest reward without a negative slack.
    Without any slack the multipliers are not bounded. Exact arithmetic then needs `room` below the thresholds, as much
    as cannot be told from zero.
    """
    H, lead = oracle.horizon, 0.0 if widens else 1.0
    second = np.full(1 + len(thresholds), lead)
    second[0] = 1.0 - lead
    exactly, centre, least = False, None, np.inf
    while True:
        totals = master.totals
        slacks = totals[:, 1:] - thresholds  # [M, I]
        solved = None if exactly else master.solve(slacks, widens=widens)
        if solved is not None and not widens and (solved[0] @ slacks).min() < -FEASIBILITY * H:
            solved = None
        if solved is None and not exactly:
            exactly, thresholds, slacks = True, thresholds - room, slacks + room
        weights, prices = best_mixture(slacks, None if widens else totals[:, 0]) if solved is None else solved
        reached = (weights @ slacks).min() if widens else weights @ totals[:, 0]
        unit = H * (lead + prices.sum())

        if centre is not None and not exactly:
            between = _STAY * centre + (1.0 - _STAY) * prices
            found = oracle.best(np.append(lead, between), second)
            bound = lead * found.totals[0] + between @ (found.totals[1:] - thresholds)
            if bound < least:
                centre, least = between, bound
            gained = lead * found.totals[0] + prices @ (found.totals[1:] - thresholds) - reached
            if gained > ROUNDING * unit and master.add(found):
                continue
        found = oracle.best(np.append(lead, prices), second)
        bound = lead * found.totals[0] + prices @ (found.totals[1:] - thresholds)
        if bound < least:
            centre, least = prices, bound
        gained, known = bound - reached, found in master
        if gained <= ROUNDING * unit or (known and (exactly or gained <= FEASIBILITY * unit)):
            return _clean(weights), prices
        if known and not exactly:
            exactly, thresholds = True, thresholds - room
        master.add(found)


class _Master:
    """The columns, and the basis with which the master program begins: at first, all of the first column."""

    def __init__(self, first: Corner, thresholds: Floats) -> None:
        J = len(first.totals)
        self.pool: list[Corner] = []
        self._known: set[bytes] = set()
        self._totals = np.empty((16, J))
        self._basis = -1 - np.arange(J, dtype=np.int64)  # the surpluses
        self._basis[np.argmin(first.totals[1:] - thresholds)] = -J  # the gap
        self._basis[-1] = 0
        self.add(first)

    def add(self, found: Corner) -> bool:
        """Add a column unless there is one with these very totals; return whether it was added."""
        if found in self:
            return False
        self._known.add(found.totals.tobytes())
        if len(self.pool) == len(self._totals):
            self._totals = np.concatenate([self._totals, np.empty_like(self._totals)])
        self._totals[len(self.pool)] = found.totals
        self.pool.append(found)
        return True

    def __contains__(self, found: Corner) -> bool:
        """Whether a policy with these very totals is a column already: then the rest is rounding."""
        return found.totals.tobytes() in self._known

    @property
    def totals(self) -> Floats:
        """The values of all columns, [M, 1+I]."""
        return self._totals[: len(self.pool)]

    def solve(self, slacks: Floats, *, widens: bool) -> tuple[Floats, Floats] | None:
        """Return the shares [M] and the multipliers [I] of the best mixture of columns with slacks [M, I].

        None if rounding errors are too large.
        """
        basis, shares, prices = self._basis.copy(), np.zeros(len(slacks)), np.zeros(slacks.shape[1])
        if not mix_columns(slacks, self.totals[:, 0].copy(), widens, basis, shares, prices):
            return None
        self._basis = basis
        return shares, prices


def _clean(weights: Floats) -> Floats:
    """Drop weights that are rounding; the rest sums to 1."""
    kept = np.where(weights > 1e-14, weights, 0.0)
    shares: Floats = kept / kept.sum()
    return shares
