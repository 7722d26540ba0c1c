"""What a check claims, and the result of a check in one run."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike

# What rounding may do to a number of size one: in a few sums, and in a regression of some hundred episodes.
ROUNDING, REGRESSION_ROUNDING = 1e-11, 1e-9


Record = TypeVar("Record")  # what a check looks at: a simulation, an episode's record, or the sums of a run


@dataclass(frozen=True)
class Result:
    """The result of a check in a run or in one episode: `measured` must not exceed `bound` by more than `rounding`.

    A result is vacuous if the bound is at least the largest value that the measured quantity can take, whatever the
    learner does: then the check cannot fail.
    """

    measured: float
    bound: float
    rounding: float = 0.0
    used: float | None = None  # how tight the bound was, if not measured / bound
    vacuous: bool = False

    @classmethod
    def identity(cls, difference: ArrayLike, rounding: float) -> Result:
        """Return the result for two sides whose difference should be 0 everywhere."""
        return cls(float(np.abs(difference).max()), 0.0, rounding)

    @classmethod
    def inequality(cls, measured: float, bound: float, largest: float, rounding: float = 0.0) -> Result:
        """Return the result for a quantity that cannot exceed `largest`."""
        return cls(measured, bound, rounding, vacuous=bool(bound >= largest))

    @property
    def excess(self) -> float:
        """By how much the measured value exceeds bound and rounding."""
        return self.measured - self.bound - self.rounding

    @property
    def held(self) -> bool:
        """Whether the claim held; false if something measured is not a number."""
        return bool(self.excess <= 0.0)

    @property
    def tightness(self) -> float | None:
        """Return measured / bound, if that means anything."""
        if self.used is not None:
            return self.used
        return self.measured / self.bound if self.bound > 0.0 and math.isfinite(self.bound) else None

    def joined(self, other: Result) -> Result:
        """Return the worse of two results with the larger tightness; it is vacuous only if both are."""
        worse = self if math.isnan(self.excess) or other.excess <= self.excess else other  # NaN is worst of all
        used = max((each.tightness for each in (self, other) if each.tightness is not None), default=None)
        return replace(worse, used=used, vacuous=self.vacuous and other.vacuous)


@dataclass(frozen=True)
class Check(Generic[Record]):
    """One statement of the paper: what it claims, where, how often it may fail, and how it is measured."""

    name: str
    where: str  # in the paper
    claim: str
    measure: Callable[[Record], Result]
    failure: float | None = None  # share of p with which the claim may fail; None: never
    identity: bool = False  # both sides are equal, so only rounding is measured

    def guaranteed(self, failure_probability: float, certified: bool) -> float | None:
        """Return the probability with which the claim must hold; None if these constants give no guarantee."""
        if self.failure is None:
            return 1.0
        return 1.0 - self.failure * failure_probability if certified else None


def check(
    name: str, where: str, *, failure: float | None = None, identity: bool = False
) -> Callable[[Callable[[Record], Result]], Check[Record]]:
    """Return a decorator that makes a check of a function; the function's docstring is the claim."""

    def made(measure: Callable[[Record], Result]) -> Check[Record]:
        return Check(name, where, str(measure.__doc__).rstrip("."), measure, failure, identity)

    return made
