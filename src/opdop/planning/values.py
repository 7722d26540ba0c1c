"""Exact values and occupancies of policies in a known model, each in one pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from opdop.kernels import dynamic_programming
from opdop.model import (
    Display,
    InvalidModelError,
    PolicyMixture,
    Problem,
    Quantity,
    TabularCMDP,
    TabularPolicy,
    as_tabular,
)
from opdop.model.display import amount
from opdop.model.policy import fitting_table
from opdop.model.validation import Floats, as_floats, check_memory, shown


@dataclass(frozen=True, eq=False, repr=False)
class Values:
    """Expected episode totals of one policy, in model units; they are shown in the problem's own units.

    >>> work = Quantity("work", "hours", scale=-3.0, offset=12.0)
    >>> Values(1.5, np.array([2.0]), (Quantity("profit", "dollars", scale=20.0), work))
    Values(profit: 30 dollars; work: 6 hours)
    """

    reward: float
    utilities: Floats  # [I]
    quantities: tuple[Quantity, ...] = ()  # names and units; those of the signals if they are not known

    @classmethod
    def of(cls, totals: Floats, quantities: tuple[Quantity, ...] = ()) -> Values:
        """Return the values that are given by the totals of all signals, [1+I], with their `quantities`."""
        return cls(float(totals[0]), np.array(totals[1:]), quantities)

    def in_units(self) -> dict[str, float]:
        """Return the totals in the problem's own units, by name: a cost where the constraint is on one."""
        return {quantity.name: quantity.shown(total) for quantity, total in self._shown}

    def __repr__(self) -> str:
        parts = (f"{each.name}: {amount(each.shown(total), each.unit, 6)}" for each, total in self._shown)
        return f"Values({'; '.join(parts)})"

    @property
    def _shown(self) -> list[tuple[Quantity, float]]:
        """Each total with its name and unit."""
        totals = self.totals.tolist()
        plain = Display.plain(len(totals) - 1).quantities
        return list(zip(self.quantities if len(self.quantities) == len(totals) else plain, totals, strict=True))

    @property
    def totals(self) -> Floats:
        """All signals in one array [1+I], 0 the reward."""
        return np.concatenate([[self.reward], self.utilities])


def evaluate(problem: Problem, policy: Any) -> Values:
    """Return the exact expected totals of a policy: a table [H, S, A], a PolicyMixture, or any `Policy`.

    Those of a continuous problem are measured on its discretisation, for whose states the policy is then a table.
    Raises InvalidModelError if the policy does not fit the model.
    """
    cmdp = as_tabular(problem)
    if isinstance(policy, PolicyMixture):
        parts = [evaluate(cmdp, part).totals for part in policy.parts]
        return Values.of(policy.weights @ np.array(parts), cmdp.display.quantities)
    v = np.empty((1 + cmdp.num_constraints, 2, cmdp.num_states))
    dynamic_programming.evaluate(cmdp.transitions, cmdp.signals, _table(cmdp, policy), v)
    return Values.of(v[:, 0] @ cmdp.initial, cmdp.display.quantities)


def value_functions(problem: Problem, policy: Any) -> Floats:
    """Return the value of every signal of a problem at every stage and state under a policy, [1+I, H+1, S].

    Raises InvalidModelError if the policy does not fit the problem, or if the values would not fit into memory.
    """
    cmdp = as_tabular(problem)
    J, H, S = 1 + cmdp.num_constraints, cmdp.horizon, cmdp.num_states
    check_memory(8.0 * J * (H + 1) * S, f"the values of {J} signals at {H:,} stages and {S:,} states")
    v = np.empty((J, H + 1, S))
    dynamic_programming.evaluate(cmdp.transitions, cmdp.signals, _table(cmdp, policy), v)
    return v


def occupancy(problem: Problem, policy: Any) -> Floats:
    """Return the probability of each state and action at each stage of a problem under a policy, [H, S, A].

    The policy is as for `evaluate`. Raises InvalidModelError if it does not fit the problem.
    """
    cmdp = as_tabular(problem)
    if isinstance(policy, PolicyMixture):
        total = np.zeros((cmdp.horizon, cmdp.num_states, cmdp.num_actions))
        for weight, part in zip(policy.weights, policy.parts, strict=True):
            total += weight * occupancy(cmdp, part)
        return total
    table = _table(cmdp, policy)
    visits: Floats = dynamic_programming.visit(cmdp.transitions, table, cmdp.initial)
    return visits[:, :, None] * table


def policy_with_occupancy(visits: Floats, unvisited: Floats | float) -> TabularPolicy:
    """Return the Markov policy with a given occupancy.

    Args:
        visits: how often each state and action is visited at each stage, [H, S, A]; nowhere negative, of any scale.
        unvisited: the action probabilities, [H, S, A] or one number, in states that are never visited.

    Raises InvalidModelError if visits have another shape or are negative somewhere.
    """
    visits = as_floats("visits", visits, "[H,S,A]")
    if visits.ndim != 3 or (visits < 0.0).any():
        raise InvalidModelError(f"visits have shape {list(visits.shape)}; expected [H,S,A], nowhere negative.")
    states = visits.sum(axis=2, keepdims=True)
    shares = visits / np.where(states > 0.0, states, 1.0)
    return TabularPolicy(np.where(states > 0.0, shares, unvisited))


def to_markov(problem: Problem, mixture: PolicyMixture) -> TabularPolicy:
    """Return one Markov policy with exactly the occupancy, hence the values, of an episode-level mixture.

    In states of the problem that no part visits, the part with the largest weight decides. Raises InvalidModelError if
    `mixture` is not a PolicyMixture or does not fit the problem.
    """
    if not isinstance(mixture, PolicyMixture):
        raise InvalidModelError(f"mixture is {shown(mixture)}; expected a PolicyMixture.")
    heaviest = mixture.parts[int(np.argmax(mixture.weights))]
    return policy_with_occupancy(occupancy(problem, mixture), heaviest.table)


def _table(cmdp: TabularCMDP, policy: Any) -> Floats:
    return fitting_table(policy, cmdp.horizon, cmdp.num_states, cmdp.num_actions)
