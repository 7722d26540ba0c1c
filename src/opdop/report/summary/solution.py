"""The exact solution of a problem in its own units: the optimum, each constraint, and the unconstrained policy.

Model units are those of the signals, which lie in [0, 1] in each stage; own units are those of `Quantity`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from opdop.model import Display, Problem, Quantity, TabularCMDP
from opdop.model.validation import Floats
from opdop.planning import Optimum, Refinement, refine, solve

SOLVE_FORMAT = "opdop.solve/2"


@dataclass(frozen=True)
class Limit:
    """One constraint: a quantity and its threshold, in model units."""

    quantity: Quantity
    threshold: float
    reward_scale: float  # own units of reward in one model unit

    @property
    def sentence(self) -> str:
        """The constraint in the problem's own units."""
        return self.quantity.constraint(self.threshold)

    @property
    def wanted(self) -> str:
        """The bound on the quantity in own units, such as "<= 5"."""
        return f"{'<=' if better(self.quantity) == 'less' else '>='} {self.quantity.shown(self.threshold):g}"

    @property
    def price_scale(self) -> float:
        """What one model unit of the multiplier is in own units: reward per unit of the constraint."""
        return self.reward_scale / abs(self.quantity.scale)

    def price(self, multiplier: float) -> dict[str, float]:
        """Return a multiplier in model units and in own units."""
        return {"model": multiplier, "own": multiplier * self.price_scale}


@dataclass(frozen=True)
class ConstraintSummary(Limit):
    """One constraint and its totals under three policies, in model units."""

    attained: float  # by the optimal policy
    unconstrained: float  # by the policy that maximises the reward alone
    max_slack: float  # by the policy that attains the Slater gap
    multiplier: float
    slater_gap: float
    binds: bool

    @property
    def own_multiplier(self) -> float:
        """The optimal multiplier in own units: the loss of reward per unit by which the constraint is tightened.

        >>> fast = Quantity("fast services", "services", scale=-2.0, offset=20.0)
        >>> ConstraintSummary(fast, 5.0, 3.0, 5.0, 1.0, 10.0, multiplier=0.5, slater_gap=5.0, binds=True).own_multiplier
        0.75
        """
        return self.multiplier * self.price_scale

    def record(self) -> dict[str, Any]:
        """Return what every summary says of the constraint, as plain data."""
        return {"sentence": self.sentence, "threshold": both(self.quantity, self.threshold), "binds": self.binds}

    @property
    def own_slater_gap(self) -> float:
        """The Slater gap in units of this constraint."""
        return self.slater_gap * abs(self.quantity.scale)

    @property
    def slack(self) -> float:
        """The slack of the optimal policy, in own units."""
        return (self.attained - self.threshold) * abs(self.quantity.scale)


@dataclass(frozen=True, eq=False)
class Solution:
    """A problem, its exact optimum, the seconds that solving took, and the error if it is a discretisation."""

    problem: Problem
    optimum: Optimum
    seconds: float
    refinement: Refinement | None = None

    @property
    def cmdp(self) -> TabularCMDP:
        """The finite model in which values are measured."""
        return self.problem.tabular()

    @property
    def reward(self) -> Quantity:
        """The name and the unit of the reward."""
        return self.cmdp.display.quantities[0]

    @property
    def constraints(self) -> tuple[ConstraintSummary, ...]:
        """The constraints, in the model's order."""
        return constraint_summaries(self.cmdp.display.quantities, self.cmdp.thresholds, self.optimum)

    @property
    def binds(self) -> bool:
        """Whether some constraint binds."""
        return bool(self.optimum.active.any())

    @property
    def own_price(self) -> float:
        """The reward that all constraints cost together, in own units."""
        return self.optimum.price * abs(self.reward.scale)

    @property
    def policies(self) -> dict[str, Floats]:
        """The expected totals [1+I] of the optimal, the unconstrained and the max-slack policy, in model units."""
        optimum = self.optimum
        best = np.concatenate([[optimum.value], optimum.utility_values])
        return {"optimum": best, "unconstrained": optimum.unconstrained.totals, "max_slack": optimum.slater.totals}

    def record(self) -> dict[str, Any]:
        """Return the solution as plain data for JSON; docs/command-line.md explains every key."""
        cmdp, optimum, signals = self.cmdp, self.optimum, signal_records(self.cmdp.display.quantities, self.policies)
        return {
            "format": SOLVE_FORMAT,
            **problem_facts(cmdp.display, cmdp.horizon, cmdp.num_states, cmdp.num_actions),
            "reward": {**signals[0], "price": {"model": optimum.price, "own": self.own_price}},
            "constraints": [
                {
                    **signal,
                    **constraint.record(),
                    "multiplier": constraint.price(constraint.multiplier),
                    "slater_gap": {"model": constraint.slater_gap, "own": constraint.own_slater_gap},
                }
                for signal, constraint in zip(signals[1:], self.constraints, strict=True)
            ],
            "slater_gap": optimum.slater_gap,
            "binds": self.binds,
            "method": optimum.method,
            "passes": optimum.passes,
            "seconds": self.seconds,
            "discretisation": None if self.refinement is None else self.refinement.record(),
        }


