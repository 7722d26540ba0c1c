"""What many seeds say together: means with a band, and which differences are more than chance.

Bands and tests are Student's: seeds are independent, so means of some of them are near to normal. Tests of one family
are corrected by Holm's method, which holds however they depend on each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr, stdtrit

from opdop.model.validation import Floats

LEVEL = 0.95
FEWEST = 5  # runs from which on an interval of the mean is narrow enough to tell something

# Relative to the values: differences below are rounding.
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Band:
    """A mean over runs, and a band about it."""

    mean: Floats  # [...]
    low: Floats  # [...]
    high: Floats  # [...]
    runs: int

    def __getitem__(self, at: int) -> Band:
        return Band(self.mean[at], self.low[at], self.high[at], self.runs)

    @property
    def text(self) -> str:
        """One value with its band: "7.02 ± 0.03", "7.02 (6.98 to 7.10)" where the band is from least to most."""
        mean, low, high = float(self.mean), float(self.low), float(self.high)
        if self.runs == 1:
            return plain(mean, digits_for(mean))
        digits = digits_for(high - low if high > low else mean)
        if self.runs < FEWEST:
            return f"{plain(mean, digits)} ({plain(low, digits)} to {plain(high, digits)})"
        return f"{plain(mean, digits)} ± {plain((high - low) / 2, digits)}"


def band(values: Floats) -> Band:
    """Return the mean over runs, of values [n, ...], with a band.

    From 5 runs on the band is the 95 % t interval of the mean; of fewer it goes from the smallest to the largest value.
    """
    values = np.asarray(values, dtype=np.float64)
    n, mean = len(values), values.mean(axis=0)
    if n < FEWEST:
        return Band(mean, values.min(axis=0), values.max(axis=0), n)
    half = quantile(n - 1) * values.std(axis=0, ddof=1) / np.sqrt(n)
    return Band(mean, mean - half, mean + half, n)


def band_words(runs: int) -> str:
    """Return what the band over so many runs is.

    >>> band_words(10)
    'mean of 10 runs; band: 95 % t interval of the mean'
    >>> band_words(3), band_words(1)
    ('mean of 3 runs; band: from the smallest to the largest', 'a single run, without a band')
    """
    if runs == 1:
        return "a single run, without a band"
    what = "from the smallest to the largest" if runs < FEWEST else f"{LEVEL:.0%} t interval of the mean"
    return f"mean of {runs} runs; band: {what}".replace("%", " %")


def quantile(freedom: float) -> float:
    """Return the t value that is exceeded, on either side, with probability 5 %."""
    return float(stdtrit(freedom, (1.0 + LEVEL) / 2.0))


@dataclass(frozen=True)
class Difference:
    """The mean of one group less that of another."""

    mean: float
    half: float  # half the width of its 95 % interval; NaN if there are too few runs to know
    p: float  # probability of such a difference, or a larger one, by chance; NaN likewise
    paired: bool
    runs: tuple[int, int]


def difference(first: Mapping[int, float], second: Mapping[int, float]) -> Difference:
    """Compare two groups of values by seed: a paired t test where both have the same seeds, otherwise Welch's t test.

    >>> difference({0: 1.0, 1: 2.0, 2: 4.0}, {0: 0.0, 1: 1.0, 2: 3.5}).paired
    True
    """
    one, two = np.array(list(first.values())), np.array(list(second.values()))
    paired = first.keys() == second.keys()
    size = float(max(np.abs(one).max(), np.abs(two).max()))
    if paired:
        apart = np.array([first[seed] - second[seed] for seed in first])
        parts = [apart]
    else:
        parts = [one, two]
    mean = float(apart.mean()) if paired else float(one.mean() - two.mean())
    runs = (len(one), len(two))
    if min(len(part) for part in parts) < 2:
        return Difference(mean, np.nan, np.nan, paired, runs)
    shares = np.array([part.var(ddof=1) / len(part) for part in parts])
    error = float(np.sqrt(shares.sum()))
    if error <= _ROUNDING * size:  # the same difference in every run
        return Difference(mean, 0.0, 1.0 if abs(mean) <= _ROUNDING * size else 0.0, paired, runs)
    freedom = float(shares.sum() ** 2 / sum(s**2 / (len(part) - 1) for s, part in zip(shares, parts, strict=True)))
    p = 2.0 * float(stdtr(freedom, -abs(mean) / error))
    return Difference(mean, quantile(freedom) * error, p, paired, runs)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p values corrected for being tested together; NaN stays and does not count.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    known = [i for i, p in enumerate(p_values) if not np.isnan(p)]
    corrected, largest = list(p_values), 0.0
    for rank, i in enumerate(sorted(known, key=lambda i: p_values[i])):
        largest = max(largest, min(1.0, (len(known) - rank) * p_values[i]))
        corrected[i] = largest
    return corrected


def digits_for(width: float) -> int:
    """Return how many decimals show two digits of a width.

    >>> digits_for(0.0123), digits_for(4.2), digits_for(300.0), digits_for(0.0)
    (3, 1, 0, 4)
    """
    if not np.isfinite(width) or width == 0.0:
        return 4
    return int(np.clip(1 - np.floor(np.log10(abs(width))), 0, 10))


def plain(value: float, digits: int) -> str:
    """Return a number with so many decimals, and never -0."""
    return f"{round(value, digits) + 0.0:,.{digits}f}"
