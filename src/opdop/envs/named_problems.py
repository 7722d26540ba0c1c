"""The public `solve` and `evaluate`, which also take a shipped problem by its name."""

from __future__ import annotations

from typing import Any

from opdop import planning
from opdop.envs.registry import make
from opdop.model import Problem
from opdop.planning import Optimum, Values


def solve(problem: Problem | str) -> Optimum:
    """Return the exact constrained optimum with its proof: multipliers, Slater gap, and one policy that attains it.

    Args:
        problem: a model, or the name of a shipped problem. Of a continuous one, the discretisation is solved.

    Raises InfeasibleError, with the best achievable utilities, if no policy satisfies all constraints, and
    InvalidParameterError if there is no problem of that name.

    >>> round(solve("factored").value, 6)
    2.0
    """
    return planning.solve(made(problem))


def evaluate(problem: Problem | str, policy: Any) -> Values:
    """Return the exact expected totals of a policy.

    Args:
        problem: a model, or the name of a shipped problem. A continuous one is measured on its discretisation.
        policy: a TabularPolicy, an array [H, S, A] of action probabilities, or a PolicyMixture.

    Raises InvalidModelError if the policy is not one for this problem, and InvalidParameterError if there is no problem
    of that name.
    """
    return planning.evaluate(made(problem), policy)


def made(problem: Problem | str) -> Problem:
    """Return a problem as it is, or the shipped problem of a name."""
    return make(problem) if isinstance(problem, str) else problem
