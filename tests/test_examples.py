"""The scripts of examples/ run, in reduced size, and print results in units."""

import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
CASES = {
    "simulator_with_budget": (["300", "policy.npz"], ["service <= 25 dollars", "With probability at least 95 %"]),
    "gymnasium_toy_text": (["200"], ["moves down <= 3 moves", "hard violation"]),
    "production_agent": (["agent", "3"], ["0 weeks were played before", "dollars a week"]),
    "certify_logs": (["200"], ["defects a week", "With probability at least 95 %", "repair a worn machine"]),
    "compare_algorithms": (
        ["200", "2"],
        ["factored, oppo, per episode", "points", "moves", "less violation than oppo"],
    ),
    "own_learner": (["100"], ["plan on means: ", "optimum: 6.75 steps with 5.00 services"]),
}


def test_every_example_is_run() -> None:
    assert {file.stem for file in EXAMPLES.glob("*.py")} == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_example_prints_results_in_units(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments, expected = CASES[name]
    file = str(EXAMPLES / f"{name}.py")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [file, *arguments])
    runpy.run_path(file, run_name="__main__")
    printed = capsys.readouterr().out
    assert [words for words in expected if words not in printed] == []


def test_agent_of_the_example_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    main = runpy.run_path(str(EXAMPLES / "production_agent.py"))["main"]
    main(str(tmp_path / "agent"), 2)
    main(str(tmp_path / "agent"), 4)
    assert "2 weeks were played before" in capsys.readouterr().out
