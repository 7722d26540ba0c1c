"""Simulators of one's own on the command line: run, resume, sweep, compare, certify, report, list, and take the policy.

Their measures have their own names, in their own units, and code is never run because a folder or a spec names it.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import opdop
from opdop.cli.application import app
from tests.support import bakery

NAME = "bakery.py:make_bakery"
# Words of measures that only a known model has.
EXACT = re.compile(r"\bregret\b|hard violation|\bexact\b|optimum|V\*", re.IGNORECASE)


def opdop_command(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def answered(*words: object, status: int = 0) -> str:
    result = opdop_command(*words)
    assert result.exit_code == status, result.output
    return result.output


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copy(bakery.__file__, tmp_path / "bakery.py")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_run_shows_realised_totals_in_own_units_and_no_exact_measure(folder: Path) -> None:
    text = answered("run", NAME, "-k", 200, "--out", "one", "--evaluation-episodes", 20)
    assert "not true values" in text
    assert "<= 25" in text
    assert "one more dollar of budget is worth" in " ".join(text.split())
    assert "20 fresh episodes of the final policy" in text
    before = text.split("certificate")[0]
    assert not EXACT.search(before)
    record = json.loads((folder / "one" / "summary.json").read_text())
    assert record["format"] == "opdop.realised/1"
    assert record["model_known"] is False
    run = opdop.Run.load("one")
    assert record["reward"]["realised"]["all_episodes"]["own"] == pytest.approx(
        run.display.quantities[0].shown(run.average.reward)
    )
    assert record["constraints"][0]["threshold"]["own"] == pytest.approx(25.0)
    assert record["evaluation"]["own"]["constraints"][0]["mean"] > 0.0
    assert not {"regret", "violation", "hard_violation", "optimum"} & record.keys()
    assert json.loads(answered("run", NAME, "--resume", "one", "--json")) == record
    assert (folder / "one" / "figure.png").stat().st_size > 10_000


def test_run_is_resumed_with_its_name_and_refused_without_it(folder: Path) -> None:
    opdop.train(NAME, episodes=20, planned_episodes=50, checkpoint="cut")
    whole = opdop.train(NAME, episodes=50)
    # As if it had been interrupted at episode 20 of 50.
    from opdop.runs import CHECKPOINT
    from opdop.runs.checkpoint import KIND
    from opdop.runs.files import read_arrays, write_arrays

    meta, arrays = read_arrays(folder / "cut" / CHECKPOINT, kind=KIND)
    write_arrays(folder / "cut" / CHECKPOINT, {**meta, "config": {**meta["config"], "episodes": 50}}, arrays)
    refused = opdop_command("run", "--resume", "cut")
    assert refused.exit_code == 2
    assert f"If it is yours: opdop run {NAME} --resume cut" in " ".join(refused.output.split())
    assert opdop_command("run", "factored", "--resume", "cut").exit_code == 2
    answered("run", NAME, "--resume", "cut")
    assert opdop.Run.load("cut").history.equals(whole.history)


def test_page_of_runs_without_a_model_names_no_exact_measure_and_a_mixed_folder_has_both(folder: Path) -> None:
    answered("run", NAME, "-k", 120, "--out", "runs/one", "--evaluation-episodes", 10)
    answered("run", NAME, "-k", 120, "--out", "runs/two", "--seed", 1, "--evaluation-episodes", 10)
    text = answered("report", "runs", "--no-figures")
    assert "realised profit" in text
    assert not EXACT.search(text)
    page = (folder / "runs" / "report.html").read_text()
    body = re.sub(r"<svg.*?</svg>", "", page, flags=re.DOTALL).split("<h3>Certificates</h3>")[0].split("<body>")[1]
    assert not EXACT.search(body), EXACT.search(body)
    assert "The model is not known" in body
    assert "realised profit" in page
    assert "Evaluation episodes" in body
    assert "flour ≤ 25 dollars" in body
    assert page.count("<svg") >= 3
    assert "://" not in page
    opdop.train("factored", episodes=30).save("runs/known")
    mixed = answered("report", "runs", "--no-figures")
    assert "realised profit" in mixed
    assert "hard violation" in mixed
    assert "Regret and violation" in (folder / "runs" / "report.html").read_text()
    listed = answered("runs", "runs")
    assert "flour <= 25 dollars" in " ".join(listed.split())
    assert "3 of 3 runs are done" in listed
    rows = json.loads(answered("runs", "runs", "--json"))["runs"]
    unknown = [row for row in rows if row["problem"] == NAME]
    assert all(row["regret"] is None and row["realised_reward"] is not None for row in unknown)


def test_sweep_runs_code_only_if_it_is_allowed(folder: Path) -> None:
    Path("spec.toml").write_text(f'episodes = 40\nseeds = 2\n[[problem]]\nname = "{NAME}"\nbudget = [20.0, 30.0]\n')
    refused = opdop_command("sweep", "spec.toml", "--out", "many")
    assert refused.exit_code == 2
    assert "a spec runs no code unless that is allowed: --allow-code" in refused.output
    text = answered("sweep", "spec.toml", "--out", "many", "--allow-code", "--workers", 1)
    assert "4 of 4 runs are done" in text
    assert "flour" in text
    Path("bakery.py").write_text("raise RuntimeError('reading a folder has run code')")
    assert "4 of 4 runs are done" in answered("runs", "many")
    answered("report", "many", "--no-figures")
    histories = [run.history for _, run in opdop.Sweep.open("many").runs()]
    assert not histories[0].equals(histories[2])  # each run has the stream of its own seed


def test_algorithms_are_compared_on_a_simulator(folder: Path) -> None:
    words = ("compare", NAME, "--seeds", 2, "--episodes", 60, "--workers", 1, "--no-figures", "-s", "budget=20")
    text = answered(*words)
    assert "realised flour" in text
    assert "comparisons/bakery.py-make_bakery/report.html" in "".join(text.split())


def test_certificates_and_fresh_episodes_of_a_saved_run(folder: Path) -> None:
    opdop.train(NAME, episodes=60).save("one")
    text = opdop_command("certify", "one").output
    assert "flour: at most" in text
    assert "dollars" in text
    refused = opdop_command("certify", "one", "--policy", "final", "--episodes", 20)
    assert refused.exit_code == 2
    assert "--problem NAME" in refused.output
    played = opdop_command("certify", "one", "--policy", "final", "--episodes", 20, "--problem", NAME)
    assert played.exit_code in (0, 1)
    assert "20 fresh episodes" in played.output
    assert opdop_command("certify", "one", "--episodes", 20, "--problem", "other.py:f").exit_code == 2


@pytest.mark.parametrize("kind", ["final", "average", "recommended"])
@pytest.mark.parametrize("ending", ["json", "npz"])
def test_policy_is_taken_out_of_a_folder(folder: Path, kind: str, ending: str) -> None:
    run = opdop.train(NAME, episodes=60)
    run.save("one")
    text = answered("policy", "one", "--kind", kind, "--out", f"policy.{ending}")
    assert f"{kind} policy saved to policy.{ending}" in text
    found = opdop.load_policy(f"policy.{ending}")
    wanted = run.policy_of(kind)
    first, second = np.random.default_rng(1), np.random.default_rng(1)
    for episode in range(3):
        for stage in range(10):
            assert found.act(episode, stage, first) == wanted.act(episode, stage, second)


def test_policy_command_refuses_other_kinds_and_files(folder: Path) -> None:
    assert (
        "expected final, average, recommended"
        in opdop_command("policy", "x", "--kind", "best", "--out", "p.npz").output
    )
    assert "expected a file in .npz or .json" in opdop_command("policy", "x", "--out", "p.txt").output


def test_commands_that_need_a_model_say_so(folder: Path) -> None:
    for command in ("solve", "verify"):
        result = opdop_command(command, NAME)
        assert result.exit_code == 2, result.output
        assert "is a simulator, whose model is not known; expected a model" in " ".join(result.output.split())
    assert "no bound is drawn" in opdop_command("run", NAME, "--bound", "--figure", "f.svg").output


def test_preset_with_a_guarantee_needs_a_slater_gap_or_a_dual_bound_and_says_so(folder: Path) -> None:
    result: Any = opdop_command("run", NAME, "-k", 20, "--preset", "certified")
    assert result.exit_code == 2
    assert "slater_gap" in result.output
    assert "slater_gap=1" in answered("run", NAME, "-k", 20, "--preset", "certified", "--slater-gap", 1.0)


@pytest.mark.parametrize("algorithm", ["opdop", "doubling:opdop", "replan", "optimistic", "oppo"])
def test_unknown_slater_gap_is_a_normal_case_for_every_algorithm(folder: Path, algorithm: str) -> None:
    assert "realised" in answered("run", NAME, "-k", 20, "--algorithm", algorithm)


def test_check_of_a_simulator_plays_it_and_says_what_random_actions_do() -> None:
    text = " ".join(answered("check", NAME).split())
    assert f"{NAME} is a valid simulator: FunctionSimulator" in text
    assert "played: 200 episodes with random actions; no reward and no cost was out of its stated range" in text
    assert "states: 7 seen, of 7 that are stated" in text
    assert re.search(r"flour <= 25 dollars: random actions have 37\.\d ± 1\.\d dollars per episode, which vio", text)
    assert "recommended: --algorithm opdop --episodes 5000" in text
    assert not EXACT.search(text.replace("the optimum, and what a constraint costs: these need a model", ""))
    record = json.loads(answered("check", NAME, "--set", "budget=60", "--json"))
    assert record["random_actions"]["flour"]["mean"] == pytest.approx(37.6, abs=4.0)
    low, high = record["random_actions"]["flour"]["step_range"]
    assert 0.0 <= low < high <= 10.0
    assert "which keeps the constraint" in answered("check", NAME, "--set", "budget=60")
    Path("wrong.py").write_text(Path("bakery.py").read_text().replace("cost_range=(0, 10)", "cost_range=(0, 4)"))
    assert "State a wider range." in answered("check", "wrong.py:make_bakery", status=2)


def test_runs_of_one_function_with_other_parameters_are_told_apart_in_a_report() -> None:
    for budget in (20, 25):
        answered("run", NAME, "--set", f"budget={budget}", "-k", 30, "--out", f"runs/{budget}")
    text = answered("report", "runs", "--no-figures")
    page = Path("runs/report.html").read_text()
    for words in (f"{NAME} (budget=20)", f"{NAME} (budget=25)"):
        assert words in text
        assert words in page


def test_ids_of_gymnasium_are_answered_with_what_to_do() -> None:
    for name in ("gym:FrozenLake-v1", "gymnasium:Taxi-v4"):
        text = " ".join(answered("run", name, status=2).split())
        assert "write a function that returns opdop.from_gymnasium(" in text
        assert "FILE.py:FUNCTION" in text


def test_exact_model_of_gymnasium_works_in_every_command_by_the_name_of_its_function(folder: Path) -> None:
    Path("games.py").write_text(GAMES)
    name = "games.py:make_lake"
    assert "moves down <= 1 move: it binds" in answered("check", name, "--set", "moves=1")
    assert "Cross the lake with few moves down." in answered("solve", name)
    answered("run", name, "-k", 300, "--out", "lake")
    answered("certify", "lake", status=1)  # so few episodes certify nothing
    answered("policy", "lake", "--out", "policy.json")
    answered("certify", name, "--policy", "policy.json", "--episodes", 200)
    answered("verify", name, "--seeds", 1, "-k", 20)  # status 1 if a check failed
    answered("compare", name, "--algorithms", "opdop,uniform", "--seeds", 1, "-k", 50, "--workers", 1, "--no-figures")
    Path("spec.toml").write_text(f'episodes = 50\nseeds = 1\n[[problem]]\nname = "{name}"\nmoves = [1.0, 2.0]')
    answered("sweep", "spec.toml", "--out", "swept", "--allow-code", "--workers", 1)
    assert "regret" in answered("report", "swept", "--no-figures")


GAMES = '''
import opdop

def make_lake(horizon: int = 20, moves: float = 1.0):
    """Cross the lake with few moves down."""
    return opdop.from_gymnasium(
        "FrozenLake-v1", horizon=horizon, budgets={"moves down": moves}, cost=lambda step: step.action == 1,
        units={"reward": ("success", "episodes"), "moves down": "moves"})
'''
