"""Every constant of the algorithms, from a named preset: `paper`, `certified`, `practical` or `scaled`.

Stages are numbered from 0 here, so the value after stage h lies in [0, H-1-h].
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol

import numpy as np

from opdop.algorithms.task import Task
from opdop.confidence.radii import self_normalised_radii
from opdop.kernels.balls import log_pairs_of_sets
from opdop.kernels.lstd import Radii as LinearRadii
from opdop.model import InvalidParameterError, OpdopError, suggestion
from opdop.model.validation import Floats, as_number, printable, shown


class Radius(Protocol):
    """A confidence rule: it gives the radius beta of each stage, so that bonus = radius / sqrt(n + ridge)."""

    def radii(self, task: Task, ridge: float) -> Floats:
        """Return the radii [H] for a task and a ridge."""
        ...


@dataclass(frozen=True)
class FixedRadius:
    """The same number at every stage."""

    value: float

    def radii(self, task: Task, ridge: float) -> Floats:
        """Return the radii [H] of a task, whatever the ridge; raises InvalidParameterError if `value` is below 0."""
        value = as_number("radius", self.value, "a number, at least 0")
        if value < 0.0:
            raise InvalidParameterError(f"radius is {value}; expected a number, at least 0.")
        return np.full(task.horizon, value)


@dataclass(frozen=True)
class PaperRadius:
    """Theorem 2's radius C1 H sqrt(S log(S A T / p)), T = H K; the paper leaves the absolute constant C1 open."""

    C1: float = 1.0

    @property
    def linear(self) -> PaperLinearRadius:
        """The same for linear kernels."""
        return PaperLinearRadius(self.C1)

    def radii(self, task: Task, ridge: float) -> Floats:
        """Return the radii [H] for a task and a ridge."""
        H, S, A = task.horizon, task.num_states, task.num_actions
        T = H * task.episodes
        beta = self.C1 * H * math.sqrt(S * math.log(S * A * T / task.failure_probability))
        return np.full(H, beta)


@dataclass(frozen=True)
class WeissmanRadius:
    """A radius with explicit constants for which optimism holds with probability 1 - p/2.

    Fix a stage h, a pair (x, a) and a number n of visits. The n successors are independent draws from P(. | x, a), so
    by Weissman's inequality, with probability 1 - delta,

        || P_n - P ||_1 <= sqrt(2 L / n),   L = log((2^S - 2) / delta).

    Every V that the evaluator can produce lies in [0, R], R = H-1-h, and P_n - P sums to zero, so for ALL such V at
    once |(P_n - P) V| <= (R/2) sqrt(2 L / n). The estimate is P^ = n/(n+ridge) P_n, hence

        |(P^ - P) V| <= n/(n+ridge) (R/2) sqrt(2 L / n) + ridge/(n+ridge) R
                     <= (n+ridge)^(-1/2) (R sqrt(L/2) + R sqrt(ridge)).

    A deterministic signal in [0, 1] is off by at most ridge/(n+ridge) <= sqrt(ridge) (n+ridge)^(-1/2). A random one
    also by Hoeffding's sqrt(M / (2 n)), M = log(2 / delta'). Algorithm 3 adds 2 * radius / sqrt(n+ridge), so

        2 * radius = R (sqrt(L/2) + sqrt(ridge)) + sqrt(ridge) [+ sqrt(M/2) if signals are random].

    Union bound, exactly: over H stages, S A pairs and n = 1..K (n = 0 holds by itself). Deterministic signals:
    delta = (p/2) / (H S A K). Random signals: delta = (p/4) / (H S A K) and delta' = (p/4) / ((1+I) H S A K).
    For S = 1 there is nothing to learn about P, and L's term vanishes. `scale` multiplies the radius; only 1 is
    certified.

    With a small scale the bonus of an unvisited pair is small too, so that actions never tried look bad. The optimistic
    initial value prevents that: the estimate of an unvisited pair is at least `optimistic_init` times the largest value
    H - h; see `first_widths`.
    """

    scale: float = 1.0
    optimistic_init: float = 0.0
    pools: bool = False  # whether visits are pooled where the task is stationary: S A rows of H K visits, so L stays

    @property
    def linear(self) -> SelfNormalisedRadius:
        """The same for linear kernels."""
        return SelfNormalisedRadius(self.scale)

    def radii(self, task: Task, ridge: float) -> Floats:
        """Return the radii [H] for a task and a ridge."""
        H, S, A, K = task.horizon, task.num_states, task.num_actions, task.episodes
        cells = H * S * A * K
        share = task.failure_probability / (4.0 if task.noisy else 2.0)
        subsets = S * math.log(2.0) + math.log1p(-(2.0 ** (1 - S))) if S > 1 else -math.inf  # log(2^S - 2)
        L = max(subsets + math.log(cells / share), 0.0)
        span = np.arange(H - 1, -1, -1.0)
        doubled = span * (math.sqrt(L / 2.0) + math.sqrt(ridge)) + math.sqrt(ridge)
        if task.noisy:
            doubled += math.sqrt(math.log(2.0 * (1 + task.num_constraints) * cells / share) / 2.0)
        return self.scale * doubled / 2.0


