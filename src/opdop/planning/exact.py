"""The exact constrained optimum, by the method that suits the number of constraints."""

from __future__ import annotations

from opdop.model import TabularCMDP
from opdop.planning.column_generation import column_generation
from opdop.planning.dual_walk import dual_walk
from opdop.planning.optimum import Optimum


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
