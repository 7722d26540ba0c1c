"""The exact constrained optimum as a result, and the deterministic policies of which it is a mixture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from opdop.kernels import dynamic_programming
from opdop.kernels.balls import Balls
from opdop.kernels.boxes import Boxes
from opdop.kernels.ellipsoids import BlockEllipsoids, Ellipsoids
from opdop.kernels.transitions import Transitions
from opdop.model import Display, InfeasibleError, Quantity, TabularCMDP, TabularPolicy
from opdop.model.display import price_scale, worth
from opdop.model.html_tables import html_table
from opdop.model.validation import Floats, check_memory
from opdop.planning.values import Values, policy_with_occupancy

# Relative to the horizon: rounding in one backward pass stays well below ROUNDING; a Slater gap below
# FEASIBILITY cannot be told from zero; a multiplier below it is not a price.
ROUNDING = 1e-13
FEASIBILITY = 1e-10


@dataclass(frozen=True, eq=False, repr=False)
class Optimum:
    """The largest reward under all constraints, a policy that attains it, and the multipliers that prove it.

    Attributes:
        value: the reward of `policy`, an expected episode total like all values here.
        utility_values: the utilities of `policy`, [I].
        dual: the optimal Lagrange multipliers, [I]: the reward lost for each unit by which a threshold is raised.
        slater_gap: the largest slack that one policy has in all constraints at once, max_pi min_i (V_{g_i} - b_i);
            exactly 0.0 if no policy has slack.
        active: whether each constraint costs reward, [I]: its multiplier is above 0.
        policy: one Markov policy that attains all this.
        unconstrained: the values of a policy that maximises the reward without constraints.
        slater: the values of the max-slack policy, which attains the Slater gap.
        method: how the optimum was found.
        passes: the number of backward inductions; 0 for a linear program.
        quantities: the names and units of the problem.
        thresholds: those of the problem, [I].

    Numbers are in model units, those of signals in [0, 1]; `in_units`, `prices` and `print` give own units.
    """

    value: float
    utility_values: Floats
    dual: Floats
    slater_gap: float
    active: NDArray[np.bool_]
    policy: TabularPolicy
    unconstrained: Values
    slater: Values
    method: str
    passes: int
    quantities: tuple[Quantity, ...] = ()  # [1+I], the reward first; () shows model units
    thresholds: Floats | None = None  # [I]

    def in_units(self) -> dict[str, float]:
        """Return the expected totals of `policy` in own units, by the names of the reward and the constraints."""
        totals = [self.value, *map(float, self.utility_values)]
        return {quantity.name: quantity.shown(total) for quantity, total in zip(self._shown, totals, strict=True)}

    def prices(self) -> dict[str, float]:
        """Return by name what one more unit of each budget, or one less of each threshold, is worth in own units."""
        reward, *constrained = self._shown
        return {
            quantity.name: float(dual) * price_scale(reward, quantity)
            for quantity, dual in zip(constrained, self.dual, strict=True)
        }

    @property
    def _shown(self) -> tuple[Quantity, ...]:
        return self.quantities or Display.plain(len(self.dual)).quantities

    def __str__(self) -> str:
        """Return the value, and for each constraint its total and its price, in own units."""
        reward, *constrained = self._shown
        lines = [f"{reward.name}: {reward.shown(self.value):.6g} {reward.unit}".rstrip()]
        for i, quantity in enumerate(constrained):
            bound = quantity.name if self.thresholds is None else quantity.constraint(float(self.thresholds[i]))
            price = worth(reward, quantity, float(self.dual[i])) if self.active[i] else "it costs nothing"
            lines.append(f"{bound}: {quantity.shown(float(self.utility_values[i])):.6g}; {price}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"Optimum({'; '.join(str(self).splitlines())})"

    def _repr_html_(self) -> str:
        return html_table("Optimum", [line.split(": ", 1) for line in str(self).splitlines()])

    @property
    def price(self) -> float:
        """The reward that the constraints cost: the unconstrained optimum less the constrained one."""
        return self.unconstrained.reward - self.value


@dataclass(frozen=True, eq=False)
class Corner:
    """A deterministic policy with its values: a corner of the set of values that policies attain."""

    actions: NDArray[np.int32]  # [H, S]
    totals: Floats  # [1+I]


class Oracle(Protocol):
    """What the dual walk and column generation ask: the policy that is best for a weighted sum of signals."""

    @property
    def thresholds(self) -> Floats:
        """The thresholds of the utilities, [I]."""
        ...

    @property
    def horizon(self) -> int:
        """H, the largest value that a signal can have."""
        ...

    def best(self, weights: Sequence[float] | Floats, second: Sequence[float] | Floats) -> Corner:
        """Return a policy that maximises `weights` [1+I], none negative; among several, one best for `second`."""
        ...

    def infeasible(self, gap: float, utilities: Floats) -> InfeasibleError:
        """Return the error for constraints that cannot be satisfied.

        `gap` is the negative largest slack, `utilities` [I] are the max-slack policy's.
        """
        ...


@dataclass(frozen=True, eq=False)
class MixedCorners:
    """The constrained optimum as an oracle's answers show it: corners, their shares, and what proves them optimal."""

    corners: tuple[Corner, ...]
    shares: Floats  # [corners], none 0
    dual: Floats  # [I]
    slater_gap: float
    unconstrained: Corner
    slater: Floats  # [1+I], the values of the max-slack policy
    method: str

    @classmethod
    def of(
        cls,
        corners: Sequence[Corner],
        weights: Floats,
        *,
        dual: Floats,
        slater_gap: float,
        unconstrained: Corner,
        slater: Floats,
        method: str,
    ) -> MixedCorners:
        """Return a mixture of corners with weights [corners], of any sum; corners of weight zero are left out.

        The other arguments are the fields: the multipliers `dual` [I], the `slater_gap`, the `unconstrained` corner,
        the totals `slater` [1+I] of the max-slack policy, and the name of the `method`.
        """
        used = [m for m in range(len(corners)) if weights[m] > 0.0]
        shares = weights[used] / weights[used].sum()
        return cls(tuple(corners[m] for m in used), shares, dual, slater_gap, unconstrained, slater, method)

    @property
    def totals(self) -> Floats:
        """The values of the mixture, [1+I]."""
        totals: Floats = self.shares @ np.array([corner.totals for corner in self.corners])
        return totals


