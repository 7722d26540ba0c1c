"""Records the measurements of a run: every episode enters the sums, chosen episodes enter the history."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opdop.algorithms.saved_state import fitting, under
from opdop.metrics import Sums, increments, violation
from opdop.model import OpdopError
from opdop.model.validation import MOST_EPISODES, Floats


def recorded_episodes(planned: int, records: int) -> NDArray[np.int64]:
    """Return which episodes of a plan are kept: `records` of them, or all if there are no more than that.

    Half of them are evenly spaced, the others evenly on a logarithmic scale. Where both choose the same episode, the
    next free one is kept too.
    """
    if records >= planned:
        return np.arange(1, planned + 1)
    even = np.linspace(0, planned, records - records // 2 + 1)[1:]
    logarithmic = np.geomspace(1, planned, records // 2)
    chosen = np.sort(np.rint(np.concatenate([even, logarithmic])).astype(np.int64))
    place = np.arange(records)
    distinct = place + np.maximum.accumulate(chosen - place)
    return np.minimum(distinct, planned - records + 1 + place)


def columns(constraints: int, *, known: bool = True) -> list[str]:
    """Return the names of the columns of a history; where the model is not known, nothing is called a true value."""
    if not known:
        return list(_realised(constraints).values())
    each = range(constraints)
    return [
        "episode",
        "reward",
        *(f"utility_{i}" for i in each),
        "estimated_reward",
        *(f"estimated_utility_{i}" for i in each),
        *(f"dual_{i}" for i in each),
        "total_reward",
        *(f"total_utility_{i}" for i in each),
        "regret",
        *(f"shortfall_{i}" for i in each),
        "hard_violation",
        *hard_columns(constraints),
        "violation",
    ]


def hard_columns(constraints: int) -> list[str]:
    """Return the columns of each constraint's hard violation; with one constraint, `hard_violation` is that column."""
    return [f"hard_violation_{i}" for i in range(constraints)] if constraints > 1 else []


def _realised(constraints: int) -> dict[str, str]:
    """Return the columns that remain where the model is not known, each with the name that it has then.

    A single episode is a noisy measurement of its policy. Its sums converge to those of true values, but sums of
    positive parts do not, hence there is no hard violation; and without an optimum there is no regret.
    """
    renamed = {"reward": "realised_reward", "total_reward": "total_realised_reward"}
    for i in range(constraints):
        renamed |= {
            f"utility_{i}": f"realised_utility_{i}",
            f"total_utility_{i}": f"total_realised_utility_{i}",
            f"shortfall_{i}": f"realised_shortfall_{i}",
        }
    dropped = ("regret", "violation", "hard_violation", *hard_columns(constraints))
    return {name: renamed.get(name, name) for name in columns(constraints) if name not in dropped}


