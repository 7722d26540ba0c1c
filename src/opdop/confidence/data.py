"""The kinds of data from which confidence sets are made."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from opdop.confidence.linear_set import LinearSet
from opdop.confidence.observations import Observations, RefutedSignalError
from opdop.confidence.regressions import Regressions
from opdop.confidence.sets import ConfidenceSet
from opdop.confidence.tabular_set import TabularSet

Data = Observations | Regressions


def confidence_set(data: Data, failure_probability: float) -> ConfidenceSet:
    """Return all models that the data allow; the true one is among them with probability 1 - failure_probability."""
    if isinstance(data, Regressions):
        return LinearSet(data, failure_probability)
    return TabularSet(data, failure_probability)


def data_of_arrays(arrays: Mapping[str, NDArray[Any]]) -> Data:
    """Return the data that `arrays()` of one of the kinds has named; raises InvalidModelError if it does not fit."""
    return Regressions.from_arrays(arrays) if "gram" in arrays else Observations.from_arrays(arrays)


def merge(one: Data, two: Data) -> Data | None:
    """Return the data of both sets; None if they are of different kinds.

    Signals that were declared not to be random, and have two values at one place, count as random from then on.
    """
    if isinstance(one, Observations) and isinstance(two, Observations):
        if one.noisy == two.noisy:
            with contextlib.suppress(RefutedSignalError):
                return one.merged(two)
        return replace(one, noisy=True).merged(replace(two, noisy=True))
    return one.merged(two) if isinstance(one, Regressions) and isinstance(two, Regressions) else None
