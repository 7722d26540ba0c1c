"""What every run has, its model known or not: its configuration, pace, multipliers, certificates and notes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from opdop.model import Quantity
from opdop.model.validation import Floats
from opdop.report.summary.certificate_card import CertificateCard
from opdop.runs import Run
from opdop.runs.summary_text import resumed_note


@dataclass(frozen=True, eq=False)
class RunFacts:
    """A run, and what can be said of it without a model."""

    run: Run

    @property
    def reward(self) -> Quantity:
        """The name and the unit of the reward."""
        return self.run.display.quantities[0]

    @cached_property
    def card(self) -> CertificateCard:
        """The certificates of the run's policies."""
        return CertificateCard(self.run)

    @property
    def episodes(self) -> int:
        """How many episodes were played."""
        return int(self.run.episodes[-1])

    @property
    def episodes_per_second(self) -> float:
        """How many episodes were played per second, measuring included."""
        return self.episodes / max(self.run.seconds, 1e-9)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Stages, states and actions of the problem: H, S, A."""
        H, S, A = self.run.policy.table.shape
        return H, S, A

    @property
    def ignores_constraints(self) -> bool:
        """Whether the algorithm maximises the reward alone."""
        return self.run.config.algorithm.endswith("oppo")

    @property
    def method(self) -> str:
        """The algorithm, and the preset of its constants if it has one."""
        config = self.run.config
        return f"{config.algorithm}, preset {config.preset}" if config.preset else config.algorithm

    def column(self, name: str) -> Floats:
        """Return a column of the history, [K']."""
        values: Floats = self.run.columns[name]
        return values

    def at_end(self, name: str) -> float:
        """Return a column's value after the final episode."""
        return float(self.run.columns[name][-1])

    @property
    def estimates(self) -> Floats:
        """The learner's estimates of the totals of its final policy, [1+I]."""
        utilities = (f"estimated_utility_{i}" for i in range(len(self.run.thresholds)))
        return np.array([self.at_end(name) for name in ("estimated_reward", *utilities)])

    def final_multiplier(self, i: int) -> float:
        """Return the multiplier of constraint i after the final episode, in model units."""
        return self.at_end(f"dual_{i}")

    def late_multiplier(self, i: int) -> float:
        """Return the mean multiplier of constraint i over the second half of all episodes, in model units.

        Each record counts for the episodes since the record before it.
        """
        episodes, values = self.column("episode"), self.column(f"dual_{i}")
        weights = np.diff(np.maximum(np.concatenate([[0.0], episodes]), episodes[-1] / 2.0))
        return float(weights @ values / weights.sum())

    @property
    def evaluation_record(self) -> dict[str, Any] | None:
        """The fresh episodes of the final policy as plain data; None if there were none."""
        return None if self.run.evaluation is None else self.run.evaluation.record()

    @property
    def general_notes(self) -> tuple[str, ...]:
        """Warnings that the numbers of any run may need; often none."""
        notes = []
        if self.run.config.until is not None:
            notes.append(self._ending())
        if "doubling_phase" in self.run.constants:
            notes.append(
                "The planned K was doubled whenever it was reached; the constants are those of the final plan."
            )
        return (*notes, *resumed_note(self.run))

    def _ending(self) -> str:
        """Return whether the run ended because a policy was certified."""
        until, at = self.run.config.until, self.run.certified_at
        share = "" if str(until).partition(" ")[2] else " of the reward range"
        if at is None:
            return f"No policy was certified to be within {until}{share} of the best in {self.episodes:,} episodes."
        return (
            f"The run ended at episode {at:,}: the recommended policy is certified to keep every constraint and to be "
            f"within {until}{share} of the best."
        )


def constants_text(constants: Mapping[str, Any]) -> str:
    """Return all constants of a run in one line.

    >>> constants_text({"preset": "paper", "radius": {"rule": "PaperRadius", "C1": 1.0}, "planned_episodes": 100000})
    'radius=PaperRadius(C1=1), planned_episodes=100000'
    """
    return ", ".join(f"{name}={value_text(value)}" for name, value in constants.items() if name != "preset")


def value_text(value: Any) -> str:
    """Return a constant as text."""
    if isinstance(value, Mapping):
        inside = ", ".join(f"{name}={value_text(part)}" for name, part in value.items() if name != "rule")
        return f"{value.get('rule', '')}({inside})"
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return f"{value:.4g}" if isinstance(value, float | np.floating) else str(value)
