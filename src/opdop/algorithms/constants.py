"""Every constant of the algorithms, from a named preset: `paper`, `certified`, `practical` or `scaled`.

Stages are numbered from 0 here, so the value after stage h lies in [0, H-1-h].
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from opdop.algorithms.preset_makers import Presets, check_positive
from opdop.algorithms.radius_rules import (
    BallRadius,
    PaperRadius,
    Radius,
    SpanRadius,
    WeissmanRadius,
)
from opdop.algorithms.task import Task
from opdop.model import InvalidParameterError
from opdop.model.validation import shown


@dataclass(frozen=True)
class Constants:
    """All constants of one run of Algorithm 1, and the name of the preset that they come from."""

    preset: str
    step_size: float  # alpha
    dual_step_size: float  # eta
    mixing: float  # theta
    dual_bound: float  # chi
    radius: Radius | BallRadius  # beta, stage by stage, or confidence sets
    ridge: float  # lambda
    parameters: Mapping[str, float] = field(default_factory=dict)  # the preset's named fields, as used
    dual_total: float = math.inf  # the largest sum of the multipliers
    damping: float = 0.0  # kappa
    early_updates: float = 1.0  # episode k is followed by this many / k updates, but at least by one
    relative: bool = False  # whether the steps and the damping are shares of the ranges of Q
    damping_ratio: float = 0.0  # to which relative steps raise that of policy and multipliers
    caution: float = 0.0  # standard errors of the estimated utilities by which relative steps raise thresholds

    @property
    def margin(self) -> float:
        """What the multipliers' steps add to every threshold."""
        return float(self.parameters.get("margin", 0.0))

    def unconstrained(self, task: Task) -> Constants:
        """Return the constants of optimistic PPO for a task: no multipliers (Y = 0) and no mixing (theta = 0)."""
        step = best_step_size(task, 0.0) if self.preset == "certified" else self.step_size
        own = {name: value for name, value in self.parameters.items() if name != "margin"}
        free = replace(self, dual_step_size=0.0, mixing=0.0, dual_bound=0.0, dual_total=math.inf, damping=0.0)
        free = replace(free, damping_ratio=0.0)
        return replace(free, step_size=step, parameters=own)

    def described(self, task: Task) -> dict[str, Any]:
        """Return the constants of a task, without the evaluator's own, as plain data to be stored with every result."""
        return {
            "preset": self.preset,
            "step_size": self.step_size,
            "dual_step_size": self.dual_step_size,
            "mixing": self.mixing,
            "dual_bound": self.dual_bound,
            **({} if self.dual_total == math.inf else {"dual_total": self.dual_total}),
            **task.plan(),
            **({"damping": self.damping, "relative": True} if self.relative else {}),
            **dict(self.parameters),
        }


def described(constants: Any, task: Task) -> dict[str, Any]:
    """Return a dataclass of constants, whose `parameters` are a preset's, as plain data to be stored with a result."""
    own = asdict(constants)
    parameters = own.pop("parameters")
    return {**own, **task.plan(), **parameters}


def _theorem(task: Task, dual_bound: float | None) -> dict[str, Any]:
    """Step sizes of the theorems, with alpha ~ 1/sqrt(K) and chi = 2H/gamma (see the misprints in the docs)."""
    H, K = task.horizon, task.episodes
    return {
        "step_size": math.sqrt(math.log(task.num_actions)) / (H**2 * math.sqrt(K)),
        "dual_step_size": 1.0 / math.sqrt(K),
        "mixing": 1.0 / K,
        "dual_bound": bound_multipliers(task, dual_bound),
        "ridge": 1.0,
    }


def best_step_size(task: Task, dual_bound: float) -> float:
    """Return the alpha that minimises H log A / alpha + (alpha/8) K (1 + chi)^2 H(H+1)(2H+1)/6, the policy's terms."""
    H, K = task.horizon, task.episodes
    return math.sqrt(48.0 * math.log(task.num_actions) / (K * (H + 1) * (2 * H + 1))) / (1.0 + dual_bound)


