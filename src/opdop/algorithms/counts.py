"""Algorithm 3: optimistic policy evaluation from counts, for finitely many states.

The arithmetic is in `opdop.kernels.counts`; its trailing comments name the paper's lines. With a `BallRadius` the
estimates are maxima over confidence sets instead of means with a bonus: `opdop.kernels.ball_evaluation`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opdop.algorithms.radius_rules import (
    BallRadius,
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
from opdop.confidence import Observations
from opdop.confidence.row_lists import as_lists
from opdop.kernels import counts as kernel
from opdop.kernels import evaluators
from opdop.kernels.trust import Trust, renew_all
from opdop.kernels.visits import BallVisits, Visits, renew_balls
from opdop.model import Episode, InvalidModelError, InvalidParameterError, OpdopError, TabularPolicy
from opdop.model.overriding import has_originals, originals
from opdop.model.policy import fitting_table
from opdop.model.validation import Floats, as_number, is_number

# Up to this many states counts are a table from the start.
TABLE_UP_TO = 32
# With more states they become a table when one transition in this many has been observed: from then on it is faster.
TABLE_FROM_SHARE = 12

# What is known of a pair counts as this many visits, at all stages together; counts leave room for as many again.
KNOWN = 2**30

CERTIFIED = WeissmanRadius()

Ints = NDArray[np.int64]
Transitions = tuple[Ints, Ints, Ints]
Stored = kernel.CountTable | kernel.CountLists


def _trust(rule: Any) -> dict[str, float]:
    """Return the numbers of `Trust` that a rule sets; without any, a pair is trusted after one visit."""
    found = {}
    for name, field, least in (
        ("trusted_from", "least", 1.0),
        ("trust_growth", "growth", 0.0),
        ("value_doubt", "value_doubt", 0.0),
        ("signal_doubt", "signal_doubt", 0.0),
    ):
        found[field] = as_number(name, getattr(rule, name, least), f"a number, at least {least:g}")
        if not least <= found[field] < math.inf:
            raise InvalidParameterError(f"{name} is {found[field]}; expected a number, at least {least:g}.")
    return found


def no_visits(
    task: Task,
    ridge: float,
    first_widths: Floats,
    radii: Floats,
    stages: int | None = None,
    *,
    least: float = 1.0,
    growth: float = 0.0,
    value_doubt: float = 0.0,
    signal_doubt: float = 0.0,
) -> Visits:
    """Return the counts of pairs before the first episode, with L = `stages` or H; first_widths and radii are [H].

    The numbers after `stages` are those of `opdop.kernels.trust`.
    """
    J, H, S, pairs = 1 + task.num_constraints, task.horizon, task.num_states, task.num_states * task.num_actions
    L = stages or H
    return Visits(
        touched=np.zeros((H, S), dtype=np.bool_),
        number=np.zeros((L, pairs)),
        sums=np.zeros((J, L, pairs)),
        lost=np.zeros((J, L, pairs)),
        inverse=np.full((L, pairs), 1.0 / ridge),
        width=np.repeat(first_widths[:L, None], pairs, axis=1),
        work=np.zeros((J, pairs)),
        spans=np.zeros(J),
        radii=radii,
        ridge=ridge,
        doubt=np.zeros((L, pairs)),
        trust=Trust(
            least=least,
            growth=growth,
            value_doubt=value_doubt,
            signal_doubt=signal_doubt,
            first_width=first_widths[:L].copy(),
            state_number=np.zeros((L, S)),
            unvisited=np.where(np.arange(L) < H - 1, S, 0),
            total=np.zeros(1),
        ),
    )


def no_ball_visits(task: Task, rule: BallRadius) -> BallVisits:
    """Return the counts of pairs before the first episode, with the confidence sets of a rule."""
    J, H, S, pairs = 1 + task.num_constraints, task.horizon, task.num_states, task.num_states * task.num_actions
    L, M = (1 if pooled else H for pooled in (task.stationary, task.stationary_signals))
    log_sets, signal_log_sets = rule.log_sets(task)
    return BallVisits(
        touched=np.zeros((H, S), dtype=np.bool_),
        number=np.zeros((L, pairs)),
        signal_number=np.zeros((M, pairs)),
        sums=np.zeros((J, M, pairs)),
        lost=np.zeros((J, M, pairs)),
        upper=np.ones((J, M, pairs)),
        inverse=np.zeros((L, pairs)),
        moved=np.zeros((L, pairs)),
        order=np.tile(np.arange(S), (J, H, 1)),
        work=np.zeros((2, pairs)),
        refuted=np.zeros(1, dtype=np.int64),
        log_sets=log_sets,
        signal_log_sets=signal_log_sets,
        scale=as_number("scale", rule.scale, "a number, at least 0"),
        noisy=task.noisy,
    )


class Counts:
    """Estimates a policy's values from counts of observed transitions.

    Args:
        task: has the sizes, and says whether the kernel and the signals are stationary.
        radius: the paper's beta as a number, or a confidence rule from the presets. With a `BallRadius` the estimates
            are the largest values in confidence sets. Visits of all stages are pooled where the task is stationary and
            the rule allows it (`pools`): for balls separately in kernel and signals, otherwise where both are.
        ridge: is added to every count; not used with a `BallRadius`.

    Memory grows with the number of distinct transitions observed: they are stored in lists, and in a table once they
    are many. Either form gives the same estimates up to rounding, and the moment of the change depends only on the
    episodes observed. Raises InvalidParameterError if ridge or radius is wrong.
    """

    def __init__(self, task: Task, *, radius: float | Radius | BallRadius = CERTIFIED, ridge: float = 1.0) -> None:
        task, self.ridge = as_task(task), as_ridge(ridge)
        rule: Any = fixed_radius(radius) if is_number(radius) else radius
        J, H, S, A = 1 + task.num_constraints, task.horizon, task.num_states, task.num_actions
        # q, v and the visits; and a table of transitions where states are few
        check_room(task, 5.0 * J + 5.0 + (S / 2.0 if S <= TABLE_UP_TO else 0.0), "the counts and estimates")
        self.task, self.radius = task, rule
        visits: Visits | BallVisits
        if isinstance(rule, BallRadius):
            visits, unvisited = no_ball_visits(task, rule), np.arange(H, 0, -1.0)
        else:
            pooled = task.stationary and task.stationary_signals and bool(getattr(rule, "pools", False))
            radii = checked_numbers(rule, "radii", task, self.ridge, horizon=H)
            self.radii = np.ascontiguousarray(np.broadcast_to(radii, H), dtype=np.float64)
            self.first_widths = first_widths(rule, task, self.ridge)
            if pooled:  # one width for all stages, so the largest
                self.first_widths[:] = self.first_widths.max()
            # Before a state is visited, all its actions have the same estimate: the bonus, clipped at the most.
            unvisited = np.minimum(2.0 * (self.radii * self.first_widths), np.arange(H, 0, -1.0))
            stages = 1 if pooled else H
            visits = no_visits(task, self.ridge, self.first_widths, self.radii, stages, **_trust(rule))
        self.q = np.empty((J, H, A, S))
        self.v = np.zeros((J, H + 1, S))
        self.q[:] = unvisited[:, None, None]
        self.v[:, :H] = unvisited[:, None]
        self._table_from = 0 if S <= TABLE_UP_TO else max(visits.number.size * S // TABLE_FROM_SHARE, 1)
        self._counts = self._stored(visits, *_known_transitions(task, visits))

    def evaluate(self, policy: TabularPolicy) -> Estimates:
        """Return the optimistic values of a policy from the episodes observed so far.

        Raises InvalidModelError if the policy does not fit the task.
        """
        task, arrays = self.task, self.arrays
        table = fitting_table(policy, task.horizon, task.num_states, task.num_actions)
        check_state(arrays, self.q, self.v, task)
        evaluators.evaluate(arrays, by_action(table), self.q, self.v)
        return self.estimates

    @property
    def compiles(self) -> bool:
        """Whether the kernels do exactly what `evaluate` and `observe` do: False if a subclass overrides them."""
        return has_originals(self, _REPLACED)

    @property
    def arrays(self) -> Stored:
        """The counts, as the kernels take them, with room for at least one more episode.

        Raises InvalidModelError if a signal that should be deterministic has been observed with two values.
        """
        self._check_not_refuted()
        if kernel.is_full(self._counts):
            self._counts = self._stored(self._counts.visits, *_transitions(self._counts))
        return self._counts

    def described(self) -> dict[str, Any]:
        """Return the confidence rule and its numbers as plain data."""
        visits = self._counts.visits
        if isinstance(visits, BallVisits):
            numbers = {"log_sets": visits.log_sets, "signal_log_sets": visits.signal_log_sets}
            finite = {name: value for name, value in numbers.items() if value > -math.inf}  # with one state, none
            declared = {"stationary": self.task.stationary, "stationary_signals": self.task.stationary_signals}
            return {"radius": rule_data(self.radius), **finite, **declared}
        return {
            "ridge": self.ridge,
            "radius": rule_data(self.radius),
            "first_radius": float(self.radii[0]),
            "last_radius": float(self.radii[-1]),
        }

    @property
    def estimates(self) -> Estimates:
        """The result of the last evaluation."""
        self._check_not_refuted()
        return Estimates(swapped(self.q), self.v, self._counts.visits.touched)

    def observe(self, episode: Episode, estimates: Estimates | None = None) -> None:
        """Count one episode; counts need no `estimates`. Raises InvalidModelError if it does not fit the task."""
        episode, arrays = self.task.checked(episode), self.arrays
        check_state(arrays, self.q, self.v, self.task)
        kernel.observe_episode(arrays, episode.states, episode.actions, episode.signals)
        self._check_not_refuted()

    def _check_not_refuted(self) -> None:
        visits = self._counts.visits
        if isinstance(visits, BallVisits) and visits.refuted[0]:
            sizes = len(visits.signal_number), self.task.num_actions, self.task.num_states
            stage, action, state = np.unravel_index(int(visits.refuted[0]) - 1, sizes)
            where = f"at stage {stage}" if len(visits.signal_number) > 1 else "at all stages together"
            raise InvalidModelError(
                f"a signal of state {state} and action {action} has been observed with two values {where}; expected "
                "one, because the task says that signals are not random (noisy=False) and whether they are the same at "
                "all stages (stationary_signals)."
            )

    @property
    def number(self) -> NDArray[np.float64]:
        """How often every pair was visited, [L, S, A]; L is H, or 1 where the visits of all stages are pooled."""
        visits = self._counts.visits
        return swapped(visits.number.reshape(len(visits.number), -1, visits.touched.shape[1]))

    def transitions(self) -> Transitions:
        """Return every distinct transition observed: its row (h*A + a)*S + x, its successor, and how often."""
        return _transitions(self.arrays)

    def observations(self) -> Observations:
        """Return the data, from which `opdop.confidence` makes confidence sets and certificates."""
        visits, task = self._counts.visits, self.task
        S, A, J = task.num_states, task.num_actions, 1 + task.num_constraints
        row, successor, seen = self.transitions()
        stage, pair = np.divmod(row, S * A)
        by_state = stage * S * A + (pair % S) * A + pair // S
        starts, successors, numbers = as_lists(visits.number.size, by_state, successor, seen, S)
        observed = visits.signal_number if isinstance(visits, BallVisits) else visits.number
        return Observations(
            horizon=task.horizon,
            num_states=S,
            num_actions=A,
            thresholds=task.thresholds,
            initial=task.initial,
            starts=starts,
            successors=successors,
            seen=numbers,
            signal_number=swapped(observed.reshape(-1, A, S)).ravel(),
            signal_sums=swapped(visits.sums.reshape(J, -1, A, S)).reshape(J, -1),
            noisy=task.noisy,
            declared=self.declared,
        )

    @property
    def declared(self) -> int:
        """The visits that were not observed but stand for what is known of the task's absorbing state."""
        return 0 if self.task.absorbing is None else self.task.num_actions * known_visits(self.task)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return everything that later estimates depend on."""
        visits = self._counts.visits
        row, successor, seen = self.transitions()
        transitions = {"row": row, "successor": successor.astype(np.int32), "seen": seen.astype(np.int32)}
        kept = {name: getattr(visits, name).copy() for name in _saved(visits)}
        return {**transitions, **kept, "q": self.q.copy(), "v": self.v.copy()}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Return to a saved state; raises OpdopError if it does not fit."""
        visits = self._counts.visits
        row, successor, seen = _checked_transitions(state, visits)
        for name in _saved(visits):
            getattr(visits, name)[:] = fitting(state, name, getattr(visits, name))
        if isinstance(visits, BallVisits):
            renew_balls(visits)
            visits.refuted[:] = 0
        else:
            renew_all(visits, float(self.declared))
        self.q[:], self.v[:] = fitting(state, "q", self.q), fitting(state, "v", self.v)
        self._counts = self._stored(visits, row, successor, seen)

    def _stored(self, visits: Visits | BallVisits, row: Ints, successor: Ints, seen: Ints) -> Stored:
        """Return these transitions (sorted by row) as a table if they are many.

        Otherwise return lists with room for as many again and one more episode.
        """
        if len(row) >= self._table_from:
            S, (L, pairs) = visits.touched.shape[1], visits.number.shape
            table = np.zeros((L, S, pairs), dtype=np.int32)
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


