"""Confidence sets by the empirical Bernstein inequality: an interval for each probability of the kernel."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from opdop.confidence.observations import Observations
from opdop.kernels.balls import room_for_ranks
from opdop.kernels.boxes import Boxes
from opdop.model.validation import Floats, check_memory


@dataclass(frozen=True, eq=False)
class BernsteinSet:
    """All kernels with |P(y) - P_n(y)| <= width(y) = scale (sqrt(4 P_n(y) (1 - P_n(y)) L / n) + 14 L / (3 n)).

    The row of a pair that was never visited may be any distribution; its widths are those of n = 1.
    By the inequality of Maurer and Pontil (2009), with scale = 1 and L = log(2 N / delta) all of N such
    intervals contain their probabilities at once with probability at least 1 - 2 delta.

    Attributes:
        observations: the data.
        log_term: L.
        scale: multiplies the widths; only 1 is proven.
        signal_up: [1+I, M, S, A], the signals with which plans are made, any numbers; see `with_signals`.
        widths: [L*S*A], the sum of a row's widths over all successors.
    """

    observations: Observations
    log_term: float
    scale: float
    signal_up: Floats = field(init=False)
    widths: Floats = field(init=False)
    _lower: Floats = field(init=False)
    _room: Floats = field(init=False)

    def __post_init__(self) -> None:
        data = self.observations
        rows, S, L = len(data.starts) - 1, data.num_states, self.log_term
        check_memory(5.0 * 8.0 * rows * S, f"confidence intervals for {rows:,} rows and {S:,} successors")
        means = np.zeros((rows, S))
        means[np.repeat(np.arange(rows), np.diff(data.starts)), data.successors] = data.kernel().probabilities
        visits = np.maximum(data.number, 1)[:, None]
        widths = self.scale * (np.sqrt(4.0 * means * (1.0 - means) * L / visits) + 14.0 * L / (3.0 * visits))
        visited = data.number[:, None] > 0
        lower = np.where(visited, np.maximum(means - widths, 0.0), 0.0)
        upper = np.where(visited, np.minimum(means + widths, 1.0), 1.0)
        object.__setattr__(self, "signal_up", np.zeros(0))
        object.__setattr__(self, "widths", widths.sum(axis=1))
        object.__setattr__(self, "_lower", lower)
        object.__setattr__(self, "_room", upper - lower)

    def with_signals(self, signals: Floats) -> BernsteinSet:
        """Return the set with signals [1+I, M, S, A] for planning."""
        other = copy(self)
        object.__setattr__(other, "signal_up", signals)
        return other

    def balls(self, weights: Any) -> Boxes:
        """Return the rows as backward passes take them; the kernel is the one that is best for `weights` [J]."""
        S = self.observations.num_states
        return Boxes(
            lower=self._lower,
            room=self._room,
            left=1.0 - self._lower.sum(axis=1),
            weights=np.array(weights, dtype=np.float64),
            **room_for_ranks(S),
        )
