"""Algorithm 3: optimistic policy evaluation from counts, for finitely many states.

The arithmetic is in `opdop.kernels.counts`; its trailing comments name the paper's lines.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opdop.algorithms.constants import FixedRadius, Radius, WeissmanRadius, first_widths, rule_data
from opdop.algorithms.task import Estimates, Task, by_action, fitting, swapped
from opdop.kernels import counts as kernel
from opdop.model import Episode, InvalidModelError, InvalidParameterError, OpdopError, TabularPolicy

# Up to this many states every transition has a cell from the start.
TABLE_UP_TO = 32
# Otherwise a table takes over when one transition in so many has been seen: from there on it is faster.
TABLE_FROM_SHARE = 12

CERTIFIED = WeissmanRadius()


class Counts:
    """Values policies from counts of what was seen.

    `radius` is the paper's beta as a number, or a confidence rule from the presets. Memory follows the transitions that
    were seen: they are kept in lists, and in a table once they are many. Which of the two does not change the estimates
    beyond rounding, and the moment of the change depends only on the episodes seen.
    """

    def __init__(self, task: Task, *, radius: float | Radius = CERTIFIED, ridge: float = 1.0) -> None:
        if isinstance(ridge, bool) or not (math.isfinite(ridge) and ridge > 0.0):
            raise InvalidParameterError(f"ridge is {ridge!r}; expected a positive number.")
        rule: Radius = FixedRadius(float(radius)) if isinstance(radius, (int, float)) else radius
        J, H, S, A = 1 + task.num_constraints, task.horizon, task.num_states, task.num_actions
        self.task, self.radius, self.ridge = task, rule, float(ridge)
        self.radii = rule.radii(task, self.ridge)
        self.first_widths = first_widths(rule, task, self.ridge)
        # Before a state is visited all its actions look equally good: as good as the bonus, or anything, can be.
        unvisited = np.minimum(2.0 * (self.radii * self.first_widths), np.arange(H, 0, -1.0))
        self.q = np.empty((J, H, A, S))
        self.v = np.zeros((J, H + 1, S))
        self.q[:] = unvisited[:, None, None]
        self.v[:, :H] = unvisited[:, None]
        visits = kernel.Visits(
            touched=np.zeros((H, S), dtype=np.bool_),
            number=np.zeros((H, A * S)),
            sums=np.zeros((J, H, A * S)),
            lost=np.zeros((J, H, A * S)),
            inverse=np.full((H, A * S), 1.0 / self.ridge),
            width=np.repeat(self.first_widths[:, None], A * S, axis=1),
            radii=self.radii,
            ridge=self.ridge,
        )
        self.table_from = max(H * S * A * S // TABLE_FROM_SHARE, 1)
        self.counts: kernel.CountTable | kernel.CountLists
        if S <= TABLE_UP_TO:
            self.counts = kernel.CountTable(visits, np.zeros((H, S, A * S), dtype=np.int32))
        else:
            self.counts = self._lists(visits, *(np.zeros(0, dtype=np.int64),) * 3)

    def evaluate(self, policy: TabularPolicy) -> Estimates:
        """Return the optimistic values of a policy from the episodes observed so far."""
        sizes = swapped(self.q).shape[1:]
        if policy.table.shape != sizes:
            raise InvalidModelError(f"policy has shape {list(policy.table.shape)}; expected [H,S,A] = {list(sizes)}.")
        kernel.evaluate(self.counts, by_action(policy.table), self.q, self.v)
        return self.estimates

    @property
    def arrays(self) -> kernel.CountTable | kernel.CountLists:
        """The counts, as the compiled loop takes them."""
        return self.counts

    def described(self) -> dict[str, Any]:
        """Return the radius and the ridge as plain data."""
        return {
            "ridge": self.ridge,
            "radius": rule_data(self.radius),
            "first_radius": float(self.radii[0]),
            "last_radius": float(self.radii[-1]),
        }

    @property
    def estimates(self) -> Estimates:
        """What the last evaluation found."""
        return Estimates(swapped(self.q), self.v, self.counts.visits.touched)

    def observe(self, episode: Episode, estimates: Estimates | None = None) -> None:
        """Count one episode."""
        episode = self.task.checked(episode)
        kernel.observe_episode(self.counts, episode.states, episode.actions, episode.signals)
        if self.is_full:
            self.tidy()

    @property
    def is_full(self) -> bool:
        """Whether it is time to `tidy`."""
        return bool(kernel.is_full(self.counts, self.table_from))

    def tidy(self) -> None:
        """Make room: pack the lists into a larger pool, or turn them into a table."""
        if isinstance(self.counts, kernel.CountTable):
            return
        if self.counts.taken[1] >= self.table_from:
            H, S = self.counts.visits.touched.shape
            table = np.zeros((H, S, self.counts.visits.number.shape[1]), dtype=np.int32)
            kernel.fill_table(self.counts, table)
            self.counts = kernel.CountTable(self.counts.visits, table)
        else:
            self.counts = self._lists(self.counts.visits, *self.transitions())

    @property
    def number(self) -> NDArray[np.float64]:
        """How often every pair was visited, [H, S, A]."""
        H, S = self.counts.visits.touched.shape
        return swapped(self.counts.visits.number.reshape(H, -1, S))

    @property
    def transitions_seen(self) -> int:
        """How many different (h, x, a, y) have occurred."""
        if isinstance(self.counts, kernel.CountTable):
            return int(np.count_nonzero(self.counts.seen))
        return int(self.counts.taken[1])

    def transitions(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return every transition seen: its row (h*A + a)*S + x, its successor, and how often."""
        if isinstance(self.counts, kernel.CountTable):
            stage, pair, successor = np.nonzero(self.counts.seen.transpose(0, 2, 1))
            row = stage * self.counts.visits.number.shape[1] + pair
            return row, successor, self.counts.seen[stage, successor, pair].astype(np.int64)
        used = self.counts.used.astype(np.int64)
        row = np.repeat(np.arange(len(used)), used)
        entry = np.repeat(self.counts.starts, used) + np.arange(len(row)) - np.repeat(np.cumsum(used) - used, used)
        return row, self.counts.successors[entry].astype(np.int64), self.counts.seen[entry].astype(np.int64)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return all that later estimates depend on."""
        visits = self.counts.visits
        row, successor, seen = self.transitions()
        return {
            "is_table": np.array(isinstance(self.counts, kernel.CountTable)),
            "row": row,
            "successor": successor.astype(np.int32),
            "seen": seen.astype(np.int32),
            "touched": visits.touched.copy(),
            "number": visits.number.copy(),
            "sums": visits.sums.copy(),
            "lost": visits.lost.copy(),
            "q": self.q.copy(),
            "v": self.v.copy(),
        }

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go back to a state."""
        visits = self.counts.visits
        row, successor, seen = _checked_transitions(state, visits)
        visits.touched[:] = fitting(state, "touched", visits.touched)
        visits.number[:] = fitting(state, "number", visits.number)
        visits.sums[:] = fitting(state, "sums", visits.sums)
        visits.lost[:] = fitting(state, "lost", visits.lost)
        visits.inverse[:] = 1.0 / (visits.number + self.ridge)
        visits.width[:] = np.where(visits.number > 0.0, np.sqrt(visits.inverse), self.first_widths[:, None])
        self.q[:], self.v[:] = fitting(state, "q", self.q), fitting(state, "v", self.v)
        (H, S), pairs = visits.touched.shape, visits.number.shape[1]
        is_table = bool(fitting(state, "is_table", np.array(True)))
        if is_table != (S <= TABLE_UP_TO or len(row) >= self.table_from):
            raise OpdopError("the saved transitions are not kept as so many of them are.")
        if is_table:
            table = np.zeros((H, S, pairs), dtype=np.int32)
            table[row // pairs, successor, row % pairs] = seen
            self.counts = kernel.CountTable(visits, table)
        else:
            self.counts = self._lists(visits, row, successor, seen)

    def _lists(
        self, visits: kernel.Visits, row: NDArray[Any], successor: NDArray[Any], seen: NDArray[Any]
    ) -> kernel.CountLists:
        """Return lists of these transitions (sorted by row), with room for as many again and one episode more."""
        used = np.bincount(row, minlength=visits.number.size).astype(np.int32)
        starts = np.cumsum(used, dtype=np.int64) - used
        pool = 2 * len(row) + 4 * visits.touched.size
        successors, numbers = np.zeros(pool, dtype=np.int32), np.zeros(pool)
        successors[: len(row)], numbers[: len(row)] = successor, seen
        taken = np.array([len(row), len(row)], dtype=np.int64)
        return kernel.CountLists(visits, starts, used, used.copy(), successors, numbers, taken)


def _checked_transitions(
    state: Mapping[str, NDArray[Any]], visits: kernel.Visits
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return a saved state's transitions, or say that they are not any."""
    size = state["row"].shape if "row" in state else (0,)
    row = fitting(state, "row", np.empty(size, dtype=np.int64))
    successor = fitting(state, "successor", np.empty(size, dtype=np.int32)).astype(np.int64)
    seen = fitting(state, "seen", np.empty(size, dtype=np.int32)).astype(np.int64)
    if row.ndim != 1 or (np.diff(row) < 0).any():
        raise OpdopError("the saved transitions are not in order.")
    states, rows = visits.touched.shape[1], visits.number.size
    if row.size and not (0 <= row[0] and row[-1] < rows and 0 <= successor.min() and successor.max() < states):
        raise OpdopError("the saved transitions lead out of the state space.")
    if (seen < 1).any() or not np.array_equal(
        np.bincount(row, seen, rows), fitting(state, "number", visits.number).ravel()
    ):
        raise OpdopError("the saved transitions do not add up to the saved visits.")
    if np.unique(row * states + successor).size < row.size:
        raise OpdopError("a saved transition is there twice.")
    number = state["number"]
    if not np.array_equal(fitting(state, "touched", visits.touched), number.reshape(len(number), -1, states).any(1)):
        raise OpdopError("the saved visits are not where the policy was improved.")
    if (number.sum(axis=1) != number[0].sum()).any():
        raise OpdopError("the saved visits are not equally many at all stages.")
    return row, successor, seen