@dataclass(frozen=True)
class SpanRadius:
    """The radius of `practical`: the bonus after n visits is (scale (H - h) + noise) / sqrt(n + ridge), whatever K is.

    Until a pair has been visited `trusted_from` times, its estimate is at least `optimistic_init` times the largest
    value H - h. It has no guarantee.
    """

    scale: float
    linear_scale: float
    noise: float = 0.0
    optimistic_init: float = 0.0
    trusted_from: float = 1.0
    pools: bool = False  # whether visits are pooled where the task is stationary

    @property
    def linear(self) -> SelfNormalisedRadius:
        """The rule for linear kernels."""
        return SelfNormalisedRadius(self.linear_scale)

    def radii(self, task: Task, ridge: float) -> Floats:
        """Return the radii [H] of a task; they do not depend on the ridge."""
        radii: Floats = (self.scale * np.arange(task.horizon, 0, -1.0) + self.noise) / 2.0
        return radii


@dataclass(frozen=True)
class BallRadius:
    """Confidence sets with explicit constants, for all numbers of visits at once, that hold with probability 1 - p/2.

    Each row of the kernel has an L1 ball, `opdop.kernels.balls.l1_width`, and each random signal an interval,
    `mean_width`. The estimate of an action is the largest value that any kernel in the ball gives it, without a ridge:
    a deterministic signal is known after one visit, and an unvisited pair is worth H - h.

    Union bound, exactly: over the rows of the kernel, S A of them if it is stationary and H S A if not. Deterministic
    signals: delta = (p/2) / rows. Random signals: delta = (p/4) / rows, and delta' = (p/4) / ((1+I) rows of the
    signals). `scale` multiplies the widths; only 1 is certified.
    """

    scale: float = 1.0
    pools: ClassVar[bool] = True  # the sets may be those of pooled visits

    @property
    def linear(self) -> SelfNormalisedRadius:
        """The same for linear kernels."""
        return SelfNormalisedRadius(self.scale)

    def log_sets(self, task: Task) -> tuple[float, float]:
        """Return `log_sets` of a task's balls of rows and intervals of signals, as `opdop.kernels.balls` takes them."""
        H, S, A = task.horizon, task.num_states, task.num_actions
        share = task.failure_probability / (4.0 if task.noisy else 2.0)
        rows, signal_rows = (S * A * (1 if pooled else H) for pooled in (task.stationary, task.stationary_signals))
        return log_pairs_of_sets(S) + math.log(rows / share), math.log((1 + task.num_constraints) * signal_rows / share)


def fixed_radius(value: Any) -> FixedRadius:
    """Return the rule of a number; raises InvalidParameterError if it is too large to be one."""
    return FixedRadius(as_number("radius", value, "a number, at least 0"))


def as_ridge(ridge: Any, least: float = 0.0) -> float:
    """Return a ridge; raises InvalidParameterError unless it is a positive number whose inverse is finite."""
    expected = f"a number, at least {least:g}" if least else "a positive number"
    value = as_number("ridge", ridge, expected)
    if not (value > 0.0 and value >= least and math.isfinite(1.0 / value)):
        raise InvalidParameterError(f"ridge is {value!r}; expected {expected}.")
    return value


