"""The study that chose `practical`: its criterion, its notebook, and that what it chose is what ships."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import opdop
from opdop.algorithms import choose
from studies import practical
from studies.practical import CASES, FORMER, Case, Measured, Notebook, Setting, Trial

PAGE = (Path(__file__).parents[2] / "docs" / "practical.md").read_text(encoding="utf-8")


def test_defaults_are_the_winner_that_the_docs_print():
    found = re.search(r"^The winner: (.*)\.$", PAGE, re.MULTILINE)
    assert found is not None
    printed = dict(part.split(" ") for part in found[1].split(", "))
    task = opdop.Task.of(opdop.make("factored"), episodes=100)
    assert {name: float(value) for name, value in printed.items()} == choose(task, "practical").parameters


@pytest.mark.parametrize("problem", ["factored", "random-tabular", "queue"])
def test_no_policy_costs_less_than_nothing_and_the_optimum_costs_nothing(problem: str):
    case = Case(problem)
    H, S, A = case.cmdp.horizon, case.cmdp.num_states, case.cmdp.num_actions
    generator = np.random.default_rng(0)
    tables = [generator.dirichlet(np.full(A, 0.1), (H, S)) for _ in range(200)]
    for table in tables:
        values = opdop.evaluate(case.cmdp, table)
        lacking = max(float((case.cmdp.thresholds - values.utilities).max()), 0.0)
        assert case.cost(case.optimum.value - values.reward, lacking) > 0.0
    best = opdop.evaluate(case.cmdp, case.optimum.policy)
    lacking = max(float((case.cmdp.thresholds - best.utilities).max()), 0.0)
    assert case.cost(case.optimum.value - best.reward, lacking) == pytest.approx(0.0, abs=1e-9)


def test_greed_does_not_pay():
    # The best policy without constraints has negative regret; its violation costs more.
    case = Case("media-streaming")
    free = case.optimum.unconstrained
    regret, lacking = case.optimum.value - free.reward, float((case.cmdp.thresholds - free.utilities).max())
    assert regret < 0.0 < case.cost(regret, lacking)


def test_neighbours_are_a_step_of_one_parameter_away():
    for other in FORMER.neighbours():
        differing = [place for place, parameter in enumerate(other.parameters) if parameter != FORMER.parameters[place]]
        assert len(differing) == 1
    assert len(list(FORMER.neighbours())) == 8  # ridge_scale and optimistic_init are at the ends of their ladders


def test_every_shipped_problem_is_in_the_study():
    assert {case.problem for case in CASES} == set(opdop.environments())


def test_a_run_is_made_once_and_then_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    case = Case("factored")
    first = Notebook(tmp_path).measure(case, FORMER, 50, 0)

    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("the run is in the notebook")

    monkeypatch.setattr(practical.opdop, "train", never)
    assert Notebook(tmp_path).measure(case, FORMER, 50, 0) == first
    with pytest.raises(AssertionError, match="in the notebook"):
        Notebook(tmp_path).measure(case, FORMER, 50, 1)


def test_criterion_is_the_geometric_mean_of_shares_of_the_uniform_cost(tmp_path: Path):
    cases = (Case("factored"), Case("queue", most=10))
    trial = Trial(Notebook(tmp_path), cases, (10, 20), (0, 1))
    setting = Setting("certified")
    shares = []
    for case, lengths in zip(cases, ((10, 20), (10,)), strict=True):
        for length in lengths:
            runs = [trial.notebook.measure(case, setting, length, seed) for seed in (0, 1)]
            mean = Measured(*np.mean([[run.regret, run.violation, run.hard_violation] for run in runs], axis=0))
            shares.append(case.cost(mean.regret, mean.hard_violation) / case.uniform_cost)
    assert trial.shares(setting) == pytest.approx(shares, rel=1e-12)
    assert trial.criterion(setting) == pytest.approx(np.prod(shares) ** (1 / 3), rel=1e-12)
