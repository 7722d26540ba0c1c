"""Every statement of the paper as a small check: it is shown each episode of a run, and then says whether it held."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from opdop.model.checks import Floats
from opdop.planning import LP_TOLERANCE, solve_lp
from opdop.planning.optimum import Oracle
from opdop.theory import bounds, lemmas
from opdop.theory.bounds import OPTIMISM_SHARE, Setting
from opdop.theory.identities import action_values, performance_difference, signal_totals
from opdop.theory.witness import Case, Moment

# What rounding may do to a number of size one: in a few sums, and in a regression of some hundred episodes.
ROUNDING, REGRESSION_ROUNDING = 1e-11, 1e-9
# Up to so many variables the linear program is solved as a second opinion.
_LP_UP_TO = 5000


@dataclass(frozen=True)
class Statement:
    """What is claimed, where, and how often it may fail."""

    name: str
    where: str  # in the paper
    says: str
    failure: float | None = None  # share of p with which it may fail; None: never
    identity: bool = False  # then only rounding is measured

    def promised(self, confidence: float, certified: bool) -> float | None:
        """Return the promised probability; None if nothing is."""
        if self.failure is None:
            return 1.0
        return 1.0 - self.failure * confidence if certified else None


@dataclass(frozen=True)
class Finding:
    """What came of a statement in one run: `measured` should not exceed `bound` by more than rounding."""

    held: bool
    measured: float
    bound: float
    used: float | None = None  # where something else than measured / bound says how tight it is

    @property
    def tightness(self) -> float | None:
        """Return measured / bound, if that means anything."""
        if self.used is not None:
            return self.used
        return self.measured / self.bound if self.bound > 0.0 and math.isfinite(self.bound) else None


class Check(Protocol):
    """Watches one run for one statement."""

    statement: ClassVar[Statement]

    def see(self, moment: Moment) -> None:
        """Look at one episode."""
        ...

    def finding(self) -> Finding:
        """Say what came of it."""
        ...


class _Worst:
    """Base of checks that hold at every episode: the episode with the largest excess decides."""

    statement: ClassVar[Statement]

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.excess, self.tightness = -math.inf, -math.inf
        self.measured = self.bound = 0.0

    def note(self, measured: float, bound: float, rounding: float, used: float | None = None) -> None:
        """Compare one pair of numbers."""
        excess = measured - bound - rounding
        if not excess <= self.excess:  # NaN is an excess too
            self.excess, self.measured, self.bound = excess, measured, bound
        if used is None and bound > 0.0:
            used = measured / bound
        if used is not None and used > self.tightness:
            self.tightness = used

    def finding(self) -> Finding:
        """Say how it was where it was worst."""
        used = self.tightness if math.isfinite(self.tightness) else None
        return Finding(self.excess <= 0.0, self.measured, self.bound, used)


# Identities -----------------------------------------------------------------------------------------------------------


class Bellman(_Worst):
    """Values of pi^k by backward induction, and from its occupancy."""

    statement = Statement(
        "Bellman equations",
        "eq. (bellman)",
        "V = <Q, pi> and Q = signal + P V; the totals are those of the occupancy",
        identity=True,
    )

    def see(self, moment: Moment) -> None:
        cmdp, v = moment.case.cmdp, moment.true_v
        q = action_values(cmdp, v)
        inside = np.abs(np.einsum("jhxa,hxa->jhx", q, moment.policy.table) - v[:, :-1]).max()
        totals = np.abs(signal_totals(cmdp, moment.policy) - moment.totals).max()
        self.note(float(max(inside, totals)), 0.0, ROUNDING * cmdp.horizon)


class PerformanceDifference(_Worst):
    """The lemma, between the optimum and pi^k."""

    statement = Statement(
        "performance difference",
        "Lemma PDL",
        "V^pi* - V^pi^k = sum_h E_pi* <Q^pi^k, pi* - pi^k>",
        identity=True,
    )

    def see(self, moment: Moment) -> None:
        cmdp, best = moment.case.cmdp, moment.case.optimum
        apart = signal_totals(cmdp, best.policy) - moment.totals
        found = performance_difference(cmdp, best.policy, moment.policy)
        self.note(float(np.abs(apart - found).max()), 0.0, ROUNDING * cmdp.horizon)


class RegretSplit(_Worst):
    """Both decompositions of the reward."""

    statement = Statement(
        "regret decomposition", "eq. (RI), (RII)", "V* - V^k and V^k - V^pi^k are the sums they split into", identity=True
    )
    signals = slice(0, 1)

    def see(self, moment: Moment) -> None:
        parts, cmdp = moment.parts, moment.case.cmdp
        before = parts.before - parts.policy_gap - parts.expected_error
        after = parts.after - parts.martingale + parts.path_error
        best = signal_totals(cmdp, moment.case.optimum.policy)
        whole = parts.before + parts.after - (best - moment.totals)
        missing = np.abs([before, after, whole])[:, self.signals].max()
        self.note(float(missing), 0.0, ROUNDING * cmdp.horizon**2)


class ViolationSplit(RegretSplit):
    """The same for the utilities."""

    statement = Statement(
        "violation decomposition", "eq. (gRI), (CII)", "the same for every utility", identity=True
    )
    signals = slice(1, None)


# What the evaluator found ---------------------------------------------------------------------------------------------


class Recomputed(_Worst):
    """Q^k against the second bookkeeper."""

    statement = Statement(
        "estimates from the past only",
        "Algorithms 2, 3",
        "Q^k is what episodes 1..k-1 and the preset's bonus give, V^k = <Q^k, pi^k>",
        identity=True,
    )

    def see(self, moment: Moment) -> None:
        estimates = moment.estimates
        off = np.abs(estimates.q - moment.account.q()).max()
        mean = np.einsum("jhxa,hxa->jhx", estimates.q, moment.policy.table)
        off = max(off, np.abs(mean - estimates.v[:, :-1]).max(), np.abs(estimates.v[:, -1]).max())
        self.note(float(off), 0.0, REGRESSION_ROUNDING * moment.case.cmdp.horizon)


class Range(_Worst):
    """The clip."""

    statement = Statement("0 <= Q <= H - h", "line 11 (2), 7 (3)", "estimates stay where true values can be")

    def see(self, moment: Moment) -> None:
        q = moment.estimates.q
        top = np.arange(q.shape[1], 0, -1.0)[None, :, None, None]
        beyond = max(float((q - top).max()), float((-q).max()))
        self.note(max(beyond, 0.0), 0.0, ROUNDING, used=float((q / top).max()))


class Optimism(_Worst):
    """iota <= 0."""

    statement = Statement(
        "optimism",
        "eq. (ucb)",
        "iota <= 0 at every k, h, x, a and signal; tightness: share of the bonus that was needed",
        failure=OPTIMISM_SHARE,
    )

    def see(self, moment: Moment) -> None:
        account, q = moment.account, moment.estimates.q
        free = q < np.arange(q.shape[1], 0, -1.0)[None, :, None, None]  # elsewhere the clip would do
        needed = moment.target - account.centre
        used = float((needed[free] / account.bonus[free]).max()) if free.any() else None
        self.note(float(moment.error.max()), 0.0, ROUNDING, used=used)


class TwoSided(_Worst):
    """-iota is at most twice what was added."""

    statement = Statement(
        "not too optimistic",
        "eq. (ucb), (ucb-full-t)",
        "iota >= -2 (both bonuses), with counts -4 bonus, at every k, h, x, a",
        failure=OPTIMISM_SHARE,
    )

    def see(self, moment: Moment) -> None:
        below, allowed = -moment.error, 2.0 * moment.account.bonus
        worst = np.unravel_index(np.argmax(below - allowed), below.shape)
        used = float((below / allowed).max())
        self.note(float(below[worst]), float(allowed[worst]), ROUNDING * moment.case.cmdp.horizon, used=used)


class Potential(_Worst):
    """The sum of widths against its bound, at the end."""

    statement = Statement(
        "potential lemma",
        "Lemma (bdsums)",
        "sum of min(1, width^2) <= information / log 2; with counts the pigeonhole sum",
    )

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.last: Moment | None = None

    def see(self, moment: Moment) -> None:
        self.last = moment

    def finding(self) -> Finding:
        assert self.last is not None
        sides = self.last.ledger.potential()  # the books are complete by now
        return Finding(sides.measured <= sides.bound * (1.0 + ROUNDING), sides.measured, sides.bound)


# Policy and multipliers -----------------------------------------------------------------------------------------------


class Pushback(_Worst):
    """pi^{k+1} is the mirror descent step."""

    statement = Statement(
        "KL pushback",
        "Lemma (pushback)",
        "pi^{k+1} solves its subproblem: equality against every other policy",
        identity=True,
    )

    def see(self, moment: Moment) -> None:
        c = moment.constants
        if c.step_size == 0.0:
            self.note(float(np.abs(moment.following.table - moment.policy.table).max()), 0.0, ROUNDING)
            return
        weights = np.concatenate([[1.0], moment.dual])
        direction = np.tensordot(weights, moment.estimates.q, axes=1)
        start = lemmas.mixed(moment.policy.table, c.mixing)
        missing = c.step_size * lemmas.pushback(moment.following.table, start, direction, c.step_size)
        self.note(float(np.abs(missing).max()), 0.0, ROUNDING)


class Mixing(_Worst):
    """The lemma on mixing with the uniform policy."""

    statement = Statement(
        "mixing lemma", "Lemma (mix)", "D(z | mixed) - D(z | pi^k) <= theta log A for every z"
    )

    def see(self, moment: Moment) -> None:
        cost = lemmas.mixing_cost(moment.policy.table, moment.constants.mixing)
        allowed = lemmas.most_mixing_cost(moment.policy.table.shape[2], moment.constants.mixing)
        self.note(float(cost.max()), allowed, ROUNDING)


class MirrorDescent(_Worst):
    """Lemma 1 along the run."""

    statement = Statement(
        "policy improvement",
        "Lemma 1 (PDMD)",
        "sum_k E_pi* <Q_r + Y Q_g, pi* - pi^k> is at most its four terms, with the multipliers of the run",
    )

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.gap, self.prices = 0.0, list[float]()

    def see(self, moment: Moment) -> None:
        self.gap += float(moment.parts.policy_gap @ np.concatenate([[1.0], moment.dual]))
        self.prices.append(moment.price)

    def finding(self) -> Finding:
        bound = math.fsum(bounds.policy_terms(self.setting, np.array(self.prices), len(self.prices)).values())
        return Finding(self.gap <= bound + ROUNDING * len(self.prices), self.gap, bound)


class DualRule(_Worst):
    """Line 9, as what a projection is: no point of [0, chi] is nearer."""

    statement = Statement(
        "multipliers in [0, chi]",
        "line 9",
        "Y^k is the point of [0, chi] nearest to Y^{k-1} + eta (b - V_g^{k-1})",
    )

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.believed: Floats = setting.task.thresholds  # so that Y^1 = Y^0
        self.dual: Floats = np.zeros(setting.task.num_constraints)

    def see(self, moment: Moment) -> None:
        c, chi = moment.constants, moment.constants.dual_bound
        wanted = self.dual + c.dual_step_size * (moment.case.cmdp.thresholds - self.believed)
        outside = max(float((moment.dual - chi).max()), float((-moment.dual).max()))
        # (wanted - Y)(y - Y) <= 0 for y = 0 and y = chi, and Y = wanted in between
        nearer = np.maximum((wanted - moment.dual) * (0.0 - moment.dual), (wanted - moment.dual) * (chi - moment.dual))
        inside = (moment.dual > 0.0) & (moment.dual < chi)
        off = np.where(inside, np.abs(wanted - moment.dual), nearer)
        beyond = max(outside, float(off.max()), 0.0)
        self.note(beyond, 0.0, ROUNDING * max(chi, 1.0), used=float(moment.dual.max()) / chi)
        self.believed, self.dual = moment.believed[1:], moment.dual


class DualLemma(_Worst):
    """The sum of the multipliers' steps against any fixed multiplier."""

    statement = Statement(
        "dual lemma",
        "eq. (Yb), Lemma 5",
        "sum_k (Y - Y^k)(b - V_g^k) <= Y^2 / (2 eta) + eta / 2 sum_k (b - V_g^k)^2 for Y = 0 and Y = chi",
    )

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        I = setting.task.num_constraints
        self.weighted, self.plain, self.squares = np.zeros(I), np.zeros(I), np.zeros(I)

    def see(self, moment: Moment) -> None:
        short = moment.case.cmdp.thresholds - moment.believed[1:]
        self.weighted += moment.dual * short
        self.plain += short
        self.squares += short**2

    def finding(self) -> Finding:
        c = self.setting.constants
        for Y in (0.0, c.dual_bound):
            for left, right in zip(
                Y * self.plain - self.weighted,
                Y**2 / (2.0 * c.dual_step_size) + c.dual_step_size / 2.0 * self.squares,
                strict=True,
            ):
                self.note(float(left), float(right), ROUNDING * max(1.0, abs(float(right))))
        return super().finding()


