"""Draw random problems until one has a constraint that clearly binds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from opdop.model import InvalidParameterError, TabularCMDP
from opdop.planning import solve

ATTEMPTS = 100
# A constraint that hardly binds is no test: it must cost this share of the reward, and the largest utility must be this
# share of H.
CLEARLY = 0.01
# No threshold may be 0, and any policy reaches this one.
SLACK = 1e-300


def draw_until_binding(seed: int, share: float, draw: Callable[[np.random.Generator], TabularCMDP]) -> TabularCMDP:
    """Return the first problem drawn whose constraint clearly binds: its threshold is `share` of the largest utility.

    `draw` returns a problem with the threshold SLACK. Each attempt has a random stream of its own, so the same
    seed gives the same problem whatever came before.
    """
    for stream in np.random.SeedSequence(seed).spawn(ATTEMPTS):
        slack = draw(np.random.default_rng(stream))
        extremes = solve(slack)
        largest = float(extremes.slater.utilities[0])
        # `unconstrained` has the largest utility of all reward-optimal policies: only if that falls short can it bind.
        if largest < CLEARLY * slack.horizon or extremes.unconstrained.utilities[0] >= share * largest:
            continue
        cmdp = slack.with_thresholds(share * largest)
        if solve(cmdp).price >= CLEARLY * extremes.unconstrained.reward:
            return cmdp
    raise InvalidParameterError(
        f"in none of {ATTEMPTS} draws from seed {seed} a threshold of {share:g} of the largest utility costs "
        f"{CLEARLY:g} of the reward, so the constraint hardly binds; expected other sizes or a larger share."
    )
