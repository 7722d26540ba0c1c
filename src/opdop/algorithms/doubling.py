"""For an unknown number of episodes: start again with twice the plan whenever the plan is used up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opdop.algorithms.opdop import OPDOP
from opdop.algorithms.task import Task, fitting
from opdop.kernels import loops
from opdop.model import Episode, OpdopError, TabularPolicy

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

    def __init__(self, task: Task, build: Callable[[Task], OPDOP], *, first: int = FIRST_PLAN) -> None:
        self.task, self.build, self.first = task, build, first
        self.phase = 0
        self.finished = 0  # episodes of the phases before this one
        self.current = self._learner()

    def _learner(self) -> OPDOP:
        return self.build(phase_task(self.task, self.phase, self.first))

    @property
    def constants(self) -> dict[str, Any]:
        """The constants of the phase under way."""
        return {**self.current.constants, "doubling_phase": self.phase, "doubling_first": self.first}

    @property
    def episodes(self) -> int:
        """Episodes learnt from in all phases."""
        return self.finished + self.current.episodes

    @property
    def dual(self) -> NDArray[np.float64]:
        """The multipliers of the phase under way."""
        return self.current.dual

    @property
    def policy(self) -> NDArray[np.float64]:
        """The policy table of the phase under way."""
        return self.current.policy

    @property
    def left(self) -> int:
        """Episodes until the next phase."""
        return self.current.task.episodes - self.current.episodes

    def propose(self) -> TabularPolicy:
        """Return the policy for the next episode."""
        self._go_on()
        return self.current.propose()

    def learn(self, episode: Episode) -> None:
        """Learn from one episode."""
        self.current.learn(episode)

    def estimated_totals(self) -> NDArray[np.float64]:
        """Return the current phase's estimates of all signals, [1+I]."""
        return self.current.estimated_totals()

    def diagnostics(self) -> dict[str, float]:
        """Return what the learner of this phase believes, and which phase it is."""
        return {**self.current.diagnostics(), "phase": float(self.phase), "episodes": float(self.episodes)}

    def state(self) -> dict[str, NDArray[Any]]:
        """Return all that later proposals depend on."""
        plan = {"phase": np.array(self.phase), "finished": np.array(self.finished)}
        return plan | {f"current.{name}": value for name, value in self.current.state().items()}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go back to a state."""
        self.phase = int(fitting(state, "phase", np.array(0)))
        self.finished = int(fitting(state, "finished", np.array(0)))
        if not 0 <= self.phase < 32 or self.finished != self.first * (2**self.phase - 1):
            raise OpdopError(f"phase {self.phase} does not begin after {self.finished} episodes.")
        self.current = self._learner()
        prefix = "current."
        self.current.restore({k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)})

    def run_compiled(self, model: loops.Model, uniforms: NDArray[Any], **record: Any) -> int:
        """Run episodes in the compiled loop, at most to the end of the phase."""
        self._go_on()
        return self.current.run_compiled(model, uniforms[: self.left], **record)

    def _go_on(self) -> None:
        """Begin the next phase if this one has used up its plan."""
        if self.left == 0:
            self.finished += self.current.episodes
            self.phase += 1
            self.current = self._learner()
