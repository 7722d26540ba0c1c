"""What a learner may know before the first episode, and what learners and evaluators look like."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from opdop.model import (
    Episode,
    Features,
    InvalidModelError,
    InvalidParameterError,
    OpdopError,
    TabularCMDP,
    TabularPolicy,
)
from opdop.model.validation import (
    MOST_EPISODES,
    Floats,
    as_floats,
    as_size,
    check_distributions,
    check_failure_probability,
)
from opdop.planning import solve


@dataclass(frozen=True, eq=False)
class Task:
    """Sizes, promises and plans; never the kernel or the signals. So a learner cannot peek.

    `slater_gap` is a lower bound on the Slater gap, or None if nothing is known of it. `initial` is the distribution of
    the first state, which the paper takes as known. `noisy` says that observed signals are random.
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

    def __post_init__(self) -> None:
        for name in ("horizon", "num_states", "num_actions"):
            object.__setattr__(self, name, as_size(name, getattr(self, name)))
        thresholds = np.atleast_1d(as_floats("thresholds", self.thresholds, "one number for each constraint"))
        if thresholds.ndim != 1 or not thresholds.size:
            raise InvalidModelError(f"thresholds have shape {list(thresholds.shape)}; expected [I], I at least 1.")
        initial = as_floats("initial", self.initial, "the distribution of the first state [S]")
        if initial.shape != (self.num_states,):
            raise InvalidModelError(f"initial has shape {list(initial.shape)}; expected [S] = [{self.num_states}].")
        check_distributions("initial", initial)
        for name, array in (("thresholds", thresholds), ("initial", initial)):
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        if not isinstance(self.episodes, (int, np.integer)) or isinstance(self.episodes, bool):
            raise InvalidParameterError(f"episodes is {self.episodes!r}; expected a whole number.")
        if not 1 <= self.episodes <= MOST_EPISODES:
            raise InvalidParameterError(f"episodes is {self.episodes}; expected 1 to {MOST_EPISODES}.")
        check_failure_probability("failure_probability", self.failure_probability)
        if self.slater_gap is not None and not (math.isfinite(self.slater_gap) and self.slater_gap > 0.0):
            raise InvalidParameterError(
                f"slater_gap is {self.slater_gap}; expected a positive lower bound, or None if it is unknown."
            )

    @classmethod
    def of(
        cls,
        cmdp: TabularCMDP,
        *,
        episodes: int,
        failure_probability: float = 0.05,
        slater_gap: float | None = None,
        noisy: bool = False,
    ) -> Task:
        """Return the task of learning a model that is known to us, though not to the learner.

        The paper gives the learner the Slater gap; without `slater_gap` it is computed from the model. If no policy has
        slack it stays unknown, and a preset will ask for `dual_bound`.
        """
        if slater_gap is None:
            slater_gap = solve(cmdp).slater_gap or None
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
            cmdp.features,
        )

    @property
    def num_constraints(self) -> int:
        """I, the number of constraints."""
        return len(self.thresholds)

    def checked(self, episode: Episode) -> Episode:
        """Return an episode of somebody's simulator with its arrays as the kernels need them, or say what is wrong."""
        H, J = self.horizon, 1 + self.num_constraints
        return Episode(
            _indices("states", episode.states, H + 1, self.num_states),
            _indices("actions", episode.actions, H, self.num_actions),
            _signals(episode.signals, (J, H)),
        )

    def replan(self, episodes: int, failure_probability: float) -> Task:
        """Return the same task with another plan."""
        return replace(self, episodes=episodes, failure_probability=failure_probability)


@dataclass(frozen=True, eq=False)
class Estimates:
    """Optimistic values of one policy; `touched` [H, S] is False where nothing tells the actions apart yet."""

    q: Floats  # [1+I, H, S, A]
    v: Floats  # [1+I, H+1, S]
    touched: NDArray[np.bool_]  # [H, S]


def swapped(table: NDArray[Any]) -> NDArray[Any]:
    """Return a view of [..., S, A] as [..., A, S], or back: kernels lay out by action, everybody else by state."""
    return np.swapaxes(table, -1, -2)


def by_action(table: NDArray[Any]) -> NDArray[Any]:
    """Return [..., S, A] as the kernels take it, [..., A, S] in one piece; not copied if it is laid out so already."""
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


def fitting(state: Mapping[str, NDArray[Any]], name: str, like: NDArray[Any]) -> NDArray[Any]:
    """Return an array of a saved state that must look like another: type, shape, and finite numbers."""
    if name not in state:
        raise OpdopError(f"the saved state has no {name!r}.")
    array = state[name]
    if array.dtype != like.dtype or array.shape != like.shape:
        raise OpdopError(
            f"the saved {name!r} is {array.dtype} {list(array.shape)}; expected {like.dtype} {list(like.shape)}."
        )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise OpdopError(f"the saved {name!r} is not finite.")
    return array


@runtime_checkable
class Evaluator(Protocol):
    """Values a policy optimistically from the episodes it has been shown: `evaluate` before `observe`, always."""

    def evaluate(self, policy: TabularPolicy) -> Estimates:
        """Return estimates from the episodes observed so far; they are overwritten by the next call."""
        ...

    def observe(self, episode: Episode, estimates: Estimates) -> None:
        """Put one episode into the data."""
        ...

    def state(self) -> dict[str, NDArray[Any]]:
        """Return all that later estimates depend on."""
        ...

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go back to a state."""
        ...


@runtime_checkable
class CompiledEvaluator(Evaluator, Protocol):
    """An evaluator whose state is arrays, so that the compiled loop can use it."""

    q: Floats  # [1+I, H, A, S], by action as the kernels have it
    v: Floats  # [1+I, H+1, S]
    table_from: int

    @property
    def arrays(self) -> Any:
        """The state, as `opdop.kernels.evaluators` takes it."""
        ...

    @property
    def estimates(self) -> Estimates:
        """What the last evaluation found."""
        ...

    @property
    def is_full(self) -> bool:
        """Whether it is time to `tidy`."""
        ...

    def tidy(self) -> None:
        """Make room for more episodes."""
        ...

    def described(self) -> dict[str, Any]:
        """Return the radius and the ridge as plain data."""
        ...


class Learner(Protocol):
    """Proposes a policy for the next episode, and learns from that episode."""

    def propose(self) -> TabularPolicy:
        """Return the policy for the next episode."""
        ...

    def learn(self, episode: Episode) -> None:
        """Learn from the episode that was played with the proposed policy."""
        ...

    def diagnostics(self) -> dict[str, float]:
        """Return what the learner believes, as numbers."""
        ...

    def state(self) -> dict[str, NDArray[Any]]:
        """Return all that later proposals depend on."""
        ...

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go back to a state."""
        ...
