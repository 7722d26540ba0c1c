"""The kinds of data from which confidence sets are made."""

from __future__ import annotations

from opdop.confidence.observations import Observations
from opdop.confidence.sets import ConfidenceSet
from opdop.confidence.tabular_set import TabularSet

Data = Observations


def confidence_set(data: Data, failure_probability: float) -> ConfidenceSet:
    """Return all models that the data allow; the true one is among them with probability 1 - failure_probability."""
    return TabularSet(data, failure_probability)
