"""Facts about `opdop sweep` and `opdop runs`: what they print, and that the docs explain it."""

from __future__ import annotations

import io
import json
import re
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

import opdop
from opdop import cli
from opdop.cli.sweeps import RUNS_FORMAT
from opdop.model import Display
from opdop.report.terminal.sweep_tables import SweepWatch
from opdop.runs import Progress
from opdop.runs.history_units import describe_columns
from opdop.runs.recorder import columns
from opdop.sweeps import Spec, Sweep, SweepError, SweepProgress, Underway, run_sweep
from opdop.sweeps.store import SWEEP_FORMAT, Store
from tests.support.sweeps import INFEASIBLE, ROOT, SHORT, key_for

MIXED = {**SHORT, "problem": ["factored", "queue", INFEASIBLE]}


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli.app, list(arguments), env={"COLUMNS": "80"})


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep with four finished and two failed runs."""
    folder = tmp_path_factory.mktemp("sweeps") / "mixed"
    with ThreadPoolExecutor(1) as executor:
        run_sweep(MIXED, folder, executor=executor)
    return folder


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "spec.toml"
    path.write_text(Spec.of(MIXED).text, encoding="utf-8")
    return path


@pytest.mark.usefixtures("mixed")  # it loads the kernels: a check has 30 seconds for all kinds
def test_a_check_lists_the_kinds_of_runs_and_makes_none(spec: Path) -> None:
    spec.write_text(Spec.of(SHORT).text, encoding="utf-8")
    result = run("sweep", str(spec), "--check")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "4 runs of 300 episodes: 2 kinds with 2 seeds each",
        "  factored, opdop, practical",
        "  queue, opdop, practical",
    ]
    assert list(spec.parent.iterdir()) == [spec]


@pytest.mark.usefixtures("mixed")  # it loads the kernels: a check has 30 seconds for all kinds
def test_a_check_names_the_kinds_that_cannot_be_made(spec: Path) -> None:
    result = run("sweep", str(spec), "--check")
    assert result.exit_code == 1
    assert len(result.stdout.splitlines()) == 4
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: each run of queue (throughput=11.9), opdop, practical fails: no policy satisfies")


@pytest.mark.parametrize(
    "line",
    [
        "records = 10000001",
        "episodes = 2147483648",
        f"episodes = {'9' * 400}",
        f"slater_gap = {'9' * 400}",
        f"dual_bound = 0x{'f' * 9000}",
        'algorithm = [{preset = "papper"}]',
    ],
)
def test_a_check_finds_what_would_make_every_run_fail(tmp_path: Path, line: str) -> None:
    path = tmp_path / "spec.toml"
    path.write_text(f'{line}\n[[problem]]\nname = "factored"\n', encoding="utf-8")
    result = run("sweep", str(path), "--check")
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 2


def test_a_wrong_address_of_a_scheduler_is_answered_at_once(spec: Path) -> None:
    began = time.monotonic()
    result = run("sweep", str(spec), "--out", str(spec.parent / "out"), "--scheduler", "garbage")
    assert time.monotonic() - began < 5.0
    assert result.exit_code == 2
    assert result.stderr.startswith("error: there is no Dask scheduler at 'garbage'")


HOSTILE = "\x1b[31mred\u202e\x07"


def test_control_characters_in_names_do_not_reach_the_terminal(tmp_path: Path) -> None:
    made = opdop.train("factored", episodes=20)
    quantities = tuple(replace(each, name=HOSTILE, unit=HOSTILE) for each in made.display.quantities)
    display = replace(made.display, name=HOSTILE, summary=HOSTILE, quantities=quantities)
    with pytest.raises(opdop.InvalidParameterError, match="expected a name"):
        made.config.but(problem=HOSTILE)
    replace(made, display=display).save(tmp_path / f"one{HOSTILE}")
    (tmp_path / f"two{HOSTILE}").mkdir()
    (tmp_path / f"two{HOSTILE}" / "run.npz").write_bytes(b"damaged")
    for arguments in (("runs",), ("runs", "--kinds"), ("report", "--no-figures")):
        result = run(arguments[0], str(tmp_path), *arguments[1:])
        assert result.exit_code == 0, result.output
        assert "[31mred" in result.output
        assert not {"\x1b", "\u202e", "\x07"} & {*result.output}
    json.loads(run("runs", str(tmp_path), "--json").stdout)


def test_every_mistake_has_a_line(tmp_path: Path) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text('episods = 3\n[[problem]]\nname = "factored"\nmovez = 2\n', encoding="utf-8")
    result = run("sweep", str(path), "--out", str(tmp_path / "out"))
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.splitlines()[1:] == [
        "  episods is unknown. Did you mean 'episodes'?",
        "  problem[0].movez is unknown. Did you mean 'moves'?",
    ]
    assert not (tmp_path / "out").exists()


def test_a_missing_folder_and_a_missing_spec_are_errors(spec: Path, tmp_path: Path) -> None:
    without = run("sweep", str(spec))
    assert without.exit_code == 2
    assert without.stderr.startswith("error: --out is missing")
    unknown = run("sweep", str(tmp_path / "none.toml"), "--out", str(tmp_path / "out"))
    assert unknown.exit_code == 2
    assert "cannot be read" in unknown.stderr


def test_failed_runs_give_status_1_and_are_listed(mixed: Path, spec: Path) -> None:
    result = run("sweep", str(spec), "--out", str(mixed))
    assert result.exit_code == 1
    assert result.stdout.count("failed: queue-") == 2
    assert "InfeasibleError: no policy satisfies all constraints" in result.stdout
    assert "4 of 6 runs are done, 2 failed" in result.stdout
    assert "--retry-failed tries the failed ones once more" in result.stdout


@pytest.mark.parametrize("options", [(), ("--kinds",)])
def test_runs_are_listed_in_80_columns(mixed: Path, options: tuple[str, ...]) -> None:
    result = run("runs", str(mixed), *options)
    assert result.exit_code == 0
    assert "4 of 6 runs are done, 2 failed" in result.stdout
    table = result.stdout.partition("failed:")[0].splitlines()
    assert max(map(len, table)) <= 80
    best = dict(Sweep.open(mixed).table().select("problem", "optimum").rows())
    assert f"{best['factored']:.4f}" in result.stdout


def test_a_sweep_that_stops_counts_the_runs_in_its_folder(
    mixed: Path, spec: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_arguments: object, **_options: object) -> None:
        raise SweepError("no room.")

    monkeypatch.setattr(cli.sweeps, "run_sweep", stop)
    result = run("sweep", str(spec), "--out", str(mixed))
    assert result.exit_code == 2
    assert "error: no room." in result.stderr
    assert "the sweep has stopped: 4 of 6 runs are done; go on with: opdop sweep" in result.stderr


def test_missing_runs_are_counted(mixed: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(mixed, tmp_path / "copy"))
    shutil.rmtree(Store(folder).run(key_for(SHORT, 1)))
    assert "3 of 6 runs are done, 2 failed, 1 missing" in run("runs", str(folder)).stdout


@pytest.fixture(scope="module")
def singles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two finished runs, an interrupted one and a damaged one, as `opdop run --out` keeps them."""
    root = tmp_path_factory.mktemp("singles")
    for seed in (0, 1):
        opdop.train("factored", episodes=300, seed=seed, checkpoint=root / f"run{seed}").save(root / f"run{seed}")

    def interrupt(progress: Progress) -> None:
        if progress.episode == 200:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        opdop.train(
            "factored", episodes=300, checkpoint=root / "half", checkpoint_seconds=0.0, piece=100, progress=interrupt
        )
    (root / "harmed").mkdir()
    (root / "harmed" / "run.npz").write_bytes(b"harmed")
    (root / "nothing").mkdir()
    return root


