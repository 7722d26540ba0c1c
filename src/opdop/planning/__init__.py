"""What is true when the model is known: exact values, the exact constrained optimum, and its independent check."""

from opdop.planning.column_generation import column_generation
from opdop.planning.dual_walk import dual_walk
from opdop.planning.exact import solve
from opdop.planning.lp import LP_TOLERANCE, solve_lp
from opdop.planning.optimum import Optimum
from opdop.planning.refinement import Refinement, refine
from opdop.planning.values import Values, evaluate, occupancy, to_markov, value_functions

__all__ = [
    "LP_TOLERANCE",
    "Optimum",
    "Refinement",
    "Values",
    "column_generation",
    "dual_walk",
    "evaluate",
    "occupancy",
    "refine",
    "solve",
    "solve_lp",
    "to_markov",
    "value_functions",
]