def solution_of(problem: Problem) -> Solution:
    """Solve a problem exactly, and time it; loading the compiled kernels is not part of the time."""
    _load_kernels(sparse_form=problem.tabular().is_sparse)
    started = time.perf_counter()
    optimum = solve(problem)
    seconds = time.perf_counter() - started
    return Solution(problem, optimum, seconds, refine(problem))


def discretisation_text(record: Mapping[str, Any], reward: Quantity) -> str:
    """Return the estimated error of a discretised problem's optimum in words, from `Refinement.record`."""
    cells = record["cells"]
    if record["error"] is None:
        return f"{cells[-1]:,} cells along an axis; its error is not known, as coarser discretisations are infeasible"
    error, unit = abs(reward.scale) * record["error"], reward.unit
    order = "" if record["order"] is None else f", observed order {record['order']:.1f}"
    listed = ", ".join(f"{count:,}" for count in cells)
    return f"V* is off by about {error:.1g} {unit}".rstrip() + f" (from {listed} cells along an axis{order})"


def constraint_summaries(
    quantities: Sequence[Quantity], thresholds: Floats, optimum: Optimum
) -> tuple[ConstraintSummary, ...]:
    """Return the constraints at an optimum; `quantities` are those of all signals, the reward first."""
    reward, *constrained = quantities
    return tuple(
        ConstraintSummary(
            quantity=quantity,
            threshold=float(thresholds[i]),
            attained=float(optimum.utility_values[i]),
            unconstrained=float(optimum.unconstrained.utilities[i]),
            max_slack=float(optimum.slater.utilities[i]),
            multiplier=float(optimum.dual[i]),
            slater_gap=optimum.slater_gap,
            binds=bool(optimum.active[i]),
            reward_scale=abs(reward.scale),
        )
        for i, quantity in enumerate(constrained)
    )


def plain_value(value: object) -> object:
    """Return a parameter's value as JSON has it: a list for a tuple."""
    return list(value) if isinstance(value, tuple) else value


def better(quantity: Quantity) -> str:
    """Return whether "more" or "less" of a quantity is better; its signal is always better when larger."""
    return "less" if quantity.scale < 0 else "more"


def duration(seconds: float) -> str:
    """Return a time in milliseconds or seconds.

    >>> duration(0.00042), duration(3.14)
    ('0.42 ms', '3.14 s')
    """
    return f"{seconds * 1e3:.2f} ms" if seconds < 0.1 else f"{seconds:.2f} s"


def sizes_text(*counts: float) -> str:
    """Return S, A, H and I in words; infinitely many states are called continuous."""
    named = zip(counts, ("state", "action", "stage", "constraint"), strict=True)
    return ", ".join(
        f"{'continuous' if count == math.inf else f'{count:,}'} {word}{'' if count == 1 else 's'}"
        for count, word in named
    )


def setting_text(value: object) -> str:
    """Return a parameter's value as --set takes it.

    >>> setting_text((0.3, 0.7)), setting_text(None), setting_text(66.5), setting_text(True)
    ('0.3,0.7', 'none', '66.5', 'true')
    """
    if isinstance(value, tuple | list):
        return ",".join(setting_text(entry) for entry in value)
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def problem_facts(display: Display, stages: int, states: int, actions: int) -> dict[str, Any]:
    """Return the name, the parameters and the sizes of a problem as plain data."""
    return {
        "problem": display.name,
        "parameters": {key: plain_value(value) for key, value in display.parameters.items()},
        "states": states,
        "actions": actions,
        "stages": stages,
        "num_constraints": len(display.quantities) - 1,
    }


def signal_records(quantities: Sequence[Quantity], policies: Mapping[str, Floats]) -> list[dict[str, Any]]:
    """Return for the reward and each constraint its name, its unit and its totals under each policy, as plain data."""
    return [
        {
            "name": quantity.name,
            "unit": quantity.unit,
            "better": better(quantity),
            **{name: both(quantity, totals[j]) for name, totals in policies.items()},
        }
        for j, quantity in enumerate(quantities)
    ]


def both(quantity: Quantity, value: float) -> dict[str, float]:
    """Return an episode total in model units and in own units."""
    return {"model": float(value), "own": float(quantity.shown(value))}


def _load_kernels(*, sparse_form: bool) -> None:
    """Solve a tiny problem with the same form of transitions: the first use of a kernel loads or compiles it."""
    transitions: Any = sparse.csr_array(np.ones((2, 1))) if sparse_form else np.ones((1, 2, 1))
    solve(TabularCMDP(transitions, [[0.0, 1.0]], [[1.0, 0.0]], thresholds=0.5, horizon=1))