def test_a_folder_of_single_runs_is_listed(singles: Path) -> None:
    text = run("runs", str(singles)).stdout
    assert "running or interrupted: half: episode 100 of 300, saved " in text
    assert "damaged: harmed: " in text
    assert text.splitlines()[-1] == "2 of 4 runs are done, 1 unfinished, 1 damaged"
    assert [line.split()[0] for line in text.splitlines() if line.startswith("run")] == [
        "running",
        "run",
        "run0",
        "run1",
    ]
    assert "factored, opdop, practical" in run("runs", str(singles), "--kinds").stdout
    record = json.loads(run("runs", str(singles), "--json").stdout)
    assert [each["key"] for each in record["runs"]] == ["run0", "run1"]
    assert [(each["key"], each["episode"]) for each in record["unfinished"]] == [("half", 100)]
    assert [*record["damaged"]] == ["harmed"]


def test_single_runs_of_unlike_settings_are_of_unlike_kinds(tmp_path: Path) -> None:
    for name, options in {"plain0": {"seed": 0}, "plain1": {"seed": 1}, "noisy": {"noisy": True}}.items():
        opdop.train("factored", episodes=30, **options).save(tmp_path / name)
    lines = run("runs", str(tmp_path), "--kinds").stdout.splitlines()
    kinds = [line.split() for line in lines if line.startswith("factored, ")]
    assert [words[:4] for words in kinds] == [  # in the order of their folders: noisy, plain0, plain1
        ["factored,", "opdop,", "practical,", "noisy"],
        ["factored,", "opdop,", "practical", "2"],
    ]


