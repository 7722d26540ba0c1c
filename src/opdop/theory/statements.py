"""What is claimed, where and how often it may fail; and what came of it in one run."""

from __future__ import annotations

import math
from dataclasses import dataclass

# What rounding may do to a number of size one: in a few sums, and in a regression of some hundred episodes.
ROUNDING, REGRESSION_ROUNDING = 1e-11, 1e-9


@dataclass(frozen=True)
class Statement:
    """What is claimed, where, and how often it may fail."""

    name: str
    where: str  # in the paper
    says: str
    failure: float | None = None  # share of p with which it may fail; None: never
    identity: bool = False  # then only rounding is measured

    def promised(self, failure_probability: float, certified: bool) -> float | None:
        """Return the promised probability; None if nothing is."""
        if self.failure is None:
            return 1.0
        return 1.0 - self.failure * failure_probability if certified else None


@dataclass(frozen=True)
class Finding:
    """What came of a statement in one run: `measured` should not exceed `bound` by more than rounding."""

    held: bool
    measured: float
    bound: float
    used: float | None = None  # where something else than measured / bound says how tight it is

    @property
    def tightness(self) -> float | None:
        """Return measured / bound, if that means anything."""
        if self.used is not None:
            return self.used
        return self.measured / self.bound if self.bound > 0.0 and math.isfinite(self.bound) else None
