"""Least-squares value iteration with a soft-max policy and a multiplier, for linear MDPs.

Ghosh, Zhou and Shroff, "Provably Efficient Model-Free Constrained RL with Linear Function Approximation", NeurIPS 2022,
Algorithm 1. The arithmetic is in `opdop.kernels.soft_max_loop`; its trailing comments name the lines as
docs/algorithms/linear-primal-dual.md numbers them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opdop.algorithms.constants import Preset, bound_multipliers, described
from opdop.algorithms.counted_learner import CountedLearner
from opdop.algorithms.counts import Counts
from opdop.algorithms.peers import refuse_several
from opdop.algorithms.radius_rules import BallRadius, FixedRadius, as_ridge
from opdop.algorithms.registry import algorithm
from opdop.algorithms.saved_state import fitting, fitting_policy, prefixed, restore_counts, under
from opdop.algorithms.sizes import as_task, check_room, required_proposal
from opdop.algorithms.task import Task, by_action, swapped
from opdop.kernels import loops, soft_max_loop
from opdop.kernels.features import Embedded
from opdop.model import Episode, InvalidParameterError, OpdopError, TabularPolicy
from opdop.model.validation import Floats, as_number

_IN_SPAN = 1e-9  # the largest error of a signal feature that counts as linear in those of the kernel
_LARGEST = 1e100  # of a constant
_KEPT = ("gram", "target", "successors", "updates", "inverse", "information", "width")


@dataclass(frozen=True)
class _PooledRadius(FixedRadius):
    """Makes `Counts` pool the visits of all stages where the task is stationary."""

    pools: bool = True


@dataclass(frozen=True)
class SoftMaxConstants:
    """All constants of one run, and the name of the preset that they come from."""

    preset: str
    step_size: float  # alpha, of the soft-max
    dual_step_size: float  # eta
    dual_bound: float  # xi
    radius: float  # beta
    ridge: float  # lambda
    pools: bool = False  # whether the visits of all stages are pooled where the task is stationary
    clips_by_stage: bool = False  # whether Q is at most the number of stages left, or else H at every stage
    parameters: Mapping[str, float] = field(default_factory=dict)  # the preset's named fields, as used


def _theorem(task: Task, dual_bound: float | None) -> dict[str, Any]:
    """Return the step sizes of the theorem."""
    H, K, bound = task.horizon, task.episodes, bound_multipliers(task, dual_bound)
    return {
        "step_size": math.log(task.num_actions) * math.sqrt(K) / (2.0 * (1.0 + bound + H)),
        "dual_step_size": bound / math.sqrt(K * H**2),
        "dual_bound": bound,
    }


def _paper(task: Task, dual_bound: float | None, C1: float = 1.0) -> SoftMaxConstants:
    """The theorem's constants, whose unknown factor C1 is a parameter; learns very slowly."""
    d, H, K = _dimension(task), task.horizon, task.episodes
    actions = max(math.log(task.num_actions), 1.0)  # so that one action has a logarithm
    inside = 4.0 * actions * d * H * K / task.failure_probability
    return SoftMaxConstants(
        "paper",
        radius=C1 * d * H * math.sqrt(math.log(inside)),
        ridge=1.0,
        parameters={"C1": C1},
        **_theorem(task, dual_bound),
    )


def _practical(
    task: Task,
    dual_bound: float | None,
    step_scale: float = 30.0,
    dual_step_scale: float = 0.5,
    radius_scale: float = 0.00222,
    ridge_scale: float = 6.29e-6,
) -> SoftMaxConstants:
    """The theorem's step sizes and a radius of H, times factors that `python -m studies.general` chose."""
    given = {name: value for name, value in locals().items() if name.endswith("_scale")}
    numbers = _theorem(task, dual_bound)
    numbers["step_size"] *= step_scale
    numbers["dual_step_size"] *= dual_step_scale
    return SoftMaxConstants(
        "practical",
        radius=radius_scale * task.horizon,
        ridge=ridge_scale,
        pools=True,
        clips_by_stage=True,
        parameters=given,
        **numbers,
    )