class ModelOracle:
    """Finds the deterministic policy of `cmdp` that is best for a weighted sum of signals, by one backward induction.

    Raises InvalidModelError if solving the model would not fit into memory.
    """

    def __init__(self, cmdp: TabularCMDP) -> None:
        H, S, A, I = cmdp.horizon, cmdp.num_states, cmdp.num_actions, cmdp.num_constraints
        needed = 8.0 * H * S * ((6 + I) * A + 6)  # a few policies at once, as actions [H, S] and as tables [H, S, A]
        check_memory(needed, f"solving a model of {H:,} stages, {S:,} states and {A:,} actions")
        self.cmdp = cmdp
        self.passes = 0

    @property
    def thresholds(self) -> Floats:
        """The thresholds of the utilities, [I]."""
        return self.cmdp.thresholds

    @property
    def horizon(self) -> int:
        """H."""
        return self.cmdp.horizon

    def best(self, weights: Sequence[float] | Floats, second: Sequence[float] | Floats) -> Corner:
        """Return a policy that maximises `weights` [1+I]; among several, up to rounding, one best for `second`."""
        cmdp = self.cmdp
        self.passes += 1
        return best_corner(cmdp.transitions, cmdp.signals, cmdp.horizon, cmdp.initial, weights, second)

    def infeasible(self, gap: float, utilities: Floats) -> InfeasibleError:
        """Return the error for constraints that no policy satisfies.

        `gap` is the negative largest slack, `utilities` [I] are those of the max-slack policy.
        """
        wanted = "; ".join(
            f"{quantity.constraint(threshold)} (max-slack policy: {quantity.shown(best):.6g} {quantity.unit}".rstrip()
            + ")"
            for quantity, threshold, best in zip(
                self.cmdp.display.quantities[1:], self.thresholds, utilities, strict=True
            )
        )
        return InfeasibleError(
            f"no policy satisfies all constraints: {wanted}. As utilities: thresholds {listed(self.thresholds)}, "
            f"best achievable {listed(utilities)}, short by {-gap:.6g}. Lower the thresholds by at least that, "
            "or raise the budgets.",
            best_utilities=utilities,
            slater_gap=float(gap),
        )


