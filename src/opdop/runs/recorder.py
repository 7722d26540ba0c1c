"""Keeps the measurements of a run: every episode enters the sums, chosen episodes enter the history."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from opdop.algorithms.saved_state import fitting
from opdop.metrics import Sums, increments, violation
from opdop.model import OpdopError
from opdop.model.validation import Floats


def recorded_episodes(planned: int, records: int) -> NDArray[np.int64]:
    """Return which episodes of a plan are kept: half of them evenly spread, half evenly on a logarithmic scale."""
    half = max(records // 2, 1)
    even = np.linspace(1, planned, min(half, planned))
    logarithmic = np.geomspace(1, planned, half)
    return np.unique(np.rint(np.concatenate([even, logarithmic])).astype(np.int64))


def columns(constraints: int) -> list[str]:
    """Return the names of what a history tells of each episode it keeps."""
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
        "violation",
    ]


def describe_columns(constraints: int) -> dict[str, dict[str, str]]:
    """Return the meaning and the unit of each column; model units are those of the signals, in [0, 1] in each stage."""
    each = range(constraints)
    told = {
        "episode": ("number of the episode, from 1", "episodes"),
        "reward": ("true expected total reward of the episode's policy", "reward"),
        **{f"utility_{i}": (f"the same for the utility of promise {i}", f"utility {i}") for i in each},
        "estimated_reward": ("what the learner believes of the reward", "reward"),
        **{f"estimated_utility_{i}": (f"what it believes of the utility of promise {i}", f"utility {i}") for i in each},
        **{f"dual_{i}": (f"multiplier of promise {i}", f"reward per utility {i}") for i in each},
        "total_reward": ("sum of the rewards of all episodes so far", "reward"),
        **{f"total_utility_{i}": (f"the same for the utility of promise {i}", f"utility {i}") for i in each},
        "regret": ("sum of what the rewards lack of the optimum", "reward"),
        **{
            f"shortfall_{i}": (f"sum of what the utilities lack of threshold {i}; slack pays back", f"utility {i}")
            for i in each
        },
        "hard_violation": ("sum of what each episode lacks of the promise it breaks most; never paid back", "utility"),
        "violation": ("largest shortfall so far, at least 0: the paper's violation", "utility"),
    }
    return {name: dict(zip(("meaning", "unit"), told[name], strict=True)) for name in columns(constraints)}


class Recorder:
    """Sums over all episodes, and a history of some of them.

    A history row holds the episode's own true totals, estimates and multipliers, and the sums up to and including it.
    """

    def __init__(self, thresholds: Floats, optimal_value: float, planned: int, records: int) -> None:
        I = len(thresholds)
        self.thresholds, self.optimal_value = thresholds, optimal_value
        self.kept = recorded_episodes(planned, records)
        self.beyond = max(planned // records, 1)  # past the plan, one in so many
        self.columns = columns(I)
        self.episodes = 0
        self.sums = Sums(I)
        self.held = np.full(1 + I, np.nan)  # true totals of the episode measured last
        self.rows: list[Floats] = []
        self.last = np.zeros(len(self.columns))

    def add(self, totals: Floats, estimates: Floats, dual: Floats) -> None:
        """Take in n episodes: totals [n, 1+I] (where NaN the last measured ones hold), estimates and multipliers."""
        totals = self._hold(totals)
        running = self.sums.add(increments(totals, self.optimal_value, self.thresholds))
        I = len(self.thresholds)
        worst = violation(running[:, 2 + I : 2 + 2 * I])
        numbers = self.episodes + 1 + np.arange(len(totals))
        self.episodes += len(totals)
        wanted = np.isin(numbers, self.kept) | (
            (numbers > self.kept[-1]) & ((numbers - self.kept[-1]) % self.beyond == 0)
        )
        table = np.column_stack([numbers, totals, estimates, dual, running, worst])
        if wanted.any():
            self.rows.append(table[wanted])
        self.last = table[-1]

    def _hold(self, totals: Floats) -> Floats:
        """Fill unmeasured episodes with the totals measured last."""
        measured = ~np.isnan(totals[:, 0])
        source = np.maximum.accumulate(np.where(measured, np.arange(len(totals)), -1))
        filled = np.where((source >= 0)[:, None], totals[np.maximum(source, 0)], self.held)
        self.held = filled[-1]
        return filled

    def history(self) -> pl.DataFrame:
        """Return the history as a table; its last row is the last episode."""
        table = np.concatenate([*self.rows, np.empty((0, len(self.columns)))])
        if self.episodes and (not len(table) or table[-1, 0] != self.last[0]):
            table = np.vstack([table, self.last])
        frame = pl.DataFrame(table, schema=self.columns, orient="row")
        return frame.with_columns(pl.col("episode").cast(pl.Int64))

    def current(self, column: str) -> float:
        """Return a column's value at the last episode."""
        return float(self.last[self.columns.index(column)])

    def state(self) -> dict[str, NDArray[Any]]:
        """Return all that later records depend on."""
        return {
            "episodes": np.array(self.episodes),
            "sums": self.sums.sums.copy(),
            "lost": self.sums.lost.copy(),
            "held": self.held.copy(),
            "last": self.last.copy(),
            "rows": np.concatenate([*self.rows, np.empty((0, len(self.columns)))]),
        }

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go back to a state."""
        rows = state.get("rows", np.empty(0))
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
        self.rows = [rows]
