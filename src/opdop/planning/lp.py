"""An independent check of the optimum: a linear program over occupancy measures, solved by HiGHS."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from opdop.model import OpdopError, Problem, TabularCMDP, as_tabular
from opdop.model.validation import Floats, check_memory
from opdop.planning.optimum import ModelOracle, Optimum, settle_slater_gap
from opdop.planning.values import Values, policy_with_occupancy

# The absolute accuracy of the LP's answers (HiGHS's own feasibility tolerance).
LP_TOLERANCE = 1e-7
_INFEASIBLE = 2  # linprog's status


def solve_lp(problem: Problem) -> Optimum:
    """Return the optimum of a problem by three linear programs: largest slack, largest reward, and without constraints.

    Raises InfeasibleError if no policy satisfies all constraints.
    """
    cmdp = as_tabular(problem)
    flow, inflow, signals = occupancy_program(cmdp)
    slack = _solve_slack(cmdp, flow, inflow, signals)
    slater = signals @ slack.x[:-1]
    gap = float(slack.x[-1])
    # HiGHS cannot tell a threshold that is just attainable from one that is missed by its tolerance.
    slater_gap = settle_slater_gap(ModelOracle(cmdp), max(gap, 0.0) if gap > -LP_TOLERANCE else gap, slater[1:])
    best = maximise_reward(flow, inflow, signals, cmdp.thresholds if slater_gap else cmdp.thresholds - LP_TOLERANCE)
    free = maximise_reward(flow, inflow, signals, np.zeros(cmdp.num_constraints))
    totals = signals @ best.x
    visits = np.maximum(best.x, 0.0).reshape(cmdp.horizon, cmdp.num_states, cmdp.num_actions)
    dual = np.maximum(-best.ineqlin.marginals, 0.0)
    return Optimum(
        value=float(totals[0]),
        utility_values=totals[1:],
        dual=dual,
        slater_gap=slater_gap,
        active=dual > LP_TOLERANCE,
        policy=policy_with_occupancy(visits, unvisited=1.0 / cmdp.num_actions),
        unconstrained=Values.of(signals @ free.x, cmdp.display.quantities),
        slater=Values.of(slater, cmdp.display.quantities),
        method="linear program (HiGHS)",
        passes=0,
        quantities=cmdp.display.quantities,
        thresholds=cmdp.thresholds,
    )


def occupancy_program(cmdp: TabularCMDP) -> tuple[Any, Floats, Floats]:
    """Return the flow matrix [H*S, H*S*A], its right-hand side [H*S] and the signals [1+I, H*S*A].

    An occupancy q >= 0 satisfies: what leaves state y at stage h is what entered it from stage h - 1.
    """
    H, S, A = cmdp.horizon, cmdp.num_states, cmdp.num_actions
    check_memory(8.0 * H * H + 100.0 * H * S * A, f"a linear program with {H * S * A:,} variables")
    leaving = sparse.kron(sparse.identity(S), np.ones((1, A)), format="csr")  # [S, S*A]
    blocks: list[list[Any]] = [[None] * H for _ in range(H)]
    for h in range(H):
        blocks[h][h] = leaving
        if h > 0:
            blocks[h][h - 1] = -sparse.csr_array(cmdp.transition_matrix(h - 1)).T
    inflow = np.concatenate([cmdp.initial, np.zeros((H - 1) * S)])
    signals = np.concatenate([cmdp.rewards[None], cmdp.utilities]).reshape(1 + cmdp.num_constraints, -1)
    return sparse.block_array(blocks, format="csc"), inflow, signals


def maximise_reward(flow: Any, inflow: Floats, signals: Floats, thresholds: Floats) -> Any:
    """Return HiGHS's answer to: the largest reward with every utility at its threshold or above."""
    program = {"A_ub": -signals[1:], "b_ub": -thresholds, "A_eq": flow, "b_eq": inflow, "method": "highs-ipm"}
    result = _linprog(-signals[0], **program)
    if result.status == _INFEASIBLE:  # presolve reports some feasible programs without slack as infeasible
        result = _linprog(-signals[0], **program, options={"presolve": False})
    return _ended(result)


def _solve_slack(cmdp: TabularCMDP, flow: Any, inflow: Floats, signals: Floats) -> Any:
    """Return HiGHS's answer to: the largest slack that all utilities can have at once, the last variable."""
    I, size = cmdp.num_constraints, flow.shape[1]
    objective = np.append(np.zeros(size), -1.0)
    rows = sparse.hstack([sparse.csr_array(-signals[1:]), np.ones((I, 1))])
    flow_and_slack = sparse.hstack([flow, sparse.csr_array((flow.shape[0], 1))])
    bounds = [(0.0, None)] * size + [(None, None)]
    return _ended(_linprog(objective, rows, -cmdp.thresholds, flow_and_slack, inflow, bounds, method="highs-ipm"))


def _linprog(*arguments: Any, **options: Any) -> Any:
    from scipy.optimize import linprog  # late: every run imports this file, only checks solve; it takes 0.1 s

    return linprog(*arguments, **options)


def _ended(result: Any) -> Any:
    if result.status != 0:
        raise OpdopError(f"HiGHS ended with: {result.message}")
    return result