# Sums over the run ----------------------------------------------------------------------------------------------------


class Martingale(_Worst):
    """The largest martingale term of a signal, counted in episodes with optimistic estimates."""

    statement = Statement(
        "martingale", "Lemma 4 (M)", "M of every signal is at most its Azuma bound", failure=1.0 - OPTIMISM_SHARE
    )

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.total, self.episodes = np.zeros(1 + setting.task.num_constraints), 0

    def see(self, moment: Moment) -> None:
        if moment.error.max() <= ROUNDING:
            self.total += moment.parts.martingale
        self.episodes += 1

    def finding(self) -> Finding:
        bound, most = bounds.martingale(self.setting, self.episodes), float(self.total.max())
        return Finding(most <= bound, most, bound)


class _Sums(_Worst):
    """Base of checks on regret and violation."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        I = setting.task.num_constraints
        self.regret, self.shortfall = 0.0, np.zeros(I)
        self.optimum: Floats = np.zeros(I)
        self.prices, self.dual_steps = list[float](), 0.0
        self.bonuses = np.zeros(1 + I)

    def see(self, moment: Moment) -> None:
        best, b = moment.case.optimum, moment.case.cmdp.thresholds
        self.optimum = best.dual
        self.regret += best.value - float(moment.totals[0])
        self.shortfall += b - moment.totals[1:]
        self.prices.append(moment.price)
        self.dual_steps += self.setting.constants.dual_step_size / 2.0 * float(((b - moment.believed[1:]) ** 2).sum())
        h, x, a = moment.visited
        self.bonuses += moment.allowed[:, h, x, a].sum(axis=1)

    @property
    def episodes(self) -> int:
        """How many were seen."""
        return len(self.prices)

    def along(self) -> float:
        """Return the terms that regret and violation share, with what the run had instead of the worst case."""
        terms = bounds.policy_terms(self.setting, np.array(self.prices), self.episodes)
        return math.fsum(terms.values()) + self.dual_steps


class ViolationLemma(_Sums):
    """Reward beyond the optimum has its price."""

    statement = Statement(
        "violation lemma",
        "Lemma (violationgeneral)",
        "-regret <= sum_i Y*_i (shortfall of i): more reward than V* only by breaking promises",
    )

    def finding(self) -> Finding:
        allowed, gained = float(self.optimum @ self.shortfall), -self.regret
        H = self.setting.task.horizon
        return Finding(gained <= allowed + ROUNDING * H * self.episodes, gained, allowed)


class RegretAlong(_Sums):
    """The theorem with the run's own bonuses and multipliers."""

    statement = Statement(
        "regret, bonuses as measured",
        "Lemma 2 (reger)",
        "regret is at most the theorem's terms with the run's own bonuses and multipliers",
        failure=1.0,
    )

    def finding(self) -> Finding:
        bound = self.along() + float(self.bonuses[0]) + bounds.martingale(self.setting, self.episodes)
        return Finding(self.regret <= bound, self.regret, bound)