def best_dual_step_size(task: Task, dual_bound: float, margin: float) -> float:
    """Return the eta that minimises chi^2 / (2 eta) + (eta/2) K sum_i max(b_i, H - b_i)^2, the multipliers' terms."""
    thresholds = task.thresholds + margin
    reach = np.maximum(thresholds, task.horizon - thresholds)
    return dual_bound / math.sqrt(task.episodes * float((reach**2).sum()))


def bound_multipliers(task: Task, given: float | None, margin: float = 0.0) -> float:
    """Return the largest value of a multiplier: the one given, or 2H / (Slater gap - margin).

    Raises InvalidParameterError if neither that nor the task's Slater gap is known, or if the margin is not below it.
    """
    if given is not None:
        return float(given)
    if task.slater_gap is None:
        raise InvalidParameterError(
            "the multipliers need an upper bound, and the Slater gap is unknown: give a lower bound on the slack that "
            "some policy has in all constraints at once (slater_gap=...), or give dual_bound=... directly."
        )
    if not margin < task.slater_gap:
        raise InvalidParameterError(
            f"margin is {margin:g}; expected less than the Slater gap {task.slater_gap:g}: no policy has more slack."
        )
    return 2.0 * task.horizon / (task.slater_gap - margin)


def _paper(task: Task, dual_bound: float | None, C1: float = 1.0) -> Constants:
    """The theorem's constants, whose unknown factor C1 is a parameter; learns very slowly."""
    return Constants("paper", radius=PaperRadius(C1), parameters={"C1": C1}, **_theorem(task, dual_bound))


def _certified(task: Task, dual_bound: float | None, margin: float = 0.0) -> Constants:
    """The theorem's constants, all explicit and no smaller than the proof needs: has a guarantee."""
    chi = bound_multipliers(task, dual_bound, margin)
    return Constants(
        "certified",
        step_size=best_step_size(task, chi),
        dual_step_size=best_dual_step_size(task, chi, margin),
        mixing=0.0,
        dual_bound=chi,
        radius=BallRadius(),
        dual_total=chi,
        ridge=1.0,
        parameters={"margin": margin},
    )


def _scaled(
    task: Task,
    dual_bound: float | None,
    radius_scale: float = 0.0003,
    step_scale: float = 300.0,
    dual_step_scale: float = 1000.0,
    ridge_scale: float = 0.01,
    optimistic_init: float = 1.0,
) -> Constants:
    """The certified constants, scaled by the parameters: the first edition of practical."""
    given = dict(locals())
    parameters = {name: given[name] for name in presets()["scaled"]}
    numbers = _theorem(task, dual_bound)
    numbers["step_size"] *= step_scale
    numbers["dual_step_size"] *= dual_step_scale
    numbers["ridge"] *= ridge_scale
    return Constants("scaled", radius=WeissmanRadius(radius_scale, optimistic_init), parameters=parameters, **numbers)


def _practical(
    task: Task,
    dual_bound: float | None,
    step_scale: float = 1.0,
    dual_step_scale: float = 0.03,
    damping: float = 0.2,
    damping_ratio: float = 0.7,
    caution: float = 1.0,
    early_updates: float = 1.0,
    radius_scale: float = 0.001,
    linear_radius_scale: float = 0.001,
    ridge_scale: float = 0.0001,
    optimistic_init: float = 1.0,
    noise_scale: float = 0.1,
    noise_visits: float = 6.0,
    pooled_visits: float = 1.0,
    trust_growth: float = 0.2,
    doubt_scale: float = 0.1,
    noise_doubt: float = 0.3,
) -> Constants:
    """Steps relative to what is seen, free of units, H and K: learns soon, has no guarantee."""
    # `python -m studies.general` chose the defaults: docs/practical.md.
    given = dict(locals())
    noise, visits, doubt = (noise_scale, noise_visits, noise_doubt) if task.noisy else (0.0, 1.0, 0.0)
    if task.stationary and task.stationary_signals:  # visits are pooled, so there are many
        visits = max(visits, pooled_visits)
    return Constants(
        "practical",
        step_size=step_scale,
        dual_step_size=dual_step_scale,
        mixing=1.0,
        dual_bound=bound_multipliers(task, dual_bound),
        radius=SpanRadius(
            radius_scale,
            linear_radius_scale,
            noise,
            optimistic_init,
            trusted_from=visits,
            trust_growth=trust_growth,
            value_doubt=doubt_scale,
            signal_doubt=doubt,
            pools=True,
        ),
        ridge=ridge_scale,
        damping=damping,
        relative=True,
        early_updates=early_updates,
        damping_ratio=damping_ratio,
        caution=caution,
        parameters={name: given[name] for name in presets()["practical"]},
    )


