"""What a data set says about a problem with finitely many states: which transitions and signals were observed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opdop.confidence.first_state import add_visits, as_first_visits
from opdop.confidence.row_lists import Ints, add_by_row, as_lists, checked_lists, keys, scalar, whole
from opdop.kernels.transitions import Sparse
from opdop.model import InvalidModelError
from opdop.model.validation import (
    Floats,
    as_flag,
    as_floats,
    as_size,
    check_distributions,
    check_memory,
    first_index,
)

# Two means of a signal without noise may differ by this much: sums of up to 10^9 numbers are rounded.
SAME_SIGNAL = 1e-9


class RefutedSignalError(InvalidModelError):
    """A signal that was declared not to be random, or to be the same at every stage, has two different values."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Observations:
    """Transitions and signals that were observed, counted by row.

    Row (h*S + x)*A + a is state x and action a at stage h, as in `TabularCMDP`. A kernel that is declared stationary
    has L = 1 stage, of all visits together, otherwise L = H. The same holds for the signals, with M stages.

    Attributes:
        horizon, num_states, num_actions: H, S and A.
        thresholds: of the utilities, [I].
        initial: the distribution of the first state, [S]; an estimate of it if there are `first_visits`.
        noisy: whether signals are random; otherwise the signals of a row always have the same values.
        starts, successors, seen: the distinct transitions of row n are the entries from starts[n] to starts[n+1]:
            successors and how often each was observed. [L*S*A + 1], [entries], [entries].
        signal_number: how often the signals of each row were observed, [M*S*A].
        signal_sums: observed signals added up, [1+I, M*S*A].
        declared: how many of all visits were not observed but stand for what is known, such as an absorbing state.
        possible_starts, possible: the declared possible successors of each row, in the same way; [1] and [0] if every
            state may follow. [L*S*A + 1], [listed].
        stationary, stationary_signals: whether the kernel and the signals are declared to be the same at every stage;
            `as_declared` then pools them.
        first_visits: how often each state was observed as a first state, [S]; None if `initial` is known exactly.

    Raises InvalidModelError if the arrays do not fit each other.
    """

    horizon: int
    num_states: int
    num_actions: int
    thresholds: Floats
    initial: Floats
    starts: Ints
    successors: NDArray[np.int32]
    seen: Ints
    signal_number: Ints
    signal_sums: Floats
    noisy: bool = False
    declared: int = 0
    possible_starts: Ints = field(default_factory=lambda: np.zeros(1, dtype=np.int64))
    possible: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    stationary: bool = False
    stationary_signals: bool = False
    first_visits: Ints | None = None

    def __post_init__(self) -> None:
        for name in ("horizon", "num_states", "num_actions"):
            object.__setattr__(self, name, as_size(name, getattr(self, name)))
        for name in ("noisy", "stationary", "stationary_signals"):
            object.__setattr__(self, name, as_flag(name, getattr(self, name)))
        self._set("thresholds", np.atleast_1d(as_floats("thresholds", self.thresholds, "[I]")))
        self._set("initial", as_floats("initial", self.initial, "[S]"))
        if self.initial.shape != (self.num_states,) or self.thresholds.ndim != 1 or not self.thresholds.size:
            found = f"{list(self.thresholds.shape)} and {list(self.initial.shape)}"
            raise InvalidModelError(f"thresholds and initial have shapes {found}; expected [I] and [S].")
        check_distributions("initial", self.initial)
        object.__setattr__(self, "first_visits", as_first_visits(self.first_visits, self.num_states))
        self._set("starts", whole("starts", self.starts))
        rows, S = len(self.starts) - 1, self.num_states
        if rows not in self._row_counts:
            raise InvalidModelError(f"there are {rows} rows of transitions; expected {self._expected_rows}.")
        self._set("successors", checked_lists("successors", self.starts, self.successors, S))
        self._set("seen", whole("seen", self.seen))
        if self.seen.shape != self.successors.shape or (self.seen < 1).any():
            raise InvalidModelError("seen does not give a number of at least 1 for each transition.")
        object.__setattr__(self, "declared", int(self.declared))
        if not 0 <= self.declared <= int(self.seen.sum()):
            raise InvalidModelError(f"declared is {self.declared}; expected 0 to {int(self.seen.sum())}, all visits.")
        self._check_signals()
        self._check_possible()

    def __repr__(self) -> str:
        sizes = f"{self.num_states} states, {self.num_actions} actions, {self.horizon} stages"
        return f"Observations({int(self.seen.sum()) - self.declared:,} transitions; {sizes})"

    @property
    def num_constraints(self) -> int:
        """I, the number of constraints."""
        return len(self.thresholds)

    @property
    def kernel_stages(self) -> int:
        """L: H, or 1 if the visits of all stages are pooled."""
        return (len(self.starts) - 1) // (self.num_states * self.num_actions)

    @property
    def signal_stages(self) -> int:
        """M: H, or 1 if the signals of all stages are pooled."""
        return len(self.signal_number) // (self.num_states * self.num_actions)

    @property
    def declares_possible(self) -> bool:
        """Whether possible successors are declared; otherwise every state may follow."""
        return len(self.possible_starts) > 1

    @cached_property
    def number(self) -> Ints:
        """How often each row's next state was observed, [L*S*A]."""
        return add_by_row(self.starts, self.seen)

    def kernel(self) -> Sparse:
        """Return the empirical transitions P_n; the row of a pair that was never visited is empty."""
        return self._kernel

    @cached_property
    def _kernel(self) -> Sparse:
        share = self.seen / np.repeat(self.number, np.diff(self.starts))
        share.setflags(write=False)
        return Sparse(self.starts, self.successors, share)

    def with_thresholds(self, thresholds: Any) -> Observations:
        """Return the same data with other thresholds, [I] or one number.

        Raises InvalidModelError if there are more or fewer than before.
        """
        bounds = np.atleast_1d(as_floats("thresholds", thresholds, "[I]"))
        if bounds.shape != self.thresholds.shape:
            raise InvalidModelError(f"thresholds have shape {list(bounds.shape)}; expected [{self.num_constraints}].")
        return replace(self, thresholds=bounds)

    def with_possible(self, possible: Any) -> Observations:
        """Return the same data with possible successors declared: True where possible, [H, S, A, S] or [S, A, S].

        Raises InvalidModelError if another successor was observed, or a pair has none.
        """
        pairs, S = self.num_states * self.num_actions, self.num_states
        flags: NDArray[Any] = np.asarray(possible)
        if flags.dtype != np.bool_ or flags.size not in (pairs * S, self.horizon * pairs * S) or flags.shape[-1] != S:
            raise InvalidModelError(
                f"possible successors are {flags.dtype} {list(flags.shape)}; expected truth values [S,A,S], [H,S,A,S]."
            )
        flags = flags.reshape(-1, pairs, S)
        if len(flags) > self.kernel_stages:
            flags = np.asarray(flags.any(axis=0, keepdims=True))
        flags = np.broadcast_to(flags, (self.kernel_stages, pairs, S)).reshape(-1, S)
        starts = np.concatenate([[0], np.cumsum(flags.sum(axis=1))])
        return replace(self, possible_starts=starts, possible=np.nonzero(flags)[1].astype(np.int32))

    def pooled(self, *, kernel: bool = True, signals: bool = False) -> Observations:
        """Return the data with the visits of all stages added up: of the transitions, of the signals, or of both.

        That is right only if the kernel, or the signals, are the same at every stage. Raises InvalidModelError if
        signals without noise were different at two stages.
        """
        pairs, changed = self.num_states * self.num_actions, self
        if kernel and self.kernel_stages > 1:
            row = np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts)) % pairs
            starts, successors, seen = as_lists(pairs, row, self.successors, self.seen, self.num_states)
            changed = replace(changed, starts=starts, successors=successors, seen=seen, **self._pooled_possible())
        if signals and self.signal_stages > 1:
            self._check_stationary_signals()
            J = 1 + self.num_constraints
            changed = replace(
                changed,
                signal_number=self.signal_number.reshape(-1, pairs).sum(axis=0),
                signal_sums=self.signal_sums.reshape(J, -1, pairs).sum(axis=1),
            )
        return changed

    def as_declared(self, stationary: bool | None = None) -> Observations:
        """Return the data pooled as they are declared; `stationary` replaces the declaration about the kernel.

        Raises InvalidModelError if the kernel is declared not to be stationary and its visits are pooled already.
        """
        if stationary is False and self.kernel_stages < self.horizon:
            raise InvalidModelError(
                "the visits of all stages were pooled when they were counted, so they cannot be told apart; train with "
                "stationary=False (--per-stage)."
            )
        kernel = self.stationary if stationary is None else as_flag("stationary", stationary)
        return self.pooled(kernel=kernel, signals=self.stationary_signals)

    @property
    def observed(self) -> int:
        """The number of transitions that were observed."""
        return int(self.seen.sum()) - self.declared

    def merged(self, other: Observations) -> Observations:
        """Return these data and the `other` together; their sizes, thresholds and first states must be the same.

        Raises InvalidModelError if they are not, or if a signal without noise has two values at one place.
        """
        for name in (*_SIZES, "kernel_stages", "signal_stages"):
            if getattr(self, name) != getattr(other, name):
                found = f"{name} is {getattr(self, name)} in one and {getattr(other, name)} in the other"
                raise InvalidModelError(f"the two data sets do not fit together: {found}.")
        for name in ("thresholds", "initial", "possible_starts", "possible"):
            if name == "initial" and self.first_visits is not None:
                continue  # two estimates
            if not np.array_equal(getattr(self, name), getattr(other, name)):
                raise InvalidModelError(f"the two data sets do not fit together: their {name} differ.")
        if not self.noisy:
            both = (self.signal_number > 0) & (other.signal_number > 0)
            off = both & (np.abs(self.signal_means() - other.signal_means()) > SAME_SIGNAL)
            if off.any():
                raise self.refuted(first_index(off)[1])
        rows = [np.repeat(np.arange(len(each.starts) - 1), np.diff(each.starts)) for each in (self, other)]
        starts, successors, seen = as_lists(
            len(self.starts) - 1,
            np.concatenate(rows),
            np.concatenate([self.successors, other.successors]),
            np.concatenate([self.seen, other.seen]),
            self.num_states,
        )
        return replace(
            self,
            starts=starts,
            successors=successors,
            seen=seen,
            signal_number=self.signal_number + other.signal_number,
            signal_sums=self.signal_sums + other.signal_sums,
            declared=self.declared + other.declared,
            first_visits=add_visits(self.first_visits, other.first_visits),
        )

    def signal_means(self) -> Floats:
        """Return the mean of each signal in each row, [1+I, M*S*A]; 0 where there is none."""
        return self.signal_sums / np.maximum(self.signal_number, 1)

    def refuted(self, row: int, what: str = "at one place") -> RefutedSignalError:
        """Return the error for a signal that was declared deterministic and is not.

        `row` is one of its rows, and `what` says where its values differ.
        """
        stage, pair = divmod(int(row), self.num_states * self.num_actions)
        state, action = divmod(pair, self.num_actions)
        where = f"state {state}, action {action}" + (f", stage {stage}" if self.signal_stages > 1 else "")
        return RefutedSignalError(
            f"a signal has two different values {what} ({where}), so it is random or depends on the stage; "
            "declare it: noisy=True, or signals that are not stationary."
        )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the data as named arrays, for a file; `from_arrays` is the way back."""
        optional = {} if self.first_visits is None else {"first_visits": self.first_visits}
        return {name: np.asarray(getattr(self, name)) for name in _FIELDS} | optional

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Observations:
        """Return the data of named arrays; raises InvalidModelError if one is missing or does not fit."""
        missing = [name for name in _FIELDS if name not in arrays]
        if missing:
            raise InvalidModelError(f"the observations have no {missing[0]!r}; expected {', '.join(_FIELDS)}.")
        given: dict[str, Any] = {name: arrays[name] for name in _FIELDS}
        for name in (*_SIZES, "declared"):
            given[name] = scalar(name, given[name])
        return cls(**given, first_visits=arrays.get("first_visits"))

    @classmethod
    def from_rows(
        cls,
        horizon: int,
        num_states: int,
        num_actions: int,
        *,
        row: Any,
        successor: Any,
        seen: Any,
        signal_number: Any,
        signal_sums: Any,
        thresholds: Any,
        initial: Any,
        noisy: bool = False,
        by_action: bool = False,
        kernel_stages: int | None = None,
    ) -> Observations:
        """Return the data of transitions given one by one, in any order, and repeated or not.

        Args:
            horizon, num_states, num_actions: H, S and A.
            row: of each transition, [n]: (h*S + x)*A + a, or (h*A + a)*S + x with `by_action`, as learners count.
            successor: of each transition, [n].
            seen: how often it was observed, [n].
            signal_number: how often each row's signals were observed, [H*S*A] or [S*A], in the same order of rows.
            signal_sums: their sums, [1+I, H*S*A] or [1+I, S*A].
            thresholds: of the utilities, [I].
            initial: the distribution of the first state, [S].
            noisy: whether signals are random.
            by_action: the order of the rows.
            kernel_stages: 1 if the rows of the transitions are those of all stages pooled, x*A + a; otherwise H.

        Raises InvalidModelError if a number is out of range or the arrays do not fit each other.
        """
        H, S, A = (as_size(n, v) for n, v in (("horizon", horizon), ("states", num_states), ("actions", num_actions)))
        check_memory(32.0 * H * S * A, f"observations of {H:,} stages, {S:,} states and {A:,} actions")
        rows, after = whole("row", row), whole("successor", successor)
        stored = (H if kernel_stages is None else as_size("kernel_stages", kernel_stages)) * S * A
        times, counted = whole("seen", seen), whole("signal_number", np.asarray(signal_number).reshape(-1))
        for name, values, size in (("row", rows, stored), ("successor", after, S)):
            if values.size and not 0 <= values.min() <= values.max() < size:
                raise InvalidModelError(f"{name} is {values.min()} to {values.max()}; expected 0 to {size - 1}.")
        if not rows.shape == after.shape == times.shape:
            raise InvalidModelError("row, successor and seen have different lengths.")
        sums = np.asarray(signal_sums, dtype=np.float64)
        sums = sums.reshape(len(sums), -1)
        if by_action:
            stage, pair = np.divmod(rows, S * A)
            rows = stage * S * A + (pair % S) * A + pair // S
            counted = np.swapaxes(counted.reshape(-1, A, S), -1, -2).reshape(-1)
            sums = np.swapaxes(sums.reshape(len(sums), -1, A, S), -1, -2).reshape(len(sums), -1)
        starts, successors, numbers = as_lists(stored, rows, after, times, S)
        return cls(
            horizon=H,
            num_states=S,
            num_actions=A,
            thresholds=thresholds,
            initial=initial,
            starts=starts,
            successors=successors,
            seen=numbers,
            signal_number=counted,
            signal_sums=sums,
            noisy=noisy,
        )

    @property
    def _row_counts(self) -> tuple[int, int]:
        pairs = self.num_states * self.num_actions
        return self.horizon * pairs, pairs

    @property
    def _expected_rows(self) -> str:
        return f"H*S*A = {self._row_counts[0]}, or S*A = {self._row_counts[1]} if stages are pooled"

    def _set(self, name: str, array: NDArray[Any]) -> None:
        array.setflags(write=False)
        object.__setattr__(self, name, array)

    def _check_signals(self) -> None:
        counted = whole("signal_number", self.signal_number)
        sums = as_floats("signal_sums", self.signal_sums, "[1+I, rows]")
        if len(counted) not in self._row_counts or sums.shape != (1 + self.num_constraints, len(counted)):
            raise InvalidModelError(
                f"signal_number and signal_sums have shapes {list(counted.shape)} and {list(sums.shape)}; expected "
                f"[rows] and [{1 + self.num_constraints}, rows], rows being {self._expected_rows}."
            )
        high = counted * (1.0 + SAME_SIGNAL)
        if (counted < 0).any() or (sums < 0.0).any() or (sums > high).any():
            raise InvalidModelError("signal_sums are not sums of signal_number signals in [0, 1].")
        self._set("signal_number", counted)
        self._set("signal_sums", sums)

    def _check_possible(self) -> None:
        self._set("possible_starts", whole("possible_starts", self.possible_starts))
        if not self.declares_possible:
            self._set("possible", whole("possible", self.possible).astype(np.int32))
            return
        if self.possible_starts.shape != self.starts.shape or (np.diff(self.possible_starts) < 1).any():
            raise InvalidModelError("possible_starts does not give each row at least one possible successor.")
        self._set("possible", checked_lists("possible", self.possible_starts, self.possible, self.num_states))
        listed = keys(self.possible_starts, self.possible, self.num_states)
        observed = keys(self.starts, self.successors, self.num_states)
        strange = ~np.isin(observed, listed)
        if strange.any():
            row, y = divmod(int(observed[int(np.argmax(strange))]), self.num_states)
            pair = row % (self.num_states * self.num_actions)
            state, action = divmod(pair, self.num_actions)
            found = f"state {y} was observed after state {state} and action {action}"
            raise InvalidModelError(f"{found}; it is not among the declared possible successors.")

    def _pooled_possible(self) -> dict[str, Any]:
        if not self.declares_possible:
            return {}
        pairs = self.num_states * self.num_actions
        row = np.repeat(np.arange(len(self.possible_starts) - 1), np.diff(self.possible_starts)) % pairs
        starts, possible, _ = as_lists(pairs, row, self.possible, np.ones_like(row), self.num_states)
        return {"possible_starts": starts, "possible": possible}

    def _check_stationary_signals(self) -> None:
        if self.noisy:
            return
        pairs, J = self.num_states * self.num_actions, 1 + self.num_constraints
        means = self.signal_means().reshape(J, -1, pairs)
        there = np.broadcast_to(self.signal_number.reshape(-1, pairs) > 0, means.shape)
        spread = np.where(there, means, -np.inf).max(axis=1) - np.where(there, means, np.inf).min(axis=1)
        if (spread > SAME_SIGNAL).any():
            raise self.refuted(first_index(spread > SAME_SIGNAL)[1], "at two stages")


_SIZES = ("horizon", "num_states", "num_actions", "noisy", "stationary", "stationary_signals")
_FIELDS = (
    *_SIZES,
    "declared",
    "thresholds",
    "initial",
    "starts",
    "successors",
    "seen",
    "signal_number",
    "signal_sums",
    "possible_starts",
    "possible",
)
