"""What a learner may know before the first episode, and the protocols of learners and evaluators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from opdop.algorithms.baseline import Baseline
from opdop.confidence.data import Data
from opdop.confidence.first_state import as_first_visits
from opdop.kernels import loops
from opdop.model import (
    Episode,
    Features,
    InvalidModelError,
    InvalidParameterError,
    Problem,
    TabularPolicy,
)
from opdop.model.problem import as_tabular
from opdop.model.validation import (
    MOST_EPISODES,
    Floats,
    as_flag,
    as_floats,
    as_index,
    as_number,
    as_size,
    as_vector,
    check_distributions,
    check_failure_probability,
    check_memory,
    check_unit_interval,
    number,
    shown,
)
from opdop.planning import solve


@dataclass(frozen=True, eq=False, repr=False)
class Task:
    """What a learner is told: sizes, thresholds and the plan, but never the kernel or the signals.

    `slater_gap` is a lower bound on the Slater gap, or None if it is unknown. `initial` is the distribution of the
    first state, which the paper takes as known; if it is not, `first_visits` are how often each state was observed as a
    first state so far, and `initial` is an estimate: certificates then bound the distribution from these observations
    and those of the run. `noisy` says that observed signals are random. `stationary` says that
    the kernel is the same at every stage, and `stationary_signals` that the means of all signals are: evaluators may
    then pool the visits of all stages. `absorbing` is a state that is never left, in which episodes that ended early
    spend the remaining stages, with the signals `rest`. `baseline` is a policy that keeps every constraint, with its
    slack. Raises InvalidModelError or InvalidParameterError for the first field that is wrong.
    """

    horizon: int
    num_states: int
    num_actions: int
    thresholds: Floats  # [I]
    initial: Floats  # [S]
    episodes: int  # K, as planned: the constants depend on it
    failure_probability: float = 0.05  # p, the probability with which the guarantee may fail
    slater_gap: float | None = None
    noisy: bool = False
    features: Features | None = None  # of a linear kernel, if it is known to have one
    stationary: bool = False
    stationary_signals: bool = False
    absorbing: int | None = None  # the state in which an episode has ended; nothing need be learnt about it
    rest: Floats | None = None  # [1+I], the signals of each stage in that state
    baseline: Baseline | None = None  # a policy that is known to be safe, which few algorithms need
    first_visits: NDArray[np.int64] | None = None  # [S]; None if `initial` is known exactly

    def __post_init__(self) -> None:
        for name in ("horizon", "num_states", "num_actions"):
            object.__setattr__(self, name, as_size(name, getattr(self, name)))
        thresholds = np.atleast_1d(as_floats("thresholds", self.thresholds, "one number for each constraint"))
        if thresholds.ndim != 1 or not thresholds.size:
            raise InvalidModelError(f"thresholds have shape {list(thresholds.shape)}; expected [I], I at least 1.")
        for i in np.flatnonzero((thresholds < 0.0) | (thresholds > self.horizon)):
            raise InvalidModelError(
                f"thresholds[{i}] is {number(thresholds[i])}; expected 0 to H = {self.horizon}, as utilities are."
            )
        check_memory(8.0 * self.num_states, f"a task of {self.num_states} states")
        initial = as_floats("initial", self.initial, "the distribution of the first state [S]")
        if initial.shape != (self.num_states,):
            raise InvalidModelError(f"initial has shape {list(initial.shape)}; expected [S] = [{self.num_states}].")
        check_distributions("initial", initial)
        object.__setattr__(self, "first_visits", as_first_visits(self.first_visits, self.num_states))
        for name, array in (("thresholds", thresholds), ("initial", initial)):
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        if not isinstance(self.episodes, (int, np.integer)) or isinstance(self.episodes, bool):
            raise InvalidParameterError(f"episodes is {shown(self.episodes)}; expected a whole number.")
        if not 1 <= self.episodes <= MOST_EPISODES:
            raise InvalidParameterError(f"episodes is {shown(self.episodes)}; expected 1 to {MOST_EPISODES}.")
        object.__setattr__(self, "episodes", int(self.episodes))
        risk = check_failure_probability("failure_probability", self.failure_probability)
        object.__setattr__(self, "failure_probability", risk)
        if self.slater_gap is not None:
            expected = "a positive lower bound, or None if it is unknown"
            gap = as_number("slater_gap", self.slater_gap, expected)
            if gap <= 0.0:
                raise InvalidParameterError(f"slater_gap is {gap}; expected {expected}.")
            object.__setattr__(self, "slater_gap", gap)
        for name in ("noisy", "stationary", "stationary_signals"):
            object.__setattr__(self, name, as_flag(name, getattr(self, name)))
        if self.features is not None and not isinstance(self.features, Features):
            raise InvalidModelError(f"features is {shown(self.features)}; expected Features, or None.")
        self._check_absorbing()
        if self.baseline is not None:
            if not isinstance(self.baseline, Baseline):
                raise InvalidModelError(f"baseline is {shown(self.baseline)}; expected an opdop.Baseline, or None.")
            self.baseline.check(self.horizon, self.num_states, self.num_actions, self.num_constraints)

    def _check_absorbing(self) -> None:
        if (self.absorbing is None) != (self.rest is None):
            raise InvalidModelError("absorbing and rest belong together; expected both, or neither.")
        if self.absorbing is not None:
            object.__setattr__(self, "absorbing", as_index("absorbing", self.absorbing, self.num_states))
            rest = as_vector("rest", self.rest, 1 + self.num_constraints, "1+I")
            check_unit_interval("rest", rest)
            rest.setflags(write=False)
            object.__setattr__(self, "rest", rest)

    @classmethod
    def of(
        cls,
        problem: Problem,
        *,
        episodes: int,
        failure_probability: float = 0.05,
        slater_gap: float | None = None,
        noisy: bool = False,
        stationary: bool | None = None,
        stationary_signals: bool | None = None,
        baseline: bool = False,
    ) -> Task:
        """Return the task of learning a known model, which the learner does not see.

        Args:
            problem: the model; the task has its sizes, thresholds, initial distribution and features.
            episodes: K, the number of planned episodes, on which the constants depend.
            failure_probability: p, the probability with which a guarantee may fail.
            slater_gap: a lower bound on the Slater gap, which the paper gives the learner; by default computed from the
                model. If no policy has slack in all constraints, it stays unknown, and a preset needs `dual_bound`.
            noisy: whether observed signals are random.
            stationary: whether the kernel is the same at all stages; by default, whether the model stores one for all.
            stationary_signals: whether the signals are; by default, whether the model stores one set of them and the
                kernel is declared stationary.
            baseline: whether the learner is told a safe policy with its slack: the max-slack policy of the model.

        Raises InvalidModelError or InvalidParameterError for the first argument that is wrong.
        """
        cmdp = as_tabular(problem)
        if slater_gap is None:
            slater_gap = solve(cmdp).slater_gap or None
        if stationary is None:
            stationary = cmdp.is_stationary
        if stationary_signals is None:
            stationary_signals = as_flag("stationary", stationary) and cmdp.signals.shape[1] == 1
        return cls(
            cmdp.horizon,
            cmdp.num_states,
            cmdp.num_actions,
            cmdp.thresholds,
            cmdp.initial,
            episodes,
            failure_probability,
            slater_gap,
            noisy,
            problem.learner_features,
            stationary,
            stationary_signals,
            cmdp.absorbing,
            None if cmdp.absorbing is None else cmdp.signals[:, 0, cmdp.absorbing, 0],
            Baseline.of(cmdp) if as_flag("baseline", baseline) else None,
        )

    @property
    def is_continuous(self) -> bool:
        """Whether states are continuous; the task's states are then those at which value functions are stored."""
        return self.features is not None and self.features.carried is not None

    @property
    def num_constraints(self) -> int:
        """I, the number of constraints."""
        return len(self.thresholds)

    def __repr__(self) -> str:
        sizes = f"{self.num_states} states, {self.num_actions} actions, {self.horizon} stages"
        many = f"{self.num_constraints} constraint{'' if self.num_constraints == 1 else 's'}"
        return f"Task({sizes}, {many}, {self.episodes:,} episodes planned)"

    def checked(self, episode: Episode) -> Episode:
        """Return an episode with its arrays as the kernels need them.

        Raises InvalidModelError if its states, actions or signals have the wrong shape, type or range.
        """
        if not isinstance(episode, Episode):
            raise InvalidModelError(f"the episode is {shown(episode)}; expected an opdop.Episode.")
        H, J = self.horizon, 1 + self.num_constraints
        return Episode(
            _indices("states", episode.states, H + 1, self.num_states),
            _indices("actions", episode.actions, H, self.num_actions),
            _signals(episode.signals, (J, H)),
        )

    def replan(self, episodes: int, failure_probability: float) -> Task:
        """Return the same task with another number of planned `episodes` and another `failure_probability`.

        Raises InvalidParameterError if one is out of range.
        """
        return replace(self, episodes=episodes, failure_probability=failure_probability)

    def plan(self) -> dict[str, Any]:
        """Return the numbers of the plan that constants depend on, as a run stores them."""
        return {
            "failure_probability": self.failure_probability,
            "planned_episodes": self.episodes,
            "slater_gap": self.slater_gap,
        }


