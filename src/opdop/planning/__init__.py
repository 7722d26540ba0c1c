"""Exact answers for a known model: values of policies, the constrained optimum, and its check by a linear program."""

from opdop.planning.column_generation import solve_by_column_generation
from opdop.planning.dual_walk import solve_by_dual_walk
from opdop.planning.lp import LP_TOLERANCE, solve_lp
from opdop.planning.optimum import Corner, MixedCorners, ModelOracle, Optimum, Oracle
from opdop.planning.refinement import Refinement, refine
from opdop.planning.slater import max_slack_policy
from opdop.planning.solver import solve, solve_by_oracle, solve_nearest
from opdop.planning.values import Values, evaluate, occupancy, policy_with_occupancy, to_markov, value_functions

__all__ = [
    "LP_TOLERANCE",
    "Corner",
    "MixedCorners",
    "ModelOracle",
    "Optimum",
    "Oracle",
    "Refinement",
    "Values",
    "evaluate",
    "max_slack_policy",
    "occupancy",
    "policy_with_occupancy",
    "refine",
    "solve",
    "solve_by_column_generation",
    "solve_by_dual_walk",
    "solve_by_oracle",
    "solve_lp",
    "solve_nearest",
    "to_markov",
    "value_functions",
]
