"""The confidence set of a linear kernel: ellipsoids for the weights of each stage, and for those of the signals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from opdop.confidence.first_state import FirstState
from opdop.confidence.optimism import infeasible_by_data
from opdop.confidence.radii import self_normalised_radii
from opdop.confidence.regressions import Regressions
from opdop.confidence.sets import Planner, UncertainPair
from opdop.confidence.tabular_set import signal_bounds
from opdop.kernels import dynamic_programming
from opdop.kernels.ellipsoids import BlockEllipsoids, Ellipsoids
from opdop.kernels.lstd import kernel_radius, signal_radius
from opdop.model import InfeasibleError, PolicyMixture, TabularPolicy
from opdop.model.policy import fitting_table
from opdop.model.validation import Floats, check_failure_probability
from opdop.planning import Corner, Oracle, solve_by_oracle
from opdop.planning.optimum import best_corner


@dataclass(frozen=True, eq=False)
class LinearSet:
    """All weights that the data allow; the true ones are among them with probability 1 - p.

    For each signal and stage, || theta_h - theta^_h ||_Gram <= radius_h, the self-normalised bound: see
    `SelfNormalisedRadius`. It covers every value function, so also that of a policy chosen after looking at the data.
    Union bound, exactly: over 1 + I signals, H stages and, with one-hot features, S A pairs, delta = p / their number;
    if signals are random, kernels and signals have p/2 each. Where the distribution of the first state is not known, it
    has p/10, and the rest 0.9 p in place of p: see `FirstState`.
    """

    data: Regressions
    failure_probability: float = 0.05
    signal_low: Floats = field(init=False)  # [1+I, H, S, A]
    signal_up: Floats = field(init=False)  # [1+I, H, S, A]
    theta: Floats = field(init=False)  # as the targets
    inverse: Floats = field(init=False)  # as the Gram matrices
    radius: Floats = field(init=False)  # [1+I, H]; one-hot [1+I, H, A*S]
    first: FirstState = field(init=False)

    def __post_init__(self) -> None:
        data, features = self.data, self.data.features
        total = check_failure_probability("failure_probability", self.failure_probability)
        first, risk = FirstState.of(data.initial, data.first_visits, total)
        radii = self_normalised_radii(
            horizon=data.horizon,
            signals=1 + data.num_constraints,
            blocks=features.blocks,
            share=risk / 2.0 if data.noisy else risk,
            noisy=data.noisy,
            ridge=data.ridge,
            kernel_norm=features.kernel_norm,
            signal_norm=features.signal_norm,
        )
        information = np.linalg.slogdet(data.gram / data.ridge)[1]
        radius = np.empty(information.shape)
        for index, known in np.ndenumerate(information):
            radius[index] = kernel_radius(radii, index[1], max(float(known), 0.0))
        inverse = np.linalg.inv(data.gram)
        low, up = self._signals(radii, risk)
        values = {
            "failure_probability": total,
            "first": first,
            "radius": radius,
            "inverse": inverse,
            "theta": (inverse @ data.target[..., None])[..., 0],
            "signal_low": low,
            "signal_up": up,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def thresholds(self) -> Floats:
        """The thresholds of the utilities, [I]."""
        return self.data.thresholds

    @property
    def horizon(self) -> int:
        """H."""
        return self.data.horizon

    @property
    def basis(self) -> str:
        """What the set rests on, in words."""
        features = self.data.features
        kind = "one-hot features" if features.form is None else f"{features.kernel_dim} features"
        return f"least squares on {kind}{self.first.basis}"

    def ellipsoids(self, weights: Any, signal: int, *, radius: float = 1.0) -> Ellipsoids | BlockEllipsoids:
        """Return the regressions of one signal as backward passes take them; their kernel is best for `weights` [J].

        `radius` multiplies the radii: 1 is the confidence set, 0 its centre.
        """
        features = self.data.features
        weights = np.array(weights, dtype=np.float64)
        J, S, A = len(weights), features.num_states, features.num_actions
        parts = {
            "theta": np.ascontiguousarray(self.theta[signal]),
            "inverse": np.ascontiguousarray(self.inverse[signal]),
            "radii": radius * self.radius[signal],
            "weights": weights,
            "values": np.zeros((J, 1, S)),
        }
        if features.form is None:
            return BlockEllipsoids(**parts, num_actions=A)
        return Ellipsoids(features.form, **parts, phi=np.zeros((J, features.kernel_dim, S * A)), num_actions=A)

    def lower(self, policy: Any) -> Floats:
        """Return the smallest values of a policy [H, S, A] from the first state on, [1+I]."""
        return self._totals(policy, self.signal_low, -1.0)

    def upper(self, policy: Any) -> Floats:
        """Return the largest values of a policy [H, S, A] from the first state on, [1+I]."""
        return self._totals(policy, self.signal_up, 1.0)

    def optimist(self) -> Oracle:
        """Return the oracle over policies and kernels of the set that are best together."""
        return EllipsoidOracle(self, self.thresholds, self.signal_up, 1.0)

    def planners(self) -> Sequence[Planner]:
        """Return two ways to plan: with the estimated weights, and for the worst case."""

        def plan(oracle: EllipsoidOracle) -> TabularPolicy | PolicyMixture | None:
            try:
                mixture = solve_by_oracle(oracle)
            except InfeasibleError:
                return None
            A = self.data.num_actions
            parts = [TabularPolicy.deterministic(corner.actions, A) for corner in mixture.corners]
            return PolicyMixture(parts, mixture.shares)

        middle = (self.signal_low + self.signal_up) / 2.0
        return (
            lambda b: plan(EllipsoidOracle(self, b, middle, 1.0, radius=0.0)),
            lambda b: plan(EllipsoidOracle(self, b, self.signal_low, -1.0)),
        )

    def safest(self) -> TabularPolicy:
        """Return the policy that maximises the sum of the utilities in the worst case."""
        prices = np.append(0.0, np.ones(len(self.thresholds)))
        oracle = EllipsoidOracle(self, self.thresholds, self.signal_low, -1.0)
        corner = oracle.best(prices, second=np.eye(len(prices))[0])
        return TabularPolicy.deterministic(corner.actions, self.data.num_actions)

    def uncertain_pairs(self, policy: Any, count: int) -> tuple[UncertainPair, ...]:
        """Return nothing, whatever `policy` and `count` are: the data of a linear kernel are not about single pairs."""
        return ()

    def _totals(self, policy: Any, signals: Floats, direction: float) -> Floats:
        data = self.data
        table = fitting_table(policy, data.horizon, data.num_states, data.num_actions)
        v = np.empty((1 + data.num_constraints, 2, data.num_states))
        for j in range(len(v)):
            ellipsoids = self.ellipsoids([direction], j)
            dynamic_programming.evaluate(ellipsoids, signals[j : j + 1], table, v[j : j + 1])
        return np.concatenate([self.first.expect(v[j : j + 1, 0], [direction]) for j in range(len(v))])

    def _signals(self, radii: Any, risk: float) -> tuple[Floats, Floats]:
        """Return the smallest and the largest expectation of each signal that the data allow, [1+I, H, S, A]."""
        data, features = self.data, self.data.features
        J, H, S, A = 1 + data.num_constraints, data.horizon, features.num_states, features.num_actions
        if features.form is None:
            low, up = signal_bounds(
                data.signal_target.reshape(J, -1), data.signal_gram.reshape(-1), data.noisy, risk / 2.0
            )
        else:
            low, up = np.empty((J, H, A * S)), np.empty((J, H, A * S))
            information = np.linalg.slogdet(data.signal_gram / data.ridge)[1]
            for h in range(H):
                inverse = np.linalg.inv(data.signal_gram[h])
                width = np.sqrt(np.maximum(np.einsum("ip,ik,kp->p", features.varphi, inverse, features.varphi), 0.0))
                width *= signal_radius(radii, max(float(information[h]), 0.0))
                means = data.signal_target[:, h] @ inverse @ features.varphi
                low[:, h], up[:, h] = means - width, means + width
        shape = (J, H, A, S)
        return tuple(  # type: ignore[return-value]
            np.ascontiguousarray(np.swapaxes(np.clip(bound, 0.0, 1.0).reshape(shape), -1, -2)) for bound in (low, up)
        )


class EllipsoidOracle:
    """Finds the policy that is best for a weighted sum under the kernel of the set that is best, or worst, for it.

    The regressions of the signal with the most information are used for all.
    """

    def __init__(
        self, confidence: LinearSet, thresholds: Floats, signals: Floats, direction: float, *, radius: float = 1.0
    ) -> None:
        self.thresholds, self.horizon = thresholds, confidence.horizon
        self.confidence, self.passes = confidence, 0
        self._signals, self._direction = signals, direction
        self._first = confidence.first if radius > 0.0 else FirstState(confidence.data.initial)
        known = confidence.radius.reshape(len(confidence.radius), -1).sum(axis=1)
        best = int(np.argmax(known))
        self._ellipsoids = confidence.ellipsoids(np.zeros(len(signals)), best, radius=radius)

    def best(self, weights: Sequence[float] | Floats, second: Sequence[float] | Floats) -> Corner:
        """Maximise `weights` [1+I], none negative; where several policies do, prefer those best for `second`."""
        signed = self._direction * np.asarray(weights, dtype=np.float64)
        self._ellipsoids.weights[:] = signed
        self.passes += 1
        first = self._first
        return best_corner(
            self._ellipsoids, self._signals, self.horizon, lambda v: first.expect(v, signed), weights, second
        )

    def infeasible(self, gap: float, utilities: Floats) -> InfeasibleError:
        """Return the error for constraints that, by the data, no policy satisfies."""
        return infeasible_by_data(self.confidence.failure_probability, self.thresholds, gap, utilities)
