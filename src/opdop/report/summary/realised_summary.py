"""The summary of a run whose model is not known: realised totals with intervals, in the problem's own units.

Nothing here is a true value of a policy, so nothing is called exact, regret or hard violation. Averages over episodes
that were played have intervals over batches; what holds with a stated probability are the certificates, which are made
from the data alone, and the evaluation by fresh episodes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from opdop.model import InvalidParameterError
from opdop.model.rounding import digits_for, plain
from opdop.model.validation import Floats
from opdop.report.summary.run_facts import RunFacts
from opdop.report.summary.run_summary import RunSummary
from opdop.report.summary.solution import Limit, better, both, problem_facts
from opdop.runs import Run
from opdop.runs.realised import MovingAverages, batch_means, moving_averages

REALISED_FORMAT = "opdop.realised/1"
_STATUS = {True: "kept", False: "violated", None: "too near to tell"}


@dataclass(frozen=True, eq=False)
class RealisedSummary(RunFacts):
    """A run on a simulator whose model is not known, with everything that tables, figures and JSON show of it.

    Raises InvalidParameterError if the model of the run is known: then `RunSummary` has true values.
    """

    def __post_init__(self) -> None:
        if self.run.optimum is not None:
            raise InvalidParameterError("this run's model is known; expected a run of a simulator without one.")

    @cached_property
    def constraints(self) -> tuple[Limit, ...]:
        """The constraints, in the task's order."""
        reward, *others = self.run.display.quantities
        pairs = zip(others, self.run.thresholds, strict=True)
        return tuple(Limit(quantity, float(bound), abs(reward.scale)) for quantity, bound in pairs)

    @cached_property
    def late(self) -> tuple[Floats, Floats]:
        """The mean realised totals of the second half [1+I], and the half widths of 95 % intervals, in model units."""
        return batch_means(self.run)

    @cached_property
    def moving(self) -> MovingAverages:
        """The moving averages of the realised totals."""
        return moving_averages(self.run)

    def late_own(self, signal: int) -> tuple[float, float]:
        """Return the mean of a signal in the second half and the half width of its interval, in own units."""
        quantity, (means, halves) = self.run.display.quantities[signal], self.late
        return quantity.shown(float(means[signal])), abs(quantity.shown_difference(float(halves[signal])))

    def late_text(self, signal: int) -> str:
        """Return the mean of a signal in the second half with its interval, in own units without the unit."""
        mean, half = self.late_own(signal)
        if not math.isfinite(half):
            return plain(mean, digits_for(mean))
        digits = digits_for(half or mean)
        return f"{plain(mean, digits)} ± {plain(half, digits)}"

    def kept(self, i: int) -> bool | None:
        """Return whether constraint i was kept in the second half, as realised; None if its interval does not say."""
        (means, halves), threshold = self.late, self.constraints[i].threshold
        slack, half = float(means[1 + i]) - threshold, float(halves[1 + i])
        if not math.isfinite(half) or abs(slack) <= half:
            return None if not math.isfinite(half) or half > 0.0 else slack >= 0.0
        return slack > 0.0

    # In words ---------------------------------------------------------------------------------------------------------

    @property
    def verdict(self) -> str:
        """One sentence on the second half of the run."""
        parts = [f"{self.reward.name} {self._late(0)}"]
        for i, limit in enumerate(self.constraints):
            status = {
                True: "kept",
                False: "violated",
                None: "neither clearly kept nor clearly violated",
            }[self.kept(i)]
            parts.append(f"the constraint {limit.sentence} was {status} ({self._late(1 + i)})")
        return f"Realised in the second half, per episode: {'; '.join(parts)}."

    def _late(self, signal: int) -> str:
        return f"{self.late_text(signal)} {self.run.display.quantities[signal].unit}".rstrip()

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings that the numbers need."""
        notes = [
            "The model is not known: these are realised totals of the episodes that were played, not true values. "
            "Intervals (±) are 95 % t intervals over batches of episodes."
        ]
        if self.ignores_constraints:
            notes.append("This algorithm ignores the constraints and maximises the reward alone.")
        if self.run.constants.get("dual_bound_grows"):
            notes.append(
                f"The Slater gap is not known: the bound on the multipliers began at 2 and is now "
                f"{self.run.constants['dual_bound']:g} in model units."
            )
        return (*notes, *self.general_notes)

    # As data ----------------------------------------------------------------------------------------------------------

    def record(self, *, certificate: bool = True) -> dict[str, Any]:
        """Return the summary as plain data for JSON; docs/command-line.md explains every key.

        Without `certificate` it has no certificates, which take time to compute.
        """
        run, config = self.run, self.run.config
        return {
            "format": REALISED_FORMAT,
            **problem_facts(run.display, *self.shape),
            "model_known": False,
            "algorithm": config.algorithm,
            "episodes": self.episodes,
            **{key: getattr(config, key) for key in ("seed", "preset", "noisy", "until")},
            "constants": dict(run.constants),
            "reward": self._signal(0),
            "constraints": [
                {
                    **self._signal(1 + i),
                    "sentence": limit.sentence,
                    "threshold": both(limit.quantity, limit.threshold),
                    "second_half_status": _STATUS[self.kept(i)],
                    "multiplier": {
                        "final": limit.price(self.final_multiplier(i)),
                        "second_half": limit.price(self.late_multiplier(i)),
                    },
                }
                for i, limit in enumerate(self.constraints)
            ],
            **({"certificate": self.card.record()} if certificate else {}),
            "evaluation": self.evaluation_record,
            "verdict": self.verdict,
            "notes": list(self.notes),
            "seconds": run.seconds,
            "episodes_per_second": self.episodes_per_second,
        }

    def _signal(self, j: int) -> dict[str, Any]:
        quantity, (means, halves) = self.run.display.quantities[j], self.late
        half, estimated = float(halves[j]), float(self.estimates[j])
        pair = {"model": half, "own": abs(quantity.shown_difference(half))} if math.isfinite(half) else None
        return {
            "name": quantity.name,
            "unit": quantity.unit,
            "better": better(quantity),
            "realised": {
                "all_episodes": both(quantity, float(self.run.average.totals[j])),
                "second_half": {"mean": both(quantity, float(means[j])), "half_width": pair},
            },
            "estimated": both(quantity, estimated) if math.isfinite(estimated) else None,
        }


def summary_of(run: Run) -> RunSummary | RealisedSummary:
    """Return the summary of a run: a `RunSummary` if its model is known, otherwise a `RealisedSummary`."""
    return RealisedSummary(run) if run.optimum is None else RunSummary(run)
