"""What is true when the model is known: exact values, the exact constrained optimum, and its independent check."""

from opdop.model import TabularCMDP
from opdop.planning.columns import column_generation
from opdop.planning.dual_walk import dual_walk
from opdop.planning.lp import LP_TOLERANCE, solve_lp
from opdop.planning.optimum import Optimum
from opdop.planning.values import Values, evaluate, occupancy, to_markov, value_functions

__all__ = [
    "LP_TOLERANCE",
    "Optimum",
    "Values",
    "column_generation",
    "dual_walk",
    "evaluate",
    "occupancy",
    "solve",
    "solve_lp",
    "to_markov",
    "value_functions",
]


def solve(cmdp: TabularCMDP) -> Optimum:
    """Return the exact constrained optimum with its proof: multipliers, Slater gap, and one policy that attains it.

    Raises InfeasibleError, with the best achievable utilities, if no policy keeps every promise.

    >>> import numpy as np
    >>> cmdp = TabularCMDP(np.ones((1, 2, 1)), rewards=[[0, 1]], utilities=[[1, 0]], thresholds=3, horizon=4)
    >>> optimum = solve(cmdp)
    >>> optimum.value, optimum.dual, optimum.slater_gap
    (1.0, array([1.]), 1.0)
    """
    return dual_walk(cmdp) if cmdp.num_constraints == 1 else column_generation(cmdp)
