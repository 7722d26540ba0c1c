"""What the data allow: confidence sets, optimistic and pessimistic values, certificates."""

from opdop.confidence.logs import count_transitions
from opdop.confidence.markov_policy import KernelSet, optimistic_policy
from opdop.confidence.observations import Observations
from opdop.confidence.optimism import OptimisticOracle, OptimisticPlan, plan_optimistically
from opdop.confidence.tabular_set import TabularSet

__all__ = [
    "KernelSet",
    "Observations",
    "OptimisticOracle",
    "OptimisticPlan",
    "TabularSet",
    "count_transitions",
    "optimistic_policy",
    "plan_optimistically",
]
