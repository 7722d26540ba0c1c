"""The explicit bounds: each term against an independent truth, from which K they are not vacuous, and the card."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import trapezoid
from typer.testing import CliRunner

import opdop
from opdop import OPDOP, Counts, Task, train
from opdop.algorithms import BallRadius, Preset, WeissmanRadius, choose
from opdop.algorithms.task import by_action
from opdop.cli import app
from opdop.kernels.balls import l1_width, mean_width
from opdop.kernels.primal_dual import improve, update_dual
from opdop.report import figures
from opdop.report.summary.run_summary import RunSummary
from opdop.theory import Guarantee, Setting, bounds, guarantee
from opdop.theory.identities import pushback_difference
from opdop.theory.potential import (
    EXACT_VISITS,
    BallBonuses,
    LinearBonuses,
    ball_widths,
    most_information,
    most_potential,
    pigeonhole,
)
from tests.support.continuous_problems import separable_problem

SETTINGS: dict[str, Any] = {
    "counts": ("random-tabular", False),
    "counts, pooled": ("media-streaming", False),
    "counts, two constraints": ("queue", False),
    "least squares": ("random-mixture", True),
    "least squares, one-hot": ("factored", True),
}


def setting_of(kind: str, episodes: int = 10_000, **task: Any) -> Setting:
    name, linear = SETTINGS[kind]
    cmdp = opdop.make(name)
    features = cmdp.features or opdop.model.features.one_hot(cmdp.num_states, cmdp.num_actions)
    return Setting.of(Task.of(cmdp, episodes=episodes, **task), sizes=features if linear else None)


# Sums of bonuses


@settings(max_examples=100)
@given(
    st.lists(st.integers(0, 60), min_size=1, max_size=8),
    st.floats(0.5, 20.0),
    st.floats(0.1, 50.0),
    st.floats(0.1, 3.0),
)
def test_pigeonhole_bounds_the_sum_of_any_visits(visits: list[int], top: float, scale: float, ridge: float):
    found = sum(min(top, scale / math.sqrt(n + ridge)) for N in visits for n in range(N))
    cells = len(visits)
    assert found <= cells * pigeonhole(sum(visits) / cells, top, scale, ridge) * (1 + 1e-12) + 1e-12


def test_pigeonhole_is_its_integral():
    for top, scale, ridge, N in itertools.product((1.0, 4.0), (0.3, 5.0), (0.5, 1.0), (0.4, 1.0, 30.0)):
        t = np.linspace(-1.0, N - 1.0, 400_001)
        f = np.minimum(top, scale / np.sqrt(np.maximum(t, 0.0) + ridge))
        assert pigeonhole(N, top, scale, ridge) == pytest.approx(trapezoid(f, t), rel=1e-6)


def widths(visits: int, log_sets: float, late: int) -> float:
    """Return the sum of the widths of a row that is visited `late` times in every episode, one by one."""
    counted = [n - n % late for n in range(visits)]
    return math.fsum(min(1.0, l1_width(float(n), log_sets)) if n else 1.0 for n in counted)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 400), min_size=1, max_size=6), st.floats(0.7, 30.0), st.integers(1, 5))
def test_widths_of_balls_bound_the_sum_of_any_visits(visits: list[int], log_sets: float, late: int):
    found, cells = sum(widths(N, log_sets, late) for N in visits), len(visits)
    assert found <= cells * ball_widths(sum(visits) / cells, log_sets, late=late) * (1 + 1e-12) + 1e-12


@pytest.mark.parametrize("log_sets", [0.7, 12.0, 5000.0])
def test_widths_of_balls_beyond_the_exact_sum_are_its_integral_within_a_thousandth(log_sets: float):
    # The first visit is worth 1; then eps_n by the kernel's own formula, for ten times as many visits as are summed.
    N = 10 * EXACT_VISITS
    n = np.arange(1.0, N)
    exact = 1.0 + np.minimum(1.0, np.sqrt(2.0 * (n + 1.0) * (log_sets + 0.5 * np.log(n + 1.0))) / n).sum()
    found = ball_widths(float(N), log_sets)
    assert exact <= found <= exact * 1.001
    assert ball_widths(float(EXACT_VISITS), log_sets) == pytest.approx(1.0 + _widths_up_to(EXACT_VISITS, log_sets))
    points = np.geomspace(0.5, 1e9, 300)
    rises = np.diff([ball_widths(point, log_sets) for point in points]) / np.diff(points)
    assert (np.diff(rises) <= 1e-9).all()  # concave


def _widths_up_to(N: int, log_sets: float) -> float:
    return math.fsum(min(1.0, 2.0 * mean_width(float(n), log_sets)) for n in range(1, N))


@pytest.mark.parametrize("pooled", [False, True])
def test_sum_of_lengths_of_balls_is_bounded_however_rows_are_visited(pooled: bool):
    # An adversary visits rows where the value ahead is large while their widths are; lengths (H-1-h) g(n) + [n = 0].
    H, pairs, K, log_sets = 5, 3, 400, 4.0
    rng = np.random.default_rng(0)
    bonuses = BallBonuses(H, pairs, log_sets, -math.inf, pooled, pooled)
    for style in range(4):
        number, total = np.zeros((1 if pooled else H, pairs), dtype=int), 0.0
        for k in range(K):
            visited = [_choice(style, k, h, pairs, rng) for h in range(H)]
            for h, pair in enumerate(visited):
                n = number[0 if pooled else h, pair]
                total += (H - 1 - h) * min(1.0, l1_width(float(n), log_sets)) + 0.0 if n else float(H - h)
            for h, pair in enumerate(visited):
                number[0 if pooled else h, pair] += 1
        assert total <= bonuses.most(K)
        assert total > 0.3 * bonuses.most(K)  # so that half of the bound would not do for the worst of them
    assert bonuses.most(K) <= BallBonuses(H, pairs, log_sets, -math.inf).most(K) * (1 + 1e-12)


def _choice(style: int, k: int, h: int, pairs: int, rng: np.random.Generator) -> int:
    return [k % pairs, (k + h) % pairs, int(rng.integers(pairs)), h % pairs][style]


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 5), st.integers(1, 40), st.floats(0.1, 10.0), st.integers(0, 2**32 - 1))
def test_potential_and_information_bound_rows_of_any_norm(d: int, rows: int, length: float, seed: int):
    rng = np.random.default_rng(seed)
    ridge = 0.7
    gram, total = ridge * np.eye(d), 0.0
    for _ in range(rows):
        x = rng.normal(size=d)
        x *= length * rng.random() / np.linalg.norm(x)
        total += min(1.0, float(x @ np.linalg.solve(gram, x)))
        gram += np.outer(x, x)
    information = float(np.linalg.slogdet(gram / ridge)[1])
    assert total <= most_potential(information) * (1 + 1e-9)
    assert information <= most_information(rows, d, length, ridge) * (1 + 1e-9)


def test_potential_is_attained_by_a_row_of_width_one():
    # One row with width 1 doubles the determinant: min(1, w^2) = 1 = log 2 / log 2.
    assert most_potential(math.log(2.0)) == pytest.approx(1.0)


@pytest.mark.parametrize("kind", SETTINGS)
def test_bonus_sum_is_at_most_what_clipping_allows(kind: str):
    setting = setting_of(kind)
    bonuses, H = setting.bonuses, setting.task.horizon
    assert isinstance(bonuses, LinearBonuses if "squares" in kind else BallBonuses)
    for K in (1, 10, 1000, 10_000):
        share = 2.0 if "squares" in kind else 1.0  # kernel and signals are clipped each for itself
        assert 0.0 < bonuses.most(K) <= share * K * H * (H + 1) / 2 * (1 + 1e-12)


# Policy and multipliers


@pytest.mark.parametrize("seed", range(4))
def test_policy_terms_bound_the_gap_to_every_policy_whatever_the_estimates_are(seed: int):
    # One state, three stages, estimates and multipliers of an adversary: what looked good turns bad at once.
    K, H, A = 400, 3, 3
    task = Task(H, 1, A, np.array([1.0]), np.ones(1), episodes=K, slater_gap=0.5)
    setting = Setting.of(task)
    c, rng = setting.constants, np.random.default_rng(seed)
    tops = np.arange(H, 0, -1.0)[:, None, None]
    policy, touched = np.full((H, 1, A), 1.0 / A), np.ones((H, 1), dtype=bool)
    gap, prices = np.zeros((H, 1, A)), np.empty(K)
    for k in range(K):
        dual = rng.random(1) * c.dual_bound
        least = np.eye(A)[policy.argmin(axis=2)]
        q = tops * (rng.random((2, H, 1, A)) if seed % 2 else np.array([least, least]))
        direction = q[0] + dual[0] * q[1]
        gap += direction - (direction * policy).sum(axis=2, keepdims=True)
        prices[k] = 1.0 + dual[0]
        table = by_action(policy)
        improve(table, by_action(q), dual, c.step_size, c.mixing, touched)
        policy = by_action(table)
    worst = float(gap.max(axis=2).sum())
    bound = sum(bounds.policy_terms(setting, prices).values())
    assert worst <= bound
    assert bound <= sum(bounds.policy_terms(setting).values()) * (1 + 1e-12)
    assert worst > 0.0


@settings(max_examples=50)
@given(st.floats(0.0, 4.0), st.integers(0, 2**32 - 1))
def test_dual_inequality_holds_for_any_estimates(Y: float, seed: int):
    rng, K, eta, chi, b = np.random.default_rng(seed), 60, 0.3, 4.0, np.array([1.5])
    dual, left, squares = np.zeros(1), 0.0, 0.0
    for _ in range(K):
        short = b - 4.0 * rng.random(1)
        left += float((Y - dual[0]) * short[0])
        squares += float(short[0] ** 2)
        update_dual(dual, b, b - short, eta, chi, math.inf)
    assert left <= Y**2 / (2 * eta) + eta / 2 * squares + 1e-9


@settings(max_examples=50)
@given(st.integers(0, 3), st.integers(0, 2**32 - 1))
def test_dual_inequality_holds_for_multipliers_with_a_bounded_sum(vertex: int, seed: int):
    rng, K, eta, chi, b = np.random.default_rng(seed), 60, 0.3, 2.0, np.array([1.5, 2.0, 0.5])
    dual, Y, left, squares = np.zeros(3), np.append(np.eye(3) * chi, np.zeros((1, 3)), axis=0)[vertex], 0.0, 0.0
    for _ in range(K):
        short = b - 4.0 * rng.random(3) * rng.random()
        left += float((Y - dual) @ short)
        squares += float(short @ short)
        update_dual(dual, b, b - short, eta, math.inf, chi)
        assert dual.min() >= 0.0
        assert dual.sum() <= chi * (1 + 1e-12)
    assert left <= float(Y @ Y) / (2 * eta) + eta / 2 * squares + 1e-9


def test_pushback_is_zero_for_the_softmax_step_and_not_for_another():
    rng = np.random.default_rng(0)
    start, direction = rng.dirichlet(np.ones(4), size=(2, 3)), rng.random((2, 3, 4))
    step = start * np.exp(0.3 * direction)
    step /= step.sum(axis=-1, keepdims=True)
    assert np.abs(pushback_difference(step, start, direction, 0.3)).max() < 1e-13
    assert np.abs(pushback_difference(step, start, direction, 0.31)).max() > 1e-3


# The whole


def test_regret_and_violation_are_the_formulas_of_the_docs():
    # Independent arithmetic for one small setting: H = 4, A = 3, I = 1, S = 5, rows by stage.
    setting = setting_of("counts", episodes=5000, failure_probability=0.1)
    task, K, H, A, S = setting.task, 5000, 4, 3, 5
    b, chi = float(task.thresholds[0]), 2 * 4 / task.slater_gap
    policy = (1 + chi) * H * math.sqrt(K * math.log(A) * 5 * 9 / 12)
    dual = chi * math.sqrt(K) * max(b, H - b) / 2
    wander = math.sqrt(K * 4 * 5 * 9 / 12 * math.log(4 / 0.1))
    N, last = K / (S * A), K // (S * A)
    L = math.log((2**4 - 1) * H * S * A / 0.05)
    g = [1.0] + [min(1.0, 2 / n * math.sqrt((n + 1) / 2 * (L + 0.5 * math.log(n + 1)))) for n in range(1, last + 1)]
    kernel = math.fsum(g[:last]) + (N - last) * g[last]
    bonus = S * A * (H * (H - 1) / 2 * kernel + H)
    assert bounds.regret(setting).total == pytest.approx(policy + dual + bonus + wander, rel=1e-12)
    inside = policy + 2 * dual + (1 + chi) * (bonus + wander)
    assert bounds.violation(setting).total == pytest.approx(2 / chi * inside, rel=1e-12)


@pytest.mark.parametrize("kind", ["counts", "counts, two constraints"])
@pytest.mark.parametrize("factor", [0.5, 0.9, 1.1, 2.0])
def test_step_sizes_minimise_their_terms(kind: str, factor: float):
    setting = setting_of(kind)
    c, chi = setting.constants, setting.constants.dual_bound

    def policy(alpha: float) -> float:
        changed = replace(setting, constants=replace(c, step_size=alpha))
        return math.fsum(bounds.policy_terms(changed).values())

    def multipliers(eta: float) -> float:
        changed = replace(setting, constants=replace(c, dual_step_size=eta))
        return bounds.dual_steps(changed) + chi**2 / (2 * eta)

    assert policy(c.step_size) < policy(factor * c.step_size)
    assert multipliers(c.dual_step_size) < multipliers(factor * c.dual_step_size)


def test_rules_spend_half_of_the_failure_probability_on_optimism():
    # The martingales have the other half: so a rule for p has the delta of a rule that may spend all of p/2.
    task = Task(4, 5, 3, np.array([1.0]), np.eye(5)[0], episodes=1000, failure_probability=0.08, slater_gap=0.5)
    share = bounds.OPTIMISM_SHARE * 0.08
    log_sets, signal_log_sets = BallRadius().log_sets(task)
    assert log_sets == pytest.approx(math.log((2**4 - 1) * 4 * 5 * 3 / share), rel=1e-14)
    assert signal_log_sets == pytest.approx(math.log(2 * 4 * 5 * 3 / share), rel=1e-14)
    noisy, pooled = replace(task, noisy=True), replace(task, stationary=True, stationary_signals=True)
    assert BallRadius().log_sets(noisy)[0] == pytest.approx(log_sets + math.log(2.0))
    assert BallRadius().log_sets(pooled)[0] == pytest.approx(log_sets - math.log(4.0))


@pytest.mark.parametrize("kind", SETTINGS)
@pytest.mark.parametrize("formula", [bounds.regret, bounds.violation])
def test_bound_is_not_vacuous_from_its_k_on(kind: str, formula: Any):
    setting = setting_of(kind)
    begins = bounds.useful_from(setting, formula)
    assert begins is not None
    assert formula(setting.replanned(begins - 1)).vacuous
    assert not formula(setting.replanned(begins)).vacuous
    plans = [int(begins * factor) for factor in (1, 1.01, 1.5, 2, 10, 1e3, 1e6, 1e12)]
    ratios = [formula(setting.replanned(plan)).total / plan for plan in plans]
    assert ratios[0] < setting.task.horizon
    assert (np.diff(ratios) < 0.0).all()


@dataclass(frozen=True)
class Sizes:
    kernel_dim: int = 1
    signal_dim: int = 400
    kernel_norm: float = 1.0
    signal_norm: float = 20.0
    signal_length: float = 0.0175
    blocks: int = 1


def test_bound_of_random_signals_with_short_features_is_called_useful_only_where_it_stays_so():
    # While information still grows as K, so does the square of the signals' radius: the bound is below K H, then above.
    task = Task(
        1, 2, 1, np.array([0.3]), np.eye(2)[0], episodes=10, failure_probability=0.05, slater_gap=0.7, noisy=True
    )
    setting = Setting.of(task, sizes=Sizes())
    ratios = [bounds.regret(setting.replanned(plan)).total / plan for plan in (15_416, 448_362)]
    assert ratios == [pytest.approx(0.9390, abs=5e-5), pytest.approx(1.0037, abs=5e-5)]
    begins = bounds.useful_from(setting, bounds.regret)
    assert begins is not None
    assert math.log1p(begins * 0.0175**2 / 400) >= 2.0
    plans = np.geomspace(begins, 1e6 * begins, 200)
    after = [bounds.regret(setting.replanned(int(plan))).total / int(plan) for plan in plans]
    assert after[0] < 1.0
    assert (np.diff(after) < 0.0).all()
    certain = Setting.of(replace(task, noisy=False), sizes=Sizes())
    falling = [bounds.regret(certain.replanned(int(plan))).total / int(plan) for plan in np.geomspace(1, 1e9, 400)]
    assert (np.diff(falling) <= 1e-12).all()


def test_bound_grows_at_the_papers_rate():
    setting = setting_of("counts")
    ratio = bounds.regret(setting.replanned(10**14)).total / bounds.regret(setting.replanned(10**12)).total
    assert 10.0 < ratio < 11.5  # sqrt(100), and a logarithm


def test_bound_of_part_of_a_plan_is_smaller_and_of_more_than_it_refused():
    setting = setting_of("counts")
    totals = [bounds.regret(setting, episodes).total for episodes in (1, 100, 10_000)]
    assert totals == sorted(totals)
    assert totals[-1] == bounds.regret(setting).total
    # All of them hold at once, as the martingale's is that of the plan.
    assert len({bounds.violation(setting, episodes).terms["martingale"] for episodes in (1, 100, 10_000)}) == 1
    with pytest.raises(opdop.InvalidParameterError, match="a bound for a plan of 10000 episodes holds for 0 to 10000"):
        bounds.regret(setting, 10_001)


def test_one_action_leaves_nothing_to_learn():
    task = Task(3, 2, 1, np.array([1.0]), np.eye(2)[0], episodes=10, slater_gap=0.5)
    assert sum(bounds.policy_terms(Setting.of(task)).values()) == 0.0


# The card


def test_certified_run_has_a_card_with_bounds_above_what_was_measured():
    summary = RunSummary(train("factored", episodes=3000, preset="certified"))
    card = summary.guarantee
    assert (card.certified, card.probability, card.constraints) == (True, 0.95, True)
    setting = Setting.of(Task.of(opdop.make("factored"), episodes=3000))
    assert card.regret() == pytest.approx(bounds.regret(setting).total, rel=1e-12)
    assert card.violation() == pytest.approx(bounds.violation(setting).total, rel=1e-12)
    assert sum(card.terms("violation").values()) == pytest.approx(card.violation())
    assert card.useful_from("regret") == 1821
    assert [each.met for each in card.assumptions] == [True, True, True]
    record = summary.record()["guarantee"]
    assert record["regret"]["within_bound"]
    assert record["regret"]["measured_over_bound"] == summary.regret.total / card.regret()
    json.dumps(record, allow_nan=False)


def test_card_of_least_squares_knows_the_features():
    cmdp = opdop.make("random-mixture", states=6, stages=3, dimension=2, successors=3)
    card = RunSummary(train(cmdp, "opdop-lstd", episodes=50, preset="certified")).guarantee
    setting = Setting.of(Task.of(cmdp, episodes=50), sizes=cmdp.features)
    assert card.regret() == pytest.approx(bounds.regret(setting).total, rel=1e-12)


def test_card_of_a_doubling_run_adds_its_phases():
    run = train("factored", "doubling:opdop", episodes=2000, preset="certified")
    card = RunSummary(run).guarantee
    task = Task.of(opdop.make("factored"), episodes=1024, failure_probability=0.05 / 2)
    first = bounds.regret(Setting.of(task)).total
    second = bounds.regret(Setting.of(task.replan(2048, 0.05 / 6)), 2000 - 1024).total
    assert card.regret() == pytest.approx(first + second, rel=1e-12)
    assert card.regret(1024) == pytest.approx(first, rel=1e-12)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"preset": "scaled"}, "multiplies the certified radius by 0.0003,"),
        ({"preset": "practical"}, "follow the ranges of its estimates"),
        ({"preset": "paper"}, "large enough C1"),
        ({"preset": "certified", "planned_episodes": 100}, "300 episodes were played, and the constants are certified"),
    ],
)
def test_card_says_why_there_is_no_guarantee(arguments: dict[str, Any], words: str):
    summary = RunSummary(train("factored", episodes=300, **arguments))
    card = summary.guarantee
    assert not card.certified
    assert words in card.why
    record = summary.record()["guarantee"]
    assert (record["regret"], record["violation"], record["probability"]) == (None, None, None)
    with pytest.raises(opdop.InvalidParameterError, match="there is no bound to draw"):
        figures.run_figure(summary.run, bound=True)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [({}, "its states are continuous"), ({"reevaluate_at_growth": 4.0}, "between them V^k is not <Q^k, pi^k>")],
)
def test_runs_on_continuous_states_have_no_guarantee(parameters: dict[str, float], words: str):
    run = train(separable_problem(), episodes=5, preset="certified", slater_gap=0.1, parameters=parameters)
    summary = RunSummary(run)
    assert not summary.guarantee.certified
    assert words in summary.guarantee.why
    assert (summary.record()["guarantee"]["certified"], summary.record()["guarantee"]["regret"]) == (False, None)
    with pytest.raises(opdop.InvalidParameterError, match="there is no bound to draw"):
        figures.run_figure(summary.run, bound=True)


def test_martingale_bound_holds_for_every_partial_sum_and_a_smaller_one_does_not():
    # The worst that Azuma's inequality allows: steps of +-(H - h)/2. Of the martingales' half of p, each of the two
    # signals has half. Over 8,000 walks a share of 0.025 has a standard error of 0.0017: the margins are four of them.
    task = Task(2, 1, 1, np.array([1.0]), np.ones(1), episodes=200, failure_probability=0.1, slater_gap=0.5)
    setting, allowed, margin = Setting.of(task), 0.1 / 4, 0.007
    steps = np.random.default_rng(0).choice([-0.5, 0.5], size=(8000, 200, 2)) @ np.array([2.0, 1.0])
    walks = steps.cumsum(axis=1)
    bound = bounds.martingale(setting)

    def share_above(limits: Any) -> float:
        return float((walks > limits).any(axis=1).mean())

    assert share_above(bound) <= allowed - margin
    assert share_above(0.75 * bound) > allowed + margin
    each = np.array([bounds.martingale(setting.replanned(k)) for k in range(1, 201)])
    assert share_above(each) > allowed + margin  # a bound for the end of a plan alone is too small for all of it


def test_learners_with_other_constants_have_no_guarantee():
    cmdp = opdop.make("factored")
    task = Task.of(cmdp, episodes=100)
    for rule in (BallRadius(0.5), WeissmanRadius()):  # the second is not the rule whose bounds the card would state
        small = OPDOP.preset(task, Counts(task, radius=rule), "certified")
        assert "not a certified one" in RunSummary(train(cmdp, small, episodes=100)).guarantee.why
    elsewhere = OPDOP.preset(task, Counts, "certified")
    assert "built elsewhere" in RunSummary(train(cmdp, elsewhere, episodes=100)).guarantee.why
    numbers = {"step_size": 0.1, "dual_step_size": 0.1, "mixing": 0.0, "dual_bound": 1.0}
    own = OPDOP(task, Counts(task), **numbers)
    assert "no preset" in RunSummary(train(cmdp, own, episodes=100)).guarantee.why


def card_of(run: Any, **changed: Any) -> Guarantee:
    """Return the card of a run, some of whose stored constants are changed."""
    shape = run.policy.table.shape
    return guarantee(
        {**run.constants, **changed},
        shape=shape,
        thresholds=run.thresholds,
        episodes=int(run.episodes[-1]),
        failure_probability=run.config.failure_probability,
        noisy=False,
        optimum=None,
    )


STORED = "step_size", "dual_step_size", "dual_total"
SETS = ("log_sets", "signal_log_sets")
REGRESSIONS = ("ridge", "first_radius", "last_radius", "signal_radius")


@pytest.mark.parametrize("algorithm", ["opdop", "opdop-lstd", "oppo", "doubling:opdop"])
def test_stored_constants_that_the_preset_does_not_give_are_not_certified(algorithm: str):
    run = train("factored", algorithm, episodes=1100 if "doubling" in algorithm else 60, preset="certified")
    assert card_of(run).certified
    for name in (*STORED, *(REGRESSIONS if "lstd" in algorithm else SETS)):
        if run.constants.get(name):  # OPPO has no multipliers
            changed = card_of(run, **{name: 1.001 * run.constants[name]})
            assert not changed.certified
            assert f"its {name}, " in changed.why
            assert "not a certified one" in changed.why
    # Constants of another plan or phase are not this one's.
    other = {"doubling_phase": 0} if "doubling" in algorithm else {"planned_episodes": 61}
    assert "not a certified one" in card_of(run, **other).why


def test_card_of_a_changed_preset_does_not_certify_runs_of_the_old_one(monkeypatch: pytest.MonkeyPatch):
    run = train("factored", episodes=60, preset="certified")
    right = BallRadius.log_sets
    monkeypatch.setattr(BallRadius, "log_sets", lambda rule, task: tuple(1.01 * each for each in right(rule, task)))
    assert "log_sets" in card_of(run).why


def test_stationarity_that_was_not_declared_is_not_certified():
    run = train("factored", episodes=60, preset="certified", stationary=False)
    assert card_of(run).certified
    assert "its log_sets" in card_of(run, stationary=True).why or "signal_log_sets" in card_of(run, stationary=True).why


# Zero violation


def test_margin_is_the_smallest_with_which_the_bound_is_zero():
    task = Task.of(opdop.make("factored"), episodes=10**8)
    margin = bounds.zero_violation_margin(task)
    assert 0.0 < margin < task.slater_gap

    def bound(value: float) -> bounds.Bound:
        return bounds.violation(Setting.of(task, preset=Preset("certified", {"margin": value})))

    assert bound(margin).total == 0.0
    assert bound(0.999 * margin).total > 0.0
    # The fixed point: thresholds b + margin are violated by at most margin per episode.
    terms = {name: value for name, value in bound(margin).terms.items() if name != "margin"}
    assert math.fsum(terms.values()) / 10**8 == pytest.approx(margin, rel=1e-6)


def test_margin_costs_no_more_reward_than_the_bound_says():
    cmdp = opdop.make("factored")
    best, gap = opdop.solve(cmdp), opdop.solve(cmdp).slater_gap
    for margin in (0.1, 1.0, 0.8 * gap):
        raised = opdop.TabularCMDP(
            np.asarray(cmdp.transitions).reshape(3, 2, 3),
            cmdp.rewards,
            cmdp.utilities,
            cmdp.thresholds + margin,
            initial=cmdp.initial,
            horizon=6,
        )
        lost = best.value - opdop.solve(raised).value
        assert 0.0 <= lost <= margin * cmdp.horizon / gap
        with_margin = Setting.of(Task.of(cmdp, episodes=1000), preset=Preset("certified", {"margin": margin}))
        assert bounds.regret(with_margin).terms["margin"] == pytest.approx(1000 * margin * cmdp.horizon / gap)


def test_margin_changes_what_the_learner_aims_at_and_its_card():
    cmdp = opdop.make("factored")
    run = train(cmdp, episodes=3000, preset="certified", parameters={"margin": 0.5})
    card = RunSummary(run).guarantee
    assert card.certified
    assert (card.margin, run.constants["margin"]) == (0.5, 0.5)
    gap = opdop.solve(cmdp).slater_gap
    assert run.constants["dual_bound"] == pytest.approx(2 * cmdp.horizon / (gap - 0.5))
    plain = RunSummary(train(cmdp, episodes=3000, preset="certified")).guarantee
    assert card.terms("violation")["margin"] == -1500.0
    assert card.violation() < plain.violation()
    assert card.regret() > plain.regret()
    assert not card_of(run, margin=0.6).certified  # its step sizes are those of another margin
    assert card.assumptions[-1].met
    # chi is that of the thresholds plus margin; a smaller one, with steps of its own, does not bound the violation.
    low = train(cmdp, episodes=3000, preset="certified", parameters={"margin": 0.5}, dual_bound=2.0)
    assert RunSummary(low).guarantee.assumptions[-1].met is False
    assert not RunSummary(low).guarantee.constraints


def test_too_few_episodes_for_zero_violation_are_answered_with_how_many_are_needed():
    task = Task.of(opdop.make("factored"), episodes=1000)
    with pytest.raises(opdop.InvalidParameterError, match=r"1,000 episodes are too few.* at least"):
        bounds.zero_violation_margin(task)
    unknown = Task(3, 2, 2, np.array([1.0]), np.eye(2)[0], episodes=10)
    with pytest.raises(opdop.InvalidParameterError, match="zero violation needs the Slater gap"):
        bounds.zero_violation_margin(unknown)


def test_violation_has_no_bound_if_constraints_are_ignored_or_multipliers_bounded_too_low():
    ignored = RunSummary(train("factored", "oppo", episodes=100, preset="certified")).guarantee
    assert (ignored.certified, ignored.constraints) == (True, False)
    low = RunSummary(train("factored", episodes=100, preset="certified", dual_bound=1.0)).guarantee  # 2 Y* is 4/3
    assert (low.certified, low.constraints, low.assumptions[-1].met) == (True, False, False)


def test_run_command_prints_the_card_and_draws_the_bound(tmp_path):
    file = tmp_path / "run.svg"
    arguments = ["run", "factored", "-k", "300", "--preset", "certified", "--figure", str(file), "--bound"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0
    words = " ".join(result.output.split())
    assert "guarantee with probability at least 0.95, regret <= " in words
    assert "the bound on the regret is vacuous: it is below the trivial K H from K = 1,821 on" in words
    assert "the bound on the violation is vacuous: it is below the trivial K H from K = 7,484 on" in words
    plain = CliRunner().invoke(app, [*arguments[:-2], str(tmp_path / "plain.svg")])
    assert plain.exit_code == 0
    assert file.read_bytes() != (tmp_path / "plain.svg").read_bytes()


def test_bound_in_a_figure_is_the_cards_per_episode():
    run = train("factored", episodes=300, preset="certified")
    drawn = figures.run_figure(run, bound=True)
    card = RunSummary(run).guarantee
    for axes, formula in zip(drawn.axes[:2], (card.regret, card.violation), strict=True):
        line = next(line for line in axes.get_lines() if str(line.get_label()).startswith("bound: "))
        expected = [formula(int(k)) / k for k in run.episodes]
        np.testing.assert_allclose(np.asarray(line.get_ydata(), dtype=float), expected)  # one point is one unit here
        assert axes.get_yscale() == "symlog"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--bound"], "--bound draws into a figure"),
        (["--bound", "--figure", "x.svg"], "preset 'practical' has no bound"),
        (["reservoir", "--bound", "--figure", "x.svg", "--preset", "certified"], "reservoir has continuous states"),
    ],
)
def test_bound_without_guarantee_or_figure_is_refused(arguments: list[str], words: str, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    problem = [] if arguments[0] == "reservoir" else ["factored"]
    result = CliRunner().invoke(app, ["run", *problem, "-k", "10", *arguments])
    assert result.exit_code == 2
    assert words in " ".join(result.output.split())


def test_weights_that_are_no_shares_make_the_certified_radius_longer():
    # The radius takes a mixture's weights to have norm at most 1; 1.2 and -0.2 make a distribution too.
    base = np.full((2, 2, 2), 0.5)
    features = opdop.model.features.mixture([base, base], np.full((2, 2, 1), 0.5))
    rest: dict[str, Any] = {"reward_weights": [1.0], "utility_weights": [1.0], "thresholds": 0.5, "horizon": 2}
    norms = []
    for weights in ([0.5, 0.5], [1.2, -0.2]):
        model = opdop.LinearCMDP(features, weights, **rest).tabular()
        assert model.features is not None
        assert np.linalg.norm(weights) <= model.features.kernel_norm
        norms.append(model.features.kernel_norm)
    assert norms == [1.0, math.sqrt(2.0)]


def test_constants_of_a_longer_plan_are_those_of_the_preset():
    setting = setting_of("counts")
    longer = setting.replanned(20_000)
    same = choose(setting.task.replan(20_000, 0.05), "certified")
    assert (longer.constants.step_size, longer.constants.mixing) == (same.step_size, same.mixing)
