"""Random problems whose constraint binds: what is drawn is drawn again until it does."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from opdop.model import InvalidParameterError, TabularCMDP
from opdop.planning import solve

ATTEMPTS = 100
# The best policy for the reward alone must miss the threshold by a tenth: a constraint that binds by a hair tests nothing.
_CLEARLY = 0.9
# No threshold may be 0, and any policy reaches this one.
_SLACK = 1e-300


def draw_until_binding(
    seed: int, share: float, draw: Callable[[np.random.Generator], Callable[[float], TabularCMDP]]
) -> TabularCMDP:
    """Return the first problem drawn whose constraint binds: its threshold is `share` of the largest utility.

    `draw` returns a problem that waits for its threshold. Each attempt has a random stream of its own, so the same
    seed gives the same problem whatever came before.
    """
    for stream in np.random.SeedSequence(seed).spawn(ATTEMPTS):
        with_threshold = draw(np.random.default_rng(stream))
        extremes = solve(with_threshold(_SLACK))
        threshold = share * float(extremes.slater.utilities[0])
        # `unconstrained` has the largest utility of all reward-optimal policies, so binding means that it falls short.
        if extremes.unconstrained.utilities[0] < _CLEARLY * threshold:
            return with_threshold(threshold)
    raise InvalidParameterError(
        f"in each of {ATTEMPTS} draws from seed {seed} a policy of largest reward has {_CLEARLY:g} x {share:g} of the "
        f"largest utility or more, so the constraint hardly binds; expected more states, actions or stages, or a larger share."
    )
