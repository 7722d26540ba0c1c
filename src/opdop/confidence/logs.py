"""Data sets from records of observed steps, whoever collected them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from opdop.confidence.observations import SAME_SIGNAL, Observations
from opdop.confidence.row_lists import indices
from opdop.model import InvalidModelError
from opdop.model.validation import as_floats, as_size, first_index, number


def count_transitions(
    horizon: int,
    num_states: int,
    num_actions: int,
    *,
    stages: Any,
    states: Any,
    actions: Any,
    next_states: Any,
    signals: Any,
    thresholds: Any,
    initial: Any,
    noisy: bool = False,
    first_visits: Any = None,
) -> Observations:
    """Return the data of observed steps.

    Args:
        horizon, num_states, num_actions: H, S and A.
        stages, states, actions, next_states: of each step, [n].
        signals: the reward and the utilities of each step, [1+I, n].
        thresholds: of the utilities, [I].
        initial: the distribution of the first state, [S].
        noisy: whether signals are random.
        first_visits: how often each state was observed as a first state, [S], if `initial` is not known exactly.

    Raises InvalidModelError if an index or a signal is out of range, or if, without `noisy`, two steps at one
    stage, state and action have different signals.
    """
    H, S, A = (as_size(n, v) for n, v in (("horizon", horizon), ("states", num_states), ("actions", num_actions)))
    h, x, a, y = (
        indices(name, values, size)
        for name, values, size in (
            ("stages", stages, H),
            ("states", states, S),
            ("actions", actions, A),
            ("next_states", next_states, S),
        )
    )
    values = as_floats("signals", signals, "[1+I, n]")
    if not h.shape == x.shape == a.shape == y.shape or values.ndim != 2 or values.shape[1:] != h.shape:
        raise InvalidModelError("stages, states, actions, next_states and signals have different lengths.")
    bad = (values < 0.0) | (values > 1.0)
    if bad.any():
        index = first_index(bad)
        raise InvalidModelError(f"signals{list(index)} is {number(values[index])}; expected a number in [0, 1].")
    row = (h * S + x) * A + a
    counted = np.bincount(row, minlength=H * S * A)
    sums = np.stack([np.bincount(row, signal, H * S * A) for signal in values])
    made = Observations.from_rows(
        H,
        S,
        A,
        row=row,
        successor=y,
        seen=np.ones(len(row), dtype=np.int64),
        signal_number=counted,
        signal_sums=sums,
        thresholds=thresholds,
        initial=initial,
        noisy=noisy,
    )
    if not noisy:
        off = (np.abs(values - made.signal_means()[:, row]) > SAME_SIGNAL).any(axis=0)
        if off.any():
            raise made.refuted(int(row[int(np.argmax(off))]))
    return replace(made, first_visits=first_visits)