def _saved(visits: Visits | BallVisits) -> tuple[str, ...]:
    """Return the names of the arrays that later estimates depend on, beside the transitions."""
    common = "touched", "number", "sums", "lost"
    return (*common, "signal_number", "upper") if isinstance(visits, BallVisits) else common


def known_visits(task: Task) -> int:
    """Return how many visits of all stages together stand for what is known of one action in the absorbing state."""
    return task.horizon * max(KNOWN // task.horizon, 1)


def _known_transitions(task: Task, visits: Visits | BallVisits) -> Transitions:
    """Return the transitions that are known before the first episode: those of an absorbing state, as if seen often.

    Its visits and signals are written into `visits`. So its estimates are right from the start, and the stages that an
    episode spends there after its end change nothing.
    """
    if task.absorbing is None or task.rest is None:
        return (np.zeros(0, dtype=np.int64),) * 3
    S, A, x = task.num_states, task.num_actions, task.absorbing
    pairs, total = x + S * np.arange(A), known_visits(task)
    L = len(visits.number)
    visits.touched[:, x] = True
    visits.number[:, pairs] = total // L
    visits.sums[:, :, pairs] = (total // visits.sums.shape[1]) * task.rest[:, None, None]
    if isinstance(visits, BallVisits):
        visits.signal_number[:, pairs] = total // len(visits.signal_number)
        visits.upper[:, :, pairs] = task.rest[:, None, None]
        renew_balls(visits)
    else:
        renew_all(visits, float(visits.number.sum()))
    rows = (S * A * np.arange(L)[:, None] + pairs).ravel()
    return rows, np.full(L * A, x), np.full(L * A, total // L)


def _transitions(counts: Stored) -> Transitions:
    if isinstance(counts, kernel.CountTable):
        stage, pair, successor = np.nonzero(counts.seen.transpose(0, 2, 1))
        row = stage * counts.visits.number.shape[1] + pair
        return row, successor, counts.seen[stage, successor, pair].astype(np.int64)
    used = counts.used.astype(np.int64)
    row = np.repeat(np.arange(len(used)), used)
    entry = np.repeat(counts.starts, used) + np.arange(len(row)) - np.repeat(np.cumsum(used) - used, used)
    return row, counts.successors[entry].astype(np.int64), counts.seen[entry].astype(np.int64)


def _checked_transitions(state: Mapping[str, NDArray[Any]], visits: Visits | BallVisits) -> Transitions:
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
    visited = np.broadcast_to(number.reshape(len(number), -1, states).any(1), visits.touched.shape)
    if not np.array_equal(fitting(state, "touched", visits.touched), visited):
        raise OpdopError("the saved visits are not where the policy was improved.")
    if (number.sum(axis=1) != number[0].sum()).any():
        raise OpdopError("the saved visits are not equally many at all stages.")
    if number.sum() % len(visits.touched):
        raise OpdopError("the saved visits are not those of whole episodes.")
    if isinstance(visits, BallVisits):
        observed = fitting(state, "signal_number", visits.signal_number)
        if not np.array_equal(observed.sum(axis=0), number.sum(axis=0)):
            raise OpdopError("the saved signals were not observed as often as their pairs were visited.")
    return row, successor, seen
