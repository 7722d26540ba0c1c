"""Saved states: arrays by name, with a prefix for each part of a learner, and checked before they are used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from opdop.model import OpdopError
from opdop.model.validation import shown

if TYPE_CHECKING:
    from opdop.algorithms.counts import Counts  # which imports this module

State = Mapping[str, NDArray[Any]]


def prefixed(prefix: str, state: State) -> dict[str, NDArray[Any]]:
    """Return the arrays with a prefix before each name; raises OpdopError unless they are arrays by name."""
    if not isinstance(state, Mapping):
        raise OpdopError(f"the state to be saved is {shown(state)}; expected arrays by name.")
    return {f"{prefix}{name}": array for name, array in state.items()}


def under(state: State, prefix: str) -> dict[str, NDArray[Any]]:
    """Return the arrays whose names begin with a prefix, without it: the inverse of `prefixed`."""
    if not isinstance(state, Mapping):
        raise OpdopError(f"the saved state is {shown(state)}; expected arrays by name.")
    return {name.removeprefix(prefix): array for name, array in state.items() if str(name).startswith(prefix)}


def fitting(state: State, name: str, like: NDArray[Any]) -> NDArray[Any]:
    """Return an array of a saved state that must have the type and shape of another, and finite numbers.

    Raises OpdopError if it is missing or does not fit.
    """
    if not isinstance(state, Mapping) or not isinstance(state.get(name), np.ndarray):
        raise OpdopError(f"the saved state has no {name!r}; expected arrays by name.")
    array = state[name]
    if array.dtype != like.dtype or array.shape != like.shape:
        raise OpdopError(
            f"the saved {name!r} is {array.dtype} {list(array.shape)}; expected {like.dtype} {list(like.shape)}."
        )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise OpdopError(f"the saved {name!r} is not finite.")
    return array


def fitting_policy(state: State, like: NDArray[Any], *, actions: int = 2) -> NDArray[Any]:
    """Return the policy of a saved state, like another; `actions` is the axis of its probabilities.

    Raises OpdopError if it is missing, does not fit, or does not consist of probabilities.
    """
    policy = fitting(state, "policy", like)
    if (policy < 0.0).any() or (np.abs(policy.sum(axis=actions) - 1.0) > 1e-9).any():
        raise OpdopError("the saved policy does not consist of probabilities.")
    return policy


def restore_counts(counts: Counts, state: State, episodes: int) -> None:
    """Restore the counts of a saved state, named "counts."; raises OpdopError unless they are of so many episodes."""
    counts.restore(under(state, "counts."))
    if counts.number.sum() - counts.declared != episodes * counts.task.horizon:
        raise OpdopError(f"the saved counts are not those of {episodes} episodes.")
