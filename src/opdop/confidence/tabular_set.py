"""The confidence set of a data set: an L1 ball for each row of the kernel, and an interval for each signal."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from opdop.confidence.first_state import FirstState, row_bounds
from opdop.confidence.observations import Observations
from opdop.confidence.optimism import OptimisticOracle, PessimisticOracle, empirical_oracle
from opdop.confidence.sets import Planner, UncertainPair
from opdop.kernels import dynamic_programming
from opdop.kernels.balls import Balls, mean_width, room_for_ranks
from opdop.model import InfeasibleError, TabularPolicy
from opdop.model.policy import fitting_table
from opdop.model.validation import Floats, check_failure_probability, check_memory
from opdop.planning import Oracle, solve_by_oracle
from opdop.planning.optimum import mix_corners


@dataclass(frozen=True, eq=False)
class TabularSet:
    """All kernels and signals that the data allow; the true ones are among them with probability 1 - p.

    For a row with n visits and m possible successors (S, or those declared), for all n >= 1 and all rows at once,

        || P_n - P ||_1 <= eps_n = min(2, (2/n) sqrt((n+1)/2 log((2^(m-1) - 1) sqrt(n+1) / delta))),   m = 1: 0,
        P(all successors that did not occur) <= u_n = 1 - (delta_u / (2^m - 2))^(1/n),                 m = 1: 0.

    Union bound, exactly: delta = 0.9 p' / (L S A) and delta_u = 0.1 p' / (L S A), L = H, or 1 where stages are pooled,
    and p' = p. A signal without noise is known after one visit. If signals are random, kernels and signals share p
    equally: p' = p/2 for the kernels, and |mean - expectation| <= (1/n) sqrt((n+1)/2 log(sqrt(n+1) / delta')) with
    delta' = (p/2) / ((1+I) M S A) for the signals. The row of a pair that was never visited may be any distribution,
    and its signals any numbers in [0, 1]. Where the distribution of the first state is not known, it is one more row,
    with p/10 of its own; the rest has 0.9 p in place of p. Nothing here depends on a plan or on how actions were
    chosen, so it holds for any number of episodes and for any policy, chosen after looking at the data.
    """

    observations: Observations
    failure_probability: float = 0.05
    widths: Floats = field(init=False)  # [L*S*A]: eps_n
    unseen: Floats = field(init=False)  # [L*S*A]: u_n
    signal_low: Floats = field(init=False)  # [1+I, M, S, A]
    signal_up: Floats = field(init=False)  # [1+I, M, S, A]
    first: FirstState = field(init=False)

    def __post_init__(self) -> None:
        data = self.observations
        risk = check_failure_probability("failure_probability", self.failure_probability)
        shape = (1 + data.num_constraints, -1, data.num_states, data.num_actions)
        total, (first, risk) = risk, FirstState.of(data.initial, data.first_visits, risk)
        low, up = signal_bounds(data.signal_sums, data.signal_number, data.noisy, risk / 2.0)
        widths, unseen = _kernel_bounds(data, risk / 2.0 if data.noisy else risk)
        values = {
            "failure_probability": total,
            "first": first,
            "widths": widths,
            "unseen": unseen,
            "signal_low": low.reshape(shape),
            "signal_up": up.reshape(shape),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def balls(self, weights: Any) -> Balls:
        """Return the rows as backward passes take them; the kernel is the one that is best for `weights` [J]."""
        return as_balls(self.observations, self.widths, self.unseen, weights)

    @property
    def thresholds(self) -> Floats:
        """The thresholds of the utilities, [I]."""
        return self.observations.thresholds

    @property
    def horizon(self) -> int:
        """H."""
        return self.observations.horizon

    @property
    def basis(self) -> str:
        """What the set rests on, in words."""
        data = self.observations
        stages = "all stages pooled" if data.kernel_stages == 1 and data.horizon > 1 else "stage by stage"
        return f"counts of {data.observed:,} transitions, {stages}{self.first.basis}"

    def lower_values(self, policy: Any) -> Floats:
        """Return the smallest value of each signal under a policy [H, S, A] that the data allow, [1+I, H+1, S].

        Raises InvalidModelError if the policy does not fit the data.
        """
        return self._values(policy, self.signal_low, -1.0, self.horizon + 1)

    def upper_values(self, policy: Any) -> Floats:
        """Return the largest value of each signal under a policy [H, S, A] that the data allow, [1+I, H+1, S].

        Raises InvalidModelError if the policy does not fit the data.
        """
        return self._values(policy, self.signal_up, 1.0, self.horizon + 1)

    def lower(self, policy: Any) -> Floats:
        """Return the smallest values of a policy [H, S, A] from the first state on, [1+I]."""
        return self._start(self._values(policy, self.signal_low, -1.0, 2)[:, 0], -1.0)

    def upper(self, policy: Any) -> Floats:
        """Return the largest values of a policy [H, S, A] from the first state on, [1+I]."""
        return self._start(self._values(policy, self.signal_up, 1.0, 2)[:, 0], 1.0)

    def optimist(self) -> OptimisticOracle:
        """Return the oracle over policies and kernels of the set that are best together."""
        return OptimisticOracle(self)

    def planners(self) -> tuple[Planner, Planner]:
        """Return two ways to plan: on the empirical model, and for the worst case."""

        def plan(oracle: Oracle) -> TabularPolicy | None:
            try:
                mixture = solve_by_oracle(oracle)
            except InfeasibleError:
                return None
            return mix_corners(data.kernel(), data.num_actions, data.initial, mixture)

        data = self.observations
        return lambda b: plan(empirical_oracle(data, b)), lambda b: plan(PessimisticOracle(self, b))

    def safest(self) -> TabularPolicy:
        """Return the policy that maximises the sum of the utilities in the worst case."""
        prices = np.append(0.0, np.ones(len(self.thresholds)))
        corner = PessimisticOracle(self, self.thresholds).best(prices, second=np.eye(len(prices))[0])
        return TabularPolicy.deterministic(corner.actions, self.observations.num_actions)

    def uncertain_pairs(self, policy: Any, count: int) -> tuple[UncertainPair, ...]:
        """Return the `count` pairs with the largest occupancy, of `policy` in the empirical model, times width."""
        data = self.observations
        H, S, A, L = data.horizon, data.num_states, data.num_actions, data.kernel_stages
        table = fitting_table(policy, H, S, A)
        occupancy = dynamic_programming.visit(data.kernel(), table, data.initial)[:, :, None] * table
        occupancy[-1] = 0.0  # nothing depends on where the last stage leads
        occupancy = occupancy.reshape(-1, L * S * A).sum(axis=0)
        weight = occupancy * self.widths
        total, number = float(weight.sum()), data.number
        largest = np.argsort(-weight, kind="stable")[:count]
        return tuple(
            UncertainPair(
                stage=int(row) // (S * A) if L > 1 else None,
                state=int(row) % (S * A) // A,
                action=int(row) % A,
                visits=int(number[row]),
                share=float(weight[row]) / total,
            )
            for row in largest
            if weight[row] > 0.0
        )

    def _start(self, v: Floats, direction: float) -> Floats:
        """Return the largest values v [J, S] at the first state, or with direction -1 the smallest, [J]."""
        return np.concatenate([self.first.expect(v[j : j + 1], [direction]) for j in range(len(v))])

    def _values(self, policy: Any, signals: Floats, direction: float, depth: int) -> Floats:
        """Return values v [1+I, depth, S], see `dynamic_programming.evaluate`."""
        data = self.observations
        H, S = data.horizon, data.num_states
        table = fitting_table(policy, H, S, data.num_actions)
        J = 1 + data.num_constraints
        check_memory(8.0 * J * depth * S, f"the values of {J} signals at {H:,} stages and {S:,} states")
        v = np.empty((J, depth, S))
        balls = self.balls([direction])  # each signal has a worst kernel of its own
        for j in range(J):
            dynamic_programming.evaluate(balls, signals[j : j + 1], table, v[j : j + 1])
        return v


def as_balls(data: Observations, widths: Floats, unseen: Floats, weights: Any) -> Balls:
    """Return the empirical rows of data with widths and `unseen` [L*S*A], as `Balls` describes them; weights [J]."""
    S = data.num_states
    starts, successors, probabilities = data.kernel()
    return Balls(
        starts=starts,
        successors=successors,
        probabilities=probabilities,
        widths=widths,
        unseen=unseen,
        possible_starts=data.possible_starts,
        possible=data.possible,
        weights=np.array(weights, dtype=np.float64),
        **room_for_ranks(S),
        slots=np.full(S, -1, dtype=np.int64),
    )


def _kernel_bounds(data: Observations, risk: float) -> tuple[Floats, Floats]:
    """Return eps_n and u_n of each row, [L*S*A] each; together they may fail with probability `risk`."""
    rows = len(data.starts) - 1
    possible = np.diff(data.possible_starts) if data.declares_possible else np.full(rows, data.num_states)
    return row_bounds(data.number, possible, risk)


def signal_bounds(sums: Floats, counted: Any, noisy: bool, risk: float) -> tuple[Floats, Floats]:
    """Return the smallest and the largest expectation of signals that their sums [J, rows] allow, each [J, rows].

    `counted` [rows] is how often they were observed. Without noise they are known after one visit.
    """
    means, widths = sums / np.maximum(counted, 1), np.where(counted > 0, 0.0, np.inf)
    if noisy:
        log_sets = math.log(sums.size / risk)
        distinct, inverse = np.unique(counted, return_inverse=True)
        widths = np.array([mean_width(float(n), log_sets) for n in distinct])[inverse]
    return np.maximum(means - widths, 0.0), np.minimum(means + widths, 1.0)
