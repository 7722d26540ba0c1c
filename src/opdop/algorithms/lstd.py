"""Algorithm 2: optimistic policy evaluation by least squares with bonus, for linear kernels.

The arithmetic is in `opdop.kernels.lstd`; its trailing comments name the paper's lines.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opdop.algorithms.counts import no_visits
from opdop.algorithms.radius_rules import (
    FixedRadius,
    LinearRadius,
    PaperRadius,
    SelfNormalisedRadius,
    WeissmanRadius,
    as_ridge,
    checked_numbers,
    fixed_radius,
    flat_linear_radii,
    linear_rule,
    rule_data,
)
from opdop.algorithms.saved_state import fitting
from opdop.algorithms.sizes import as_task, check_room, check_state
from opdop.algorithms.task import Estimates, Task, by_action, swapped
from opdop.confidence.regressions import Regressions
from opdop.kernels import evaluators
from opdop.kernels import lstd as kernel
from opdop.model import Episode, InvalidModelError, InvalidParameterError, OpdopError, TabularPolicy
from opdop.model.features import Features, one_hot
from opdop.model.overriding import has_originals, originals
from opdop.model.policy import fitting_table
from opdop.model.validation import check_memory, is_number, shown

# Below this a Gram matrix of long features can become singular to the machine.
SMALLEST_RIDGE = 1e-6

CERTIFIED = SelfNormalisedRadius()


class LSTD:
    """Estimates a policy's values by ridge regressions on the features of a linear kernel.

    `features` are the task's by default, or one-hot if it has none. `radius` is the paper's beta as a number, or a
    confidence rule. With one-hot features no d1 x d1 matrix is formed. Raises InvalidParameterError if ridge or radius
    is wrong or the matrices would not fit into memory, and InvalidModelError if the features do not fit the task.
    """

    def __init__(
        self,
        task: Task,
        features: Features | None = None,
        *,
        radius: float | LinearRadius | PaperRadius | WeissmanRadius = CERTIFIED,
        ridge: float = 1.0,
    ) -> None:
        task, self.ridge = as_task(task), as_ridge(ridge, SMALLEST_RIDGE)
        if features is None:
            features = task.features or one_hot(task.num_states, task.num_actions)
        if not isinstance(features, Features):
            raise InvalidModelError(f"features is {shown(features)}; expected Features, or None.")
        sizes = (task.num_states, task.num_actions)
        if (features.num_states, features.num_actions) != sizes:
            raise InvalidModelError(
                f"the features are for {features.num_states} states and {features.num_actions} actions; "
                f"the task has {sizes[0]} and {sizes[1]}."
            )
        J, H, S, A = 1 + task.num_constraints, task.horizon, *sizes
        check_room(task, 2.0 * J, "the estimates")
        self.task, self.features = task, features
        self.radius: Any = fixed_radius(radius) if is_number(radius) else linear_rule(radius)
        if isinstance(self.radius, FixedRadius):
            self.radii = flat_linear_radii(task, float(self.radius.radii(task, self.ridge)[0]))
        else:
            found = checked_numbers(self.radius, "linear_radii", task, features, self.ridge, horizon=H)
            if not isinstance(found, kernel.Radii) or np.shape(found.noise) != (H,) or np.shape(found.bias) != (H,):
                raise InvalidParameterError(f"the radius of {shown(radius)} is {shown(found)}; expected Radii of [H].")
            self.radii = found
        self.q, self.v = np.zeros((J, H, A, S)), np.zeros((J, H + 1, S))
        self.touched = np.ones((H, S), dtype=np.bool_)
        self._arrays = self._one_hot() if features.form is None else self._linear()

    @property
    def compiles(self) -> bool:
        """Whether the kernels do exactly what `evaluate` and `observe` do: False if a subclass overrides them."""
        return has_originals(self, _REPLACED)

    @property
    def arrays(self) -> kernel.Linear | kernel.OneHot:
        """The regressions, as the kernels take them."""
        return self._arrays

    def described(self) -> dict[str, Any]:
        """Return the radius and the ridge as plain data, with the radii before the first episode."""
        return {
            "ridge": self.ridge,
            "radius": rule_data(self.radius),
            "first_radius": float(kernel.kernel_radius(self.radii, 0, 0.0)),
            "last_radius": float(kernel.kernel_radius(self.radii, self.task.horizon - 1, 0.0)),
            "signal_radius": float(kernel.signal_radius(self.radii, 0.0)),
            "kernel_dim": self.features.kernel_dim,
            "signal_dim": self.features.signal_dim,
            "kernel_norm": float(self.features.kernel_norm),
            "signal_norm": float(self.features.signal_norm),
            "signal_length": self.features.signal_length,
            "feature_blocks": self.features.blocks,
            "features": f"{self.features.name}, d1 = {self.features.kernel_dim}, d2 = {self.features.signal_dim}",
        }

    def evaluate(self, policy: TabularPolicy) -> Estimates:
        """Return the optimistic values of a policy from the episodes observed so far.

        Raises InvalidModelError if the policy does not fit the task.
        """
        task = self.task
        table = fitting_table(policy, task.horizon, task.num_states, task.num_actions)
        check_state(self.arrays, self.q, self.v, task)
        evaluators.evaluate(self.arrays, by_action(table), self.q, self.v)
        return self.estimates

    @property
    def estimates(self) -> Estimates:
        """The result of the last evaluation."""
        return Estimates(swapped(self.q), self.v, self.touched)

    def observe(self, episode: Episode, estimates: Estimates | None = None) -> None:
        """Add one episode to the regressions, with the value functions of the last evaluation.

        `estimates` are not read: they are the last evaluation's. Raises InvalidModelError if the episode does not fit
        the task.
        """
        episode = self.task.checked(episode)
        check_state(self.arrays, self.q, self.v, self.task)
        evaluators.observe(self.arrays, self.v, episode.states, episode.actions, episode.signals)

    def observations(self) -> Regressions | None:
        """Return the regressions, from which certificates are made; None where states are continuous."""
        arrays, task = self.arrays, self.task
        if self.features.carried is not None:
            return None
        if isinstance(arrays, kernel.OneHot):
            signals = {"signal_gram": arrays.visits.number, "signal_target": arrays.visits.sums}
        else:
            signals = {"signal_gram": arrays.signal_gram, "signal_target": arrays.signal_target}
        return Regressions(
            features=self.features,
            horizon=task.horizon,
            thresholds=task.thresholds,
            initial=task.initial,
            noisy=task.noisy,
            ridge=self.ridge,
            gram=arrays.gram,
            target=arrays.target,
            **signals,
        )

    def state(self) -> dict[str, NDArray[Any]]:
        """Return everything that later estimates depend on."""
        return {name: array.copy() for name, array in self._changing().items()}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Return to a saved state; raises an error if it does not fit."""
        checked = {name: fitting(state, name, array) for name, array in self._changing().items()}
        for name, array in checked.items():
            if name.endswith("gram"):
                np.linalg.cholesky(array)  # raises unless it can be inverted
            if name.endswith("information") and (array < -1e-6).any():
                raise OpdopError(f"the saved {name!r} is negative.")
        for name, array in self._changing().items():
            array[...] = checked[name]

    def _changing(self) -> dict[str, NDArray[Any]]:
        """Return every array that changes with the episodes."""
        named: dict[str, Any] = dict(self.arrays._asdict())
        if isinstance(self.arrays, kernel.OneHot):
            visits, kept = self.arrays.visits, ("touched", "number", "sums", "lost", "inverse", "width")
            named |= {f"visits_{name}": getattr(visits, name) for name in kept}
        fixed = {"form", "varphi", "radii", "ridge", "visits", "room"}
        return {name: array for name, array in named.items() if name not in fixed} | {"q": self.q, "v": self.v}

    def _linear(self) -> kernel.Linear:
        J, H, A, S = self.q.shape
        d1, d2, ridge = self.features.kernel_dim, self.features.signal_dim, self.ridge
        check_memory(16.0 * (J * H * d1 * d1 + H * d2 * d2), f"the regressions (d1 = {d1}, d2 = {d2})")
        varphi = np.ascontiguousarray(self.features.varphi)
        return kernel.Linear(
            form=self.features.form,  # type: ignore[arg-type]
            varphi=varphi,
            radii=self.radii,
            ridge=ridge,
            gram=_eyes((J, H), d1, ridge),
            inverse=_eyes((J, H), d1, 1.0 / ridge),
            target=np.zeros((J, H, d1)),
            information=np.zeros((J, H)),
            updates=np.zeros((J, H), dtype=np.int64),
            signal_gram=_eyes((H,), d2, ridge),
            signal_inverse=_eyes((H,), d2, 1.0 / ridge),
            signal_target=np.zeros((J, H, d2)),
            signal_information=np.zeros(H),
            signal_updates=np.zeros(H, dtype=np.int64),
            signal_width=np.tile((varphi**2).sum(axis=0) / ridge, (H, 1)),
            room=kernel.empty_linear_room(self.features.form, varphi, J, A, S),
        )

    def _one_hot(self) -> kernel.OneHot:
        J, H, A, S = self.q.shape
        pairs, ridge = A * S, self.ridge
        check_memory(
            20.0 * J * H * pairs * S * S, f"the regressions (S = {S}, A = {A}, H = {H}; Counts would take less)"
        )
        widths = np.full(H, 1.0 / math.sqrt(ridge))
        half = (np.eye(S) / ridge)[np.triu_indices(S)]
        return kernel.OneHot(
            radii=self.radii,
            ridge=ridge,
            gram=_eyes((J, H, pairs), S, ridge),
            inverse=_eyes((J, H, pairs), S, 1.0 / ridge),
            target=np.zeros((J, H, pairs, S)),
            weights=np.zeros((J, H, S, pairs)),
            quadratic=np.ascontiguousarray(np.broadcast_to(half[:, None], (J, H, len(half), pairs))),
            information=np.zeros((J, H, pairs)),
            updates=np.zeros((J, H, pairs), dtype=np.int64),
            signal_bonus=np.full((H, pairs), kernel.signal_radius(self.radii, 0.0) / math.sqrt(ridge)),
            visits=no_visits(self.task, ridge, widths, np.zeros(H)),
            room=kernel.OneHotRoom(np.empty(len(half)), np.empty(pairs), np.empty(S)),
        )


# The methods of LSTD that the compiled loop replaces.
_REPLACED = originals(LSTD, "evaluate", "observe", "estimates")


def _eyes(lead: tuple[int, ...], d: int, value: float) -> NDArray[np.float64]:
    """Return value times the identity [*lead, d, d]."""
    out = np.zeros((*lead, d, d))
    out[..., np.arange(d), np.arange(d)] = value
    return out
