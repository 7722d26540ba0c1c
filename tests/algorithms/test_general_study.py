"""The study on families of random problems: its criterion, its settings, and its file of results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import opdop
from opdop.envs.families import families
from studies.general import settings as study
from studies.general.__main__ import main
from studies.general.cases import Case, cases
from studies.general.runs import Results
from studies.general.settings import FIRST_EDITION, Setting
from studies.general.tables import Table


@pytest.mark.parametrize("case", [Case("factored"), Case("dense-three", 0), Case("bandit", 1)], ids=str)
def test_no_policy_costs_less_than_nothing_and_the_optimum_costs_nothing(case: Case):
    H, S, A = case.cmdp.horizon, case.cmdp.num_states, case.cmdp.num_actions
    generator = np.random.default_rng(0)
    for table in [generator.dirichlet(np.full(A, 0.1), (H, S)) for _ in range(100)]:
        values = opdop.evaluate(case.cmdp, table)
        lacking = max(float((case.cmdp.thresholds - values.utilities).max()), 0.0)
        assert case.cost(case.optimum.value - values.reward, lacking) > 0.0
    best = opdop.evaluate(case.cmdp, case.optimum.policy)
    lacking = max(float((case.cmdp.thresholds - best.utilities).max()), 0.0)
    assert case.cost(case.optimum.value - best.reward, lacking) == pytest.approx(0.0, abs=1e-9)


def test_reward_gained_by_violation_costs_more_than_it_brings():
    case = Case("media-streaming")
    free = case.optimum.unconstrained
    regret, lacking = case.optimum.value - free.reward, float((case.cmdp.thresholds - free.utilities).max())
    assert regret < 0.0 < case.cost(regret, lacking)


def test_halves_have_no_problem_in_common_and_shipped_ones_are_for_validation():
    training, validation = ({case.problem for case in cases(half)} for half in ("training", "validation"))
    assert not training & validation
    assert training == set(families("training"))
    assert validation == set(families("validation")) | set(opdop.environments())


def test_settings_are_read_from_their_text():
    setting = Setting("opdop:practical,damping=0.5,radius_scale=0.01")
    assert (setting.algorithm, setting.preset) == ("opdop", "practical")
    assert setting.parameters == {"damping": 0.5, "radius_scale": 0.01}
    assert not setting.is_planned
    assert Setting("oppo").preset == "practical"
    assert Setting("opdop:certified").is_planned
    assert Setting(FIRST_EDITION).is_planned


def test_runs_are_made_once_and_a_plan_of_its_own_needs_a_run_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    made: list[int] = []
    train = opdop.train

    def counted(*given: Any, **options: Any) -> opdop.Run:
        made.append(options["episodes"])
        return train(*given, **options)

    monkeypatch.setattr(study.opdop, "train", counted)
    case, results = Case("bandit", 0), Results(tmp_path / "training.jsonl")
    for text in ("opdop", FIRST_EDITION):
        results.fill(Setting(text), case, (50, 100), 0)
    assert made == [100, 50, 100]
    again = Results(tmp_path / "training.jsonl")
    again.fill(Setting("opdop"), case, (50, 100), 0)
    assert len(made) == 3
    assert again.known == results.known


def test_measures_are_those_of_the_run(tmp_path: Path):
    case, results = Case("bandit", 0), Results(tmp_path / "training.jsonl")
    results.fill(Setting("opdop"), case, (60,), 3)
    run = opdop.train(case.made, episodes=60, seed=3)
    found = results.find(Setting("opdop"), case, 60, 3)
    assert found is not None
    assert found.regret == pytest.approx(run.regret[-1] / 60, rel=1e-12)
    assert found.hard_violation == pytest.approx(run.hard_violation[-1] / 60, rel=1e-12)
    late = (run.hard_violation[-1] - run.hard_violation[53]) / 6  # the last tenth: episodes 55 to 60
    assert found.late_hard_violation == pytest.approx(late, rel=1e-9, abs=1e-12)


def test_criterion_is_the_geometric_mean_of_shares(tmp_path: Path):
    results = Results(tmp_path / "training.jsonl")
    chosen, setting = (Case("bandit", 0), Case("lock", 0)), Setting("opdop:certified")
    for case in chosen:
        for seed in (0, 1):
            results.fill(setting, case, (20,), seed)
    table = Table(results, chosen, (20,), (0, 1))
    shares = []
    for case in chosen:
        runs = table.runs(setting, case, 20)
        costs = [case.cost(run.regret, run.hard_violation) for run in runs]
        shares.append(np.mean(costs) / case.uniform_cost)
    assert table.overall(setting) == pytest.approx(np.sqrt(np.prod(shares)), rel=1e-12)


def test_the_study_prints_its_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    options = ["--lengths", "20", "40", "--folder", str(tmp_path), "--only", "bandit", "lock", "--cases"]
    main(["training", "opdop", FIRST_EDITION, *options])
    printed = capsys.readouterr().out
    assert "| setting | K 20 | K 40 |" in printed
    assert "| bandit 0 | 1, 5, 1, 1 |" in printed
    assert f"| `{FIRST_EDITION}` |" in printed