@dataclass(frozen=True, eq=False)
class Estimates:
    """Optimistic values of one policy; `touched` [H, S] is False where all actions still have the same estimate."""

    q: Floats  # [1+I, H, S, A]
    v: Floats  # [1+I, H+1, S]
    touched: NDArray[np.bool_]  # [H, S]


def swapped(table: NDArray[Any]) -> NDArray[Any]:
    """Return a view of [..., S, A] as [..., A, S], or back: kernels lay out by action, everything else by state."""
    return np.swapaxes(table, -1, -2)


def by_action(table: NDArray[Any]) -> NDArray[Any]:
    """Return [..., S, A] as a contiguous [..., A, S], as kernels take it; not copied if it is laid out so already."""
    return np.ascontiguousarray(swapped(table))


def _indices(name: str, values: Any, length: int, size: int) -> NDArray[np.int64]:
    array = np.asarray(values)
    if array.dtype.kind not in "iu" or array.shape != (length,):
        raise InvalidModelError(
            f"the episode's {name} are {array.dtype} {list(array.shape)}; expected whole numbers [{length}]."
        )
    if array.min() < 0 or array.max() >= size:
        place = int(np.argmax((array < 0) | (array >= size)))
        raise InvalidModelError(f"the episode's {name}[{place}] is {array[place]}; expected 0 to {size - 1}.")
    return np.ascontiguousarray(array, dtype=np.int64)


