"""Certificates as the data of a run grow: for figures, and for runs that end once a policy is certified well enough."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opdop.confidence import Certificate
from opdop.model import OpdopError, Quantity
from opdop.model.validation import MOST_EPISODES, Floats
from opdop.runs.goal import goal_of

FIRST = 100  # episodes before the first certificate
GROWTH_UNTIL = 1.1  # a run with a goal is certified whenever its episodes have grown by this factor
_LEAST_GROWTH = 1.02


def columns(constraints: int) -> list[str]:
    """Return the names of the columns of a trail: bounds on the recommended policy, and its true values."""
    each = range(constraints)
    return [
        "episode",
        "reward_lower",
        "optimum_upper",
        "keeps_constraints",
        *(f"utility_lower_{i}" for i in each),
        "reward",
        *(f"utility_{i}" for i in each),
    ]


class Trail:
    """Certificates of the recommended policy, made when the episodes have grown by a factor.

    The episodes at which they are made depend on nothing but the factor, so that a run is the same in pieces or whole.

    Args:
        growth: the factor; None makes no certificates.
        goal: the gap at which the run ends, in model units; 0 if it does not end early.
        constraints: I.
    """

    def __init__(self, growth: float | None, goal: float, constraints: int) -> None:
        self.growth, self.goal = growth, goal
        self.columns = columns(constraints)
        self.rows: list[Floats] = []
        self.next = MOST_EPISODES + 1 if growth is None else FIRST

    @classmethod
    def of(cls, until: str | None, certificates: int, planned: int, horizon: int, reward: Quantity, I: int) -> Trail:
        """Return the empty trail of a run with these settings; `planned` are its planned episodes."""
        goal = goal_of(until, horizon, reward)
        growth = GROWTH_UNTIL if goal else None
        if certificates and not goal:
            growth = max((planned / FIRST) ** (1.0 / max(certificates - 1, 1)), _LEAST_GROWTH)
        return cls(growth, goal, I)

    @property
    def is_on(self) -> bool:
        """Whether certificates are made."""
        return self.growth is not None

    @property
    def gap(self) -> float:
        """The certified gap at the last certificate, in model units; NaN before the first."""
        return float(self.rows[-1][2] - self.rows[-1][1]) if self.rows else math.nan

    @property
    def keeps_constraints(self) -> bool:
        """Whether the last certificate says that the recommended policy keeps every constraint."""
        return bool(self.rows) and bool(self.rows[-1][3])

    @property
    def is_met(self) -> bool:
        """Whether the recommended policy is certified to keep every constraint and to be as near as the goal says."""
        return self.goal > 0.0 and self.keeps_constraints and self.gap <= self.goal

    def add(self, episode: int, certificate: Certificate, truth: Floats | None) -> None:
        """Add the certificate at an episode; `truth` are the true values of its policy [1+I], if they are known."""
        self.rows.append(self.row(episode, certificate, truth))
        self._plan_after(episode)

    def row(self, episode: int, certificate: Certificate, truth: Floats | None) -> Floats:
        """Return the row of a certificate."""
        known = np.full(1 + len(certificate.thresholds), np.nan) if truth is None else truth
        kept = float(certificate.keeps_constraints)
        bounds = [episode, certificate.reward_lower, certificate.optimum_upper, kept, *certificate.utility_lower]
        return np.array([*bounds, *known], dtype=np.float64)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the certificates so far; nothing if none are made."""
        return {"certificates": np.array(self.rows).reshape(-1, len(self.columns))} if self.is_on else {}

    def restore(self, arrays: Mapping[str, NDArray[Any]], episodes: int) -> None:
        """Return to a saved state after `episodes`; raises OpdopError if it does not fit."""
        if not self.is_on:
            return
        rows = arrays.get("certificates", np.empty(0))
        if rows.dtype != np.float64 or rows.ndim != 2 or rows.shape[1] != len(self.columns):
            raise OpdopError("the saved certificates do not have the columns that they should.")
        self.rows, self.next = [], FIRST
        expected = []
        while self.next <= episodes:
            expected.append(float(self.next))
            self._plan_after(self.next)
        if rows[:, 0].tolist() != expected:
            raise OpdopError("the saved certificates are not those of the episodes played.")
        self.rows = list(rows)

    def _plan_after(self, episode: int) -> None:
        assert self.growth is not None
        self.next = max(episode + 1, math.ceil(self.growth * episode))


def trail_columns(rows: Floats, names: list[str]) -> dict[str, NDArray[Any]]:
    """Return rows [n, columns] as columns, with whole episodes and truth values."""
    kinds = {"episode": np.int64, "keeps_constraints": np.bool_}
    return {name: column.astype(kinds.get(name, np.float64)) for name, column in zip(names, rows.T, strict=True)}
