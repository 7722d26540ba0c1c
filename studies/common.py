"""What the studies share: the measures of a run per episode, and numbers from the command line."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import opdop

MEASURES = ("regret", "violation", "hard_violation")


def per_episode(run: opdop.Run, *, own_units: bool = False) -> tuple[float, float, float]:
    """Return regret, violation and hard violation of a run, divided by its episodes.

    In model units; with `own_units`, in the units of the reward and of the first constraint's quantity.
    """
    reward, constrained = (abs(quantity.scale) if own_units else 1.0 for quantity in run.display.quantities[:2])
    episodes = int(run.episodes[-1])
    regret, violation, hard_violation = (float(run.history[name][-1]) / episodes for name in MEASURES)
    return regret * reward, violation * constrained, hard_violation * constrained


def numbers_from(arguments: Sequence[str], defaults: Sequence[int]) -> list[int]:
    """Return whole numbers from the command line, with defaults for those that are not given.

    >>> numbers_from(["500"], [2000, 3])
    [500, 3]
    """
    if len(arguments) > len(defaults):
        sys.exit(f"{len(arguments)} numbers given; expected at most {len(defaults)}")
    return [*(int(float(text)) for text in arguments), *defaults[len(arguments) :]]
