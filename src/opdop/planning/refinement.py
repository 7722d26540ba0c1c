"""How far the optimum of a discretised problem is from the continuous one's, estimated by refining."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from opdop.model import InfeasibleError, Problem, as_tabular
from opdop.planning.solver import solve


@dataclass(frozen=True)
class Refinement:
    """The optimal value on three discretisations, each with twice as many cells along an axis; the last one is used.

    With differences D1 and D2 of neighbouring values the observed order is log2 |D1 / D2|, and Richardson's estimate of
    the last one's error is |D2| / (2^order - 1). Where the order comes out below 1, or the first grids are too coarse
    to be feasible, the estimate is |D2| itself, or not known (NaN).
    """

    cells: tuple[int, ...]
    values: tuple[float, ...]
    order: float  # NaN where it cannot be observed
    error: float

    def record(self) -> dict[str, Any]:
        """Return this as plain data; what is not known is None."""
        order, error = (value if math.isfinite(value) else None for value in (self.order, self.error))
        return {"cells": list(self.cells), "values": list(self.values), "order": order, "error": error}


def refine(problem: Problem) -> Refinement | None:
    """Return what coarser discretisations tell about the error of the optimal value; None if the problem is exact."""
    as_tabular(problem)
    grids = list(problem.refinements())
    if not grids:
        return None
    cells = tuple(count for count, _ in grids)
    try:
        values = tuple(solve(model).value for _, model in grids)
    except InfeasibleError:
        return Refinement(cells[-1:], (solve(problem).value,), math.nan, math.nan)
    first, second = abs(values[1] - values[0]), abs(values[2] - values[1])
    order = math.log2(first / second) if first > 0.0 and second > 0.0 else math.nan
    return Refinement(cells, values, order, second / (2.0**order - 1.0) if order >= 1.0 else second)