class Recorder:
    """Sums over all episodes, and a history of some of them.

    A row of the history holds an episode's true totals, estimates and multipliers, and the sums up to and including it.
    `records` episodes of the plan are kept, and fewer than `records` after it, however many are played.
    """

    def __init__(self, thresholds: Floats, optimal_value: float, planned: int, records: int) -> None:
        I = len(thresholds)
        self.thresholds, self.optimal_value = thresholds, optimal_value
        self.kept = recorded_episodes(planned, records)
        self.planned, self.records = int(self.kept[-1]), records
        self.stride = max(planned // records, 1)  # after the plan, one episode in this many is kept
        self.columns = columns(I)
        self.episodes = 0
        self.sums = Sums(I)
        self.held = np.full(1 + I, np.nan)  # true totals of the episode measured last
        self.rows: list[Floats] = []
        self.last = np.zeros(len(self.columns))

    def add(self, totals: Floats, estimates: Floats, dual: Floats) -> None:
        """Add n episodes: true totals [n, 1+I], estimates [n, 1+I] and multipliers [n, I].

        Where totals are NaN, the totals that were measured last are used.
        """
        totals = self._hold(totals)
        running = self.sums.add(increments(totals, self.optimal_value, self.thresholds))
        before, I = self.episodes, len(self.thresholds)
        self.episodes += len(totals)
        if self._thin_out():
            self.rows = [rows[self._is_kept(rows[:, 0])] for rows in self.rows]
        numbers = np.append(self._numbers(before), self.episodes)  # the last one is needed in any case
        at = numbers - before - 1
        worst = violation(running[at, 2 + I : 2 + 2 * I])
        table = np.column_stack([numbers, totals[at], estimates[at], dual[at], running[at], worst])
        if len(table) > 1:
            self.rows.append(table[:-1])
        self.last = table[-1]

    def _thin_out(self) -> bool:
        """Double the stride while more than `records` episodes after the plan would be kept; return whether it changed.

        So a history has fewer than twice `records` rows, which depend only on the number of episodes.
        """
        before = self.stride
        while (self.episodes - self.planned) // self.stride >= self.records:
            self.stride *= 2
        return self.stride > before

    def _is_kept(self, numbers: NDArray[Any]) -> NDArray[np.bool_]:
        """Return for each of these episodes whether it is kept."""
        after = (numbers > self.planned) & ((numbers - self.planned) % self.stride == 0)
        kept: NDArray[np.bool_] = after | np.isin(numbers, self.kept)
        return kept

    def _numbers(self, before: int = 0) -> NDArray[np.int64]:
        """Return the episodes after `before` that the history keeps now."""
        kept = self.kept[slice(*np.searchsorted(self.kept, [before, self.episodes], side="right"))]
        first = self.planned + max((before - self.planned) // self.stride + 1, 1) * self.stride
        return np.concatenate([kept, np.arange(first, self.episodes + 1, self.stride)])

    def _hold(self, totals: Floats) -> Floats:
        """Replace the totals of unmeasured episodes by those that were measured last."""
        missing = np.isnan(totals[:, 0])
        if not missing.any():
            self.held = totals[-1].copy()
            return totals
        measured = ~missing
        source = np.maximum.accumulate(np.where(measured, np.arange(len(totals)), -1))
        filled = np.where((source >= 0)[:, None], totals[np.maximum(source, 0)], self.held)
        self.held = filled[-1]
        return filled

    def history(self) -> dict[str, NDArray[Any]]:
        """Return the columns of the history; the last row is the last episode."""
        table = np.concatenate([*self.rows, np.empty((0, len(self.columns)))])
        if self.episodes and (not len(table) or table[-1, 0] != self.last[0]):
            table = np.vstack([table, self.last])
        found: dict[str, NDArray[Any]] = dict(zip(self.columns, table.T.copy(), strict=True))
        found["episode"] = found["episode"].astype(np.int64)
        if np.isnan(self.optimal_value):
            return {new: found[name] for name, new in _realised(len(self.thresholds)).items()}
        return found

    def current(self, column: str) -> float:
        """Return a column's value at the last episode."""
        return float(self.last[self.columns.index(column)])

    def violations(self) -> tuple[Floats, Floats]:
        """Return the violation and the hard violation of each constraint up to the last episode, both [I]."""
        I = len(self.thresholds)
        shortfalls = np.array([self.current(f"shortfall_{i}") for i in range(I)])
        hard = np.array([self.current(name) for name in hard_columns(I) or ["hard_violation"]])
        return np.maximum(shortfalls, 0.0), hard

    def state(self) -> dict[str, NDArray[Any]]:
        """Return everything that later records depend on."""
        return {
            "episodes": np.array(self.episodes),
            "sums": self.sums.sums.copy(),
            "lost": self.sums.lost.copy(),
            "held": self.held.copy(),
            "last": self.last.copy(),
            "rows": np.concatenate([*self.rows, np.empty((0, len(self.columns)))]),
        }

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Return to a saved state; raises OpdopError if it does not fit."""
        rows = under(state, "").get("rows", np.empty(0))
        if rows.dtype != np.float64 or rows.ndim != 2 or rows.shape[1] != len(self.columns):
            raise OpdopError(
                f"the saved history is {rows.dtype} {list(rows.shape)}; expected {len(self.columns)} columns."
            )
        self.episodes = int(fitting(state, "episodes", np.array(0)))
        for name, like in (
            ("sums", self.sums.sums),
            ("lost", self.sums.lost),
            ("held", self.held),
            ("last", self.last),
        ):
            if name not in state or state[name].shape != like.shape or state[name].dtype != like.dtype:
                raise OpdopError(f"the saved {name!r} does not fit.")
            like[:] = state[name]
        if not 0 <= self.episodes <= MOST_EPISODES or (self.episodes and self.last[0] != self.episodes):
            raise OpdopError(f"the saved history does not end at its episode {self.episodes}.")
        self._thin_out()
        with np.errstate(invalid="ignore"):
            rows = rows[self._is_kept(rows[:, 0])]
        if not np.array_equal(rows[:, 0], self._numbers()):
            raise OpdopError("the saved history does not have the episodes that are kept.")
        self.rows = [rows]