class ViolationAlong(_Sums):
    """The same for the violation."""

    statement = Statement(
        "violation, bonuses as measured",
        "eq. (C0)",
        "the worst constraint's violation is at most the theorem's terms with the run's own bonuses and multipliers",
        failure=1.0,
    )

    def finding(self) -> Finding:
        c = self.setting.constants
        wander = (1.0 + c.dual_bound) * bounds.martingale(self.setting, self.episodes)
        bonus = float(self.bonuses[0] + c.dual_bound * self.bonuses[1:].max())
        start = c.dual_bound**2 / (2.0 * c.dual_step_size)
        bound = 2.0 / c.dual_bound * (self.along() + start + bonus + wander)
        violation = max(float(self.shortfall.max()), 0.0)
        return Finding(violation <= bound, violation, bound)


class RegretTheorem(_Sums):
    """The theorem."""

    statement = Statement(
        "regret, theorem", "Theorems 1, 2", "regret is at most the explicit bound, known before the run", failure=1.0
    )

    def finding(self) -> Finding:
        bound = bounds.regret(self.setting, self.episodes).total
        return Finding(self.regret <= bound, self.regret, bound)


class ViolationTheorem(_Sums):
    """The theorem."""

    statement = Statement(
        "violation, theorem",
        "Theorems 1, 2",
        "the worst constraint's violation is at most the explicit bound, known before the run",
        failure=1.0,
    )

    def finding(self) -> Finding:
        bound = bounds.violation(self.setting, self.episodes).total
        violation = max(float(self.shortfall.max()), 0.0)
        return Finding(violation <= bound, violation, bound)


