"""The studies run from start to end, at toy sizes, and print their tables."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import opdop
from studies import certification, coverage, quadrature, rates, reevaluation, states
from studies.common import MEASURES, numbers_from, per_episode


def test_rates_prints_points_and_slopes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    monkeypatch.setattr(rates, "PLANS", {"certified": [50, 100, 200]})
    monkeypatch.setattr(rates, "FIGURE", tmp_path / "rates-{}-{}.svg")
    monkeypatch.setattr(sys, "argv", ["rates", "factored", "certified", "2"])
    rates.main()
    printed = capsys.readouterr().out
    assert "| 200 |" in printed
    assert "hard violation: slope" in printed
    assert (tmp_path / "rates-factored-certified.svg").exists()


@pytest.mark.parametrize("seeds", [1, 3])
def test_the_slope_of_a_power_is_its_exponent(seeds: int):
    plans = [10, 100, 1000, 10_000]
    values = np.array([(1.0 + seed) * np.array(plans) ** 0.7 for seed in range(seeds)])
    assert rates.slope(plans, values) == pytest.approx((0.7, 0.0), abs=1e-9)
    assert rates.interval(plans, -values) == "slope 0.700 ± 0.000 (of its size: it is negative)"
    values[0, 1] = -1.0
    assert "no slope" in rates.interval(plans, values)


def test_states_compares_both_learners_at_every_size(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    monkeypatch.setattr(states, "SIZES", {20: "C0", 30: "C1"})
    monkeypatch.setattr(states, "FIGURE", tmp_path / "states.svg")
    monkeypatch.setattr(sys, "argv", ["states", "50", "2"])
    states.main()
    printed = capsys.readouterr().out
    assert printed.count("| least squares |") == printed.count("| counts |") == 2
    assert (tmp_path / "states.svg").exists()


def test_reevaluation_compares_every_episode_with_each_growth(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(reevaluation, "GROWTHS", (None, 2.0))
    monkeypatch.setattr(sys, "argv", ["reevaluation", "12", "1"])
    reevaluation.main()
    printed = capsys.readouterr().out
    assert "reservoir, 12 episodes" in printed
    assert "| every episode | 12 |" in printed
    assert "| growth 2 |" in printed


def test_quadrature_prints_a_row_for_each_rule(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr(quadrature, "RULES", (("gauss-legendre", 4), ("midpoint", 4)))
    monkeypatch.setattr(quadrature, "EPISODES", 8)
    monkeypatch.setattr(quadrature, "SEEDS", 1)
    monkeypatch.setattr(quadrature, "CELLS", 64)
    quadrature.main()
    printed = capsys.readouterr().out
    assert "| gauss-legendre | 4 |" in printed
    assert "| midpoint | 4 |" in printed


def test_measures_per_episode_are_sums_divided_by_the_episodes_in_either_units():
    run = opdop.train("inventory", episodes=40)
    model_units = [run.history[name][-1] / 40 for name in MEASURES]
    assert list(per_episode(run)) == model_units
    dollars, budget = (abs(quantity.scale) for quantity in run.display.quantities)
    own = [value * scale for value, scale in zip(model_units, (dollars, budget, budget), strict=True)]
    assert list(per_episode(run, own_units=True)) == own


def test_numbers_that_are_not_given_have_defaults():
    assert numbers_from([], [2000, 3]) == [2000, 3]
    assert numbers_from(["1e4"], [2000, 3]) == [10_000, 3]
    with pytest.raises(SystemExit, match="expected at most 2"):
        numbers_from(["1", "2", "3"], [2000, 3])


def test_certification_prints_its_tables_and_makes_no_run_twice(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    given = ["--largest", "300", "--problems", "factored", "random-tabular", "--file", str(tmp_path / "kept.jsonl")]
    certification.main(given)
    printed = capsys.readouterr().out
    assert printed.count("| optimistic, stage by stage |") == 2  # of factored, which is stationary, and its prototype
    assert "- random-tabular, within 2 % of the optimum" in printed
    monkeypatch.setattr(certification, "measure", lambda *_: pytest.fail("a run was made again"))
    certification.main(given)
    assert capsys.readouterr().out == printed


def test_a_goal_is_reached_only_where_every_constraint_is_kept():
    points = tuple(
        certification.Point(episodes, keeps, gap, True, gap / 2.0, 0.0)
        for episodes, keeps, gap in ((100, False, 0.1), (200, True, 0.4), (300, True, 0.3))
    )
    result = certification.Result(points, 0.0, 0.0)
    assert result.reached(0.35) == 300
    assert result.reached(0.35, declared=True) == 100
    assert result.reached(0.2) is None
    assert certification.sizes(300) == [100, 126, 158, 200, 251, 300]


def test_coverage_with_unknown_first_states_finds_no_false_certificate_but_those_that_take_them_as_known(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(coverage, "CASES", [case for case in coverage.CASES if case.problem == coverage.ONE_STAGE])
    monkeypatch.setattr(sys, "argv", ["coverage", "8", "100", "5"])
    coverage.main()
    printed = capsys.readouterr().out
    assert printed.count("first state not known | 0 of 8 |") == 2  # 0.4 of 8 are allowed on average
    assert "False: 0 of 16 runs" in printed
    assert "taken as the truth, false: 7 of 8 logs (one stage)" in printed
