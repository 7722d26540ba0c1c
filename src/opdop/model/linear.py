"""A constrained MDP with a linear kernel: features, weights, and the checks that the paper's assumption demands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from opdop.kernels.features import Listed
from opdop.model.cmdp import TabularCMDP
from opdop.model.continuous_features import ContinuousFeatures
from opdop.model.display import Display
from opdop.model.errors import InvalidModelError
from opdop.model.features import Features
from opdop.model.validation import Floats, as_floats, as_size, check_memory, first_index, place

NO_MODEL = "the features and weights do not make a model"
_SLACK = 1e-9

AnyFeatures = TypeVar("AnyFeatures", bound=Features | ContinuousFeatures)


@dataclass(frozen=True, eq=False, repr=False, init=False)
class LinearCMDP(TabularCMDP):
    """A finite constrained MDP whose kernel and signals are linear in known features (the paper's Assumption 2).

    Args:
        features: a family from `opdop.model.features`, for finitely many states.
        kernel_weights: theta_h, [H, d1]; or [d1] with `horizon`.
        reward_weights: [H, d2] or [d2].
        utility_weights: [I, H, d2]; for one constraint also [H, d2] or [d2]; for several also [I, d2].
        thresholds: [I] or a number.
        initial: the first state, or a distribution [S].
        horizon: the number of stages, where kernel_weights are the same at all of them.
        display: the problem's own words and units.

    Raises InvalidModelError if the weights are too long, or do not make a model with these features.
    """

    kernel_weights: Floats  # [H, d1], or [1, d1] if stationary
    signal_weights: Floats  # [1+I, H or 1, d2]

    def __init__(
        self,
        features: Features,
        kernel_weights: Any,
        reward_weights: Any,
        utility_weights: Any,
        thresholds: Any,
        initial: Any = 0,
        horizon: int | None = None,
        *,
        display: Display | None = None,
    ) -> None:
        if not isinstance(features, Features):
            raise InvalidModelError(f"features is {type(features).__name__}; expected opdop.model.features.Features.")
        features, theta, signals, H = read_weights(
            features, kernel_weights, reward_weights, utility_weights, thresholds, horizon
        )
        check_integrals(features.integral_norms(), range(features.num_states), features.kernel_dim, _SLACK)
        rewards, utilities = signal_tables(features, signals)
        try:
            transitions = _transitions(features, theta, H)
            super().__init__(transitions, rewards, utilities, thresholds, initial, H, display=display)
        except InvalidModelError as error:
            raise InvalidModelError(f"{NO_MODEL}: {error}") from error
        vars(self).update(features=features, kernel_weights=theta, signal_weights=signals)


def read_weights(
    features: AnyFeatures,
    kernel_weights: Any,
    reward_weights: Any,
    utility_weights: Any,
    thresholds: Any,
    horizon: int | None,
) -> tuple[AnyFeatures, Floats, Floats, int]:
    """Return the features, the kernels' weights [H or 1, d1], the signals' [1+I, H or 1, d2] and H, all checked.

    The features state sqrt(d1) as the bound on the weights' norm if some are longer than the bound they came with: a
    mixture's weights need not be shares, and a learner that assumed so would explore too little.
    """
    d1, d2 = features.kernel_dim, features.signal_dim
    if horizon is not None:
        horizon = as_size("horizon", horizon)
    theta = as_floats("kernel_weights", kernel_weights, f"[H,d1] = [H,{d1}]")
    if theta.shape[-1:] != (d1,) or theta.ndim not in (1, 2) or not len(theta):
        raise InvalidModelError(f"kernel_weights have shape {list(theta.shape)}; expected [H,{d1}] or [{d1}].")
    if theta.ndim == 1 and horizon is None:
        raise InvalidModelError("kernel_weights are the same at every stage, so horizon is needed: pass horizon=H.")
    if theta.ndim == 2 and horizon is not None and horizon != len(theta):
        raise InvalidModelError(f"kernel_weights have {len(theta)} stages but horizon is {horizon}.")
    H = len(theta) if theta.ndim == 2 else as_size("horizon", horizon)
    theta = np.atleast_2d(theta)
    I = np.atleast_1d(as_floats("thresholds", thresholds, "a number or [I]")).size
    reward = _stages("reward_weights", reward_weights, 1, H, d2)
    utility = _stages("utility_weights", utility_weights, I, H, d2)
    L = max(reward.shape[1], utility.shape[1])
    signals = np.concatenate([np.broadcast_to(w, (len(w), L, d2)) for w in (reward, utility)])
    for name, weights, d in (("kernel", theta, "d1"), ("reward", reward[0], "d2"), ("utility", utility, "d2")):
        _check_norms(f"{name}_weights", weights, d)
    longest = float(np.linalg.norm(theta, axis=-1).max())
    if features.form is not None and longest > features.kernel_norm * (1.0 + _SLACK):
        features = replace(features, kernel_norm=float(np.sqrt(d1)))
    return features, theta, signals, H


def signal_tables(features: Features, signal_weights: Floats) -> tuple[Floats, Floats]:
    """Return the rewards [H or 1, S, A] and utilities [I, H or 1, S, A] of weights; rounding beyond 0 or 1 is cut."""
    tables = np.array([[features.signals(weights) for weights in signal] for signal in signal_weights])
    tables = np.where(np.abs(tables) < 1e-12, 0.0, np.where(np.abs(tables - 1.0) < 1e-12, 1.0, tables))
    return tables[0], tables[1:]


def check_integrals(norms: Floats, states: Sequence[Any], d1: int, slack: float) -> None:
    """Raise InvalidModelError unless the integrals of psi have norms [S, A] of at most sqrt(d1), up to the slack."""
    bound = np.sqrt(d1)
    if (norms > bound * (1.0 + slack)).any():
        x, a = first_index(norms == norms.max())
        raise InvalidModelError(
            f"psi of state {states[x]}, action {a} can integrate a V of at most H to a vector of norm "
            f"{norms[x, a]:.6g} H; the assumption allows sqrt(d1) H = {bound:.6g} H. "
            "Scale the features down and the weights up."
        )


def _stages(name: str, value: Any, n: int, H: int, d2: int) -> Floats:
    """Return weights as [n, H or 1, d2]."""
    weights = as_floats(name, value, f"[H,d2] = [{H},{d2}]")
    shapes: dict[tuple[int, ...], tuple[int, int, int]] = {(n, H, d2): (n, H, d2), (n, 1, d2): (n, 1, d2)}
    if n == 1:
        shapes |= {(d2,): (1, 1, d2), (H, d2): (1, H, d2)}
    else:
        shapes |= {(n, d2): (n, 1, d2)}
    if weights.shape not in shapes:
        wanted = " or ".join(str(list(shape)) for shape in shapes)
        raise InvalidModelError(f"{name} have shape {list(weights.shape)}; expected {wanted}.")
    return weights.reshape(shapes[weights.shape])


def _check_norms(name: str, weights: Floats, d: str) -> None:
    norms, bound = np.linalg.norm(weights, axis=-1), np.sqrt(weights.shape[-1])
    if (norms > bound * (1.0 + _SLACK)).any():
        index = first_index(norms == norms.max())
        raise InvalidModelError(
            f"{place(name, index)} have norm {norms[index]:.6g}; the assumption allows sqrt({d}) = {bound:.6g}. Scale "
            "the features up and the weights down by the same factor."
        )


def _transitions(features: Features, theta: Floats, H: int) -> Any:
    """Return the kernels of weights [H or 1, d1] as TabularCMDP takes them."""
    S, A = features.num_states, features.num_actions
    if not isinstance(features.form, Listed):
        check_memory(16.0 * len(theta) * S * A * S, f"the kernels of {S:,} states and {A:,} actions")
    kernels = (_cleaned(features.kernel(weights)) for weights in theta)
    per_stage = len(theta) == H and H > 1
    if isinstance(features.form, Listed):
        return kernels if per_stage else next(kernels)
    if per_stage:
        return np.array(list(kernels)).reshape(H, S, A, S)
    return next(kernels).reshape(S, A, S)


def _cleaned(kernel: Any) -> Any:
    """Return a kernel without what is only rounding, dense or scipy.sparse."""
    if isinstance(kernel, np.ndarray):
        return np.where(np.abs(kernel) < 1e-12, 0.0, kernel)
    kernel.data[np.abs(kernel.data) < 1e-12] = 0.0
    return kernel
