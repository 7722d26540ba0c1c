"""A constrained MDP with a linear kernel: features, weights, and the checks that the paper's assumption demands."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from opdop.kernels.features import Listed
from opdop.model.cmdp import TabularCMDP
from opdop.model.display import Display
from opdop.model.errors import InvalidModelError
from opdop.model.features import Features
from opdop.model.validation import Floats, as_floats, as_size, first_index, place

_SLACK = 1e-9


@dataclass(frozen=True, eq=False, repr=False, init=False)
class LinearCMDP:
    """A constrained MDP whose kernel and signals are linear in known features (the paper's Assumption 2).

    Args:
        features: a family from `opdop.model.features`, for finitely many states.
        kernel_weights: theta_h, [H, d1]; or [d1] with `horizon`.
        reward_weights: [H, d2] or [d2].
        utility_weights: [I, H, d2]; for one constraint also [H, d2] or [d2]; for several also [I, d2].
        thresholds: [I] or a number.
        initial: the first state, or a distribution [S].
    """

    features: Features
    kernel_weights: Floats  # [H, d1], or [1, d1] if stationary
    signal_weights: Floats  # [1+I, H or 1, d2]
    horizon: int
    model: TabularCMDP

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
        d1, d2 = features.kernel_dim, features.signal_dim
        theta, signals, H = read_weights(d1, d2, kernel_weights, reward_weights, utility_weights, thresholds, horizon)
        norm = true_norm(features.kernel_norm, theta)
        if features.form is not None and norm != features.kernel_norm:
            features = replace(features, kernel_norm=norm)
        _check_integrals(features)
        model = _tabular(features, theta, signals, thresholds, initial, H, display)
        fields = {
            "features": features,
            "kernel_weights": theta,
            "signal_weights": signals,
            "horizon": H,
            "model": model,
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def tabular(self) -> TabularCMDP:
        """Return the exact finite model, for `solve`, `evaluate` and simulation."""
        return self.model

    def __repr__(self) -> str:
        return f"LinearCMDP({self.features!r}, {self.horizon} stages, {self.model.num_constraints} constraints)"


def true_norm(stated: float, kernel_weights: Floats) -> float:
    """Return the stated bound on the norm of weights [H or 1, d1], or sqrt(d1) if some are longer than that.

    A mixture's weights need not be shares; a learner that took them for shares would be too sure.
    """
    longest = float(np.linalg.norm(kernel_weights, axis=-1).max())
    return stated if longest <= stated * (1.0 + _SLACK) else float(np.sqrt(kernel_weights.shape[-1]))


def read_weights(
    d1: int,
    d2: int,
    kernel_weights: Any,
    reward_weights: Any,
    utility_weights: Any,
    thresholds: Any,
    horizon: int | None,
) -> tuple[Floats, Floats, int]:
    """Return the kernels' weights [H or 1, d1], the signals' [1+I, H or 1, d2] and H, with their norms checked."""
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
    return theta, signals, H


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


def _check_integrals(features: Features) -> None:
    norms, bound = features.integral_norms(), np.sqrt(features.kernel_dim)
    if (norms > bound * (1.0 + _SLACK)).any():
        x, a = (int(i) for i in np.unravel_index(int(np.argmax(norms)), norms.shape))
        raise InvalidModelError(
            f"psi of state {x}, action {a} can integrate a V of at most H to a vector of norm {norms[x, a]:.6g} H; the "
            f"assumption allows sqrt(d1) H = {bound:.6g} H. Scale the features down and the weights up."
        )


def _tabular(
    features: Features,
    theta: Floats,
    signals: Floats,
    thresholds: Any,
    initial: Any,
    H: int,
    display: Display | None,
) -> TabularCMDP:
    """Return the finite model; that its kernels are distributions is what TabularCMDP checks, pair by pair."""
    S, A = features.num_states, features.num_actions
    tables = np.array([[features.signals(weights) for weights in signal] for signal in signals])
    tables = np.where(np.abs(tables) < 1e-12, 0.0, np.where(np.abs(tables - 1.0) < 1e-12, 1.0, tables))
    kernels = (_cleaned(features.kernel(weights)) for weights in theta)
    per_stage = len(theta) == H and H > 1
    transitions: Any
    if isinstance(features.form, Listed):
        transitions = kernels if per_stage else next(kernels)
    elif per_stage:
        transitions = np.array(list(kernels)).reshape(H, S, A, S)
    else:
        transitions = next(kernels).reshape(S, A, S)
    try:
        model = TabularCMDP(transitions, tables[0], tables[1:], thresholds, initial, H, display=display)
        return model.with_features(features)
    except InvalidModelError as error:
        raise InvalidModelError(f"the features and weights do not make a model: {error}") from error


def _cleaned(kernel: Any) -> Any:
    """Return a kernel without what is only rounding, dense or scipy.sparse."""
    if isinstance(kernel, np.ndarray):
        return np.where(np.abs(kernel) < 1e-12, 0.0, kernel)
    kernel.data[np.abs(kernel.data) < 1e-12] = 0.0
    return kernel
