"""The comparison of all algorithms: its measures, its file of results, and what its tables say of refused problems."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import opdop
from studies.peers.__main__ import main
from studies.peers.runs import SPEC, Comparison, measure, present_commit
from studies.peers.tables import OPTIMUM, PAGE, Tables, measure_optimum, written

SMALL = """
algorithms = ["opdop", "triple-q", "uniform"]
seeds = [0, 1]
episodes = 60
large_pairs = 3_000
large_episodes = 20
continuous_episodes = 20
reached.share = 0.05
certified.share = 0.10
certified.sizes = 3
"""


def test_measures_are_those_of_the_run():
    run = opdop.train("factored", episodes=200, records=200)
    found = measure(run, 0.05)
    assert found.regret == run.regret[-1] / 200
    assert found.hard_violation == run.hard_violation[-1] / 200
    late = (run.hard_violation[-1] - run.hard_violation[179]) / 20
    assert found.late_hard_violation == pytest.approx(late, abs=1e-12)
    per_episode = np.maximum(run.regret, run.violation) / np.arange(1, 201)
    assert found.reached is not None
    assert (per_episode[found.reached - 1 :] <= 0.3).all()
    assert found.reached == 1 or per_episode[found.reached - 2] > 0.3


def test_runs_are_made_once_and_refused_problems_stay_empty(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    spec, file = tmp_path / "spec.toml", tmp_path / "peers.jsonl"
    spec.write_text(SMALL, encoding="utf-8")
    options = ["--spec", str(spec), "--file", str(file), "--only", "factored", "queue"]
    main(options)
    printed = capsys.readouterr().out
    assert "triple-q: queue is refused: `triple-q` is proven for one constraint" in printed
    assert "of which every algorithm covers 1" in printed
    assert "| queue | 7, 9, 12, 2 | 60 |" in printed
    lines = file.read_text(encoding="utf-8").splitlines()
    # factored: 2 + 2 + 2 runs and 3 with certificates; queue: 2 + 2 runs, 1 refusal and 2 with certificates
    assert len(lines) == 16
    assert {json.loads(line)[2] for line in lines} == {present_commit()}
    assert f"Code of {present_commit()}: " in printed
    main(options)
    assert file.read_text(encoding="utf-8").splitlines() == lines
    comparison = Comparison(spec, file)
    comparison.forget(["triple-q"])
    kept = [line for line in lines if '["triple-q"' not in line]
    assert file.read_text(encoding="utf-8").splitlines() == kept
    assert len(kept) == 12


def test_the_specification_names_every_algorithm_and_the_recorded_results_are_of_its_runs():
    comparison = Comparison(SPEC)
    named = set(comparison.spec["algorithms"])
    algorithms = {name.partition(":")[0] for name in named}
    assert algorithms | {"opdop-lstd"} == set(opdop.algorithms())  # `opdop` is that where there are features
    assert {key[0] for key in comparison.known} <= named
    assert {key[1] for key in comparison.known} <= {case.name for case in comparison.cases}


def test_where_slack_cancels_the_cost_has_the_violation_instead_of_the_hard_violation(tmp_path: Path):
    spec, file = tmp_path / "spec.toml", tmp_path / "peers.jsonl"
    spec.write_text(SMALL, encoding="utf-8")
    comparison = Comparison(spec, file)
    case = next(case for case in comparison.cases if case.name == "factored")
    comparison.fill("triple-q", case)
    tables, run = Tables(comparison), comparison.found("triple-q", case)[0]
    difference = tables.cost(run, case) - tables.cost(run, case, cancels=True)
    lacking = run.hard_violation - max(run.violation, 0.0)
    assert lacking > 0.0
    assert difference * case.uniform_cost == pytest.approx(2.0 * case.optimum.dual.sum() * lacking)


def test_the_page_has_the_tables_of_the_recorded_runs():
    page, tables = PAGE.read_text(encoding="utf-8"), Tables(Comparison(SPEC)).text()
    new = written(page, tables)
    number = re.compile(r"\d[\d,]*(?:\.\d+)?")
    assert number.sub("#", page).replace("*", "") == number.sub("#", new).replace("*", "")
    for here, there in zip(number.findall(page), number.findall(new), strict=True):
        unit = 10.0 ** -len(here.partition(".")[2]) if "." in here else 0.0  # another machine may round the last digit
        assert abs(float(here.replace(",", "")) - float(there.replace(",", ""))) <= 1.01 * unit, (here, there)


def test_tables_are_written_over_those_of_a_page_and_nothing_else():
    page = "# A page\n\nWords.\n\n41 problems, of which every algorithm covers 30.\n\n| old |\n"
    assert written(page, "\n7 problems, of which every algorithm covers 2.\n\n| new |\n") == (
        "# A page\n\nWords.\n\n7 problems, of which every algorithm covers 2.\n\n| new |\n"
    )
    with pytest.raises(ValueError, match="no tables"):
        written("# A page\n", "tables")


def test_the_optimum_is_the_horizon_line(tmp_path: Path):
    spec = tmp_path / "spec.toml"
    spec.write_text(SMALL, encoding="utf-8")
    comparison = Comparison(spec, tmp_path / "peers.jsonl")
    case = next(case for case in comparison.cases if case.name == "queue")
    found = measure_optimum(case)
    assert abs(found.regret) < 1e-9
    assert found.hard_violation < 1e-9
    for name in ("opdop", "uniform"):
        comparison.fill(name, case)
    tables = Tables(comparison)
    assert tables.share(OPTIMUM, case) <= 1e-6 < tables.share("opdop", case)
    assert "| the exact optimum | 41 | 0.000 |" in tables.text()
