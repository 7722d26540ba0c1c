"""The public `solve`, which also takes a shipped problem by its name."""

from __future__ import annotations

from opdop import planning
from opdop.envs.registry import make
from opdop.model import Problem
from opdop.planning import Optimum


def solve(problem: Problem | str) -> Optimum:
    """Return the exact constrained optimum with its proof: multipliers, Slater gap, and one policy that attains it.

    Args:
        problem: a model, or the name of a shipped problem. Of a continuous one, the discretisation is solved.

    Raises InfeasibleError, with the best achievable utilities, if no policy satisfies all constraints, and
    InvalidParameterError if there is no problem of that name.

    >>> round(solve("factored").value, 6)
    2.0
    """
    return planning.solve(make(problem) if isinstance(problem, str) else problem)
