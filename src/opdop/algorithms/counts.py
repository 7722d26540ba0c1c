"""Algorithm 3: optimistic policy evaluation from counts, for finitely many states.

The arithmetic is in `opdop.kernels.counts`; its trailing comments name the paper's lines.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opdop.algorithms.constants import (
    Radius,
    WeissmanRadius,
    as_ridge,
    checked_numbers,
    first_widths,
    fixed_radius,
    rule_data,
)
from opdop.algorithms.saved_state import fitting
from opdop.algorithms.sizes import as_task, check_room, check_state
from opdop.algorithms.task import Estimates, Task, by_action, swapped
from opdop.kernels import counts as kernel
from opdop.model import Episode, InvalidParameterError, OpdopError, TabularPolicy
from opdop.model.overriding import has_originals, originals
from opdop.model.policy import fitting_table
from opdop.model.validation import Floats, as_number, is_number

# Up to this many states counts are a table from the start.
TABLE_UP_TO = 32
# With more states they become a table when one transition in this many has been observed: from then on it is faster.
TABLE_FROM_SHARE = 12

CERTIFIED = WeissmanRadius()

Ints = NDArray[np.int64]
Transitions = tuple[Ints, Ints, Ints]
Stored = kernel.CountTable | kernel.CountLists


def _trusted_from(rule: Any) -> float:
    """Return the visits from which on the estimate of a pair is used; a rule may set them."""
    visits = as_number("trusted_from", getattr(rule, "trusted_from", 1.0), "a number, at least 1")
    if visits < 1.0:
        raise InvalidParameterError(f"trusted_from is {visits}; expected a number, at least 1.")
    return visits


def no_visits(
    task: Task, ridge: float, first_widths: Floats, radii: Floats, trusted_from: float = 1.0
) -> kernel.Visits:
    """Return the counts of pairs before the first episode; first_widths and radii are [H].

    Until a pair has been visited `trusted_from` times, its width stays the first one.
    """
    J, H, S, pairs = 1 + task.num_constraints, task.horizon, task.num_states, task.num_states * task.num_actions
    return kernel.Visits(
        touched=np.zeros((H, S), dtype=np.bool_),
        number=np.zeros((H, pairs)),
        sums=np.zeros((J, H, pairs)),
        lost=np.zeros((J, H, pairs)),
        inverse=np.full((H, pairs), 1.0 / ridge),
        width=np.repeat(first_widths[:, None], pairs, axis=1),
        radii=radii,
        ridge=ridge,
        trusted_from=trusted_from,
    )


class Counts:
    """Estimates a policy's values from counts of observed transitions.

    `radius` is the paper's beta as a number, or a confidence rule from the presets. Memory grows with the number of
    distinct transitions observed: they are stored in lists, and in a table once they are many. Either form gives the
    same estimates up to rounding, and the moment of the change depends only on the episodes observed. Raises
    InvalidParameterError if ridge or radius is wrong.
    """

    def __init__(self, task: Task, *, radius: float | Radius = CERTIFIED, ridge: float = 1.0) -> None:
        task, self.ridge = as_task(task), as_ridge(ridge)
        rule: Any = fixed_radius(radius) if is_number(radius) else radius
        J, H, S, A = 1 + task.num_constraints, task.horizon, task.num_states, task.num_actions
        # q, v and the visits; and a table of transitions where states are few
        check_room(task, 4.0 * J + 4.0 + (S / 2.0 if S <= TABLE_UP_TO else 0.0), "the counts and estimates")
        self.task, self.radius = task, rule
        radii = checked_numbers(rule, "radii", task, self.ridge, horizon=H)
        self.radii = np.ascontiguousarray(np.broadcast_to(radii, H), dtype=np.float64)
        self.first_widths = first_widths(rule, task, self.ridge)
        # Before a state is visited, all its actions have the same estimate: the bonus, clipped at the largest value.
        unvisited = np.minimum(2.0 * (self.radii * self.first_widths), np.arange(H, 0, -1.0))
        self.q = np.empty((J, H, A, S))
        self.v = np.zeros((J, H + 1, S))
        self.q[:] = unvisited[:, None, None]
        self.v[:, :H] = unvisited[:, None]
        visits = no_visits(task, self.ridge, self.first_widths, self.radii, _trusted_from(rule))
        self._table_from = 0 if S <= TABLE_UP_TO else max(H * S * A * S // TABLE_FROM_SHARE, 1)
        self._counts = self._stored(visits, *(np.zeros(0, dtype=np.int64),) * 3)

    def evaluate(self, policy: TabularPolicy) -> Estimates:
        """Return the optimistic values of a policy from the episodes observed so far.

        Raises InvalidModelError if the policy does not fit the task.
        """
        task, arrays = self.task, self.arrays
        table = fitting_table(policy, task.horizon, task.num_states, task.num_actions)
        check_state(arrays, self.q, self.v, task)
        kernel.evaluate(arrays, by_action(table), self.q, self.v)
        return self.estimates

    @property
    def compiles(self) -> bool:
        """Whether the kernels do exactly what `evaluate` and `observe` do: False if a subclass overrides them."""
        return has_originals(self, _REPLACED)

    @property
    def arrays(self) -> Stored:
        """The counts, as the kernels take them, with room for at least one more episode."""
        if kernel.is_full(self._counts):
            self._counts = self._stored(self._counts.visits, *_transitions(self._counts))
        return self._counts

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
        """The result of the last evaluation."""
        return Estimates(swapped(self.q), self.v, self._counts.visits.touched)

    def observe(self, episode: Episode, estimates: Estimates | None = None) -> None:
        """Count one episode; raises InvalidModelError if it does not fit the task."""
        episode, arrays = self.task.checked(episode), self.arrays
        check_state(arrays, self.q, self.v, self.task)
        kernel.observe_episode(arrays, episode.states, episode.actions, episode.signals)

    @property
    def number(self) -> NDArray[np.float64]:
        """How often every pair was visited, [H, S, A]."""
        H, S = self._counts.visits.touched.shape
        return swapped(self._counts.visits.number.reshape(H, -1, S))

    def transitions(self) -> Transitions:
        """Return every distinct transition observed: its row (h*A + a)*S + x, its successor, and how often."""
        return _transitions(self.arrays)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return everything that later estimates depend on."""
        visits = self._counts.visits
        row, successor, seen = self.transitions()
        return {
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
        """Return to a saved state; raises OpdopError if it does not fit."""
        visits = self._counts.visits
        row, successor, seen = _checked_transitions(state, visits)
        visits.touched[:] = fitting(state, "touched", visits.touched)
        visits.number[:] = fitting(state, "number", visits.number)
        visits.sums[:] = fitting(state, "sums", visits.sums)
        visits.lost[:] = fitting(state, "lost", visits.lost)
        visits.inverse[:] = 1.0 / (visits.number + self.ridge)
        visits.width[:] = np.where(
            visits.number >= visits.trusted_from, np.sqrt(visits.inverse), self.first_widths[:, None]
        )
        self.q[:], self.v[:] = fitting(state, "q", self.q), fitting(state, "v", self.v)
        self._counts = self._stored(visits, row, successor, seen)

    def _stored(self, visits: kernel.Visits, row: Ints, successor: Ints, seen: Ints) -> Stored:
        """Return these transitions (sorted by row) as a table if they are many.

        Otherwise return lists with room for as many again and one more episode.
        """
        if len(row) >= self._table_from:
            (H, S), pairs = visits.touched.shape, visits.number.shape[1]
            table = np.zeros((H, S, pairs), dtype=np.int32)
            table[row // pairs, successor, row % pairs] = seen
            return kernel.CountTable(visits, table)
        used = np.bincount(row, minlength=visits.number.size).astype(np.int32)
        starts = np.cumsum(used, dtype=np.int64) - used
        pool = 2 * len(row) + 4 * visits.touched.size
        successors, numbers = np.zeros(pool, dtype=np.int32), np.zeros(pool)
        successors[: len(row)], numbers[: len(row)] = successor, seen
        taken = np.array([len(row), len(row)], dtype=np.int64)
        return kernel.CountLists(visits, starts, used, used.copy(), successors, numbers, taken, self._table_from)


# The methods of Counts that the compiled loop replaces.
_REPLACED = originals(Counts, "evaluate", "observe", "estimates")


def _transitions(counts: Stored) -> Transitions:
    if isinstance(counts, kernel.CountTable):
        stage, pair, successor = np.nonzero(counts.seen.transpose(0, 2, 1))
        row = stage * counts.visits.number.shape[1] + pair
        return row, successor, counts.seen[stage, successor, pair].astype(np.int64)
    used = counts.used.astype(np.int64)
    row = np.repeat(np.arange(len(used)), used)
    entry = np.repeat(counts.starts, used) + np.arange(len(row)) - np.repeat(np.cumsum(used) - used, used)
    return row, counts.successors[entry].astype(np.int64), counts.seen[entry].astype(np.int64)


def _checked_transitions(state: Mapping[str, NDArray[Any]], visits: kernel.Visits) -> Transitions:
    """Return a saved state's transitions; raises OpdopError if they cannot have been observed."""
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
        raise OpdopError("a saved transition occurs twice.")
    number = state["number"]
    if not np.array_equal(fitting(state, "touched", visits.touched), number.reshape(len(number), -1, states).any(1)):
        raise OpdopError("the saved visits are not where the policy was improved.")
    if (number.sum(axis=1) != number[0].sum()).any():
        raise OpdopError("the saved visits are not equally many at all stages.")
    return row, successor, seen