CONTINUOUS_PARAMETERS = ("reevaluate_at_growth",)  # of every preset, where states are continuous
ZERO_VIOLATION = "zero_violation"  # with `certified`: `opdop.train` chooses the margin, by the bound on the violation
ALGORITHM_1 = Presets(
    "",
    {"paper": _paper, "certified": _certified, "practical": _practical, "scaled": _scaled},
    CONTINUOUS_PARAMETERS,
)


def presets() -> dict[str, tuple[str, ...]]:
    """Return the names of the presets of Algorithm 1 and of each one's parameters."""
    return {name: tuple(ALGORITHM_1.parameters(name)) for name in ALGORITHM_1.makes}


@dataclass(frozen=True)
class Preset:
    """Where the constants of a run come from: a preset's name, its parameters, and a bound on the multipliers.

    `parameters` are the preset's own named fields; for continuous states also `reevaluate_at_growth`. Without
    `dual_bound` the multipliers are bounded by 2H / Slater gap. `family` are the presets of the algorithm; without it
    those of Algorithm 1. Raises InvalidParameterError, with the nearest name, if there is no such preset or parameter.
    """

    name: str = "practical"
    parameters: Mapping[str, float] = field(default_factory=dict)
    dual_bound: float | None = None
    family: Presets = field(default=ALGORITHM_1, repr=False)

    def __post_init__(self) -> None:
        self.family.check(self.name, self.parameters)
        if self.dual_bound is not None:
            check_positive("dual_bound", self.dual_bound)

    @classmethod
    def of(cls, preset: str | Preset, dual_bound: float | None = None, **parameters: float) -> Preset:
        """Return a preset, given itself or its name with `dual_bound` and parameters.

        Raises InvalidParameterError if one of them is wrong, or if a Preset is given with them.
        """
        if isinstance(preset, Preset):
            if dual_bound is not None or parameters:
                raise InvalidParameterError("give dual_bound and parameters in the Preset, or with a preset's name.")
            return preset
        return cls(preset, parameters, dual_bound)

    def used(self) -> dict[str, float]:
        """Return the preset's parameters as they are used: those given, and the defaults of others."""
        return {name: self.parameters.get(name, default) for name, default in self.family.parameters(self.name).items()}

    def constants(self, task: Task) -> Any:
        """Return the constants for a task: `Constants`, or what the presets of another algorithm compute.

        Raises InvalidParameterError if a parameter does not belong to the task, or if neither `dual_bound` nor the
        task's Slater gap is known.
        """
        if not isinstance(task, Task):
            raise InvalidParameterError(f"task is {shown(task)}; expected a Task.")
        own = dict(self.parameters)
        for name in self.family.continuous:
            if own.pop(name, None) is not None and not task.is_continuous:
                raise InvalidParameterError(f"{name} is a parameter of problems with continuous states only.")
        return self.family.makes[self.name](task, self.dual_bound, **own)


def choose(
    task: Task, preset: str | Preset = "practical", *, dual_bound: float | None = None, **parameters: float
) -> Constants:
    """Return the constants of a preset for a task; see `Preset` for `dual_bound`, parameters and errors.

    >>> task = Task(4, 5, 3, np.array([1.0]), np.eye(5)[0], episodes=10_000, slater_gap=0.5)
    >>> constants = choose(task, "paper")
    >>> constants.dual_step_size, constants.mixing, constants.dual_bound
    (0.01, 0.0001, 16.0)
    """
    constants: Constants = Preset.of(preset, dual_bound, **parameters).constants(task)
    return constants
