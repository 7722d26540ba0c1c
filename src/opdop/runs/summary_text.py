"""A run in a few lines, in the problem's own units; where the model is not known, from realised totals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from opdop.model import Quantity
from opdop.model.display import worth
from opdop.model.validation import Floats

if TYPE_CHECKING:
    from opdop.runs.run import Run

_BATCHES = 20  # of the second half, for the standard error of its mean
_CONFIDENCE = 0.95


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


def batch_means(run: Run) -> tuple[Floats, Floats]:
    """Return the mean realised totals of the second half of a run [1+I], and the half widths of 95% intervals [1+I].

    The intervals are those of Student's t over the means of 20 batches. They describe the policies as they were played,
    and are no guarantee. They are NaN where fewer than two batches were recorded.
    """
    names = ["total_realised_reward", *(f"total_realised_utility_{i}" for i in range(len(run.thresholds)))]
    episodes = np.concatenate([[0.0], run.episodes])
    sums = np.array([np.concatenate([[0.0], run.history[name].to_numpy()]) for name in names])
    last = int(episodes[-1])
    wanted = np.unique(np.linspace(last // 2, last, _BATCHES + 1).round())
    ends = np.unique(np.searchsorted(episodes, wanted))
    lengths = np.diff(episodes[ends])
    batches = np.diff(sums[:, ends], axis=1) / lengths
    n = len(lengths)
    if n < 2:
        return run.average.totals, np.full(len(names), np.nan)
    means = batches @ lengths / lengths.sum()
    from scipy import stats  # late: loading it takes long

    quantile = float(stats.t.ppf(0.5 + _CONFIDENCE / 2.0, n - 1))
    return means, quantile * batches.std(axis=1, ddof=1) / np.sqrt(n)


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
