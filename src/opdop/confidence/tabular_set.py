"""The confidence set of a data set: an L1 ball for each row of the kernel, and an interval for each signal."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from opdop.confidence.observations import Observations
from opdop.kernels import dynamic_programming
from opdop.kernels.balls import Balls, l1_width, log_pairs_of_sets, mean_width
from opdop.model.policy import fitting_table
from opdop.model.validation import Floats, check_failure_probability, check_memory


@dataclass(frozen=True, eq=False)
class TabularSet:
    """All kernels and signals that the data allow; the true ones are among them with probability 1 - p.

    For a row with n visits and m possible successors (S, or those declared), for all n >= 1 and all rows at once,

        || P_n - P ||_1 <= eps_n = min(2, (2/n) sqrt((n+1)/2 log((2^(m-1) - 1) sqrt(n+1) / delta))),   m = 1: 0.

    Union bound, exactly: delta = p / (L S A), L = H, or 1 where stages are pooled. A signal without noise is known
    after one visit. If signals are random, kernels and signals share p equally: delta = (p/2) / (L S A) for the
    kernels, and |mean - expectation| <= (1/n) sqrt((n+1)/2 log(sqrt(n+1) / delta')) with delta' = (p/2) / ((1+I) M S A)
    for the signals. The row of a pair that was never visited may be any distribution, and its signals any numbers in
    [0, 1]. Nothing here depends on a plan or on how actions were chosen, so it holds for any number of episodes and for
    any policy, chosen after looking at the data.
    """

    observations: Observations
    failure_probability: float = 0.05
    widths: Floats = field(init=False)  # [L*S*A]: eps_n
    signal_low: Floats = field(init=False)  # [1+I, M, S, A]
    signal_up: Floats = field(init=False)  # [1+I, M, S, A]

    def __post_init__(self) -> None:
        data = self.observations
        risk = check_failure_probability("failure_probability", self.failure_probability)
        low, up = _signal_bounds(data, risk / 2.0)
        values = {
            "failure_probability": risk,
            "widths": _kernel_widths(data, risk / 2.0 if data.noisy else risk),
            "signal_low": low,
            "signal_up": up,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def balls(self, weights: Any) -> Balls:
        """Return the rows as backward passes take them; the kernel is the one that is best for `weights` [J]."""
        return as_balls(self.observations, self.widths, weights)

    def lower_values(self, policy: Any) -> Floats:
        """Return the smallest value of each signal under a policy [H, S, A] that the data allow, [1+I, H+1, S].

        Raises InvalidModelError if the policy does not fit the data.
        """
        return self._values(policy, self.signal_low, -1.0)

    def upper_values(self, policy: Any) -> Floats:
        """Return the largest value of each signal under a policy [H, S, A] that the data allow, [1+I, H+1, S].

        Raises InvalidModelError if the policy does not fit the data.
        """
        return self._values(policy, self.signal_up, 1.0)

    def _values(self, policy: Any, signals: Floats, direction: float) -> Floats:
        data = self.observations
        H, S = data.horizon, data.num_states
        table = fitting_table(policy, H, S, data.num_actions)
        J = 1 + data.num_constraints
        check_memory(8.0 * J * (H + 1) * S, f"the values of {J} signals at {H:,} stages and {S:,} states")
        v = np.empty((J, H + 1, S))
        balls = self.balls([direction])  # each signal has a worst kernel of its own
        for j in range(J):
            dynamic_programming.evaluate(balls, signals[j : j + 1], table, v[j : j + 1])
        return v


def as_balls(data: Observations, widths: Floats, weights: Any) -> Balls:
    """Return the empirical rows of data with widths [L*S*A], as backward passes take them; weights [J]."""
    S = data.num_states
    starts, successors, probabilities = data.kernel()
    return Balls(
        starts=starts,
        successors=successors,
        probabilities=probabilities,
        widths=widths,
        possible_starts=data.possible_starts,
        possible=data.possible,
        weights=np.array(weights, dtype=np.float64),
        rank=np.zeros(S, dtype=np.int64),
        order=np.zeros(S, dtype=np.int64),
        slots=np.full(S, -1, dtype=np.int64),
    )


def _kernel_widths(data: Observations, risk: float) -> Floats:
    rows, number = len(data.starts) - 1, data.number
    log_rows = math.log(rows / risk)
    successors = np.diff(data.possible_starts) if data.declares_possible else np.full(rows, data.num_states)
    # Few distinct pairs of (visits, possible successors) occur, compared with the number of rows.
    distinct, inverse = np.unique(np.stack([number, successors]), axis=1, return_inverse=True)
    widths = np.array([l1_width(float(n), log_pairs_of_sets(m) + log_rows) for n, m in distinct.T])
    # A row that was never visited has no centre: with width 2 all mass goes to the best possible successor.
    return np.where(number > 0, widths[inverse.reshape(-1)], 2.0)


def _signal_bounds(data: Observations, risk: float) -> tuple[Floats, Floats]:
    """Return the smallest and the largest expectation of each signal that the data allow, [1+I, M, S, A]."""
    J, shape = 1 + data.num_constraints, (1 + data.num_constraints, -1, data.num_states, data.num_actions)
    means, counted = data.signal_means(), data.signal_number
    widths = np.where(counted > 0, 0.0, np.inf)
    if data.noisy:
        log_sets = math.log(J * len(counted) / risk)
        distinct, inverse = np.unique(counted, return_inverse=True)
        widths = np.array([mean_width(float(n), log_sets) for n in distinct])[inverse]
    return np.maximum(means - widths, 0.0).reshape(shape), np.minimum(means + widths, 1.0).reshape(shape)
