"""A run in a few lines, in the problem's own units; where the model is not known, from realised totals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from opdop.model import Quantity
from opdop.model.display import worth
from opdop.runs.realised import batch_means

if TYPE_CHECKING:
    from opdop.runs.run import Run


def summary_text(run: Run) -> str:
    """Return a run in a few lines: its averages beside thresholds, budgets and the optimum, and its multipliers."""
    config = run.config
    method = f"{config.algorithm}, preset {config.preset}" if config.preset else config.algorithm
    lines = [f"{run.display.name}: {int(run.episodes[-1]):,} episodes of {method}, seed {config.seed}"]
    return "\n".join([*lines, *(_known(run) if run.optimum is not None else _realised(run)), _multipliers(run)])


def _known(run: Run) -> list[str]:
    assert run.optimum is not None
    best = run.optimum
    totals = zip(run.average.totals, [best.value, *best.utility_values], strict=True)
    return [
        f"{_bound(run, j)}: {_text(quantity, own)} on average, {_text(quantity, ideal)} at the optimum"
        for j, (quantity, (own, ideal)) in enumerate(zip(run.display.quantities, totals, strict=True))
    ]


def _realised(run: Run) -> list[str]:
    means, halves = batch_means(run)
    lines = ["The model is not known: these are realised totals of the episodes that were played."]
    for j, quantity in enumerate(run.display.quantities):
        late = f"{quantity.shown(float(means[j])):.6g}"
        half = abs(quantity.shown_difference(float(halves[j])))
        every = _text(quantity, float(run.average.totals[j]))
        spread = f" ± {half:.2g}" if np.isfinite(half) else ""
        second = f"{late}{spread} {quantity.unit}".rstrip()
        lines.append(f"{_bound(run, j)}: {every} on average, {second} in the second half")
    return lines


def _bound(run: Run, j: int) -> str:
    quantity = run.display.quantities[j]
    return quantity.name if j == 0 else quantity.constraint(float(run.thresholds[j - 1]))


def _text(quantity: Quantity, total: float) -> str:
    return f"{quantity.shown(float(total)):.6g} {quantity.unit}".rstrip()


def _multipliers(run: Run) -> str:
    reward, *constrained = run.display.quantities
    last = [float(run.history[f"dual_{i}"][-1]) for i in range(len(constrained))]
    return "; ".join(
        f"the learner's last multiplier: {worth(reward, quantity, value)}"
        for quantity, value in zip(constrained, last, strict=True)
    )
