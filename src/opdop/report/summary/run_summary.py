"""The summary of a run: its policies beside the optimum, in the problem's own units."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from opdop.model import InvalidParameterError, Quantity
from opdop.model.display import joint_unit
from opdop.model.rounding import short_number
from opdop.model.validation import Floats
from opdop.planning import Optimum, Values
from opdop.report.summary.guarantee_card import card_record
from opdop.report.summary.run_facts import RunFacts
from opdop.report.summary.solution import ConstraintSummary, constraint_summaries, problem_facts, signal_records
from opdop.theory.guarantees import Guarantee, guarantee

RUN_FORMAT = "opdop.run/2"

# Rounding in sums over many episodes: a constraint violated by less, in model units per stage, counts as satisfied.
SATISFIED_WITHIN = 1e-9


@dataclass(frozen=True)
class Measure:
    """A sum over all episodes; `scale` is how many own units a model unit is."""

    name: str
    total: float  # in model units
    episodes: int
    scale: float
    unit: str = ""

    @property
    def per_episode(self) -> float:
        """The average over all episodes, in model units."""
        return self.total / self.episodes

    def shown(self, value: float) -> float:
        """Return a value in own units."""
        return value * self.scale

    def record(self) -> dict[str, Any]:
        """Return the average and the total as plain data, in model units and in own units, and the own unit."""
        return {"per_episode": self.pair(self.per_episode), "total": self.pair(self.total), "unit": self.unit}

    def pair(self, value: float) -> dict[str, float]:
        """Return a value in model units and in own units."""
        return {"model": value, "own": self.shown(value)}


@dataclass(frozen=True, eq=False)
class RunSummary(RunFacts):
    """A run on a known model, with everything that tables, figures and JSON show of it.

    Raises InvalidParameterError if the model of the run is not known.
    """

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

    @cached_property
    def constraints(self) -> tuple[ConstraintSummary, ...]:
        """The constraints, in the model's order."""
        return constraint_summaries(self.run.display.quantities, self.run.thresholds, self.optimum)

    @cached_property
    def guarantee(self) -> Guarantee:
        """The guarantee of the run's constants, and its assumptions."""
        return guarantee(
            self.run.constants,
            shape=self.shape,
            thresholds=self.run.thresholds,
            episodes=self.episodes,
            failure_probability=self.run.config.failure_probability,
            noisy=self.run.config.noisy,
            optimum=self.optimum,
            own_learner=self.run.config.preset is None,
            checked=self.run.config.stationary is None,
        )

    @property
    def exact(self) -> bool:
        """Whether every episode was measured."""
        return self.run.config.measure_every == 1

    @property
    def policies(self) -> dict[str, Floats]:
        """The expected totals [1+I] of the optimal, average, final and unconstrained policy, in model units."""
        best = np.concatenate([[self.optimum.value], self.optimum.utility_values])
        average, final, free = self.run.average, self.final_values, self.optimum.unconstrained
        return {"optimum": best, "average": average.totals, "final": final.totals, "unconstrained": free.totals}

    # What was measured ------------------------------------------------------------------------------------------------

    @property
    def regret(self) -> Measure:
        """Reward lost against the optimum; negative if the policies had more of it than the optimum."""
        return self._measure("regret", self.at_end("regret"), self.reward)

    @property
    def shortfalls(self) -> tuple[Measure, ...]:
        """The sum of threshold minus utility for each constraint: its violation before it is cut at 0."""
        return tuple(
            self._measure(each.quantity.name, self.at_end(f"shortfall_{i}"), each.quantity)
            for i, each in enumerate(self.constraints)
        )

    @property
    def violations(self) -> tuple[Measure, ...]:
        """The violation of each constraint; slack cancels."""
        return tuple(replace(each, total=max(each.total, 0.0)) for each in self.shortfalls)

    @property
    def hard_violations(self) -> tuple[Measure, ...]:
        """The hard violation of each constraint; empty if an earlier version made the run and there are several."""
        names = [f"hard_violation_{i}" for i in range(len(self.constraints))]
        names = names if len(names) > 1 else ["hard_violation"]
        if any(name not in self.run.columns for name in names):
            return ()
        return tuple(
            self._measure(each.quantity.name, self.at_end(name), each.quantity)
            for name, each in zip(names, self.constraints, strict=True)
        )

    @property
    def violation(self) -> Measure:
        """The violation of the most violated constraint; slack cancels."""
        return self._joint("violation", self.at_end("violation"))

    @property
    def hard_violation(self) -> Measure:
        """The sum over episodes of the violation of the most violated constraint; slack never cancels."""
        return self._joint("hard violation", self.at_end("hard_violation"))

    def _measure(self, name: str, total: float, quantity: Quantity) -> Measure:
        return Measure(name, total, self.episodes, abs(quantity.scale), quantity.unit)

    def _joint(self, name: str, total: float) -> Measure:
        """Return a measure over all constraints: in their unit if they share one, otherwise as a share of a range."""
        scale, unit = joint_unit([each.quantity for each in self.constraints], self.shape[0])
        return Measure(name, total, self.episodes, scale, unit)

    # In words ---------------------------------------------------------------------------------------------------------

    @property
    def verdict(self) -> str:
        """One sentence on the average policy."""
        tolerance = SATISFIED_WITHIN * self.shape[0] * self.episodes
        several = len(self.constraints) > 1
        violated = [
            f"the constraint{f' on {each.name}' * several} by {about(each.shown(each.per_episode))} {each.unit}".strip()
            for each in self.shortfalls
            if each.total > tolerance
        ]
        result = f"satisfies {'every' if several else 'the'} constraint"
        if violated:
            result = f"violates {' and '.join(violated)} per episode"
        joined = ", because it" if violated and self.regret.total < 0.0 else " and"
        return f"The average policy {self._distance()}{joined} {result}."

    def _distance(self) -> str:
        """Return how far the average policy's reward is from the optimum."""
        regret = self.regret
        lost, best = regret.shown(regret.per_episode), abs(self.reward.shown(self.optimum.value))
        if best <= abs(lost) * 1e-3:  # a share of nearly 0 says nothing
            worse = "worse" if lost > 0.0 else "better"
            return f"is {about(abs(lost))} {regret.unit}".rstrip() + f" per episode {worse} than the optimum"
        share = percent(abs(lost) / best)
        if lost < 0.0:
            return f"is {share} better than the optimum"
        return f"is within {share} of the optimum" if lost < 0.1 * best else f"is {share} worse than the optimum"

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings that the numbers need; often none."""
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
                notes.append(f"{subject} does not bind: it costs no reward, and its multiplier Y* is 0.")
        if not self.exact:
            every = self.run.config.measure_every
            notes.append(
                f"One episode in {every:,} was measured, and its values are used for the {every - 1:,} after it. "
                "Averages, regret and violations are estimates and not exact sums. Learning is not affected."
            )
        if "discretisation" in self.run.origin:
            notes.append(
                "The states are continuous, and the learner sees them so. The optimum and all values are those of a "
                "discretisation."
            )
        return (*notes, *self.general_notes)

    # As data ----------------------------------------------------------------------------------------------------------

    def record(self, *, certificate: bool = True) -> dict[str, Any]:
        """Return the summary as plain data for JSON; docs/command-line.md explains every key.

        Without `certificate` it has no certificates, which take time to compute.
        """
        run, config = self.run, self.run.config
        reward, *signals = signal_records(run.display.quantities, {**self.policies, "estimated": self.estimates})
        return {
            "format": RUN_FORMAT,
            **problem_facts(run.display, *self.shape),
            "algorithm": config.algorithm,
            "episodes": self.episodes,
            **{key: getattr(config, key) for key in ("seed", "preset", "noisy", "measure_every")},
            "exact": self.exact,
            "until": config.until,
            "discretisation": run.origin.get("discretisation"),
            "constants": dict(run.constants),
            "reward": reward,
            "constraints": [
                {
                    **signal,
                    **constraint.record(),
                    "violation": self.violations[i].record(),
                    "hard_violation": self.hard_violations[i].record() if self.hard_violations else None,
                    "multiplier": {
                        "optimum": constraint.price(constraint.multiplier),
                        "final": constraint.price(self.final_multiplier(i)),
                        "second_half": constraint.price(self.late_multiplier(i)),
                    },
                }
                for i, (signal, constraint) in enumerate(zip(signals, self.constraints, strict=True))
            ],
            "regret": self.regret.record(),
            "violation": self.violation.record(),
            "hard_violation": self.hard_violation.record(),
            "binds": any(constraint.binds for constraint in self.constraints),
            "guarantee": card_record(self),
            **({"certificate": self.card.record()} if certificate else {}),
            "evaluation": self.evaluation_record,
            "verdict": self.verdict,
            "notes": list(self.notes),
            "seconds": run.seconds,
            "episodes_per_second": self.episodes_per_second,
        }


def percent(share: float) -> str:
    """Return a share as a percentage with two significant digits.

    >>> percent(0.00421), percent(0.0), percent(1.234), percent(0.00001)
    ('0.42%', '0%', '123%', 'less than 0.01%')
    """
    if 0.0 < share < 1e-4:
        return "less than 0.01%"
    return f"{100.0 * share:.0f}%" if share >= 0.1 else f"{100.0 * share:.2g}%"


def about(value: float) -> str:
    """Return a number with two significant digits, or four if it is large."""
    return f"{value:.2g}" if value < 100.0 else short_number(value)