def test_the_folder_of_one_run_is_listed(singles: Path) -> None:
    done, half = (run("runs", str(singles / name)).stdout for name in ("run1", "half"))
    run1 = opdop.Run.load(singles / "run1")
    assert run1.optimum is not None
    assert f"{run1.optimum.value:.4f}" in done
    assert done.splitlines()[-1] == "1 of 1 runs are done"
    assert half.splitlines()[-1] == "0 of 1 runs are done, 1 unfinished"


def test_a_folder_without_a_sweep_is_an_error_of_one_line(tmp_path: Path) -> None:
    result = run("runs", str(tmp_path))
    assert result.exit_code == 2
    assert result.stderr.startswith("error: there is no sweep in")


def test_json_has_what_the_docs_explain(mixed: Path) -> None:
    record = json.loads(run("runs", str(mixed), "--json").stdout)
    assert record["format"] == RUNS_FORMAT
    assert (len(record["runs"]), len(record["failed"]), record["missing"]) == (4, 2, [])
    pages = "".join(
        (ROOT / "docs" / page).read_text(encoding="utf-8") for page in ("command-line.md", "experiments.md")
    )
    explained = set(re.findall(r"`([A-Za-z0-9_]+)`", pages))
    found = {*record, *(name for run in record["runs"] for name in run), *record["failed"][0]}
    assert {re.sub(r"_\d(?=_|$)", "_i", name) for name in found} - explained == set()
    assert {"unfinished", "problem_parameters", "final_reward"} <= explained
    assert {RUNS_FORMAT, SWEEP_FORMAT} <= set(re.findall(r"`([a-z./0-9]+)`", pages))


def test_docs_explain_every_column_of_a_history_as_the_files_do() -> None:
    page = (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8")
    for name, about in describe_columns(columns(1), Display.plain(1).quantities, 1).items():
        words = [f"`{name}`", about["meaning"], about["unit"]]
        if name.endswith("_0"):
            words = [re.sub(r"(?<![a-z])0\b", "i", each) for each in words]
        assert f"| {' | '.join(words)} |" in page


def test_progress_is_a_bar_on_a_terminal_and_lines_elsewhere() -> None:
    underway = (Underway("some-run-0", 50, 200, 3.0),)
    progress = SweepProgress(10, 3, 0, 1, underway, 6.0, 75.0, ("failed: some-run-1: it broke",))
    shown = {}
    for terminal in (True, False):
        file = io.StringIO()
        with SweepWatch(Console(force_terminal=terminal, width=100, file=file)) as watch:
            watch(progress)
            watch(progress)
        shown[terminal] = file.getvalue()
    counted = "3 of 10 runs done, 1 running, 1 failed, about 1 min 15 s left"
    for words in (counted, "some-run-0", "25 %", "failed: some-run-1: it broke"):
        assert words in shown[True]
    assert shown[False].splitlines() == ["failed: some-run-1: it broke"] * 2
