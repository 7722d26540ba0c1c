"""The exact constrained optimum, by the method that suits the number of constraints."""

from __future__ import annotations

from opdop.model import Problem, as_tabular
from opdop.planning.column_generation import solve_by_column_generation
from opdop.planning.dual_walk import solve_by_dual_walk
from opdop.planning.optimum import Optimum


def solve(problem: Problem) -> Optimum:
    """Return the exact constrained optimum with its proof: multipliers, Slater gap, and one policy that attains it.

    Args:
        problem: a model, or a continuous problem, of which the discretisation is solved.

    Raises InfeasibleError, with the best achievable utilities, if no policy satisfies all constraints, and
    InvalidModelError if `problem` is not a problem, or does not fit into memory.

    >>> import numpy as np
    >>> from opdop.model import TabularCMDP
    >>> cmdp = TabularCMDP(np.ones((1, 2, 1)), rewards=[[0, 1]], utilities=[[1, 0]], thresholds=3, horizon=4)
    >>> optimum = solve(cmdp)
    >>> optimum.value, optimum.dual, optimum.slater_gap
    (1.0, array([1.]), 1.0)
    """
    cmdp = as_tabular(problem)
    return solve_by_dual_walk(cmdp) if cmdp.num_constraints == 1 else solve_by_column_generation(cmdp)
