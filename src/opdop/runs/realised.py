"""Averages of realised totals, for runs whose model is not known: of the second half, and moving, with intervals.

An interval is that of Student's t over the means of batches. It describes the policies as they were played; while they
still change, it covers their change too. It is no guarantee: certificates and evaluation episodes have those.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from opdop.model.validation import Floats

if TYPE_CHECKING:
    from opdop.runs.run import Run

CONFIDENCE = 0.95
WINDOW = 0.2  # of a moving average: this share of the episodes so far
_BATCHES = 20  # of an average, at most
_POINTS = 240  # of a moving average
_FEWEST = 5  # batches; intervals of fewer are too wide to be drawn


@dataclass(frozen=True, eq=False)
class MovingAverages:
    """Realised totals averaged over the last fifth of the episodes so far, in model units."""

    episodes: NDArray[np.int64]  # [n]
    means: Floats  # [1+I, n]
    halves: Floats  # [1+I, n], half widths of 95% intervals; NaN where fewer than five batches were recorded


def batch_means(run: Run) -> tuple[Floats, Floats]:
    """Return the mean realised totals of the second half of a run [1+I], and the half widths of 95% intervals [1+I].

    The intervals are those of Student's t over the means of 20 batches. They describe the policies as they were played,
    and are no guarantee. They are NaN where fewer than two batches were recorded.
    """
    episodes, sums = _sums(run)
    last = int(episodes[-1])
    means, halves = _average(episodes, sums, last // 2, last)
    return (run.average.totals, halves) if np.isnan(halves).all() else (means, halves)


def moving_averages(run: Run) -> MovingAverages:
    """Return the moving averages of a run's realised totals, at recorded episodes spread evenly on a log scale."""
    episodes, sums = _sums(run)
    wanted = np.searchsorted(episodes, np.geomspace(episodes[1], episodes[-1], _POINTS)).clip(1, len(episodes) - 1)
    at = np.unique(np.append(wanted, len(episodes) - 1))
    found = [_average(episodes, sums, (1.0 - WINDOW) * episodes[i], episodes[i], fewest=_FEWEST) for i in at]
    return MovingAverages(
        episodes[at].astype(np.int64),
        np.array([means for means, _ in found]).T,
        np.array([halves for _, halves in found]).T,
    )


def _sums(run: Run) -> tuple[Floats, Floats]:
    """Return the recorded episodes [K'+1], from 0 on, and the sums of the realised totals so far [1+I, K'+1]."""
    names = ["total_realised_reward", *(f"total_realised_utility_{i}" for i in range(len(run.thresholds)))]
    episodes = np.concatenate([[0.0], run.episodes])
    return episodes, np.array([np.concatenate([[0.0], run.columns[name]]) for name in names])


def _average(episodes: Floats, sums: Floats, first: float, last: float, fewest: int = 2) -> tuple[Floats, Floats]:
    """Return the means [1+I] of the episodes after `first`, up to `last`, and the half widths of their intervals.

    The mean begins at the recorded episode at or before `first`, and has at least one episode. The intervals are NaN
    where there are not so many batches as `fewest`.
    """
    end = int(np.searchsorted(episodes, last))
    begin = min(int(np.searchsorted(episodes, first, side="right")) - 1, end - 1)
    wanted = np.linspace(episodes[begin], episodes[end], _BATCHES + 1).round()
    ends = np.unique(np.searchsorted(episodes, wanted))
    lengths = np.diff(episodes[ends])
    batches = np.diff(sums[:, ends], axis=1) / lengths
    means = batches @ lengths / lengths.sum()
    n = len(lengths)
    if n < fewest:
        return means, np.full(len(sums), np.nan)
    from scipy import stats  # late: loading it takes long

    quantile = float(stats.t.ppf(0.5 + CONFIDENCE / 2.0, n - 1))
    return means, quantile * batches.std(axis=1, ddof=1) / np.sqrt(n)
