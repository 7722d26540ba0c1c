"""What the data allow: confidence sets, optimistic and pessimistic values, certificates."""

from opdop.confidence.certificate import Certificate, Certifier
from opdop.confidence.fresh_episodes import Evaluation
from opdop.confidence.linear_set import LinearSet
from opdop.confidence.logs import count_transitions
from opdop.confidence.markov_policy import KernelSet, optimistic_policy, reaching_policy
from opdop.confidence.observations import Observations
from opdop.confidence.optimism import OptimisticOracle, OptimisticPlan, plan_optimistically
from opdop.confidence.regressions import Regressions
from opdop.confidence.sets import ConfidenceSet, UncertainPair
from opdop.confidence.tabular_set import TabularSet

__all__ = [
    "Certificate",
    "Certifier",
    "ConfidenceSet",
    "Evaluation",
    "KernelSet",
    "LinearSet",
    "Observations",
    "OptimisticOracle",
    "OptimisticPlan",
    "Regressions",
    "TabularSet",
    "UncertainPair",
    "count_transitions",
    "optimistic_policy",
    "plan_optimistically",
    "reaching_policy",
]
