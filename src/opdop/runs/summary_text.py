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
    lines += _known(run) if run.optimum is not None else _realised(run)
    lines += _multipliers(run)
    if run.evaluation is not None:
        lines += [f"{run.evaluation.lead}:", *run.evaluation.lines]
    return "\n".join([*lines, *resumed_note(run)])


def resumed_note(run: Run) -> list[str]:
    """Return what a run that was resumed has in common with one that was not, if they differ; otherwise nothing."""
    resumed = run.origin.get("resumed")
    if not resumed:
        return []
    after = ", ".join(f"{episode:,}" for episode in resumed)
    return [
        f"Resumed after episode {after}: the learner, its data and the history continue bit for bit. The simulator has "
        "no state() and restore(), so its random stream began anew there."
    ]


def _known(run: Run) -> list[str]:
    assert run.optimum is not None
    best = run.optimum
    totals = zip(run.average.totals, [best.value, *best.utility_values], strict=True)
    lines = [
        f"{_bound(run, j)}: {_text(quantity, own)} on average, {_text(quantity, ideal)} at the optimum"
        for j, (quantity, (own, ideal)) in enumerate(zip(run.display.quantities, totals, strict=True))
    ]
    episodes, (reward, *others) = int(run.episodes[-1]), run.display.quantities
    lost = abs(reward.scale) * float(run.regret[-1]) / episodes
    lines.append(f"regret: {lost:.4g} {reward.unit}".rstrip() + " per episode")
    for i, quantity in enumerate(others):
        short = max(float(run.columns[f"shortfall_{i}"][-1]), 0.0) / episodes
        missed = f"{abs(quantity.scale) * short:.4g} {quantity.unit}".rstrip()
        lines.append(f"violation of {quantity.name}: {missed} per episode")
    return lines


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


def _multipliers(run: Run) -> list[str]:
    reward, *constrained = run.display.quantities
    last = [float(run.columns[f"dual_{i}"][-1]) for i in range(len(constrained))]
    return [
        f"the learner's last multiplier: {worth(reward, quantity, value)}"
        for quantity, value in zip(constrained, last, strict=True)
    ]
