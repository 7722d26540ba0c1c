"""Confidence rules: how wide the confidence sets of an evaluator are; each states its union bound.

Stages are numbered from 0 here, so the value after stage h lies in [0, H-1-h].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from opdop.algorithms.task import Task
from opdop.confidence.radii import self_normalised_radii
from opdop.kernels.balls import log_pairs_of_sets
from opdop.kernels.lstd import Radii as LinearRadii
from opdop.model import InvalidParameterError, OpdopError
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
    value H - h. While states are unvisited, this number of visits grows by `trust_growth` whenever the mean number of
    visits of all pairs has doubled. An estimate from few visits is doubted, by `value_doubt` times the range of the
    values that may follow and by `signal_doubt`, the more the longer it was not tried: see `opdop.kernels.trust`. It
    has no guarantee.
    """

    scale: float
    linear_scale: float
    noise: float = 0.0
    optimistic_init: float = 0.0
    trusted_from: float = 1.0
    trust_growth: float = 0.0
    value_doubt: float = 0.0
    signal_doubt: float = 0.0
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


def rule_data(rule: Any) -> dict[str, Any]:
    """Return a confidence rule as plain data."""
    return {"rule": type(rule).__name__, **getattr(rule, "__dict__", {})}
