"""The exact constrained optimum, by the method that suits the number of constraints."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from opdop.model import InfeasibleError, Problem, as_tabular
from opdop.model.validation import Floats
from opdop.planning.column_generation import generate_columns
from opdop.planning.dual_walk import walk_dual
from opdop.planning.optimum import MixedCorners, ModelOracle, Optimum, Oracle, as_optimum

_Oracle = TypeVar("_Oracle", bound=Oracle)


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
    oracle = ModelOracle(as_tabular(problem))
    return as_optimum(oracle, solve_by_oracle(oracle))


def solve_by_oracle(oracle: Oracle) -> MixedCorners:
    """Return the constrained optimum over what an oracle can answer: policies, or policies and kernels.

    Raises InfeasibleError if the oracle's constraints cannot be satisfied.
    """
    return walk_dual(oracle) if len(oracle.thresholds) == 1 else generate_columns(oracle)


def solve_nearest(make: Callable[[Floats], _Oracle], thresholds: Floats) -> tuple[_Oracle, MixedCorners]:
    """Return the oracle that `make` makes for thresholds [I], and its constrained optimum.

    If the thresholds cannot be reached, they are lowered alike until they can.
    """
    oracle = make(thresholds)
    try:
        return oracle, solve_by_oracle(oracle)
    except InfeasibleError as error:
        oracle = make(thresholds + error.slater_gap)
        return oracle, solve_by_oracle(oracle)
