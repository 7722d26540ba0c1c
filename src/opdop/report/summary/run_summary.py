"""The summary of a run: its policies beside the optimum, in the problem's own units."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from opdop.model import InvalidParameterError, Quantity
from opdop.model.validation import Floats
from opdop.planning import Optimum, Values
from opdop.report.summary.guarantee_card import card_record
from opdop.report.summary.solution import (
    ConstraintSummary,
    both,
    constraint_summaries,
    plain_value,
    short_number,
    words_of,
)
from opdop.runs import Run
from opdop.theory import Guarantee, guarantee

RUN_FORMAT = "opdop.run/2"

# Rounding in sums of many episodes: a constraint broken by less, in model units and for each stage, is kept.
SATISFIED_WITHIN = 1e-9


@dataclass(frozen=True)
class Measure:
    """A sum over all episodes; `scale` is own units in a model unit, None where no single quantity is meant."""

    name: str
    total: float  # in model units
    episodes: int
    scale: float | None
    unit: str = ""

    @property
    def per_episode(self) -> float:
        """The average over all episodes, in model units."""
        return self.total / self.episodes

    def shown(self, value: float) -> float:
        """Return a value in own units, or in model units where no single quantity is meant."""
        return value if self.scale is None else value * self.scale

    def record(self) -> dict[str, Any]:
        """Return this as plain data."""
        return {"per_episode": self._pair(self.per_episode), "total": self._pair(self.total)}

    def _pair(self, value: float) -> dict[str, float | None]:
        return {"model": value, "own": None if self.scale is None else value * self.scale}


@dataclass(frozen=True, eq=False)
class RunSummary:
    """A run on a known model, with everything that a table, a figure or a program asks of it."""

    run: Run

    def __post_init__(self) -> None:
        if self.run.optimum is None or self.run.last is None:
            raise InvalidParameterError("this run's model is not known, so there is no optimum to compare it with.")

    @property
    def optimum(self) -> Optimum:
        """The exact optimum of the problem."""
        assert self.run.optimum is not None
        return self.run.optimum

    @property
    def final_values(self) -> Values:
        """The true values of the final policy."""
        assert self.run.last is not None
        return self.run.last

    @property
    def reward(self) -> Quantity:
        """What the reward means."""
        return self.run.display.quantities[0]

    @cached_property
    def constraints(self) -> tuple[ConstraintSummary, ...]:
        """The constraints, in the model's order."""
        return constraint_summaries(self.run.display.quantities, self.run.thresholds, self.optimum)

    @cached_property
    def guarantee(self) -> Guarantee:
        """What the run's constants guarantee, and on which assumptions."""
        return guarantee(
            self.run.constants,
            shape=self.shape,
            thresholds=self.run.thresholds,
            episodes=self.episodes,
            failure_probability=self.run.config.failure_probability,
            noisy=self.run.config.noisy,
            optimum=self.optimum,
            own_learner=self.run.config.preset is None,
        )

    @property
    def episodes(self) -> int:
        """How many episodes were played."""
        return int(self.run.episodes[-1])

    @property
    def episodes_per_second(self) -> float:
        """How fast they were played."""
        return self.episodes / max(self.run.seconds, 1e-9)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Stages, states and actions of the problem: H, S, A."""
        H, S, A = self.run.policy.table.shape
        return H, S, A

    @property
    def ignores_constraints(self) -> bool:
        """Whether the algorithm looks for the best reward alone."""
        return self.run.config.algorithm.endswith("oppo")

    @property
    def method(self) -> str:
        """The algorithm, and the preset of its constants if it has one."""
        config = self.run.config
        return f"{config.algorithm}, preset {config.preset}" if config.preset else config.algorithm

    @property
    def exact(self) -> bool:
        """Whether every episode was measured."""
        return self.run.config.measure_every == 1

    def column(self, name: str) -> Floats:
        """Return a column of the history, [K']."""
        values: Floats = self.run.history[name].to_numpy()
        return values

    def at_end(self, name: str) -> float:
        """Return a column's value after the last episode."""
        return float(self.run.history[name][-1])

    # What was measured ------------------------------------------------------------------------------------------------

    @property
    def regret(self) -> Measure:
        """Reward lost against the optimum; negative if the policies had more of it than the optimum."""
        return Measure("regret", self.at_end("regret"), self.episodes, abs(self.reward.scale), self.reward.unit)

    @property
    def shortfalls(self) -> tuple[Measure, ...]:
        """The paper's violation of each constraint before it is cut at 0: later slack pays for earlier violation."""
        return tuple(
            Measure(
                constraint.quantity.name,
                self.at_end(f"shortfall_{i}"),
                self.episodes,
                abs(constraint.quantity.scale),
                constraint.quantity.unit,
            )
            for i, constraint in enumerate(self.constraints)
        )

    @property
    def violations(self) -> tuple[Measure, ...]:
        """The paper's violation of each constraint."""
        return tuple(
            Measure(each.name, max(each.total, 0.0), each.episodes, each.scale, each.unit) for each in self.shortfalls
        )

    @property
    def violation(self) -> Measure:
        """The paper's violation of the constraint that is broken most."""
        return self._joint("violation", self.at_end("violation"))

    @property
    def hard_violation(self) -> Measure:
        """Violation that is never paid back: in each episode, of the constraint that is broken most."""
        return self._joint("hard violation", self.at_end("hard_violation"))

    def _joint(self, name: str, total: float) -> Measure:
        """Return a measure over all constraints; in own units if they have one."""
        scales = {(abs(constraint.quantity.scale), constraint.quantity.unit) for constraint in self.constraints}
        scale, unit = next(iter(scales)) if len(scales) == 1 else (None, "")
        return Measure(name, total, self.episodes, scale, unit)

    @property
    def multipliers(self) -> tuple[float, ...]:
        """The multipliers after the last episode, in own units."""
        return tuple(self.at_end(f"dual_{i}") * constraint.price_scale for i, constraint in enumerate(self.constraints))

    @property
    def usual_multipliers(self) -> tuple[float, ...]:
        """The mean multipliers over the second half of all episodes, in own units: where a restless one has been."""
        return tuple(
            self._late_mean(f"dual_{i}") * constraint.price_scale for i, constraint in enumerate(self.constraints)
        )

    def _late_mean(self, name: str) -> float:
        """Return a column's mean over the second half; each record stands for the episodes since the one before."""
        episodes, values = (self.run.history[each].to_numpy() for each in ("episode", name))
        stands_for = np.diff(np.maximum(np.concatenate([[0.0], episodes]), episodes[-1] / 2.0))
        return float(stands_for @ values / stands_for.sum())

    # In words ---------------------------------------------------------------------------------------------------------

    @property
    def verdict(self) -> str:
        """One sentence on the average policy."""
        kept = [shortfall.total <= SATISFIED_WITHIN * self.shape[0] * self.episodes for shortfall in self.shortfalls]
        broken = [
            f"{_the_constraint(constraint, len(kept))} by {about(measure.shown(measure.per_episode))} {measure.unit}"
            for constraint, measure, fine in zip(self.constraints, self.violations, kept, strict=True)
            if not fine
        ]
        every = "the constraint" if len(kept) == 1 else "every constraint"
        promised = (
            f"breaks {' and '.join(each.rstrip() for each in broken)} per episode" if broken else f"keeps {every}"
        )
        better = self.regret.total < 0.0
        joined = ", because it" if better and broken else " and"
        return f"The average policy {self._distance()}{joined} {promised}."

    def _distance(self) -> str:
        """Return how far the average policy's reward is from the optimum's."""
        regret = self.regret
        lost, best = regret.shown(regret.per_episode), abs(self.reward.shown(self.optimum.value))
        if best <= abs(lost) * 1e-3:  # a share of nothing says nothing
            worse = "worse" if lost > 0.0 else "better"
            return f"is {about(abs(lost))} {regret.unit}".rstrip() + f" per episode {worse} than the optimum"
        share = percent(abs(lost) / best)
        if lost < 0.0:
            return f"is {share} better than the optimum"
        return f"is within {share} of the optimum" if lost < 0.1 * best else f"is {share} worse than the optimum"

    @property
    def notes(self) -> tuple[str, ...]:
        """What one must know to read the numbers rightly; often nothing."""
        many = len(self.constraints) > 1
        notes = []
        if self.ignores_constraints:
            notes.append(
                f"This algorithm ignores the constraint{'s' if many else ''} and maximises the reward alone. Compare "
                "it with the column 'unconstrained policy'."
            )
        for constraint in self.constraints:
            if not constraint.binds:
                subject = f"The constraint on {constraint.quantity.name}" if many else "The constraint"
                notes.append(f"{subject} does not bind: the optimum keeps it at no cost, and its multiplier Y* is 0.")
        if not self.exact:
            every = self.run.config.measure_every
            notes.append(
                f"One episode in {every:,} was measured and stands for the {every - 1:,} after it, so averages, regret "
                "and violations are estimates and not exact sums; the learning itself is the same."
            )
        if "discretisation" in self.run.origin:
            notes.append(
                "States are continuous: the learner saw them as they are. The optimum and all values are those of a "
                "discretisation."
            )
        if "doubling_phase" in self.run.constants:
            notes.append("The plan doubled as it was used up; the constants are those of the last plan.")
        return tuple(notes)

    # As data ----------------------------------------------------------------------------------------------------------

    def record(self) -> dict[str, Any]:
        """Return all of this as plain data for JSON; docs/command-line.md explains every key."""
        run, optimum = self.run, self.optimum
        H, S, A = self.shape
        config = run.config
        return {
            "format": RUN_FORMAT,
            "problem": run.display.name,
            "parameters": {key: plain_value(value) for key, value in run.display.parameters.items()},
            "states": S,
            "actions": A,
            "stages": H,
            "num_constraints": len(self.constraints),
            "algorithm": config.algorithm,
            "episodes": self.episodes,
            **{key: getattr(config, key) for key in ("seed", "preset", "noisy", "measure_every")},
            "exact": self.exact,
            "discretisation": run.origin.get("discretisation"),
            "constants": dict(run.constants),
            "reward": {
                **words_of(self.reward),
                "optimum": both(self.reward, optimum.value),
                "average": both(self.reward, run.average.reward),
                "final": both(self.reward, self.final_values.reward),
                "unconstrained": both(self.reward, optimum.unconstrained.reward),
                "estimated": both(self.reward, self.at_end("estimated_reward")),
            },
            "constraints": [self._constraint_record(i, constraint) for i, constraint in enumerate(self.constraints)],
            "regret": self.regret.record(),
            "violation": self.violation.record(),
            "hard_violation": self.hard_violation.record(),
            "binds": any(constraint.binds for constraint in self.constraints),
            "guarantee": card_record(self),
            "verdict": self.verdict,
            "notes": list(self.notes),
            "seconds": run.seconds,
            "episodes_per_second": self.episodes_per_second,
        }

    def _constraint_record(self, i: int, constraint: ConstraintSummary) -> dict[str, Any]:
        quantity, dual, usual = constraint.quantity, self.at_end(f"dual_{i}"), self._late_mean(f"dual_{i}")
        return {
            **words_of(quantity),
            "sentence": constraint.sentence,
            "threshold": both(quantity, constraint.threshold),
            "optimum": both(quantity, constraint.attained),
            "average": both(quantity, float(self.run.average.utilities[i])),
            "final": both(quantity, float(self.final_values.utilities[i])),
            "unconstrained": both(quantity, constraint.unconstrained),
            "estimated": both(quantity, self.at_end(f"estimated_utility_{i}")),
            "violation": self.violations[i].record(),
            "multiplier": {
                "optimum": {"model": constraint.multiplier, "own": constraint.own_multiplier},
                "final": {"model": dual, "own": dual * constraint.price_scale},
                "second_half": {"model": usual, "own": usual * constraint.price_scale},
            },
            "binds": constraint.binds,
        }


def percent(share: float) -> str:
    """Return a share as a percentage with two digits that count.

    >>> percent(0.00421), percent(0.0), percent(1.234), percent(0.00001)
    ('0.42%', '0%', '123%', 'less than 0.01%')
    """
    if 0.0 < share < 1e-4:
        return "less than 0.01%"
    return f"{100.0 * share:.0f}%" if share >= 0.1 else f"{100.0 * share:.2g}%"


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


def about(value: float) -> str:
    """Return a number with two digits that count, or whole if it is large."""
    return f"{value:.2g}" if value < 100.0 else short_number(value)


def _the_constraint(constraint: ConstraintSummary, count: int) -> str:
    return "the constraint" if count == 1 else f"the constraint on {constraint.quantity.name}"
