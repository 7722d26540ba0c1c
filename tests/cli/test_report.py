"""Facts about `opdop report` and `opdop compare`: what they write, print and refuse."""

import html
import re
import shlex
import webbrowser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import opdop
from opdop import cli
from opdop.report.html.page import page
from opdop.report.summary.collection import gather
from opdop.runs import settings

# One value for each setting that is not its default.
UNUSUAL: dict[str, Any] = {
    "problem": "queue",
    "problem_parameters": {"moves": 2.5},
    "algorithm": "doubling:opdop",
    "preset": "certified",
    "parameters": {"radius_scale": 0.1 + 0.2, "step_scale": 3.0},
    "episodes": 31,
    "seed": 7,
    "planned_episodes": 60,
    "failure_probability": 0.1,
    "slater_gap": 1 / 3,
    "dual_bound": 4.5,
    "noisy": True,
    "stationary": False,
    "until": "0.9",
    "certificates": 3,
    "measure_every": 2,
    "records": 12,
    "evaluation_episodes": 3,
}


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli.app, list(arguments), env={"COLUMNS": "200"})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("runs")
    for seed in range(3):
        opdop.train("factored", episodes=50, seed=seed).save(root / f"{seed}")
    return root


def test_report_writes_a_page_and_figures_and_says_where(folder: Path) -> None:
    result = run("report", str(folder))
    assert result.exit_code == 0, result.output
    assert (folder / "report.html").is_file()
    assert (folder / "report" / "figures" / "factored-regret.pdf").is_file()
    assert f"report: {folder / 'report.html'}" in result.stdout
    assert "factored" in result.stdout
    assert result.stderr == ""


def test_report_goes_where_it_is_told_without_figures(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "new" / "page.html"
    assert run("report", str(folder), "--out", str(target), "--no-figures").exit_code == 0
    assert [file.name for file in target.parent.iterdir()] == ["page.html"]


def test_open_opens_the_page(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda address: bool(opened.append(address)) or True)
    target = tmp_path / "page.html"
    assert run("report", str(folder), "--out", str(target), "--no-figures", "--open").exit_code == 0
    assert opened == [target.resolve().as_uri()]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["report", "nowhere"], "there is no folder"),
        (["report", "{folder}", "--out", "page.txt"], "expected a file ending in .html"),
        (["compare", "factorred"], "Did you mean 'factored'?"),
        (["compare", "factored", "--algorithms", "opdopp"], "no algorithm 'opdopp'"),
        (["compare", "factored", "--algorithms", "opdop:papper"], "preset is 'papper'; expected one of"),
        (["compare", "factored", "--algorithms", ","], "expected names"),
        (["compare", "factored", "--episodes", "many"], "expected a whole number"),
    ],
)
def test_mistakes_are_answered_with_what_was_expected(arguments: list[str], words: str, folder: Path) -> None:
    result = run(*(argument.replace("{folder}", str(folder)) for argument in arguments))
    assert result.exit_code == 2, result.output
    assert words in result.stderr
    assert result.stderr.startswith("error: ")


def test_compare_is_a_sweep_and_a_report_with_verdicts(tmp_path: Path) -> None:
    command = ("compare", "factored", "--algorithms", "opdop,oppo", "--seeds", "3", "-k", "300", "--workers", "1")
    command += ("--set", "moves=2.5", "--no-figures", "--out", str(tmp_path / "both"))
    result = run(*command)
    assert result.exit_code == 0, result.output
    assert "clear: oppo has less regret than opdop by" in result.stdout
    assert "clear: opdop has less violation than oppo by" in result.stdout
    page = (tmp_path / "both" / "report.html").read_text(encoding="utf-8")
    assert "clear</span>: oppo has less regret than opdop by" in page
    assert "moves=2.5" in page
    assert "The sweep's spec" in page
    found = opdop.Sweep.open(tmp_path / "both")
    assert sorted(job.seed for job, _ in found.runs()) == [0, 0, 1, 1, 2, 2]
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "both" / "runs").rglob("run.npz")}
    assert run(*command).exit_code == 0
    assert {file: file.stat().st_mtime_ns for file in before} == before


def test_compare_names_runs_that_failed(tmp_path: Path) -> None:
    both = ("--set", "throughput=11.9", "--seeds", "1", "-k", "20", "--workers", "1", "--out", str(tmp_path / "bad"))
    result = run("compare", "queue", "--algorithms", "opdop", *both)
    assert result.exit_code == 2
    assert "there is no run that can be shown" in result.stderr
    assert "InfeasibleError" in result.stderr


# The printed commands


def printed_commands(runs: list[opdop.Run]) -> list[list[str]]:
    """Return the commands that the page prints for the same runs, as words, one command for each seed."""
    found = gather(runs)
    text = page(found, {section.key: [] for section in found.sections})
    commands = html.unescape(re.findall(r"<pre>(.*?)</pre>", text, re.DOTALL)[-1])
    loops = re.findall(r"^for seed in ([0-9 ]+); do (.*); done$", commands, re.MULTILINE)
    return [shlex.split(line.replace("$seed", seed)) for seeds, line in loops for seed in seeds.split()]


def test_every_setting_of_a_run_has_an_unusual_value_here() -> None:
    assert UNUSUAL.keys() == settings().keys()


@pytest.mark.parametrize("setting", UNUSUAL)
def test_printed_command_makes_the_same_run_bit_for_bit(
    setting: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = {"problem": "factored", "problem_parameters": {}, "episodes": 30, "seed": 1, setting: UNUSUAL[setting]}
    problem = opdop.make(chosen.pop("problem"), **chosen.pop("problem_parameters"))
    made = opdop.train(problem, **chosen)
    ((program, *words),) = printed_commands([made])
    assert program == "opdop"
    monkeypatch.chdir(tmp_path)
    result = run(*words)
    assert result.exit_code == 0, result.output
    again = opdop.Run.load(words[words.index("--out") + 1])
    assert again.config == made.config
    assert again.history.equals(made.history)
    np.testing.assert_array_equal(again.policy.table, made.policy.table)
    np.testing.assert_array_equal(again.mixture.table, made.mixture.table)


def test_printed_command_repeats_every_seed(folder: Path) -> None:
    commands = printed_commands([opdop.Run.load(folder / f"{seed}") for seed in range(3)])
    assert [words[words.index("--seed") + 1] for words in commands] == ["0", "1", "2"]
