"""Statements about a problem itself, before anything is learnt: strong duality and the size of the multiplier."""

from __future__ import annotations

import numpy as np

from opdop.planning import LP_TOLERANCE, solve_lp
from opdop.planning.optimum import Oracle
from opdop.theory.bounds import Setting
from opdop.theory.simulation import Case
from opdop.theory.statements import ROUNDING, Finding, Statement

# Up to so many variables the linear program is solved as a second opinion.
LP_UP_TO = 5000

DUALITY = Statement(
    "strong duality",
    "Lemma (sd-b)",
    "V* = D(Y*) by a backward induction; small problems also by a linear program",
    identity=True,
)
MULTIPLIER = Statement(
    "bound of the multiplier",
    "Cor. (boundeddual)",
    "|Y*|_1 <= (V* - V of the Slater policy) / gap, and 2 |Y*|_1 <= chi",
)


def strong_duality(case: Case) -> Finding:
    """Compare V* with the dual function at Y*, and with the linear program's value where that is quick."""
    best, cmdp = case.optimum, case.cmdp
    weights = np.append(1.0, best.dual)
    corner = Oracle(cmdp).best(weights, second=np.zeros_like(weights))
    dual_value = float(weights @ corner.totals - best.dual @ cmdp.thresholds)
    apart = abs(dual_value - best.value)
    held = apart <= ROUNDING * cmdp.horizon * (1.0 + float(best.dual.sum()))
    if cmdp.horizon * cmdp.num_states * cmdp.num_actions <= LP_UP_TO:
        held = held and abs(solve_lp(cmdp).value - best.value) <= 10.0 * LP_TOLERANCE * cmdp.horizon
    return Finding(held, apart, 0.0)


def multiplier_bound(case: Case, setting: Setting) -> Finding:
    """Compare |Y*|_1 with what the Slater policy allows, and with half of chi."""
    best = case.optimum
    size = float(best.dual.sum())
    allowed = (best.value - best.slater.reward) / best.slater_gap
    rounding = ROUNDING * case.cmdp.horizon / best.slater_gap
    held = size <= allowed + rounding and 2.0 * size <= setting.constants.dual_bound + rounding
    return Finding(held, size, allowed)