def best_corner(
    transitions: Transitions | Balls | Boxes | Ellipsoids | BlockEllipsoids,
    signals: Floats,
    horizon: int,
    initial: Floats | Callable[[Floats], Floats],
    weights: Sequence[float] | Floats,
    second: Sequence[float] | Floats,
) -> Corner:
    """Return the policy that maximises `weights` [1+I] by one backward induction, with its values from `initial` [S].

    Among policies that do, up to rounding, those best for `second` are preferred. Transitions that are balls must have
    the same weights. Where the distribution of the first state is not known, `initial` is a function that returns the
    expectations [1+I] of values [1+I, S] at the first state.
    """
    first = np.asarray(weights, dtype=np.float64)
    slack = ROUNDING * horizon * float(np.abs(first).sum())
    actions, v = dynamic_programming.act_greedily(
        transitions,
        dynamic_programming.for_reading(signals),
        horizon,
        first,
        np.asarray(second, dtype=np.float64),
        slack,
    )
    return Corner(actions, initial(v) if callable(initial) else v @ initial)


def as_optimum(oracle: ModelOracle, mixture: MixedCorners) -> Optimum:
    """Return the optimum of a known model, from the mixture of corners that its oracle led to."""
    totals = mixture.totals
    return Optimum(
        value=float(totals[0]),
        utility_values=totals[1:],
        dual=mixture.dual,
        slater_gap=mixture.slater_gap,
        active=mixture.dual > FEASIBILITY,
        policy=mix_corners(oracle.cmdp.transitions, oracle.cmdp.num_actions, oracle.cmdp.initial, mixture),
        unconstrained=Values.of(mixture.unconstrained.totals, oracle.cmdp.display.quantities),
        slater=Values.of(mixture.slater, oracle.cmdp.display.quantities),
        method=mixture.method,
        passes=oracle.passes,
        quantities=oracle.cmdp.display.quantities,
        thresholds=oracle.cmdp.thresholds,
    )


def mix_corners(transitions: Transitions, num_actions: int, initial: Floats, mixture: MixedCorners) -> TabularPolicy:
    """Return one Markov policy with the occupancy of a mixture of corners; the heaviest decides where none goes."""
    A, corners, weights = num_actions, mixture.corners, mixture.shares
    policies = [TabularPolicy.deterministic(corner.actions, A) for corner in corners]
    visits = np.zeros(policies[0].table.shape)
    for corner, policy, weight in zip(corners, policies, weights, strict=True):
        states = dynamic_programming.visit_by_actions(transitions, corner.actions, A, initial)
        visits += (weight * states)[:, :, None] * policy.table
    return policy_with_occupancy(visits, unvisited=policies[int(np.argmax(weights))].table)


def settle_slater_gap(oracle: Oracle, gap: float, utilities: Floats) -> float:
    """Return the Slater gap, exactly 0.0 if it is only rounding; raise InfeasibleError if it is negative.

    `utilities` [I] are those of the max-slack policy.
    """
    if abs(gap) <= FEASIBILITY * oracle.horizon:
        return 0.0
    if gap > 0.0:
        return float(gap)
    raise oracle.infeasible(gap, utilities)


def listed(values: Floats) -> str:
    """Return numbers as text in brackets."""
    return "[" + ", ".join(f"{value:.6g}" for value in values) + "]"
