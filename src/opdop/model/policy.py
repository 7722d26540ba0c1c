"""Policies on finitely many states, and mixtures that choose one policy for a whole episode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from opdop.model.checks import Floats, as_floats, as_size, check_distributions
from opdop.model.errors import InvalidModelError


@runtime_checkable
class Policy(Protocol):
    """Anything that says how likely each action is."""

    def probabilities(self, stage: int, state: int) -> Floats:
        """Return the probabilities of the actions, [A]."""
        ...


@dataclass(frozen=True, eq=False, repr=False, init=False)
class TabularPolicy:
    """A Markov policy as a table [H, S, A] of action probabilities.

    >>> TabularPolicy([[[0.25, 0.75]]]).probabilities(0, 0)
    array([0.25, 0.75])
    """

    table: Floats  # [H, S, A]

    def __init__(self, table: Any) -> None:
        values = as_floats("policy", table, "action probabilities [H,S,A]")
        if values.ndim != 3 or 0 in values.shape:
            raise InvalidModelError(f"policy has shape {list(values.shape)}; expected [H,S,A], none of them 0.")
        check_distributions("policy", values)
        values.setflags(write=False)
        object.__setattr__(self, "table", values)

    @classmethod
    def uniform(cls, horizon: int, states: int, actions: int) -> TabularPolicy:
        """Return the policy that takes every action equally often."""
        sizes = as_size("horizon", horizon), as_size("states", states), as_size("actions", actions)
        return cls(np.full(sizes, 1.0 / actions))

    @classmethod
    def deterministic(cls, actions: Any, num_actions: int) -> TabularPolicy:
        """Return the policy that takes actions[h, x] for certain; actions [H, S]."""
        chosen = np.asarray(actions)
        if chosen.ndim != 2 or chosen.dtype.kind not in "iu":
            raise InvalidModelError(f"actions have shape {list(chosen.shape)}; expected whole numbers [H,S].")
        if chosen.size and not 0 <= chosen.min() <= chosen.max() < num_actions:
            raise InvalidModelError(f"actions span {chosen.min()}..{chosen.max()}; expected 0..{num_actions - 1}.")
        table = np.zeros((*chosen.shape, num_actions))
        np.put_along_axis(table, chosen[..., None].astype(np.int64), 1.0, axis=2)
        return cls(table)

    def probabilities(self, stage: int, state: int) -> Floats:
        """Return the probabilities of the actions, [A]."""
        row: Floats = self.table[stage, state]
        return row

    def __repr__(self) -> str:
        H, S, A = self.table.shape
        return f"TabularPolicy({S} states, {A} actions, {H} stages)"


@dataclass(frozen=True, eq=False, repr=False, init=False)
class PolicyMixture:
    """Several policies, one of which is drawn before each episode and kept until its end.

    Its values are the weighted means of the parts' values. `opdop.planning.to_markov` turns it into one Markov
    policy with the same occupancy.
    """

    parts: tuple[TabularPolicy, ...]
    weights: Floats  # [parts]

    def __init__(self, parts: Sequence[Any], weights: Any = None) -> None:
        policies = tuple(as_policy(part) for part in parts)
        if not policies:
            raise InvalidModelError("a mixture needs at least one policy.")
        shapes = {policy.table.shape for policy in policies}
        if len(shapes) > 1:
            raise InvalidModelError(f"the mixture's policies have shapes {sorted(shapes)}; expected all the same.")
        if weights is None:
            weights = np.full(len(policies), 1.0 / len(policies))
        values = as_floats("weights", weights, f"one weight for each of {len(policies)} policies")
        if values.shape != (len(policies),):
            raise InvalidModelError(f"weights have shape {list(values.shape)}; expected [{len(policies)}].")
        check_distributions("weights", values)
        values.setflags(write=False)
        object.__setattr__(self, "parts", policies)
        object.__setattr__(self, "weights", values)

    def __repr__(self) -> str:
        return f"PolicyMixture({len(self.parts)} policies)"


def as_policy(policy: Any) -> TabularPolicy:
    """Return a TabularPolicy as it is, or one made of a table [H, S, A]."""
    return policy if isinstance(policy, TabularPolicy) else TabularPolicy(policy)
