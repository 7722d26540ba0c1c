"""What all learners share that count transitions and run in a compiled loop, whatever they do with the counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from opdop.algorithms.counts import Counts
from opdop.algorithms.sizes import check_loop, check_state
from opdop.algorithms.task import Task
from opdop.confidence import Observations
from opdop.kernels import loops
from opdop.model.overriding import has_originals, originals
from opdop.model.validation import Floats


class CountedLearner:
    """A learner with a task, counts and a number of episodes; a class directly below it writes the compiled loop."""

    task: Task
    counts: Counts
    episodes: int
    _replaced: ClassVar[Mapping[str, object]]  # the methods that the compiled loop replaces

    def __init_subclass__(cls) -> None:
        if CountedLearner in cls.__bases__:  # what is below that may override methods, and then is not compiled
            cls._replaced = originals(cls, "propose", "learn", "diagnostics")

    def counted(self) -> Any:
        """Return the counts as the kernels take them, with room for at least one more episode."""
        arrays = self.counts.arrays
        check_state(arrays, self.counts.q, self.counts.v, self.task)
        return arrays

    def observations(self) -> Observations:
        """Return the counted transitions, from which `opdop.confidence` makes confidence sets and certificates."""
        return self.counts.observations()

    @property
    def compiles(self) -> bool:
        """Whether `run_compiled` does exactly what the methods do that it replaces: False if one is overridden."""
        return has_originals(self, self._replaced) and self.counts.compiles

    def run_compiled(self, model: loops.Model, uniforms: Floats, record: loops.Record) -> int:
        """Play and learn from episodes in the compiled loop; return how many.

        Args:
            model: the model in which episodes are played.
            uniforms: random numbers [n, ...] of n episodes. Fewer are played before the counts must make room.
            record: arrays into which the loop writes, with room for n episodes.

        Raises InvalidModelError if an array does not have the task's sizes.
        """
        check_loop(model, uniforms, record, self.task)
        return self._run(model, uniforms, record)

    def _run(self, model: loops.Model, uniforms: Floats, record: loops.Record) -> int:
        """Play and learn from episodes on arrays that fit the task, and add them to `episodes`; return how many."""
        raise NotImplementedError
