"""The max-slack policy of a known model: the one with the most room below all budgets at once."""

from __future__ import annotations

import numpy as np

from opdop.model import Problem, TabularPolicy, as_tabular
from opdop.model.validation import Floats
from opdop.planning.column_generation import max_slack_corners
from opdop.planning.optimum import MixedCorners, ModelOracle, mix_corners


def max_slack_policy(problem: Problem) -> tuple[TabularPolicy, Floats]:
    """Return a Markov policy whose smallest slack is the Slater gap, and its slack in every constraint, [I].

    With one constraint it maximises the utility, and among such policies the reward. A slack is negative if no policy
    satisfies the constraints. Raises InvalidModelError if `problem` is not a problem or does not fit into memory.
    """
    cmdp = as_tabular(problem)
    oracle = ModelOracle(cmdp)
    if cmdp.num_constraints == 1:
        pool, weights = [oracle.best([0.0, 1.0], second=[1.0, 0.0])], np.ones(1)
    else:
        pool, weights = max_slack_corners(oracle)
    mixture = MixedCorners.of(
        pool,
        weights,
        dual=np.zeros(cmdp.num_constraints),
        slater_gap=0.0,
        unconstrained=pool[0],
        slater=pool[0].totals,
        method="max slack",
    )
    policy = mix_corners(cmdp.transitions, cmdp.num_actions, cmdp.initial, mixture)
    return policy, mixture.totals[1:] - cmdp.thresholds
