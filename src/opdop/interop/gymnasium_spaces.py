"""Gymnasium's spaces as numbered states and actions."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np

from opdop.model import Axis, InvalidModelError, Space
from opdop.model.validation import as_floats, is_number, shown

_MOST_NAMES = 10_000


def read_space(observations: Any, actions: Any, bins: Any = None, features: Any = None) -> Space:
    """Return the numbering of the observations and actions of an environment.

    Args:
        observations: a Discrete, MultiDiscrete, MultiBinary or Box space, or a Tuple or Dict of them.
        actions: a Discrete, MultiDiscrete or MultiBinary space, or a Tuple or Dict of them.
        bins: for each coordinate of a Box, in order: its edges, or a number of equal bins if it is bounded.
        features: a function of an observation, which then may be in any space, that returns numbers; `bins` has an
            entry for each: edges, or the number n if it is a whole number from 0 to n - 1.

    Raises InvalidModelError for another space, and for bins that do not fit.
    """
    left = list(_listed(bins))
    if features is not None:
        if not callable(features) or not left:
            raise InvalidModelError(
                f"features is {shown(features)} and bins is {shown(bins)}; expected a function of an observation, and "
                "bins for each number that it returns."
            )
        axes = [_feature_axis(each, i) for i, each in enumerate(left)]
    else:
        axes = _axes(observations, left, "the observation space")
        if left:
            raise InvalidModelError(
                f"bins has {len(left)} entries too many; expected one for each coordinate of a Box."
            )
    acting, layout = _axes(actions, [], "the action space"), _layout(actions)
    plain = layout is None or (set(layout) == {"shape"} and len(layout["shape"]) == 1)
    return Space(
        tuple(axes),
        tuple(acting),
        vector_actions=layout is not None,
        action_layout=None if plain else layout,
        feature_map=features,
    )


def state_names(space: Space) -> tuple[str, ...]:
    """Return the names of the states of a simulator: what was observed, and last the end of an episode.

    Where observations are the numbers of states, or there are very many, there are no names.

    >>> state_names(Space((Axis.bins([0.5]), Axis(size=2)), (Axis(size=2),)))
    ('(< 0.5, 0)', '(< 0.5, 1)', '(>= 0.5, 0)', '(>= 0.5, 1)', 'the end')
    """
    axes = space.observations
    is_number = len(axes) == 1 and axes[0].edges is None and axes[0].start == 0
    if is_number or space.num_states > _MOST_NAMES:
        return ()
    names = itertools.product(*(_axis_names(axis) for axis in axes))
    return (*(each[0] if len(axes) == 1 else f"({', '.join(each)})" for each in names), "the end")


def _axis_names(axis: Axis) -> list[str]:
    """Return the name of each number on an axis."""
    if axis.edges is None:
        return [str(axis.start + i) for i in range(axis.size)]
    if not axis.edges:
        return ["any"]
    ends = [f"{edge:g}" for edge in axis.edges]
    between = [f"{low} to {high}" for low, high in itertools.pairwise(ends)]
    return [f"< {ends[0]}", *between, f">= {ends[-1]}"]


def _layout(space: Any) -> Any:
    """Return how the actions of a space consist of numbers, as `opdop.model.spaces.arranged` describes it."""
    if isinstance(space, gymnasium.spaces.Tuple):
        return {"tuple": [_layout(part) for part in space.spaces]}
    if isinstance(space, gymnasium.spaces.Dict):
        return {"dict": {name: _layout(space.spaces[name]) for name in sorted(space.spaces)}}
    return None if isinstance(space, gymnasium.spaces.Discrete) else {"shape": [int(n) for n in space.shape]}


def _feature_axis(bins: Any, place: int) -> Axis:
    """Return the coordinate of a feature: its bins, or whole numbers."""
    if is_number(bins):
        if int(bins) != bins or bins < 1:
            raise InvalidModelError(f"bins[{place}] is {shown(bins)}; expected a whole number, at least 1, or edges.")
        return Axis(size=int(bins))
    return Axis.bins(as_floats(f"bins[{place}]", bins, "increasing edges, or a number").ravel().tolist())


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
    if isinstance(space, spaces.Dict):
        return [axis for key in sorted(space.spaces) for axis in _axes(space.spaces[key], bins, name)]
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
        "or for observations also Box with bins, or a Tuple or Dict of these. Other observations need features=, a "
        "function that returns a few numbers."
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