def _signals(values: Any, shape: tuple[int, int]) -> Floats:
    array = np.asarray(values)
    if array.dtype.kind not in "biuf" or array.shape != shape:
        raise InvalidModelError(
            f"the episode's signals are {array.dtype} {list(array.shape)}; expected numbers [1+I,H] = {list(shape)}."
        )
    if not (array.min() >= 0.0 and array.max() <= 1.0):
        place = tuple(int(i) for i in np.argwhere(~((array >= 0.0) & (array <= 1.0)))[0])
        raise InvalidModelError(f"the episode's signals{list(place)} is {array[place]}; expected a number in [0, 1].")
    return np.ascontiguousarray(array, dtype=np.float64)


@runtime_checkable
class Evaluator(Protocol):
    """Estimates a policy's values optimistically from observed episodes; `evaluate` always comes before `observe`."""

    def evaluate(self, policy: TabularPolicy) -> Estimates:
        """Return estimates of a policy's values from the episodes observed so far; the next call overwrites them."""
        ...

    def observe(self, episode: Episode, estimates: Estimates) -> None:
        """Add one episode to the data; `estimates` are those of the policy that played it."""
        ...

    def state(self) -> dict[str, NDArray[Any]]:
        """Return everything that later estimates depend on."""
        ...

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Return to a saved state; raises OpdopError if it does not fit."""
        ...


@runtime_checkable
class CompiledEvaluator(Evaluator, Protocol):
    """An evaluator whose state is arrays that the compiled loop can change in place."""

    q: Floats  # [1+I, H, A, S], laid out by action as in the kernels
    v: Floats  # [1+I, H+1, S]

    @property
    def compiles(self) -> bool:
        """Whether the kernels do exactly what `evaluate` and `observe` do: False if a subclass overrides them."""
        ...

    @property
    def arrays(self) -> Any:
        """The state, as `opdop.kernels.evaluators` takes it, with room for at least one more episode."""
        ...

    @property
    def estimates(self) -> Estimates:
        """The result of the last evaluation."""
        ...

    def described(self) -> dict[str, Any]:
        """Return the radius and the ridge as plain data."""
        ...


@runtime_checkable
class Observing(Protocol):
    """A learner or an evaluator that keeps the data from which certificates are made."""

    def observations(self) -> Data | None:
        """Return what was observed so far; None if it is not kept."""
        ...


class Learner(Protocol):
    """Proposes a policy for the next episode, and learns from that episode.

    A learner may also have `task`, whose sizes `train` then compares with the problem's, and `constants`, which are
    stored with the run.
    """

    def propose(self) -> TabularPolicy:
        """Return the policy for the next episode."""
        ...

    def learn(self, episode: Episode) -> None:
        """Learn from the episode that was played with the proposed policy."""
        ...

    def diagnostics(self) -> dict[str, float]:
        """Return the learner's estimates and multipliers: `estimated_reward`, `estimated_utility_i`, `dual_i`."""
        ...

    def state(self) -> dict[str, NDArray[Any]]:
        """Return everything that later proposals depend on."""
        ...

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Return to a saved state; raises OpdopError if it does not fit."""
        ...


@runtime_checkable
class CompiledLearner(Learner, Protocol):
    """A learner that can play and learn from many episodes of a known model in one compiled loop."""

    @property
    def compiles(self) -> bool:
        """Whether `run_compiled` does exactly what the methods do that it replaces: False if one is overridden."""
        ...

    @property
    def policy(self) -> Floats:
        """The policy of the last episode, [H, S, A]."""
        ...

    def run_compiled(self, model: loops.Model, uniforms: Floats, record: loops.Record) -> int:
        """Play and learn from at most as many episodes as there are rows of uniforms; return how many.

        Episodes are played in `model`; what is measured of them is written into `record`.
        """
        ...
