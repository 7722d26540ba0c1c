"""`opdop verify` passes the implementation, and a wrong implementation turns a row red."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from opdop.theory.statements import Statement
from typer.testing import CliRunner

import opdop
from opdop import LSTD, OPDOP, Counts, Episode, Estimates, TabularPolicy, Task
from opdop.algorithms import SelfNormalisedRadius, WeissmanRadius
from opdop.cli import app
from opdop.kernels.primal_dual import update_dual
from opdop.report.terminal.verification_tables import tightness_text
from opdop.theory import Case, Verification, coverage, verify
from opdop.theory.potential import CountBonuses, LinearBonuses
from opdop.theory.verification import Row, coverage_cases, interval, standard_cases

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
def tabular() -> Case:
    return Case.of(opdop.make("random-tabular", states=3, stages=3))


@pytest.fixture(scope="module")
def linear() -> Case:
    return Case.of(opdop.make("random-mixture", states=6, stages=3, dimension=2, successors=3))


def red(found: Verification) -> set[str]:
    return {row.statement.name for row in found.rows if row.broken}


# What is right passes


def test_every_statement_holds_on_small_problems_of_every_kind():
    found = verify(standard_cases(), seeds=1, episodes=40)
    assert not found.broken
    promised = {row.statement.name: row.promised for row in found.rows}
    assert promised == {**dict.fromkeys(SURE, 1.0), **LIKELY}
    assert all(row.held == row.runs for row in found.rows)
    assert found.row("KL pushback").runs == 9
    assert found.row("optimism").runs == 7  # `practical` promises no optimism
    assert all(row.off is not None and row.off < 1e-9 for row in found.rows if row.statement.identity)
    assert {case.algorithm for case in standard_cases()} == {"opdop", "opdop-lstd"}


@pytest.mark.parametrize("preset", ["paper", "practical"])
def test_presets_without_a_certificate_promise_only_what_is_sure(tabular: Case, preset: str):
    found = verify([tabular.with_preset(preset)], seeds=1, episodes=60)
    assert not found.broken
    assert {row.statement.name for row in found.rows if row.promised is None} == set(LIKELY)
    assert all(row.verdict == "not promised" for row in found.rows if row.promised is None)


# What is wrong fails

Build = Callable[..., OPDOP]


def with_evaluator(make: Callable[[Task], Any]) -> Build:
    return lambda task, preset: OPDOP.preset(task, make(task), preset)


def halved(task: Task) -> Any:
    if task.features is None:
        return Counts(task, radius=WeissmanRadius(0.5))
    return LSTD(task, radius=SelfNormalisedRadius(0.5))


class Hasty(OPDOP):
    """Observes before it evaluates."""

    def learn(self, episode: Episode) -> None:
        assert self._proposed is not None
        self.policy[:] = self._proposed.table
        update_dual(self.dual, self.task.thresholds, self.utility_estimates, self.dual_step_size, self.dual_bound)
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
        visits = self.counts.counts.visits
        seen = self.counts.counts.seen  # [H, S, A*S]: next state, pair
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


def unmixed(task: Task, preset: str) -> OPDOP:
    learner = OPDOP.preset(task, Counts, preset)
    learner.mixing = 0.0
    return learner


def bolder(task: Task, preset: str) -> OPDOP:
    learner = OPDOP.preset(task, Counts, preset)
    learner.step_size *= 2.0
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
    "mixing left out": (unmixed, "tabular", {"KL pushback"}),
    "policy step doubled": (bolder, "tabular", {"KL pushback"}),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_wrong_implementation_turns_a_row_red(mutant: str, request: pytest.FixtureRequest):
    build, kind, expected = MUTANTS[mutant]
    case: Case = request.getfixturevalue(kind)
    assert not verify([case], seeds=1, episodes=60).broken
    found = verify([case], seeds=1, episodes=60, build=build)
    assert found.broken
    assert expected <= red(found)


def test_a_dual_bound_that_is_not_kept_turns_a_row_red():
    # `practical` drives the multiplier to its bound; there it must stop.
    greedy = Case.of(opdop.make("factored"), preset="practical")
    assert not verify([greedy], seeds=1, episodes=200).broken
    found = verify([greedy], seeds=1, episodes=200, build=too_free)
    assert "multipliers in [0, chi]" in red(found)


def test_estimates_without_bonus_break_the_promise_of_optimism(tabular: Case):
    # Not by one run: four of four failures put the interval below 0.975.
    found = verify([tabular], seeds=4, episodes=60, build=with_evaluator(lambda task: Counts(task, radius=0.0)))
    assert found.row("optimism").held == 0
    assert {"optimism", EVALUATOR} <= red(found)


@pytest.mark.parametrize(("kind", "bonuses"), [("tabular", CountBonuses), ("linear", LinearBonuses)])
def test_half_the_sum_of_the_bonuses_turns_a_row_red(
    kind: str, bonuses: Any, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
):
    case: Case = request.getfixturevalue(kind)
    right = verify([case], seeds=1, episodes=60)
    tightness = right.row("sum of the bonuses").tightness
    assert not right.broken
    assert tightness is not None
    assert 0.5 < tightness <= 1.0
    most = bonuses.most
    monkeypatch.setattr(bonuses, "most", lambda self, episodes: most(self, episodes) / 2.0)
    assert red(verify([case], seeds=1, episodes=60)) == {"sum of the bonuses"}


# Counting


def test_interval_is_clopper_and_pearsons():
    # The rule of three, more exactly: none of n failed, so the failure rate is at most 1 - (tail)^(1/n).
    low, high = interval(200, 200)
    assert (low, high) == (pytest.approx(0.025 ** (1 / 200)), 1.0)
    assert interval(0, 10) == (0.0, pytest.approx(1 - 0.025 ** (1 / 10)))
    low, high = interval(7, 20)
    assert (low, high) == (pytest.approx(0.15391, abs=1e-5), pytest.approx(0.59219, abs=1e-5))


def test_a_sure_promise_breaks_at_once_and_a_likely_one_only_beyond_chance():
    sure, likely = Statement("s", "", ""), Statement("l", "", "", failure=0.5)
    assert Row(sure, 1.0, 99, 100, None, None).broken
    assert not Row(likely, 0.975, 99, 100, None, None).broken
    assert not Row(likely, 0.975, 95, 100, None, None).broken  # its interval ends at 0.984
    assert Row(likely, 0.975, 90, 100, None, None).broken
    assert not Row(likely, None, 0, 100, None, None).broken
    assert [Row(likely, p, 99, 100, None, None).verdict for p in (0.975, None)] == ["as promised", "not promised"]


def test_coverage_counts_runs_and_sees_a_radius_that_is_too_small(tabular: Case, linear: Case):
    study = coverage([tabular, linear], seeds=3, episodes=80)
    assert [part.runs for part in study.parts] == [3, 3]
    assert (study.row.held, study.row.runs, study.broken) == (6, 6, False)
    assert study.row.tightness is not None
    assert 0.05 < study.row.tightness < 1.0
    small = coverage(
        [tabular], seeds=4, episodes=80, build=with_evaluator(lambda t: Counts(t, radius=WeissmanRadius(0.01)))
    )
    assert (small.row.held, small.broken) == (0, True)


def test_coverage_problems_are_tabular_and_linear_and_have_names_of_their_own():
    cases = coverage_cases()
    assert len({case.name for case in cases}) == len(cases) >= 6
    assert {case.features is None for case in cases} == {True, False}
    assert {case.noisy for case in cases} == {True, False}
    assert max(case.cmdp.num_constraints for case in cases) > 1


# The command


def test_command_prints_the_table_and_its_legend():
    result = CliRunner().invoke(app, ["verify", "factored", "--seeds", "1", "--episodes", "30"])
    assert result.exit_code == 0
    for words in ("optimism", "1 of 1", "always", "0.975", "95% interval", "tightness", "useful from K", "28,689"):
        assert words in result.output
    assert max(map(len, result.output.splitlines())) <= 80


def test_command_gives_json_and_markdown(tmp_path):
    file = tmp_path / "table.md"
    arguments = ["verify", "factored", "--seeds", "1", "-k", "30", "--json", "--markdown", str(file)]
    result = CliRunner().invoke(app, arguments)
    record = json.loads(result.output)
    assert (record["format"], record["broken"], record["episodes"]) == ("opdop.verify/1", False, 30)
    assert {row["statement"] for row in record["statements"]} == {*SURE, *LIKELY}
    assert record["bounds"][0]["regret_from"] == 28689
    lines = file.read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("| statement | in the paper | held |")
    assert len({line.count("|") for line in lines[: 2 + len(SURE) + len(LIKELY)]}) == 1


def test_command_ends_with_status_1_if_a_promise_is_broken(monkeypatch):
    monkeypatch.setattr(
        "opdop.theory.simulation.find", lambda name: type("Found", (), {"build": staticmethod(flipped)})
    )
    result = CliRunner().invoke(app, ["verify", "factored", "--seeds", "1", "-k", "30"])
    assert result.exit_code == 1
    assert "BROKEN" in result.output
    assert "A promise is broken" in result.output
    assert "failed in: factored S3 A2 H6, counts, seed 0" in " ".join(result.output.split())


def test_command_counts_coverage():
    result = CliRunner().invoke(app, ["verify", "factored", "--coverage", "--seeds", "2", "-k", "30"])
    assert result.exit_code == 0
    assert "As promised." in result.output
    record = CliRunner().invoke(app, ["verify", "factored", "--coverage", "--seeds", "2", "-k", "30", "--json"])
    assert json.loads(record.output)["all"]["held"] == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["factored", "--algorithm", "oppo"], "cannot be verified"),
        (["--noisy"], "--noisy needs a problem"),
        (["factored", "queue", "--set", "stages=3"], "--set needs one problem"),
        (["factored", "--seeds", "0"], "seeds is 0; expected a whole number, at least 1"),
        (["factored", "--episodes", "1.5"], "expected a whole number"),
        (["factored", "--coverage", "--preset", "paper"], "makes none of optimism"),
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
    row = verify([Case.of(opdop.make("factored"))], seeds=1, episodes=5).row("optimism")
    shown = {value: tightness_text(replace(row, tightness=value, off=None)) for value in (0.25, -1e-9)}
    assert shown == {0.25: "0.25", -1e-9: "< 0"}
    assert tightness_text(replace(row, tightness=-0.0, off=None)) == "0"