def checked_numbers(rule: Any, method: str, *arguments: Any, horizon: int) -> Any:
    """Return what a method of a confidence rule computes: numbers of at least 0, or arrays [H] of them.

    Raises InvalidParameterError if there is no such method, it fails, or the result is something else.
    """
    if isinstance(rule, type) or not callable(getattr(rule, method, None)):
        raise InvalidParameterError(f"radius is {shown(rule)}; expected a number, at least 0, or a confidence rule.")
    try:
        with np.errstate(all="ignore"):
            found = getattr(rule, method)(*arguments)
        parts = found if isinstance(found, tuple) else (found,)
        bad = [part for part in parts if np.shape(part) not in {(), (horizon,)} or not 0.0 <= np.min(part) < math.inf]
        bad += [part for part in parts if not np.max(part) < math.inf]
    except OpdopError:
        raise
    except Exception as error:  # a rule may raise anything
        raise InvalidParameterError(f"the radius of {shown(rule)} failed: {printable(str(error))}.") from error
    if bad:
        raise InvalidParameterError(f"the radius of {shown(rule)} is {shown(bad[0])}; expected numbers, at least 0.")
    return found


def first_widths(rule: Radius, task: Task, ridge: float) -> Floats:
    """Return the width [H] of an unvisited pair: 1 / sqrt(ridge), or more if the rule's `optimistic_init` needs it.

    With scale 1 and ridge 1 the bonus alone is more than any optimistic_init: 2 * radius >= H - h.
    """
    width = np.full(task.horizon, math.sqrt(1.0 / ridge))  # as the kernel computes it, to the last bit
    optimistic_init = as_number("optimistic_init", getattr(rule, "optimistic_init", 0.0), "a number, at least 0")
    if not optimistic_init:
        return width
    with np.errstate(all="ignore"):
        wanted: Floats = np.maximum(
            width, optimistic_init * np.arange(task.horizon, 0, -1.0) / (2.0 * rule.radii(task, ridge))
        )
    if optimistic_init < 0.0 or not np.isfinite(wanted).all():
        raise InvalidParameterError(f"optimistic_init is {optimistic_init} with too small a radius; expected less.")
    return wanted


class FeatureSizes(Protocol):
    """What a confidence rule needs to know about features: dimensions, and bounds on the norms of the weights."""

    @property
    def kernel_dim(self) -> int:
        """d1."""
        ...

    @property
    def signal_dim(self) -> int:
        """d2."""
        ...

    @property
    def kernel_norm(self) -> float:
        """B, at least the norm of the kernel's weights."""
        ...

    @property
    def signal_norm(self) -> float:
        """B_2, at least the norm of a signal's weights."""
        ...

    @property
    def signal_length(self) -> float:
        """The largest norm of varphi; where states are continuous, over the states that are stored."""
        ...

    @property
    def blocks(self) -> int:
        """The number of independent regressions: S A for one-hot features, otherwise 1."""
        ...


class LinearRadius(Protocol):
    """A confidence rule of the least-squares evaluator."""

    def linear_radii(self, task: Task, features: FeatureSizes, ridge: float) -> LinearRadii:
        """Return the rule as the kernels use it: noise * sqrt(slack + information) + bias."""
        ...


@dataclass(frozen=True)
class PaperLinearRadius:
    """Theorem 1's radius C1 sqrt(d H^2 log(d T / p)) for both bonuses; the paper leaves C1 open."""

    C1: float = 1.0

    def linear_radii(self, task: Task, features: FeatureSizes, ridge: float) -> LinearRadii:
        """Return the rule for a task, its features and a ridge, as the kernels use it."""
        d, H = max(features.kernel_dim, features.signal_dim), task.horizon
        beta = self.C1 * math.sqrt(d * H**2 * math.log(d * H * task.episodes / task.failure_probability))
        return flat_linear_radii(task, beta)


