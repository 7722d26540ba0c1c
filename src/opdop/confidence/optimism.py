"""The largest reward under the constraints that the data allow: no policy that keeps the constraints has more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from opdop.kernels.transitions import Transitions
from opdop.model import InfeasibleError
from opdop.model.validation import Floats, check_memory
from opdop.planning import Corner, MixedCorners, Oracle, solve_by_oracle
from opdop.planning.optimum import best_corner, listed

if TYPE_CHECKING:
    from opdop.confidence.observations import Observations
    from opdop.confidence.tabular_set import TabularSet


class OptimisticOracle:
    """Finds the policy and the kernel of the confidence set that are best together for a weighted sum of signals.

    The values of its corners are those of each signal under that kernel, with the largest signals that the data allow.
    Raises InvalidModelError if planning with the set `confidence` would not fit into memory.
    """

    def __init__(self, confidence: TabularSet) -> None:
        data = confidence.observations
        H, S, A, I = data.horizon, data.num_states, data.num_actions, data.num_constraints
        check_memory(8.0 * H * S * ((4 + I) * A + 6), f"planning for {H:,} stages, {S:,} states and {A:,} actions")
        self.confidence = confidence
        self.passes = 0
        self._balls = confidence.balls(np.zeros(1 + I))

    @property
    def thresholds(self) -> Floats:
        """The thresholds of the utilities, [I]."""
        return self.confidence.observations.thresholds

    @property
    def horizon(self) -> int:
        """H."""
        return self.confidence.observations.horizon

    def best(self, weights: Sequence[float] | Floats, second: Sequence[float] | Floats) -> Corner:
        """Return a policy that maximises `weights` [1+I], none negative; among several, one best for `second`."""
        self._balls.weights[:] = weights
        self.passes += 1
        signals, first = self.confidence.signal_up, self.confidence.first
        return best_corner(self._balls, signals, self.horizon, lambda v: first.expect(v, weights), weights, second)

    def infeasible(self, gap: float, utilities: Floats) -> InfeasibleError:
        """Return the error for constraints that, by the data, no policy satisfies.

        `gap` is the negative largest slack, `utilities` [I] are those of the best case.
        """
        return infeasible_by_data(self.confidence.failure_probability, self.thresholds, gap, utilities)


def infeasible_by_data(
    failure_probability: float, thresholds: Floats, gap: float, utilities: Floats
) -> InfeasibleError:
    """Return the error for thresholds [I] that even the best case is short of; its utilities [I] are given."""
    sure = 100.0 * (1.0 - failure_probability)
    return InfeasibleError(
        f"with probability at least {sure:g} %, no policy satisfies all constraints: even the best case that the data "
        f"allow is short by {-gap:.6g}. As utilities: thresholds {listed(thresholds)}, best case {listed(utilities)}. "
        "Lower the thresholds.",
        best_utilities=utilities,
        slater_gap=float(gap),
    )


class KernelOracle:
    """Finds the best policy for one kernel and one set of signals.

    Args:
        kernel: the transitions; a row without successors leads nowhere, so that nothing after it has a value.
        signals: [1+I, M, S, A].
        data: its horizon and the distribution of the first state are used.
        thresholds: of the utilities, [I].
    """

    def __init__(self, kernel: Transitions, signals: Floats, data: Observations, thresholds: Floats) -> None:
        self.thresholds, self.horizon, self._initial = thresholds, data.horizon, data.initial
        self._kernel, self._signals = kernel, signals

    def best(self, weights: Sequence[float] | Floats, second: Sequence[float] | Floats) -> Corner:
        """Maximise `weights` [1+I]; where several policies do, prefer those best for `second`."""
        return best_corner(self._kernel, self._signals, self.horizon, self._initial, weights, second)

    def infeasible(self, gap: float, utilities: Floats) -> InfeasibleError:
        """Return the error for thresholds that this model does not reach."""
        return InfeasibleError("this model does not reach the thresholds.", utilities, float(gap))


def empirical_oracle(data: Observations, thresholds: Floats) -> KernelOracle:
    """Return the oracle of the empirical model: P_n and the mean signals; what was never visited has no value.

    `thresholds` [I] may be other ones than those of the data.
    """
    shape = (1 + data.num_constraints, data.signal_stages, data.num_states, data.num_actions)
    return KernelOracle(data.kernel(), data.signal_means().reshape(shape), data, thresholds)


class PessimisticOracle:
    """Finds the policy that is best for a weighted sum of signals under the kernel that is worst for this sum.

    `thresholds` [I] may be other ones than those of the data.
    """

    def __init__(self, confidence: TabularSet, thresholds: Floats) -> None:
        data = confidence.observations
        self.thresholds, self.horizon, self._first = thresholds, data.horizon, confidence.first
        self._balls, self._signals = confidence.balls(np.zeros(1 + data.num_constraints)), confidence.signal_low

    def best(self, weights: Sequence[float] | Floats, second: Sequence[float] | Floats) -> Corner:
        """Maximise `weights` [1+I], none negative; where several policies do, prefer those best for `second`."""
        against = -np.asarray(weights, dtype=np.float64)
        self._balls.weights[:] = against
        first = self._first
        return best_corner(
            self._balls, self._signals, self.horizon, lambda v: first.expect(v, against), weights, second
        )

    def infeasible(self, gap: float, utilities: Floats) -> InfeasibleError:
        """Return the error for thresholds that are not reached in the worst case."""
        return InfeasibleError("the worst case does not reach the thresholds.", utilities, float(gap))


@dataclass(frozen=True, eq=False)
class OptimisticPlan:
    """The optimum over policies and kernels of a confidence set.

    Attributes:
        upper: U(Y), which no policy that keeps the constraints exceeds, if the true kernel is in the set.
        mixture: the corners on both sides of the constraints, their shares, and the multipliers Y.
    """

    upper: float
    mixture: MixedCorners


def plan_optimistically(oracle: Oracle) -> OptimisticPlan:
    """Return the plan that minimises U(Y) = max (V_r + Y V_g) - Y b over Y >= 0.

    The maximum is over policies and kernels; `oracle` finds it for given multipliers.

    Raises InfeasibleError if even the best case that the data allow is infeasible.
    """
    mixture = solve_by_oracle(oracle)
    dual = mixture.dual
    # Any Y >= 0 gives a bound, however it was found; so the multipliers need not be exact.
    corner = oracle.best(np.concatenate([[1.0], dual]), second=np.concatenate([[0.0], np.ones(len(dual))]))
    bound = corner.totals[0] + dual @ (corner.totals[1:] - oracle.thresholds)
    return OptimisticPlan(min(float(bound), float(mixture.unconstrained.totals[0])), mixture)
