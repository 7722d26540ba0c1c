"""What a learner was told of a problem, compared with what is observed: a contradiction is warned of once."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opdop.algorithms import Task
from opdop.algorithms.saved_state import fitting, prefixed, under
from opdop.kernels.balls import mean_width
from opdop.model import Episode, OpdopError
from opdop.model.validation import Floats

SAME = 1e-9  # by which a signal that is not random may differ
_FIRST_CHECK = 10  # visits before a row is compared, and then each time they have grown by a tenth
_GROWTH = 1.1


class AssumptionWarning(UserWarning):
    """An observation contradicts what the learner was told of the problem."""


class Assumptions:
    """Compares episodes with what a task says of them. Each finding is returned once, as a sentence.

    Signals that are not random must be the same at each visit of a place. The shares of a state among the successors of
    a row are compared in two ways: those of one stage with those of all other stages, if the task says that the kernel
    is stationary; and those of the latest episodes (from the 2^b-th on) with those of all earlier episodes. If
    nothing differs, a mean of n visits is within w_n of its expectation, for all n and all means at once: see
    `mean_width`. So two means that differ by more than w_n + w_m refute the task. A warning is false with
    probability at most the task's failure probability, half of it for each comparison, however long the agent plays.
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        self.warned: dict[str, bool] = {"signals": False, "stages": False, "time": False}
        self.episodes = 0
        self._fixed: dict[tuple[int, int, int], Floats] = {}
        S, risk = task.num_states, task.failure_probability / 2.0
        rows = S * task.num_actions
        # Two means for each row, group and successor; of groups of episodes, the b-th has a share of 1/((b+1)(b+2)).
        by_stage = math.log(2.0 * task.horizon * rows * S / risk)
        in_time = math.log(2.0 * (1 if task.stationary else task.horizon) * rows * S / risk)
        self._stages = _Groups(lambda stage: by_stage)
        self._time = _Groups(lambda block: in_time + math.log((block + 1.0) * (block + 2.0)))

    def check(self, episode: Episode) -> list[str]:
        """Return what an episode contradicts for the first time, and count it."""
        self.episodes += 1
        block = self.episodes.bit_length() - 1
        if self.episodes == 1 << block:
            self._time.close_groups()
        found = []
        for h in range(self.task.horizon):
            x, a, y = int(episode.states[h]), int(episode.actions[h]), int(episode.states[h + 1])
            if x == self.task.absorbing:
                break
            for text in (self._signals(h, x, a, episode.signals[:, h]), *self._kernel(h, x, a, y, block)):
                if text is not None:
                    found.append(text)
        return found

    def _signals(self, h: int, x: int, a: int, signals: Floats) -> str | None:
        if self.task.noisy or self.warned["signals"]:
            return None
        before = self._fixed.setdefault((0 if self.task.stationary_signals else h, x, a), signals.copy())
        if np.abs(before - signals).max() <= SAME:
            return None
        self.warned["signals"] = True
        return (
            f"at stage {h}, state {x}, action {a} the signals were {before.tolist()} before and are {signals.tolist()} "
            "now, but the task says that they are not random; expected noisy=True, or signals that differ by stage."
        )

    def _kernel(self, h: int, x: int, a: int, y: int, block: int) -> list[str | None]:
        task, found = self.task, []
        pair = x * task.num_actions + a
        if task.stationary and not self.warned["stages"]:
            odd = self._stages.add(pair, h, y)
            if odd is not None:
                self.warned["stages"] = True
                found.append(
                    f"after state {x} and action {a}, {_shares(odd)} at stage {h} and at other stages, but the task "
                    "says that the kernel is stationary; expected stationary=False, or the stage in the state."
                )
        if not self.warned["time"]:
            row = pair if task.stationary else h * task.num_states * task.num_actions + pair
            odd = self._time.add(row, block, y)
            if odd is not None:
                self.warned["time"] = True
                place = f"state {x} and action {a}" + ("" if task.stationary else f" at stage {h}")
                found.append(
                    f"after {place}, {_shares(odd)} since episode {1 << block} and before, but a learner assumes "
                    "that the kernel does not change; expected a new agent, which forgets the episodes before the "
                    "change."
                )
        return list(found)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return everything that later findings depend on."""
        keys = np.array(list(self._fixed), dtype=np.int64).reshape(-1, 3)
        values = np.array(list(self._fixed.values())).reshape(len(keys), 1 + self.task.num_constraints)
        return {
            "warned": np.array(list(self.warned.values())),
            "episodes": np.array(self.episodes),
            "fixed_keys": keys,
            "fixed_values": values,
            **prefixed("stages.", self._stages.state()),
            **prefixed("time.", self._time.state()),
        }

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Return to a saved state; an empty one, of an earlier version, is a new beginning.

        Raises OpdopError if it does not fit.
        """
        if not state:
            return
        flags = fitting(state, "warned", np.zeros(3, dtype=np.bool_))
        self.warned = dict(zip(self.warned, map(bool, flags), strict=True))
        self.episodes = int(fitting(state, "episodes", np.array(0)))
        number = len(state.get("fixed_keys", ()))
        keys = fitting(state, "fixed_keys", np.zeros((number, 3), dtype=np.int64))
        values = fitting(state, "fixed_values", np.zeros((number, 1 + self.task.num_constraints)))
        self._fixed = {(int(h), int(x), int(a)): value for (h, x, a), value in zip(keys, values, strict=True)}
        self._stages.restore(under(state, "stages."))
        self._time.restore(under(state, "time."))