class LinearPrimalDual(CountedLearner):
    """Estimates Q optimistically by least squares, plays the soft-max of Q_r + Y Q_g, and moves the multiplier Y.

    >>> import opdop
    >>> run = opdop.train("random-embedding", "linear-primal-dual", episodes=100)
    >>> len(run.policy.table)
    5

    Args:
        task: what the learner is told. It must have one constraint and finitely many states. Its features must be an
            embedding, whose left part is phi(x, a), or none: then phi is one-hot, and the least squares are counts.
        constants: those of a preset, or your own.

    Transitions are counted too, for certificates. Raises InvalidParameterError for other tasks, or if a constant is out
    of range.
    """

    def __init__(self, task: Task, constants: SoftMaxConstants) -> None:
        self.task = as_task(task)
        phi = linear_features(task)
        refuse_several("linear-primal-dual", task)
        numbers = {
            name: _constant(name, getattr(constants, name)) for name in ("step_size", "dual_step_size", "radius")
        }
        self.dual_bound, self.ridge = _constant("dual_bound", constants.dual_bound), as_ridge(constants.ridge)
        self.step_size, self.dual_step_size, self.radius = numbers.values()
        H, S, A = task.horizon, task.num_states, task.num_actions
        pooled = constants.pools and task.stationary and task.stationary_signals
        self.counts = Counts(
            task,
            radius=BallRadius(0.0) if phi is not None else _PooledRadius(self.radius, pools=pooled),
            ridge=self.ridge,
        )
        check_room(task, 4.0, "the policy and its estimates")
        self._tops = np.arange(H, 0, -1.0) if constants.clips_by_stage else np.full(H, float(H))
        self._data = None if phi is None else _no_regressions(task, phi, self.ridge, 1 if pooled else H)
        self._by_action = np.full((H, A, S), 1.0 / A)
        self.dual = np.zeros(1)
        self.constants = {**described(constants, task), "dimension": _dimension(task)}
        self.episodes = 0
        self._estimates, self._last_dual = np.zeros(2), np.zeros(1)
        self._proposed: TabularPolicy | None = None

    def _learner(self) -> soft_max_loop.SoftMax:
        return soft_max_loop.SoftMax(
            policy=self._by_action,
            q=self.counts.q,
            v=self.counts.v,
            dual=self.dual,
            thresholds=self.task.thresholds,
            initial=self.task.initial,
            tops=self._tops,
            step_size=self.step_size,
            radius=self.radius,
            dual_step_size=self.dual_step_size,
            dual_bound=self.dual_bound,
        )

    def _arrays(self) -> Any:
        """Return the data as the kernels take them, with room for at least one more episode."""
        counts = self.counted()
        return counts if self._data is None else soft_max_loop.Regressions(counts, **self._data)

    def propose(self) -> TabularPolicy:
        """Return the soft-max policy for the data and the multiplier; the same one until `learn` is called."""
        if self._proposed is None:
            soft_max_loop.evaluate_softly(self._arrays(), self._learner())
            self._proposed = TabularPolicy.trusted(by_action(self._by_action.copy()))
        return self._proposed

    def learn(self, episode: Episode) -> None:
        """Learn from the episode played with the policy proposed last.

        Raises OpdopError if no policy was proposed, and InvalidModelError if the episode does not fit the task.
        """
        required_proposal(self._proposed)
        episode = self.task.checked(episode)
        loops.average_start(self.counts.v, self.task.initial, self._estimates)
        self._last_dual = self.dual.copy()
        soft_max_loop.observe_episode(self._arrays(), episode.states, episode.actions, episode.signals)
        soft_max_loop.move_multiplier(self._learner(), self._estimates[1:])
        self._proposed = None
        self.episodes += 1

    @property
    def policy(self) -> Floats:
        """The policy of the last episode, [H, S, A]."""
        return swapped(self._by_action)

    def diagnostics(self) -> dict[str, float]:
        """Return the optimistic estimates and the multiplier of the last episode."""
        return {
            "episodes": float(self.episodes),
            "estimated_reward": float(self._estimates[0]),
            "estimated_utility_0": float(self._estimates[1]),
            "dual_0": float(self._last_dual[0]),
        }

    def state(self) -> dict[str, NDArray[Any]]:
        """Return everything that later proposals depend on."""
        own = {
            "episodes": np.array(self.episodes),
            "policy": self.policy.copy(),
            "dual": self.dual.copy(),
            "last_dual": self._last_dual.copy(),
            "estimates": self._estimates.copy(),
        }
        regressions = {} if self._data is None else {name: self._data[name].copy() for name in _KEPT}
        return own | prefixed("regressions.", regressions) | prefixed("counts.", self.counts.state())

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Return to a saved state; raises OpdopError if it does not fit."""
        policy = fitting_policy(state, self.policy)
        dual, last_dual = (fitting(state, name, self.dual) for name in ("dual", "last_dual"))
        if not 0.0 <= min(dual[0], last_dual[0]) <= max(dual[0], last_dual[0]) <= self.dual_bound:
            raise OpdopError(f"the saved multipliers are outside [0, {self.dual_bound:g}].")
        estimates, episodes = fitting(state, "estimates", self._estimates), int(fitting(state, "episodes", np.array(0)))
        if self._data is not None:
            saved = under(state, "regressions.")
            found = {name: fitting(saved, name, self._data[name]) for name in _KEPT}
            _check_regressions(found, self._data["phi"], self.ridge, episodes * self.task.horizon)
        restore_counts(self.counts, state, episodes)
        if self._data is not None:
            for name, array in found.items():
                self._data[name][:] = array
        self._by_action[:], self.dual[:] = swapped(policy), dual
        self._last_dual, self._estimates, self.episodes = last_dual.copy(), estimates.copy(), episodes
        self._proposed = None

    def _run(self, model: loops.Model, uniforms: Floats, record: loops.Record) -> int:
        done = int(soft_max_loop.run_soft_max(self._learner(), self._arrays(), model, uniforms, record))
        if done:
            self._estimates, self._last_dual = record.estimates[done - 1].copy(), record.dual[done - 1].copy()
        self._proposed = None
        self.episodes += done
        return done


def linear_features(task: Task) -> Floats | None:
    """Return phi [d, A*S] of a linear MDP, of norm at most 1, from the features of a task; None if they are one-hot.

    With psi(x, a, y) = left(x, a) outer right(y), the kernel is linear in left(x, a). Where the signals are not, their
    features are added. Raises InvalidParameterError if the task has other features, or continuous states.
    """
    features = task.features
    if features is None or (not task.is_continuous and features.form is None):
        return None
    if task.is_continuous or not isinstance(features.form, Embedded):
        raise InvalidParameterError(
            f"`linear-primal-dual` is for linear MDPs, P(y | x, a) = <phi(x, a), mu(y)>, with finitely many states; but"
            f" the features of this task are {features!r}. Expected an embedding or none; `opdop-lstd` takes all."
        )
    left, varphi = features.form.left, features.varphi
    weights = np.linalg.lstsq(left.T, varphi.T, rcond=None)[0]
    phi = left if np.abs(left.T @ weights - varphi.T).max() <= _IN_SPAN else np.concatenate([left, varphi])
    return np.ascontiguousarray(phi / max(float(np.linalg.norm(phi, axis=0).max()), 1.0))


def _dimension(task: Task) -> int:
    phi = linear_features(task)
    return task.num_states * task.num_actions if phi is None else len(phi)


def _constant(name: str, value: Any) -> float:
    number = as_number(name, value, f"a number, 0 to {_LARGEST:g}")
    if not 0.0 <= number <= _LARGEST:
        raise InvalidParameterError(f"{name} is {number}; expected a number, 0 to {_LARGEST:g}.")
    return number


def _no_regressions(task: Task, phi: Floats, ridge: float, stages: int) -> dict[str, Any]:
    """Return the data of the regressions before the first episode."""
    d, L = len(phi), stages
    return {
        "phi": phi,
        "gram": np.tile(ridge * np.eye(d), (L, 1, 1)),
        "inverse": np.tile(np.eye(d) / ridge, (L, 1, 1)),
        "target": np.zeros((1 + task.num_constraints, L, d)),
        "successors": np.zeros((L, d, task.num_states)),
        "width": np.tile(np.linalg.norm(phi, axis=0) / math.sqrt(ridge), (L, 1)),
        "information": np.zeros(L),
        "updates": np.zeros(L, dtype=np.int64),
        "ridge": ridge,
    }


def _check_regressions(found: Mapping[str, NDArray[Any]], phi: Floats, ridge: float, steps: int) -> None:
    """Raise OpdopError unless saved regressions fit each other and the number of observed steps."""
    if (found["updates"] * len(found["updates"]) != steps).any():
        raise OpdopError(f"the saved regressions are not those of {steps} steps.")
    if (found["width"] < 0.0).any():
        raise OpdopError("the saved widths are not positive.")
    for gram, inverse in zip(found["gram"], found["inverse"], strict=True):
        with np.errstate(all="ignore"):
            error = np.abs(gram @ inverse - np.eye(len(phi))).max()
        if not error <= 1e-3 or not np.array_equal(gram, gram.T):
            raise OpdopError("the saved inverse is not that of the saved Gram matrix.")


@algorithm(
    "linear-primal-dual",
    summary="Least-squares value iteration with a soft-max policy and a multiplier, for linear MDPs; one constraint",
    presets={"paper": _paper, "practical": _practical},
)
def linear_primal_dual(task: Task, preset: Preset) -> LinearPrimalDual:
    """Return the learner."""
    return LinearPrimalDual(task, preset.constants(task))