@dataclass(frozen=True)
class SelfNormalisedRadius:
    """The radius of the self-normalised bound with the actual information, for which optimism holds with 1 - p/2.

    At stage h the noise V^tau(next) - P V^tau has range R = H-1-h, so it is R/2-sub-Gaussian. For one signal and stage,
    with probability 1 - delta and for all episodes at once (Abbasi-Yadkori, Pal and Szepesvari, 2011),

        || sum_tau phi^tau noise^tau ||_{Gram^-1} <= (R/2) sqrt(2 log(1/delta) + log det(Gram / ridge)),

    whatever V^tau depends on in the past. The ridge adds sqrt(ridge) ||theta_h||. So

        radius_h = (R/2) sqrt(2 log(1/delta) + log det(Gram / ridge)) + sqrt(ridge) B,   B >= ||theta_h||.

    A deterministic signal has no noise: its radius is sqrt(ridge) B_2 alone. A random one in [0, 1] has noise 1/2.
    Union bound, exactly: over 1 + I signals and H stages; delta = (p/2) / ((1+I) H), and for random signals (p/4) each
    for kernels and signals. One-hot features: every pair (x, a) has a regression of its own, with B = 1 and the
    information of its own block, so delta is divided by S A as well. `scale` multiplies the whole; only 1 is certified.
    """

    scale: float = 1.0

    def linear_radii(self, task: Task, features: FeatureSizes, ridge: float) -> LinearRadii:
        """Return the rule for a task, its features and a ridge, as the kernels use it."""
        return self_normalised_radii(
            horizon=task.horizon,
            signals=1 + task.num_constraints,
            blocks=features.blocks,
            share=task.failure_probability / (4.0 if task.noisy else 2.0),
            noisy=task.noisy,
            ridge=ridge,
            kernel_norm=features.kernel_norm,
            signal_norm=features.signal_norm,
            scale=self.scale,
        )


def linear_rule(rule: Any) -> LinearRadius:
    """Return a confidence rule for the least-squares evaluator: of a rule for counts, its form for linear kernels."""
    by_counts = PaperRadius | WeissmanRadius | BallRadius | SpanRadius
    linear: LinearRadius = rule.linear if isinstance(rule, by_counts) else rule
    return linear


def flat_linear_radii(task: Task, beta: float) -> LinearRadii:
    """Return the rule whose radius is beta at every stage and for both regressions."""
    return LinearRadii(np.zeros(task.horizon), 0.0, np.full(task.horizon, beta), 0.0, 0.0, beta)


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
    relative: bool = False  # whether the steps and the damping are shares of the ranges of Q

    @property
    def margin(self) -> float:
        """What the multipliers' steps add to every threshold."""
        return float(self.parameters.get("margin", 0.0))

    def unconstrained(self, task: Task) -> Constants:
        """Return the constants of optimistic PPO for a task: no multipliers (Y = 0) and no mixing (theta = 0)."""
        step = best_step_size(task, 0.0) if self.preset == "certified" else self.step_size
        own = {name: value for name, value in self.parameters.items() if name != "margin"}
        free = replace(self, dual_step_size=0.0, mixing=0.0, dual_bound=0.0, dual_total=math.inf, damping=0.0)
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
            "failure_probability": task.failure_probability,
            "planned_episodes": task.episodes,
            "slater_gap": task.slater_gap,
            **({"damping": self.damping, "relative": True} if self.relative else {}),
            **dict(self.parameters),
        }


def rule_data(rule: Any) -> dict[str, Any]:
    """Return a confidence rule as plain data."""
    return {"rule": type(rule).__name__, **getattr(rule, "__dict__", {})}


def _theorem(task: Task, dual_bound: float | None) -> dict[str, Any]:
    """Step sizes of the theorems, with alpha ~ 1/sqrt(K) and chi = 2H/gamma (see the misprints in the docs)."""
    H, K = task.horizon, task.episodes
    return {
        "step_size": math.sqrt(math.log(task.num_actions)) / (H**2 * math.sqrt(K)),
        "dual_step_size": 1.0 / math.sqrt(K),
        "mixing": 1.0 / K,
        "dual_bound": _dual_bound(task, dual_bound),
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


def _dual_bound(task: Task, given: float | None, margin: float = 0.0) -> float:
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
    return Constants("paper", radius=PaperRadius(C1), parameters={"C1": C1}, **_theorem(task, dual_bound))


def _certified(task: Task, dual_bound: float | None, margin: float = 0.0) -> Constants:
    chi = _dual_bound(task, dual_bound, margin)
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
    # The first edition of `practical`, chosen on the shipped problems.
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
    radius_scale: float = 0.001,
    linear_radius_scale: float = 0.001,
    ridge_scale: float = 0.0001,
    optimistic_init: float = 1.0,
    noise_scale: float = 0.1,
    noise_visits: float = 6.0,
    pooled_visits: float = 1.0,
) -> Constants:
    # `python -m studies.general` chose the defaults: docs/practical.md. None depends on the number of episodes.
    given = dict(locals())
    noise, visits = (noise_scale, noise_visits) if task.noisy else (0.0, 1.0)
    if task.stationary and task.stationary_signals:  # visits are pooled, so there are many
        visits = max(visits, pooled_visits)
    return Constants(
        "practical",
        step_size=step_scale,
        dual_step_size=dual_step_scale,
        mixing=1.0,
        dual_bound=_dual_bound(task, dual_bound),
        radius=SpanRadius(radius_scale, linear_radius_scale, noise, optimistic_init, visits, pools=True),
        ridge=ridge_scale,
        damping=damping,
        relative=True,
        parameters={name: given[name] for name in presets()["practical"]},
    )


