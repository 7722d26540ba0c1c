"""One constraint: the exact optimum by walking the breakpoints of the dual function.

The dual function D(Y) = max_pi V_r + Y (V_g - b) is convex and piecewise linear; each evaluation is one backward
induction on r + Y g. Of two deterministic policies one is below the threshold and one above it. The slope of the line
through their values is the next Y; its best policy replaces one of them, until no policy lies above the line.
"""

from __future__ import annotations

import numpy as np

from opdop.model import InvalidParameterError, Problem, as_tabular
from opdop.planning.optimum import ROUNDING, MixedCorners, ModelOracle, Optimum, Oracle, as_optimum, settle_slater_gap


def solve_by_dual_walk(problem: Problem) -> Optimum:
    """Return the exact optimum of a problem with one constraint.

    Raises InfeasibleError if no policy satisfies it, and InvalidParameterError if there are several.
    """
    cmdp = as_tabular(problem)
    if cmdp.num_constraints != 1:
        raise InvalidParameterError(f"the dual walk is for one constraint; this model has {cmdp.num_constraints}.")
    oracle = ModelOracle(cmdp)
    return as_optimum(oracle, walk_dual(oracle))


def walk_dual(oracle: Oracle) -> MixedCorners:
    """Return the optimum over what an oracle with one threshold can answer.

    Raises InfeasibleError if none of its policies reaches the threshold.
    """
    H = oracle.horizon
    greedy = oracle.best([1.0, 0.0], second=[0.0, 1.0])  # Y = 0
    safest = oracle.best([0.0, 1.0], second=[1.0, 0.0])  # Y = infinity
    slater_gap = settle_slater_gap(oracle, float(safest.totals[1] - oracle.thresholds[0]), safest.totals[1:])
    threshold = min(float(oracle.thresholds[0]), float(safest.totals[1]))

    short, beyond, dual = greedy, safest, 0.0
    if greedy.totals[1] >= threshold - ROUNDING * H:
        short = beyond = greedy
    while short is not beyond:
        (r_short, g_short), (r_beyond, g_beyond) = short.totals, beyond.totals
        previous, dual = dual, max(float((r_short - r_beyond) / (g_beyond - g_short)), 0.0)
        found = oracle.best([1.0, dual], second=[0.0, 1.0])
        line = r_short + dual * g_short
        above = found.totals[0] + dual * found.totals[1] - line
        if above <= ROUNDING * H * (1.0 + dual) or dual == previous:
            break
        if found.totals[1] >= threshold:
            beyond = found
        else:
            short = found

    span = beyond.totals[1] - short.totals[1]
    share = 1.0 if short is beyond else float(np.clip((threshold - short.totals[1]) / span, 0.0, 1.0))
    return MixedCorners.of(
        [short, beyond],
        np.array([1.0 - share, share]),
        dual=np.array([dual]),
        slater_gap=slater_gap,
        unconstrained=greedy,
        slater=safest.totals,
        method="dual walk",
    )
