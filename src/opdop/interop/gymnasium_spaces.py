"""Gymnasium's spaces as numbered states and actions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np

from opdop.model import Axis, InvalidModelError, Space
from opdop.model.validation import as_floats, is_number, shown


def read_space(observations: Any, actions: Any, bins: Any = None) -> Space:
    """Return the numbering of the observations and actions of an environment.

    Args:
        observations: a Discrete, MultiDiscrete, MultiBinary or Box space, or a Tuple of them.
        actions: a Discrete, MultiDiscrete or MultiBinary space.
        bins: for each coordinate of a Box, in order: its edges, or a number of equal bins if it is bounded.

    Raises InvalidModelError for another space, and for bins that do not fit.
    """
    left = list(_listed(bins))
    axes = _axes(observations, left, "the observation space")
    if left:
        raise InvalidModelError(f"bins has {len(left)} entries too many; expected one for each coordinate of a Box.")
    acting = _axes(actions, [], "the action space")
    return Space(tuple(axes), tuple(acting), vector_actions=not isinstance(actions, gymnasium.spaces.Discrete))


def _axes(space: Any, bins: list[Any], name: str) -> list[Axis]:
    """Return the coordinates of a space; each coordinate of a Box takes the next of `bins`."""
    spaces = gymnasium.spaces
    if isinstance(space, spaces.Discrete):
        return [Axis(size=int(space.n), start=int(space.start))]
    if isinstance(space, spaces.MultiDiscrete):
        starts = np.ravel(getattr(space, "start", np.zeros_like(space.nvec)))
        return [Axis(size=int(n), start=int(start)) for n, start in zip(np.ravel(space.nvec), starts, strict=True)]
    if isinstance(space, spaces.MultiBinary):
        return [Axis(size=2) for _ in range(int(np.prod(space.shape)))]
    if isinstance(space, spaces.Tuple):
        return [axis for part in space.spaces for axis in _axes(part, bins, name)]
    if isinstance(space, spaces.Box) and name != "the action space":
        low, high = np.ravel(space.low), np.ravel(space.high)
        if len(bins) < len(low):
            raise InvalidModelError(
                f"{name} is {shown(space)} with {len(low)} coordinates; expected bins=[...] with the edges of each, or "
                "a number of equal bins where it is bounded."
            )
        return [_binned(bins.pop(0), float(a), float(b), i) for i, (a, b) in enumerate(zip(low, high, strict=True))]
    raise InvalidModelError(
        f"{name} is {shown(space)}; expected Discrete, MultiDiscrete, MultiBinary, "
        "or for observations also Box with bins, or a Tuple of these. A wrapper of Gymnasium can turn others into them."
    )


def _binned(bins: Any, low: float, high: float, place: int) -> Axis:
    if not is_number(bins):
        edges = as_floats(f"bins[{place}]", bins, "increasing edges, or a number of bins")
        return Axis.bins(edges.ravel().tolist())
    if not np.isfinite(high - low):
        raise InvalidModelError(
            f"bins[{place}] is {shown(bins)}, but the coordinate is not bounded ([{low:g}, {high:g}]); expected edges."
        )
    if int(bins) != bins or bins < 1:
        raise InvalidModelError(f"bins[{place}] is {shown(bins)}; expected a whole number, at least 1, or edges.")
    return Axis.bins(np.linspace(low, high, int(bins) + 1)[1:-1].tolist())


def _listed(bins: Any) -> Sequence[Any]:
    if bins is None:
        return ()
    if not isinstance(bins, (list, tuple)):
        raise InvalidModelError(f"bins is {shown(bins)}; expected a list with one entry for each coordinate.")
    return bins
