"""Random data sets about random models, made row by row, and whether the truth is in their confidence set."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from opdop.confidence import Observations, TabularSet
from tests.support.strategies import SEEDS, Array, Sketch


def observe(
    sketch: Sketch, seed: int, *, most: int = 1000, noisy: bool = False, possible: bool = False
) -> Observations:
    """Return visits to every row of a model: none to some rows, few to others, up to `most` to the rest."""
    rng = np.random.default_rng(seed)
    H, S, A, I = sketch.sizes
    n = np.where(rng.random((H, S, A)) < 0.2, 0, rng.integers(0, most + 1, (H, S, A)) ** rng.integers(0, 2, (H, S, A)))
    seen = rng.multinomial(n, sketch.P)
    means = np.broadcast_to(sketch.signals, (1 + I, H, S, A))
    sums = rng.binomial(n, means) if noisy else n * means
    row, successor = np.nonzero(seen.reshape(-1, S))
    data = Observations.from_rows(
        H,
        S,
        A,
        row=row,
        successor=successor,
        seen=seen.reshape(-1, S)[row, successor],
        signal_number=n.reshape(-1),
        signal_sums=sums.reshape(1 + I, -1),
        thresholds=sketch.thresholds,
        initial=sketch.initial,
        noisy=noisy,
    )
    return data.with_possible(sketch.P > 0.0) if possible else data


def contains(confidence: TabularSet, sketch: Sketch) -> bool:
    """Whether the true kernel and signals are in a confidence set: the event on which its bounds hold."""
    data = confidence.observations
    H, S, A, I = sketch.sizes
    centre = np.zeros((data.kernel_stages * S * A, S))
    row = np.repeat(np.arange(len(centre)), np.diff(data.starts))
    centre[row, data.successors] = data.kernel().probabilities
    truth = sketch.P[: data.kernel_stages].reshape(-1, S)
    distance = np.abs(centre - truth).sum(axis=1)
    there = data.number > 0
    signals = sketch.signals.reshape(1 + I, H, S, A)[:, : data.signal_stages]
    known = (confidence.signal_low <= signals + 1e-12) & (signals <= confidence.signal_up + 1e-12)
    outside = np.where(centre == 0.0, truth, 0.0).sum(axis=1)
    near = (distance <= confidence.widths + 1e-12) & (outside <= confidence.unseen + 1e-12)
    return bool(near[there].all() and known.all())


KINDS = st.fixed_dictionaries(
    {"noisy": st.booleans(), "possible": st.booleans(), "most": st.sampled_from([3, 100, 10**6])}
)
DATA_SEEDS = SEEDS


def worst_case(P: Array, width: float, v: Array, possible: Array, unseen: float = 1.0) -> float:
    """Return the smallest expectation of v [S] over the L1 ball around P [S] on the possible successors, by HiGHS.

    States without probability in P may have at most `unseen` together.
    """
    from scipy.optimize import linprog

    S = len(v)
    # Variables: q and the distances d >= |q - P|, [2 S].
    eye = np.eye(S)
    rows = np.vstack([np.hstack([eye, -eye]), np.hstack([-eye, -eye]), np.append(np.zeros(S), np.ones(S))])
    rows = np.vstack([rows, np.append((P == 0.0).astype(float), np.zeros(S))])
    limits = np.concatenate([P, -P, [width, unseen]])
    bounds = [(0.0, None if free else 0.0) for free in possible] + [(0.0, None)] * S
    total = np.append(np.ones(S), np.zeros(S))[None]
    result = linprog(np.append(v, np.zeros(S)), rows, limits, total, [1.0], bounds, method="highs")
    assert result.status == 0, result.message
    return float(result.fun)
