"""Facts about `opdop report` and `opdop compare`: what they write, print and refuse."""

import webbrowser
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import opdop
from opdop import cli


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
        (["compare", "factored", "--algorithms", "opdop:papper"], "no preset 'papper'"),
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
