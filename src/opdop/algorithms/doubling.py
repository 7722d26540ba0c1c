"""For an unknown number of episodes: a new learner with twice the plan whenever the plan is used up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opdop.algorithms.saved_state import fitting, prefixed, under
from opdop.algorithms.sizes import as_learner, as_task
from opdop.algorithms.task import CompiledLearner, Learner, Observing, Task
from opdop.confidence.data import Data, data_of_arrays, merge
from opdop.kernels import loops
from opdop.model import Episode, InvalidParameterError, OpdopError, TabularPolicy
from opdop.model.overriding import has_originals, originals
from opdop.model.validation import MOST_EPISODES, Floats, call, shown

FIRST_PLAN = 1024


def phase_task(task: Task, phase: int, first: int = FIRST_PLAN) -> Task:
    """Return the task of one phase: first * 2^phase planned episodes, and its share of the failure probability.

    Phase i may fail with probability p / ((i+1)(i+2)). These shares add up to at most p.
    """
    return task.replan(first * 2**phase, task.failure_probability / ((phase + 1) * (phase + 2)))


def phases(task: Task, episodes: int, first: int = FIRST_PLAN) -> list[tuple[Task, int]]:
    """Return the phases that a run of `episodes` episodes goes through: each one's task and the episodes it plays."""
    played: list[tuple[Task, int]] = []
    left = episodes
    while left > 0:
        current = phase_task(task, len(played), first)
        played.append((current, min(left, current.episodes)))
        left -= current.episodes
    return played


class Doubling:
    """Runs a fresh learner for `first` episodes, then another for twice as many, and so on.

    Each phase has the constants of its own length, see `phase_task`. The phases' bounds C sqrt(K_i) add up to at most
    sqrt(2)/(sqrt(2) - 1) times that of the last phase: the order in K stays the same, the constant grows.
    """

    def __init__(self, task: Task, build: Callable[[Task], Learner], *, first: int = FIRST_PLAN) -> None:
        """Begin the first phase.

        Args:
            task: the task of all phases together; its planned episodes are not used.
            build: returns a learner for the task of a phase.
            first: episodes of the first phase.

        Raises InvalidParameterError if `first` is not a whole number of at least 1, or if `build` returns no learner,
        or one for other sizes than the task's.
        """
        if not isinstance(first, (int, np.integer)) or isinstance(first, bool) or not 1 <= first <= MOST_EPISODES:
            raise InvalidParameterError(f"first is {shown(first)}; expected a whole number, at least 1.")
        if not callable(build):
            raise InvalidParameterError(f"build is {shown(build)}; expected a function that makes a learner of a task.")
        task = as_task(task)
        self.task, self.build, self.first = task, build, int(first)
        self._earlier: Data | None = None  # what the earlier phases observed
        self._begin(0)

    def _begin(self, phase: int) -> None:
        self.phase = phase
        self.played = 0  # episodes of this phase
        plan = phase_task(self.task, phase, self.first)
        self.planned = plan.episodes
        self.current: Any = as_learner(call("build(task)", self.build, plan), plan)

    @property
    def constants(self) -> dict[str, Any]:
        """The constants of the current phase."""
        own = getattr(self.current, "constants", {})
        return {**own, "doubling_phase": self.phase, "doubling_first": self.first}

    @property
    def episodes(self) -> int:
        """Episodes learnt from in all phases."""
        return self.planned - self.first + self.played  # the earlier phases had first * (2^phase - 1)

    @property
    def policy(self) -> Floats:
        """The policy of the last episode, [H, S, A]."""
        table: Floats = self.current.policy
        return table

    def propose(self) -> TabularPolicy:
        """Return the policy for the next episode; begins the next phase if the plan of this one is used up."""
        self._begin_next_if_due()
        policy: TabularPolicy = self.current.propose()
        return policy

    def learn(self, episode: Episode) -> None:
        """Learn from the episode that was played with the proposed policy."""
        self.current.learn(episode)
        self.played += 1

    def diagnostics(self) -> dict[str, float]:
        """Return the numbers of the current phase's learner, the phase, and the episodes of all phases."""
        return {**self.current.diagnostics(), "phase": float(self.phase), "episodes": float(self.episodes)}

    def observations(self) -> Data | None:
        """Return the data of all phases; None if the learners keep none."""
        current = self.current.observations() if isinstance(self.current, Observing) else None
        if self.phase == 0 or current is None:
            return current
        return None if self._earlier is None else merge(self._earlier, current)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return everything that later proposals and observations depend on."""
        plan = {"phase": np.array(self.phase), "played": np.array(self.played)}
        earlier = {} if self._earlier is None else prefixed("earlier.", self._earlier.arrays())
        return plan | prefixed("current.", self.current.state()) | earlier

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Return to a saved state; raises OpdopError if it does not fit."""
        phase, played = (int(fitting(state, name, np.array(0))) for name in ("phase", "played"))
        if not 0 <= phase < 32:
            raise OpdopError(f"the saved phase is {phase}; expected 0 to 31.")
        self._begin(phase)
        if not 0 <= played <= self.planned:
            raise OpdopError(f"the saved phase has played {played} episodes; expected at most {self.planned}.")
        self.current.restore(under(state, "current."))
        if getattr(self.current, "episodes", played) != played:
            raise OpdopError(f"the saved phase has played {played} episodes, its learner {self.current.episodes}.")
        earlier = under(state, "earlier.")
        self._earlier = data_of_arrays(earlier) if earlier else None  # not stored by earlier versions
        self.played = played

    @property
    def compiles(self) -> bool:
        """Whether `run_compiled` does exactly what the methods do that it replaces: False if one is overridden."""
        current = self.current
        return has_originals(self, _REPLACED) and isinstance(current, CompiledLearner) and current.compiles

    def run_compiled(self, model: loops.Model, uniforms: Floats, record: loops.Record) -> int:
        """Play episodes in the compiled loop, at most to the end of the phase; return how many.

        See `OPDOP.run_compiled` for the arguments. Raises OpdopError if only some of the learners run in that loop.
        """
        self._begin_next_if_due()
        if not self.compiles:
            raise OpdopError("`build` must return learners that all run in the compiled loop, or none of them.")
        done: int = self.current.run_compiled(model, uniforms[: self.planned - self.played], record)
        self.played += done
        return done

    def _begin_next_if_due(self) -> None:
        if self.played == self.planned:
            self._earlier = self.observations()
            self._begin(self.phase + 1)


# The methods of Doubling that the compiled loop replaces.
_REPLACED = originals(Doubling, "propose", "learn", "diagnostics")