RUN_CHECKS: tuple[Callable[[Setting], Check], ...] = (
    Bellman,
    PerformanceDifference,
    Recomputed,
    Range,
    Optimism,
    TwoSided,
    Potential,
    Pushback,
    Mixing,
    MirrorDescent,
    DualRule,
    DualLemma,
    RegretSplit,
    ViolationSplit,
    Martingale,
    ViolationLemma,
    RegretAlong,
    ViolationAlong,
    RegretTheorem,
    ViolationTheorem,
)


# The problem itself ---------------------------------------------------------------------------------------------------

DUALITY = Statement(
    "strong duality",
    "Lemma (sd-b)",
    "V* = D(Y*), by a backward induction; small problems also by a linear program",
    identity=True,
)
MULTIPLIER = Statement(
    "bound of the multiplier", "Cor. (boundeddual)", "|Y*|_1 <= (V* - V of the Slater policy) / gap, and 2 |Y*|_1 <= chi"
)


def strong_duality(case: Case) -> Finding:
    """Compare V* with the dual function at Y*, and with the linear program's value where that is quick."""
    best, cmdp = case.optimum, case.cmdp
    weights = np.concatenate([[1.0], best.dual])
    corner = Oracle(cmdp).best(weights, second=np.zeros_like(weights))
    dual_value = float(weights @ corner.totals - best.dual @ cmdp.thresholds)
    gap = abs(dual_value - best.value)
    held = gap <= ROUNDING * cmdp.horizon * (1.0 + float(best.dual.sum()))
    if cmdp.horizon * cmdp.num_states * cmdp.num_actions <= _LP_UP_TO:
        held = held and abs(solve_lp(cmdp).value - best.value) <= 10.0 * LP_TOLERANCE * cmdp.horizon
    return Finding(held, gap, 0.0)


def multiplier_bound(case: Case, setting: Setting) -> Finding:
    """Compare |Y*|_1 with what the Slater policy allows, and with half of chi."""
    best = case.optimum
    size = float(best.dual.sum())
    allowed = (best.value - best.slater.reward) / best.slater_gap
    rounding = ROUNDING * case.cmdp.horizon / best.slater_gap
    held = size <= allowed + rounding and 2.0 * size <= setting.constants.dual_bound + rounding
    return Finding(held, size, allowed)


def all_statements() -> Sequence[Statement]:
    """Return every statement, in the order of the table."""
    return (DUALITY, MULTIPLIER, *(check.statement for check in RUN_CHECKS))  # type: ignore[attr-defined]
