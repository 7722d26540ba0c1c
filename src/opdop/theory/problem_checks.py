"""Checks of a problem itself, before anything is learnt: strong duality and the bound on the multipliers."""

from __future__ import annotations

import numpy as np

from opdop.planning import LP_TOLERANCE, solve_lp
from opdop.planning.optimum import ModelOracle
from opdop.theory.checks import ROUNDING, Result, check
from opdop.theory.simulation import Simulation

# Problems with up to this many variables are also solved as a linear program, an independent second method.
LP_UP_TO = 5000


@check("strong duality", "Lemma (sd-b)", identity=True)
def strong_duality(simulation: Simulation) -> Result:
    """V* = D(Y*) by a backward induction; small problems also by a linear program."""
    best, cmdp = simulation.optimum, simulation.cmdp
    weights = np.append(1.0, best.dual)
    corner = ModelOracle(cmdp).best(weights, second=np.zeros_like(weights))
    dual_value = float(weights @ corner.totals - best.dual @ cmdp.thresholds)
    duality = Result.identity(dual_value - best.value, ROUNDING * cmdp.horizon * (1.0 + float(best.dual.sum())))
    if cmdp.horizon * cmdp.num_states * cmdp.num_actions <= LP_UP_TO:
        lp = Result.identity(solve_lp(cmdp).value - best.value, 10.0 * LP_TOLERANCE * cmdp.horizon)
        return duality if lp.held else lp
    return duality


@check("bound of the multiplier", "Cor. (boundeddual)")
def multiplier_bound(simulation: Simulation) -> Result:
    """|Y*|_1 <= (V* - V of the Slater policy) / gap, and 2 |Y*|_1 <= chi."""
    best = simulation.optimum
    size = float(best.dual.sum())
    rounding = ROUNDING * simulation.cmdp.horizon / best.slater_gap
    slater = Result(size, (best.value - best.slater.reward) / best.slater_gap, rounding)
    preset = simulation.setting(episodes=1, failure_probability=0.05)  # chi depends on neither
    chi = Result(2.0 * size, preset.constants.dual_bound, rounding)
    return slater if chi.held else chi


PROBLEM_CHECKS = (strong_duality, multiplier_bound)
