"""The implementation passes every check of `opdop verify`; a wrong implementation turns a row red."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from typer.testing import CliRunner

import opdop
from opdop import LSTD, OPDOP, Counts, Episode, Estimates, TabularPolicy, Task
from opdop.algorithms import BallRadius, SelfNormalisedRadius, choose
from opdop.algorithms.radius_rules import first_widths, linear_rule
from opdop.cli import app
from opdop.kernels.balls import l1_width
from opdop.kernels.lstd import kernel_radius, signal_radius
from opdop.report.terminal.verification_tables import tightness_text
from opdop.theory import (
    Simulation,
    Verification,
    bounds,
    coverage,
    coverage_simulations,
    reference_radii,
    run_checks,
    standard_simulations,
    verify,
)
from opdop.theory.checks import Check, Result
from opdop.theory.identities import mixing_cost, prediction_errors
from opdop.theory.potential import BallBonuses, LinearBonuses
from opdop.theory.reference_evaluators import _over_ball
from opdop.theory.run_checks import RunSums
from opdop.theory.verification import Row, interval

SURE = (
    "strong duality",
    "bound of the multiplier",
    "Bellman equations",
    "performance difference",
    "estimates from the past only",
    "0 <= Q <= H - h",
    "KL pushback",
    "mixing",
    "multipliers in [0, chi]",
    "regret decomposition",
    "violation decomposition",
    "potential",
    "sum of the bonuses",
    "policy improvement",
    "dual steps",
    "price of violation",
)
LIKELY = {
    "optimism": 0.975,
    "not too optimistic": 0.975,
    "martingale": 0.975,
    "regret, own bonuses": 0.95,
    "violation, own bonuses": 0.95,
    "regret, theorem": 0.95,
    "violation, theorem": 0.95,
}
EVALUATOR = "estimates from the past only"


@pytest.fixture(scope="module")
def tabular() -> Simulation:
    return Simulation.of(opdop.make("random-tabular", states=3, stages=3))


@pytest.fixture(scope="module")
def linear() -> Simulation:
    return Simulation.of(opdop.make("random-mixture", states=6, stages=3, dimension=2, successors=3))


def red(found: Verification) -> set[str]:
    return {row.check.name for row in found.rows if row.failed}


# What is right passes


def test_every_check_passes_on_small_problems_of_every_kind():
    found = verify(standard_simulations(), seeds=1, episodes=40)
    assert not found.failed
    guaranteed = {row.check.name: row.guaranteed for row in found.rows}
    assert guaranteed == {**dict.fromkeys(SURE, 1.0), **LIKELY}
    assert all(row.held == row.runs for row in found.rows)
    assert found.row("KL pushback").runs == 9
    assert found.row("optimism").runs == 7  # `scaled` does not guarantee optimism
    assert all(row.off is not None and row.off < 1e-9 for row in found.rows if row.check.identity)
    assert {simulation.algorithm for simulation in standard_simulations()} == {"opdop", "opdop-lstd"}


@pytest.mark.parametrize("preset", ["paper", "scaled"])
@pytest.mark.parametrize("kind", ["tabular", "linear"])
def test_presets_without_a_certificate_guarantee_only_what_is_sure(
    kind: str, preset: str, request: pytest.FixtureRequest
):
    simulation = replace(request.getfixturevalue(kind), preset=preset)
    found = verify([simulation], seeds=1, episodes=60)
    assert not found.failed
    assert {row.check.name for row in found.rows if row.guaranteed is None} == set(LIKELY)
    assert all(row.verdict == "no guarantee" for row in found.rows if row.guaranteed is None)
    assert not set(found.vacuous) & set(LIKELY)


# Vacuous checks


def test_checks_that_cannot_fail_are_vacuous_and_the_others_are_not(tabular: Simulation):
    found = verify([tabular], seeds=1, episodes=60)
    theorem = {"regret, theorem", "violation, theorem", "regret, own bonuses", "violation, own bonuses"}
    assert theorem <= set(found.vacuous)  # at 60 episodes they are far above K V* and K b
    assert not {EVALUATOR, "optimism", "sum of the bonuses", "KL pushback", "martingale"} & set(found.vacuous)
    assert all(found.row(name).verdict == "vacuous" for name in found.vacuous)
    assert {row["check"] for row in found.record()["checks"] if row["vacuous"]} == set(found.record()["vacuous"])


def test_theorem_is_vacuous_exactly_while_its_bound_is_above_the_largest_possible_sum(
    tabular: Simulation, monkeypatch: pytest.MonkeyPatch
):
    setting = tabular.setting(50, 0.05)
    sums = RunSums(tabular, setting)
    for record in tabular.play(setting, seed=0):
        sums.add(record)
    largest = {"regret": 50 * tabular.optimum.value, "violation": 50 * float(tabular.cmdp.thresholds[0])}
    measures = {"regret": run_checks.regret_theorem.measure, "violation": run_checks.violation_theorem.measure}
    for name, most in largest.items():
        assert getattr(bounds, name)(setting).total >= most
        assert measures[name](sums).vacuous
        for total, vacuous in ((most, True), (0.999 * most, False)):
            small = bounds.Bound(name, {"": total}, 50, 3)
            monkeypatch.setattr(bounds, name, lambda setting, episodes, small=small: small)
            assert measures[name](sums).vacuous == vacuous


def test_mixing_lemma_is_vacuous_because_it_holds_for_every_policy():
    theta, A = 0.01, 3
    largest = -math.log1p(-theta * (1.0 - 1.0 / A))
    one_action = np.full((1, 1, A), 1e-300)
    one_action[..., 0] = 1.0
    assert mixing_cost(one_action, theta).max() == pytest.approx(largest)
    assert largest < theta * math.log(A)


def test_optimism_is_vacuous_only_while_every_estimate_is_clipped(tabular: Simulation):
    assert verify([tabular], seeds=1, episodes=1).row("optimism").vacuous
    assert not verify([tabular], seeds=1, episodes=60).row("optimism").vacuous


def test_worse_of_two_results_keeps_what_is_not_a_number_and_the_larger_tightness():
    fine, tight = Result(0.1, 1.0, vacuous=True), Result(0.9, 1.0)
    assert (fine.joined(tight).tightness, fine.joined(tight).vacuous, fine.joined(fine).vacuous) == (0.9, False, True)
    broken = Result(math.nan, 1.0)
    assert not fine.joined(broken).held
    assert not broken.joined(fine).held


# What is wrong fails

Build = Callable[..., OPDOP]


def with_evaluator(make: Callable[[Task], Any]) -> Build:
    return lambda task, preset: OPDOP.preset(task, make(task), preset)


def halved(task: Task) -> Any:
    if task.features is None:
        return Counts(task, radius=BallRadius(0.5))
    return LSTD(task, radius=SelfNormalisedRadius(0.5))


class Hasty(OPDOP):
    """Observes before it evaluates."""

    def learn(self, episode: Episode) -> None:
        assert self._proposed is not None
        self.policy[:] = self._proposed.table
        self._update_dual()
        self.evaluator.observe(episode, self._estimates)
        self._estimates = self.evaluator.evaluate(self._proposed)
        self.utility_estimates[:] = self.estimated_totals()[1:]
        self._proposed = None
        self.episodes += 1


class Unclipped:
    """Algorithm 3 without its clip."""

    def __init__(self, task: Task) -> None:
        self.counts, self.horizon = Counts(task), task.horizon

    def evaluate(self, policy: TabularPolicy) -> Estimates:
        visits = self.counts.arrays.visits
        seen = self.counts.arrays.seen  # [H, S, A*S]: next state, pair
        J, H, A, S = self.counts.q.shape
        q, v = np.empty((J, H, S, A)), np.zeros((J, H + 1, S))
        for h in range(H - 1, -1, -1):
            totals = visits.sums[:, h] + v[:, h + 1] @ seen[h]
            values = totals * visits.inverse[h] + 2.0 * visits.radii[h] * visits.width[h]
            q[:, h] = values.reshape(J, A, S).swapaxes(1, 2)
            v[:, h] = (q[:, h] * policy.table[h]).sum(axis=2)
        return Estimates(q, v, np.ones((H, S), dtype=bool))

    def observe(self, episode: Episode, estimates: Estimates) -> None:
        self.counts.observe(episode)

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: Any) -> None:
        raise NotImplementedError


class Late(LSTD):
    """Puts the value function of the episode before into the target and the features."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.old = np.zeros_like(self.v)

    def observe(self, episode: Episode, estimates: Estimates | None = None) -> None:
        now = self.v.copy()
        self.v[:] = self.old
        super().observe(episode, estimates)
        self.v[:] = self.old = now