class _Groups:
    """Counts of successors by row and group, and the comparison of each group with all others of its row.

    `log_sets` of a group is the logarithm of the number of all means that are compared, over the failure probability.
    """

    def __init__(self, log_sets: Callable[[int], float]) -> None:
        self._log_sets = log_sets
        self._groups: dict[tuple[int, int], dict[int, int]] = {}
        self._all: dict[int, dict[int, int]] = {}  # of all groups of a row, closed ones too
        self._next: dict[tuple[int, int], float] = {}  # visits at which a group is compared next

    def close_groups(self) -> None:
        """Begin new groups; earlier ones are only counted among all others from now on."""
        self._groups.clear()
        self._next.clear()

    def add(self, row: int, group: int, y: int) -> tuple[int, float, float] | None:
        """Count a successor; return a state whose shares here and elsewhere differ by too much, and both shares."""
        mine, everything = self._groups.setdefault((row, group), {}), self._all.setdefault(row, {})
        mine[y] = mine.get(y, 0) + 1
        everything[y] = everything.get(y, 0) + 1
        n = sum(mine.values())
        if n < self._next.get((row, group), _FIRST_CHECK):
            return None
        self._next[row, group] = n * _GROWTH
        m = sum(everything.values()) - n
        if m == 0:
            return None
        log_sets = self._log_sets(group)
        allowed = mean_width(float(n), log_sets) + mean_width(float(m), log_sets)
        for state, number in everything.items():
            here, elsewhere = mine.get(state, 0) / n, (number - mine.get(state, 0)) / m
            if abs(here - elsewhere) > allowed:
                return state, here, elsewhere
        return None

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the counts as two lists: row, group, successor, number; and row, successor, number."""
        groups = [(*key, y, n) for key, counts in self._groups.items() for y, n in counts.items()]
        everything = [(row, y, n) for row, counts in self._all.items() for y, n in counts.items()]
        return {
            "groups": np.array(groups, dtype=np.int64).reshape(-1, 4),
            "all": np.array(everything, dtype=np.int64).reshape(-1, 3),
        }

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Return to saved counts; raises OpdopError if they do not fit. The next comparisons come a little earlier."""
        self.close_groups()
        self._all.clear()
        groups, everything = (
            fitting(state, name, np.zeros((len(state.get(name, ())), width), dtype=np.int64))
            for name, width in (("groups", 4), ("all", 3))
        )
        if (groups < 0).any() or (everything < 0).any():
            raise OpdopError("the saved counts of assumptions have negative numbers.")
        for row, group, y, n in groups.tolist():
            self._groups.setdefault((row, group), {})[y] = n
        for row, y, n in everything.tolist():
            self._all.setdefault(row, {})[y] = n


def _shares(found: tuple[int, float, float]) -> str:
    state, here, elsewhere = found
    return f"state {state} follows in {100.0 * here:.1f} % and {100.0 * elsewhere:.1f} % of the visits"
