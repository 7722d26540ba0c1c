"""Means over seeds with a band, and t tests between groups of runs.

Seeds are independent, so Student's t distribution applies to means over them. The p values of one family of tests are
corrected by Holm's method, which is valid under any dependence between the tests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from opdop.model.rounding import digits_for, plain
from opdop.model.validation import Floats

LEVEL = 0.95
FEWEST = 5  # runs; a t interval from fewer is too wide to be useful

# Relative to the values: smaller differences are rounding.
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Band:
    """A mean over runs with a lower and an upper limit."""

    mean: Floats  # [...]
    low: Floats  # [...]
    high: Floats  # [...]
    runs: int

    def __neg__(self) -> Band:
        return Band(-self.mean, -self.high, -self.low, self.runs)

    @property
    def text(self) -> str:
        """A single value with its band: "7.02 ± 0.03", or "7.02 (6.98 to 7.10)" where it is smallest to largest."""
        mean, low, high = float(self.mean), float(self.low), float(self.high)
        if self.runs == 1:
            return plain(mean, digits_for(mean))
        digits = digits_for(high - low if high > low else mean)
        if self.runs < FEWEST:
            return f"{plain(mean, digits)} ({plain(low, digits)} to {plain(high, digits)})"
        return f"{plain(mean, digits)} ± {plain((high - low) / 2, digits)}"


def band(values: Sequence[float] | Floats) -> Band:
    """Return the mean over runs, of values [n, ...], with a band.

    With 5 runs or more the band is the 95 % t interval of the mean. With fewer it spans the smallest to the largest
    value.
    """
    values = np.asarray(values, dtype=np.float64)
    n, mean = len(values), values.mean(axis=0)
    if n < FEWEST:
        return Band(mean, values.min(axis=0), values.max(axis=0), n)
    half = stats.t.ppf((1.0 + LEVEL) / 2.0, n - 1) * stats.sem(values, axis=0)
    return Band(mean, mean - half, mean + half, n)


def band_words(runs: int) -> str:
    """Return a description of the band over this many runs.

    >>> band_words(10)
    'mean of 10 runs; band: 95 % t interval of the mean'
    >>> band_words(3), band_words(1)
    ('mean of 3 runs; band: from the smallest to the largest', 'a single run, without a band')
    """
    if runs == 1:
        return "a single run, without a band"
    what = "from the smallest to the largest" if runs < FEWEST else "95 % t interval of the mean"
    return f"mean of {runs} runs; band: {what}"


@dataclass(frozen=True)
class Difference:
    """The mean of one group minus the mean of another."""

    mean: float
    half: float  # half the width of its 95 % interval; NaN with fewer than two runs
    p: float  # two-sided p value; NaN likewise
    paired: bool
    runs: tuple[int, int]


def difference(first: Mapping[int, float], second: Mapping[int, float]) -> Difference:
    """Compare two groups of values by seed: a paired t test if both have the same seeds, otherwise Welch's t test.

    >>> difference({0: 1.0, 1: 2.0, 2: 4.0}, {0: 0.0, 1: 1.0, 2: 3.5}).paired
    True
    """
    paired, runs = first.keys() == second.keys(), (len(first), len(second))
    one = np.array(list(first.values()))
    two = np.array([second[seed] for seed in (first if paired else second)])
    mean = float((one - two).mean()) if paired else float(one.mean() - two.mean())
    if min(runs) < 2:
        return Difference(mean, np.nan, np.nan, paired, runs)
    spread = np.ptp(one - two) if paired else max(np.ptp(one), np.ptp(two))
    rounding = _ROUNDING * max(np.abs(one).max(), np.abs(two).max())
    if spread <= rounding:  # the same difference in every run, for which no t test is defined
        return Difference(mean, 0.0, 1.0 if abs(mean) <= rounding else 0.0, paired, runs)
    test = stats.ttest_rel(one, two) if paired else stats.ttest_ind(one, two, equal_var=False)
    interval = test.confidence_interval(LEVEL)
    return Difference(mean, float(interval.high - interval.low) / 2.0, float(test.pvalue), paired, runs)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p values of one family of tests after Holm's correction; NaN stays NaN and is not counted.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    corrected = np.array(p_values, dtype=np.float64)
    order = np.argsort(corrected)[: int(np.sum(~np.isnan(corrected)))]  # NaN sorts last
    corrected[order] = np.maximum.accumulate(np.minimum(1.0, np.arange(len(order), 0, -1) * corrected[order]))
    return [float(p) for p in corrected]