def _positive(name: str, value: Any) -> None:
    if as_number(name, value, "a positive number") <= 0.0:
        raise InvalidParameterError(f"{name} is {shown(value)}; expected a positive number.")


_PRESETS: dict[str, Callable[..., Constants]] = {
    "paper": _paper,
    "certified": _certified,
    "practical": _practical,
    "scaled": _scaled,
}
CONTINUOUS_PARAMETERS = ("reevaluate_at_growth",)  # of every preset, where states are continuous
ZERO_VIOLATION = "zero_violation"  # with `certified`: `opdop.train` chooses the margin, by the bound on the violation


def presets() -> dict[str, tuple[str, ...]]:
    """Return the names of the presets and of each one's parameters."""
    return {name: tuple(inspect.signature(build).parameters)[2:] for name, build in _PRESETS.items()}


@dataclass(frozen=True)
class Preset:
    """Where the constants of a run come from: a preset's name, its parameters, and a bound on the multipliers.

    `parameters` are the preset's own named fields; for continuous states also `reevaluate_at_growth`. Without
    `dual_bound` the multipliers are bounded by 2H / Slater gap. Raises InvalidParameterError, with the nearest name,
    if there is no such preset or parameter.
    """

    name: str = "practical"
    parameters: Mapping[str, float] = field(default_factory=dict)
    dual_bound: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or self.name not in _PRESETS:
            near = suggestion(self.name, _PRESETS)
            raise InvalidParameterError(
                f"there is no preset {shown(self.name)}; there are {', '.join(_PRESETS)}.{near}"
            )
        known = presets()[self.name]
        if not isinstance(self.parameters, Mapping):
            raise InvalidParameterError(f"parameters are {shown(self.parameters)}; expected names with numbers.")
        for name, value in self.parameters.items():
            if name not in (*known, *CONTINUOUS_PARAMETERS):
                has = f"it has {', '.join(known)}" if known else "it has no parameters, so that its guarantee holds"
                raise InvalidParameterError(
                    f"preset {self.name!r} has no parameter {shown(name)}; {has}.{suggestion(name, known)}"
                )
            if name != "margin" or value != 0.0:
                _positive(name, value)
        if self.dual_bound is not None:
            _positive("dual_bound", self.dual_bound)

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

    def constants(self, task: Task) -> Constants:
        """Return the constants for a task.

        Raises InvalidParameterError if a parameter does not belong to the task, or if neither `dual_bound` nor the
        task's Slater gap is known.
        """
        if not isinstance(task, Task):
            raise InvalidParameterError(f"task is {shown(task)}; expected a Task.")
        own = dict(self.parameters)
        for name in CONTINUOUS_PARAMETERS:
            if own.pop(name, None) is not None and not task.is_continuous:
                raise InvalidParameterError(f"{name} is a parameter of problems with continuous states only.")
        return _PRESETS[self.name](task, self.dual_bound, **own)


def choose(
    task: Task, preset: str | Preset = "practical", *, dual_bound: float | None = None, **parameters: float
) -> Constants:
    """Return the constants of a preset for a task; see `Preset` for `dual_bound`, parameters and errors.

    >>> task = Task(4, 5, 3, np.array([1.0]), np.eye(5)[0], episodes=10_000, slater_gap=0.5)
    >>> constants = choose(task, "paper")
    >>> constants.dual_step_size, constants.mixing, constants.dual_bound
    (0.01, 0.0001, 16.0)
    """
    return Preset.of(preset, dual_bound, **parameters).constants(task)