class Present(LSTD):
    """Puts every target in again with the newest value function, as if V^tau were V^k."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.past: list[Episode] = []

    def observe(self, episode: Episode, estimates: Estimates | None = None) -> None:
        self.past.append(episode)
        fresh = LSTD(self.task)
        fresh.v[:] = self.v
        for each in self.past:
            fresh.observe(each)
        for name, array in self._changing().items():
            if name not in ("q", "v"):
                array[...] = fresh._changing()[name]


def flipped(task: Task, preset: str) -> OPDOP:
    learner = OPDOP.preset(task, Counts, preset)
    learner.dual_step_size = -learner.dual_step_size
    return learner


def mixed(task: Task, preset: str) -> OPDOP:
    learner = OPDOP.preset(task, Counts, preset)
    learner.mixing = 1.0 / task.episodes
    return learner


def bolder(task: Task, preset: str) -> OPDOP:
    learner = OPDOP.preset(task, Counts, preset)
    learner.step_size = 2.0 * learner.step_size
    return learner


def too_free(task: Task, preset: str) -> OPDOP:
    learner = OPDOP.preset(task, Counts, preset)
    learner.dual_bound *= 3.0
    return learner


MUTANTS: dict[str, tuple[Build, str, set[str]]] = {
    "bonus halved, counts": (with_evaluator(halved), "tabular", {EVALUATOR}),
    "bonus halved, least squares": (with_evaluator(halved), "linear", {EVALUATOR}),
    "observe before evaluate": (lambda task, preset: Hasty.preset(task, Counts, preset), "tabular", {EVALUATOR}),
    "clip removed": (with_evaluator(Unclipped), "tabular", {EVALUATOR, "0 <= Q <= H - h"}),
    "sign of the dual step flipped": (flipped, "tabular", {"multipliers in [0, chi]"}),
    "value of the episode before in the target": (with_evaluator(Late), "linear", {EVALUATOR}),
    "value of the newest episode in every target": (with_evaluator(Present), "linear", {EVALUATOR}),
    "mixing added": (mixed, "tabular", {"KL pushback"}),
    "policy step doubled": (bolder, "tabular", {"KL pushback"}),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_wrong_implementation_turns_a_row_red(mutant: str, request: pytest.FixtureRequest):
    build, kind, expected = MUTANTS[mutant]
    simulation: Simulation = request.getfixturevalue(kind)
    assert not verify([simulation], seeds=1, episodes=60).failed
    found = verify([simulation], seeds=1, episodes=60, build=build)
    assert found.failed
    assert expected <= red(found)


def test_a_dual_bound_that_is_exceeded_turns_a_row_red():
    # `scaled` drives the multiplier to its bound; there it must stop.
    greedy = Simulation.of(opdop.make("factored"), preset="scaled")
    assert not verify([greedy], seeds=1, episodes=200).failed
    found = verify([greedy], seeds=1, episodes=200, build=too_free)
    assert "multipliers in [0, chi]" in red(found)


def test_estimates_without_bonus_fail_the_check_of_optimism(tabular: Simulation):
    # Not by one run: four of four failures put the interval below 0.975.
    found = verify(
        [tabular], seeds=4, episodes=60, build=with_evaluator(lambda task: Counts(task, radius=BallRadius(0.0)))
    )
    assert found.row("optimism").held == 0
    assert {"optimism", EVALUATOR} <= red(found)


@pytest.mark.parametrize(("kind", "bonuses"), [("tabular", BallBonuses), ("linear", LinearBonuses)])
def test_a_small_part_of_the_sum_of_the_bonuses_turns_a_row_red(
    kind: str, bonuses: Any, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
):
    simulation: Simulation = request.getfixturevalue(kind)
    right = verify([simulation], seeds=1, episodes=60)
    tightness = right.row("sum of the bonuses").tightness
    assert not right.failed
    assert tightness is not None
    least = 0.35 if kind == "tabular" else 0.5  # the range of V is less than H-1-h, which the bound has in its place
    assert least < tightness <= 1.0
    most = bonuses.most
    monkeypatch.setattr(bonuses, "most", lambda self, episodes: least * most(self, episodes))
    assert red(verify([simulation], seeds=1, episodes=60)) == {"sum of the bonuses"}


# A wrong radius is found, as the reference has its own formulas


def other_task(**changes: Any) -> Callable[[Task], Task]:
    return lambda task: replace(task, **{name: change(task) for name, change in changes.items()})


WRONG_TASKS: dict[str, Callable[[Task], Task]] = {
    "union over the actions forgotten": other_task(num_actions=lambda task: 1),
    "all of p spent on optimism": other_task(failure_probability=lambda task: 2 * task.failure_probability),
    "noise forgotten": other_task(noisy=lambda task: False),
    "rows of all stages counted as one": other_task(stationary=lambda task: True),
}
WRONG_LINEAR_TASKS = {
    "all of p spent on optimism": WRONG_TASKS["all of p spent on optimism"],
    "noise forgotten": WRONG_TASKS["noise forgotten"],
    "one constraint too many in the union bound": other_task(thresholds=lambda task: np.append(task.thresholds, 1.0)),
}


def noisy_of(simulation: Simulation, mutant: str) -> Simulation:
    return replace(simulation, noisy="noise" in mutant)


@pytest.mark.parametrize("mutant", ["halved", *WRONG_TASKS])
def test_a_wrong_radius_of_counts_turns_a_row_red(tabular: Simulation, mutant: str, monkeypatch: pytest.MonkeyPatch):
    simulation = noisy_of(tabular, mutant)
    assert not verify([simulation], seeds=1, episodes=60).failed
    right, change = BallRadius.log_sets, WRONG_TASKS.get(mutant, lambda task: task)
    if mutant == "halved":
        monkeypatch.setattr(BallRadius, "scale", 0.5)
        monkeypatch.setattr(BallRadius, "__init__", lambda self: None)
    monkeypatch.setattr(BallRadius, "log_sets", lambda rule, task: right(rule, change(task)))
    assert EVALUATOR in red(verify([simulation], seeds=1, episodes=60))


def test_pooling_a_kernel_that_is_not_stationary_turns_rows_red(tabular: Simulation):
    # random-tabular has a kernel for each stage. Told that it has one, the learner pools what does not belong together.
    def pooling(task: Task, preset: str) -> OPDOP:
        return OPDOP.preset(replace(task, stationary=True), Counts, preset)

    assert EVALUATOR in red(verify([tabular], seeds=1, episodes=60, build=pooling))
    # Its sets are then false for certain, not just with a small probability, once they are narrow enough.
    wrong = replace(tabular.setting(4000, 0.05).task, stationary=True)
    learner = OPDOP.preset(wrong, Counts, "certified")
    simulator = opdop.ModelSimulator(tabular.cmdp, seed=0)
    for _ in range(4000):
        policy = learner.propose()
        learner.learn(simulator.play(policy))
    assert prediction_errors(tabular.cmdp, learner.estimates).max() > 1e-3


@pytest.mark.parametrize("mutant", ["halved", *WRONG_LINEAR_TASKS])
@pytest.mark.parametrize("one_hot", [False, True], ids=["mixture", "one-hot"])
def test_a_wrong_radius_of_least_squares_turns_a_row_red(
    tabular: Simulation, linear: Simulation, one_hot: bool, mutant: str, monkeypatch: pytest.MonkeyPatch
):
    simulation = noisy_of(replace(tabular, algorithm="opdop-lstd") if one_hot else linear, mutant)
    assert not verify([simulation], seeds=1, episodes=60).failed
    right, change = SelfNormalisedRadius.linear_radii, WRONG_LINEAR_TASKS.get(mutant, lambda task: task)

    def wrong(rule: SelfNormalisedRadius, task: Task, sizes: Any, ridge: float) -> Any:
        return right(replace(rule, scale=0.5) if mutant == "halved" else rule, change(task), sizes, ridge)

    monkeypatch.setattr(SelfNormalisedRadius, "linear_radii", wrong)
    assert EVALUATOR in red(verify([simulation], seeds=1, episodes=60))


@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("states", [1, 2, 40])
def test_reference_radii_equal_the_learners_for_every_preset(states: int, noisy: bool):
    # Two formulas, written apart: to rounding they are the same at every size.
    initial = np.eye(states)[0]
    task = Task(4, states, 3, np.array([1.0, 0.5]), initial, episodes=999, slater_gap=0.4, noisy=noisy)
    sizes = opdop.model.features.one_hot(states, 3)
    for preset in ("certified", "scaled", "paper"):
        constants = choose(task, preset)
        ridge = reference_radii.ridge_of(constants)
        assert ridge == constants.ridge
        if preset == "certified":
            check_balls(task, constants.radius)
            continue
        radii = constants.radius.radii(task, ridge)
        np.testing.assert_allclose(reference_radii.count_bonus(task, constants), 2.0 * radii, rtol=1e-12)
        unvisited = 2.0 * radii * first_widths(constants.radius, task, ridge)
        np.testing.assert_allclose(reference_radii.unvisited_bonus(task, constants), unvisited, rtol=1e-12)
        linear = linear_rule(constants.radius).linear_radii(task, sizes, ridge)
        information = np.random.default_rng(0).random((3, 4, sizes.blocks))
        kernel = [[[kernel_radius(linear, h, i) for i in stage] for h, stage in enumerate(j)] for j in information]
        found = reference_radii.kernel_radii(task, constants, sizes, information)
        np.testing.assert_allclose(found, kernel, rtol=1e-12)
        signal = [[signal_radius(linear, i) for i in stage] for stage in information[0]]
        found = reference_radii.signal_radii(task, constants, sizes, information[0])
        np.testing.assert_allclose(found, signal, rtol=1e-12)


def check_balls(task: Task, rule: BallRadius) -> None:
    """Compare both logarithms and the widths for every way to pool."""
    for stationary, together in ((False, False), (True, False), (True, True)):
        changed = replace(task, stationary=stationary, stationary_signals=together)
        kernel, signal = rule.log_sets(changed)
        found = reference_radii.ball_logarithms(changed)
        assert found == pytest.approx((kernel, signal if task.noisy else -math.inf), rel=1e-13)
        n = np.array([0.0, 1.0, 2.0, 50.0, 1e6])
        widths = [min(0.5 * l1_width(each, kernel), 1.0) if each else 1.0 for each in n]
        np.testing.assert_allclose(reference_radii.mean_widths(n, found[0]), widths, rtol=1e-12)


def test_reference_widths_are_the_formula_of_the_docs():
    # H = 2, S = 3, A = 2, p = 0.1, n = 4: eps = (2/4) sqrt(5/2 log(3 sqrt(5) 12 / 0.05)).
    task = Task(2, 3, 2, np.array([1.0]), np.eye(3)[0], episodes=50, failure_probability=0.1, slater_gap=0.5)
    logarithm, _ = reference_radii.ball_logarithms(task)
    expected = 0.25 * math.sqrt(2.5 * math.log(3 * math.sqrt(5) * 12 / 0.05))
    assert reference_radii.mean_widths(np.array([4.0]), logarithm) == pytest.approx(min(expected, 1.0))
    expected = math.sqrt(500.5 * math.log(3 * math.sqrt(1001) * 12 / 0.05)) / 1000
    assert reference_radii.mean_widths(np.array([1000.0]), logarithm) == pytest.approx(expected)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 6), st.floats(0.0, 1.0), st.integers(0, 2**32 - 1))
def test_reference_optimum_over_a_ball_is_that_of_a_linear_program(S: int, move: float, seed: int):
    rng = np.random.default_rng(seed)
    p, v = rng.dirichlet(np.full(S, 0.5)), np.round(3.0 * rng.random(S), 1)  # also with equal values
    _, high, low = _over_ball(p[None], v, np.array([move]))
    for sign, found in ((1.0, high[0]), (-1.0, low[0])):
        # q = p + u - d with u, d >= 0, sum u = sum d <= move
        program = linprog(
            np.concatenate([-sign * v, sign * v]),
            A_ub=np.concatenate([np.hstack([-np.eye(S), np.eye(S)]), [np.append(np.ones(S), np.zeros(S))]]),
            b_ub=np.append(p, move),
            A_eq=[np.append(np.ones(S), -np.ones(S))],
            b_eq=[0.0],
        )
        assert found == pytest.approx(float(p @ v) - sign * program.fun, abs=1e-8)


# Counting


def test_interval_is_clopper_and_pearsons():
    # The rule of three, more exactly: none of n failed, so the failure rate is at most 1 - (tail)^(1/n).
    low, high = interval(200, 200)
    assert (low, high) == (pytest.approx(0.025 ** (1 / 200)), 1.0)
    assert interval(0, 10) == (0.0, pytest.approx(1 - 0.025 ** (1 / 10)))
    low, high = interval(7, 20)
    assert (low, high) == (pytest.approx(0.15391, abs=1e-5), pytest.approx(0.59219, abs=1e-5))


def test_a_sure_claim_fails_at_once_and_a_likely_one_only_beyond_chance():
    sure, likely = (Check("", "", "", lambda record: Result(0.0, 0.0), failure) for failure in (None, 0.5))

    def row(check: Check[Any], guaranteed: float | None, held: int) -> Row:
        results = [("", Result(float(i >= held), 0.0)) for i in range(100)]
        return Row(check, guaranteed, tuple(results))

    assert row(sure, 1.0, 99).failed
    assert not row(likely, 0.975, 99).failed
    assert not row(likely, 0.975, 95).failed  # its interval ends at 0.984
    assert row(likely, 0.975, 90).failed
    assert not row(likely, None, 0).failed
    assert [row(likely, p, 99).verdict for p in (0.975, None)] == ["passed", "no guarantee"]


def test_problems_of_one_name_are_all_counted(tabular: Simulation):
    twice = verify([tabular, tabular], seeds=2, episodes=5)
    assert (twice.row("strong duality").runs, twice.row("optimism").runs) == (2, 4)


def test_coverage_counts_runs_and_sees_a_radius_that_is_too_small(tabular: Simulation, linear: Simulation):
    study = coverage([tabular, linear], seeds=3, episodes=80)
    assert [part.optimism.runs for part in study.problems] == [3, 3]
    assert (study.row.held, study.row.runs, study.failed) == (6, 6, False)
    small = coverage(
        [tabular], seeds=4, episodes=80, build=with_evaluator(lambda t: Counts(t, radius=BallRadius(0.01)))
    )
    assert (small.row.held, small.failed) == (0, True)


def test_needed_share_of_the_bonus_is_given_by_stage_and_the_last_stage_apart(tabular: Simulation):
    part = coverage([tabular], seeds=2, episodes=200).problems[0]
    assert len(part.needed) == tabular.cmdp.horizon
    before = [share for share in part.needed[:-1] if share is not None]
    # At the last stage a signal that is not random is known exactly: there is no bonus, and none is needed.
    last = part.needed[-1]
    assert last is None
    assert 0.0 < max(before) < 1.0
    assert part.needed_before_last == max(before) == part.optimism.tightness
    assert (part.record()["needed_by_stage"], part.record()["needed_at_last_stage"]) == (list(part.needed[:-1]), last)


def test_coverage_problems_are_tabular_and_linear_and_have_names_of_their_own():
    simulations = coverage_simulations()
    assert len({each.name for each in simulations}) == len(simulations) >= 6
    assert {each.features is None for each in simulations} == {True, False}
    assert {each.noisy for each in simulations} == {True, False}
    assert max(each.cmdp.num_constraints for each in simulations) > 1


# The command


def test_command_prints_the_table_and_its_legend():
    result = CliRunner().invoke(app, ["verify", "factored", "--seeds", "1", "--episodes", "30"])
    assert result.exit_code == 0
    for words in (
        "optimism",
        "1 of 1",
        "always",
        "0.975",
        "95% interval",
        "tightness",
        "below K H",
        "1,821",
        "vacuous",
    ):
        assert words in result.output
    assert max(map(len, result.output.splitlines())) <= 80


def test_closing_line_counts_vacuous_checks_apart():
    result = CliRunner().invoke(app, ["verify", "factored", "--seeds", "1", "--episodes", "30"])
    closing = " ".join(result.output.split()).split("smaller than K H. ")[1]
    assert closing.startswith("All 23 checks passed; ")
    assert "of them are vacuous at 30 episodes: mixing; " in closing
    assert closing.endswith("regret, theorem; violation, theorem.")


def test_command_gives_json_and_markdown(tmp_path):
    file = tmp_path / "table.md"
    arguments = ["verify", "factored", "--seeds", "1", "-k", "30", "--json", "--markdown", str(file)]
    result = CliRunner().invoke(app, arguments)
    record = json.loads(result.output)
    assert (record["format"], record["failed"], record["episodes"]) == ("opdop.verify/2", False, 30)
    assert {row["check"] for row in record["checks"]} == {*SURE, *LIKELY}
    assert {"regret, theorem", "violation, theorem"} <= set(record["vacuous"])
    assert record["bounds"][0]["regret_from"] == 1821
    lines = file.read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("| check | in the paper | held |")
    assert len({line.count("|") for line in lines[: 2 + len(SURE) + len(LIKELY)]}) == 1
    assert any(line.startswith("| regret, theorem |") and line.endswith("| vacuous |") for line in lines)
    assert lines[-1].startswith("All 23 checks passed; ")


def test_command_ends_with_status_1_if_a_check_fails(monkeypatch):
    monkeypatch.setattr(
        "opdop.theory.simulation.find", lambda name: type("Found", (), {"build": staticmethod(flipped)})
    )
    result = CliRunner().invoke(app, ["verify", "factored", "--seeds", "1", "-k", "30"])
    assert result.exit_code == 1
    assert "FAILED" in result.output
    assert "A check failed" in result.output
    assert "did not hold in: factored S3 A2 H6, counts, seed 0" in " ".join(result.output.split())


def test_command_counts_coverage_and_shows_the_needed_share_by_stage(tmp_path):
    file = tmp_path / "coverage.md"
    arguments = ["verify", "factored", "--coverage", "--seeds", "2", "-k", "30", "--markdown", str(file)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0
    assert "Optimistic as often as guaranteed." in result.output
    assert "covers only the ridge's bias" in " ".join(result.output.split())
    needed = next(line for line in file.read_text(encoding="utf-8").splitlines() if "by stage" in line)
    assert needed == "| problem | needed, by stage | largest | last stage |"
    record = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).output)
    assert (record["format"], record["all"]["held"]) == ("opdop.coverage/2", 2)
    assert len(record["problems"][0]["needed_by_stage"]) == 5


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["factored", "--algorithm", "oppo"], "cannot be verified"),
        (["--noisy"], "--noisy needs a problem"),
        (["factored", "queue", "--set", "stages=3"], "--set needs one problem"),
        (["factored", "--seeds", "0"], "seeds is 0; expected a whole number, at least 1"),
        (["factored", "--episodes", "1.5"], "expected a whole number"),
        (["factored", "--coverage", "--preset", "paper"], "does not guarantee optimism"),
        (["factored", "--markdown", "/nowhere/at/all.md"], "there is no folder"),
        (["factored", "--preset", "safe"], "there is no preset 'safe'"),
        (["reservoir"], "has continuous states, and the theorem is for finitely many"),
        (["reservoir", "--algorithm", "opdop"], "has continuous states, and the theorem is for finitely many"),
        (["random-mixture", "--set", "states=2000", "--algorithm", "opdop"], "verify a smaller problem"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_command_says_what_is_wrong(arguments: list[str], words: str):
    result = CliRunner().invoke(app, ["verify", *arguments])
    assert result.exit_code == 2
    assert words in " ".join(result.output.split())


def test_tightness_is_never_shown_as_minus_zero():
    row = verify([Simulation.of(opdop.make("factored"))], seeds=1, episodes=5).row("optimism")
    shown = {used: tightness_text(replace(row, results=(("", Result(0.0, 0.0, used=used)),))) for used in (0.25, -1e-9)}
    assert shown == {0.25: "0.25", -1e-9: "< 0"}
