"""What certificates need from a confidence set, whatever its data and its shape are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from opdop.model import PolicyMixture, TabularPolicy
from opdop.model.validation import Floats
from opdop.planning import Oracle

# A policy for thresholds [I]; None if they cannot be reached.
Planner = Callable[[Floats], TabularPolicy | PolicyMixture | None]


@dataclass(frozen=True)
class UncertainPair:
    """A state and an action that the data know too little about; `stage` is None if stages are pooled.

    `share` is its part of the policy's uncertainty: how often the policy comes there, times the width.
    """

    stage: int | None
    state: int
    action: int
    visits: int
    share: float


class ConfidenceSet(Protocol):
    """All models that the data allow; the true one is among them with probability 1 - failure_probability."""

    @property
    def failure_probability(self) -> float:
        """P."""
        ...

    @property
    def thresholds(self) -> Floats:
        """The thresholds of the utilities, [I]."""
        ...

    @property
    def horizon(self) -> int:
        """H."""
        ...

    @property
    def basis(self) -> str:
        """What the set rests on, in words."""
        ...

    def lower(self, policy: Any) -> Floats:
        """Return the smallest value of each signal under a policy that the data allow, [1+I]."""
        ...

    def upper(self, policy: Any) -> Floats:
        """Return the largest value of each signal under a policy that the data allow, [1+I]."""
        ...

    def optimist(self) -> Oracle:
        """Return the oracle over policies and models of the set that are best together."""
        ...

    def planners(self) -> Sequence[Planner]:
        """Return the ways to plan on the data."""
        ...

    def safest(self) -> TabularPolicy:
        """Return a policy that plans for the utilities alone."""
        ...

    def uncertain_pairs(self, policy: Any, count: int) -> tuple[UncertainPair, ...]:
        """Return the `count` pairs that contribute most to the uncertainty about a policy."""
        ...
