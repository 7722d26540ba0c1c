"""The studies run from start to end, at toy sizes, and say what they have found."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from studies import rates, states


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
