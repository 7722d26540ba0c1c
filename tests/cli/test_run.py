"""Facts about `opdop run` and `opdop algorithms`: what they print and save, and how a run is resumed."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import threading
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import opdop
from opdop.cli import app
from opdop.cli import run as command
from opdop.report.terminal import tables
from opdop.runs import CHECKPOINT, RunConfig, execute, settings

MADE = ("run.npz", "history.parquet", "figure.svg", "figure.png", "summary.json", "SHA256SUMS")
FILES = {"checkpoint.npz", *MADE}


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "80"})


def answered(*arguments: str) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    return result.stdout


def refused(*arguments: str, status: int = 2) -> str:
    """Return the one line that a mistake is answered with."""
    result = run(*arguments)
    assert result.exit_code == status, result.output
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("error: ")
    return result.stderr


def same(one: opdop.Run, other: opdop.Run) -> bool:
    """Whether two runs are the same, bit for bit, but for the time they took."""
    return (
        one.history.equals(other.history)
        and np.array_equal(one.policy.table, other.policy.table)
        and np.array_equal(one.average.totals, other.average.totals)
        and one.config == other.config
        and one.constants == other.constants
    )


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a complete run."""
    folder = tmp_path_factory.mktemp("runs") / "a run"
    answered("run", "queue", "-k", "600", "--set", "throughput=4", "--seed", "5", "--out", str(folder))
    return folder


# What is printed


def test_run_prints_what_train_finds() -> None:
    text = " ".join(answered("run", "factored", "--episodes", "2e3", "--seed", "3").split())
    found = opdop.train("factored", "replan", episodes=2000, seed=3)
    assert f"regret {found.regret[-1] / 2000:.4f}" in text
    assert f"hard violation {found.hard_violation[-1] / 2000:.4f}" in text
    assert "The average policy is" in text
    assert "seed 3" in text


@pytest.mark.parametrize(
    ("words", "algorithm"),
    [
        (["factored"], "replan"),
        (["random-mixture"], "opdop-lstd"),
        (["factored", "--preset", "practical"], "opdop"),
        (["factored", "--param", "damping=0.4"], "opdop"),
        (["factored", "--dual-bound", "3"], "opdop"),
        (["factored", "--algorithm", "oppo"], "oppo"),
    ],
)
def test_without_a_name_the_recommended_algorithm_learns(words: list[str], algorithm: str) -> None:
    record = json.loads(answered("run", *words, "-k", "20", "--json"))
    assert record["algorithm"] == algorithm


def test_every_setting_has_an_option_that_reaches_the_run(tmp_path: Path) -> None:
    config = RunConfig(
        problem="factored",
        problem_parameters={"moves": 2.0},
        algorithm="doubling:opdop",
        preset="paper",
        parameters={"C1": 0.5},
        episodes=400,
        seed=4,
        planned_episodes=1000,
        failure_probability=0.1,
        slater_gap=2.5,
        dual_bound=3.5,
        noisy=True,
        stationary=False,
        until="5.9 points",
        certificates=3,
        measure_every=2,
        records=50,
        evaluation_episodes=3,
    )
    changed = {name for name in settings() if getattr(config, name) != getattr(RunConfig(), name)}
    assert changed == settings().keys()  # so that a new setting has to be added here
    answered(*config.command()[1:], "--out", str(tmp_path))
    assert same(opdop.Run.load(tmp_path), execute(config))


def test_zero_violation_raises_the_thresholds_and_the_card_says_what_it_costs(tmp_path: Path) -> None:
    command = ["run", "factored", "--preset", "certified", "--param", "zero_violation=1"]
    words = " ".join(answered(*command, "-k", "200000", "--out", str(tmp_path)).split())
    found = opdop.Run.load(tmp_path)
    assert found.constants["margin"] == pytest.approx(1.1664, abs=5e-5)
    assert "violation <= 0 moves in total" in words
    assert "margin: the multipliers aim at 1.166 moves per episode more than every threshold; this is" in words
    assert "over all episodes together no constraint is violated" in words
    assert found.violation[-1] == 0.0
    for refused, reason in (
        (["-k", "1000"], "1,000 episodes are too few for zero violation"),
        (["-k", "1000", "--preset", "practical"], "zero_violation has no proof with preset 'practical'"),
        (["-k", "1000", "--param", "margin=0.1"], "chooses margin and dual_bound by itself"),
    ):
        assert reason in " ".join(CliRunner().invoke(app, [*command, *refused]).output.split())


def test_run_ends_when_a_policy_is_certified_and_is_complete_then(tmp_path: Path) -> None:
    text = " ".join(answered("run", "factored", "-k", "1e4", "--until", "0.1", "--out", str(tmp_path)).split())
    found = opdop.Run.load(tmp_path)
    assert found.certified_at == found.episodes[-1] < 2000
    assert f"The run ended at episode {found.certified_at:,}: the recommended policy is certified to keep every" in text
    again = answered("run", "--resume", str(tmp_path))
    assert "nothing to do" in again
    summary = json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))
    assert summary["certificate"]["certified_at"] == found.certified_at
    assert summary["until"] == "0.1"


def test_goal_in_another_unit_is_refused() -> None:
    assert "The unit of reward from moves is points." in refused("run", "factored", "-k", "100", "--until", "0.2 euros")
    assert "expected a share of the reward range" in refused("run", "factored", "-k", "100", "--until", "soon")


def test_help_of_run_has_the_flag_and_the_help_of_every_setting() -> None:
    words = " ".join(answered("run", "--help").split())
    for setting in settings().values():
        for flag in setting.flag.split("/"):
            assert f" {flag} {setting.metavar}".rstrip() in words
        assert setting.help in words


def test_other_learners_can_be_chosen() -> None:
    text = " ".join(answered("run", "factored", "-k", "200", "--algorithm", "doubling:oppo").split())
    assert "ignores the constraint" in text
    assert "oppo, preset practical" in text
    assert "doubling_phase=" in text


def test_json_is_the_record(tmp_path: Path) -> None:
    figure = tmp_path / "run.pdf"
    record = json.loads(answered("run", "queue", "-k", "300", "--json", "--figure", str(figure)))
    assert record["format"] == "opdop.run/2"
    assert (record["problem"], record["episodes"], record["num_constraints"]) == ("queue", 300, 2)
    assert figure.read_bytes().startswith(b"%PDF")


def test_algorithms_lists_what_there_is() -> None:
    text = answered("algorithms")
    assert all(f"\n{name} " in text for name in tables.preset_parameters())
    record = json.loads(answered("algorithms", "--json"))
    assert [each["name"] for each in record["algorithms"]] == list(opdop.algorithms())
    presets = {each["name"]: each["presets"] for each in record["algorithms"]}
    assert record["presets"] == tables.preset_parameters() == presets["opdop"]
    assert presets["replan"]["practical"].keys() >= {"doubt_scale", "margin", "growth"}
    assert record["format"] == "opdop.algorithms/1"


# What is kept


def test_folder_has_the_whole_run(kept: Path) -> None:
    assert {file.name for file in kept.iterdir()} == FILES
    loaded = opdop.Run.load(kept)
    assert same(loaded, opdop.train(opdop.make("queue", throughput=4.0), "replan", episodes=600, seed=5))
    summary = json.loads((kept / "summary.json").read_text(encoding="utf-8"))
    assert summary["regret"]["total"]["model"] == loaded.regret[-1]


def test_complete_run_is_shown_again_and_left_alone(kept: Path) -> None:
    before = {file: file.stat().st_mtime_ns for file in kept.iterdir()}
    text = answered("run", "--resume", str(kept))
    assert f"nothing to do: the run in {kept} is complete" in text
    assert {file: file.stat().st_mtime_ns for file in kept.iterdir()} == before
    summary = json.loads((kept / "summary.json").read_text(encoding="utf-8"))
    assert json.loads(answered("run", "--resume", str(kept), "--json")) == summary


def test_same_command_again_finds_the_run_complete(kept: Path) -> None:
    text = answered("run", "queue", "-k", "600", "-s", "throughput=4", "--seed", "5", "--out", str(kept))
    assert "is complete" in text
    assert "its seed is 5" in refused("run", "queue", "-k", "600", "-s", "throughput=4", "--out", str(kept))


def test_what_is_missing_or_damaged_is_written_again(tmp_path: Path) -> None:
    opdop.train("factored", episodes=200, checkpoint=tmp_path)
    (tmp_path / "run.npz").write_bytes(b"damaged")
    answered("run", "--resume", str(tmp_path))
    assert {file.name for file in tmp_path.iterdir()} == FILES
    (tmp_path / CHECKPOINT).unlink()
    assert "is complete" in answered("run", "--resume", str(tmp_path))


def test_any_file_of_a_complete_run_that_is_missing_or_damaged_is_written_again(tmp_path: Path) -> None:
    """With and without the checkpoint, by --resume and by the same command."""
    command = ("run", "factored", "-k", "50", "--out", str(tmp_path))
    answered(*command)
    before = {name: (tmp_path / name).read_bytes() for name in MADE}
    resume = ("run", "--resume", str(tmp_path))
    for name, again in (
        ("history.parquet", command),
        ("figure.png", resume),
        ("summary.json", resume),
        (MADE[-1], resume),
    ):
        path = tmp_path / name
        if name == "summary.json":
            (tmp_path / CHECKPOINT).unlink()
        if name == "figure.png":
            path.write_bytes(path.read_bytes()[:-1])
        else:
            path.unlink()
        assert "is complete" not in answered(*again)
        assert {each: (tmp_path / each).read_bytes() for each in MADE} == before, name
    assert "is complete" in answered("run", "--resume", str(tmp_path))
    sums = subprocess.run(["sha256sum", "--check", "SHA256SUMS"], cwd=tmp_path, capture_output=True, check=False)
    assert sums.returncode == 0


def test_plan_and_end_may_differ_and_another_runs_result_is_not_replaced(tmp_path: Path) -> None:
    opdop.train("factored", episodes=300, seed=1).save(tmp_path / "other")
    before = (tmp_path / "other" / "run.npz").read_bytes()
    with pytest.raises(opdop.InvalidParameterError, match=r"run\.npz is of another run: its seed is 1"):
        opdop.train("factored", episodes=300, planned_episodes=1000, seed=2, checkpoint=tmp_path / "other")
    assert (tmp_path / "other" / "run.npz").read_bytes() == before
    tmp_path = tmp_path / "own"
    opdop.train("factored", episodes=300, planned_episodes=1000, seed=2, checkpoint=tmp_path)
    answered("run", "--resume", str(tmp_path))
    assert same(opdop.Run.load(tmp_path), opdop.train("factored", episodes=300, planned_episodes=1000, seed=2))


def test_a_saved_run_is_not_replaced_by_another(tmp_path: Path) -> None:
    opdop.train("factored", "replan", episodes=300, seed=1).save(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    text = refused("run", "factored", "-k", "300", "--seed", "2", "--out", str(tmp_path))
    assert "run.npz is of another run: its seed is 1, and now it is 2" in text
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_summary_appears_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answered("run", "factored", "-k", "100", "--out", str(tmp_path))
    before = (tmp_path / "summary.json").read_bytes()
    (tmp_path / "SHA256SUMS").unlink()  # so that the files are written again
    replace = os.replace

    def fail(source: Path, target: Path) -> None:
        if target.name == "summary.json":
            raise OSError(28, "No space left on device")
        replace(source, target)

    monkeypatch.setattr(os, "replace", fail)
    assert "summary.json cannot be written" in refused("run", "factored", "-k", "100", "--out", str(tmp_path))
    assert (tmp_path / "summary.json").read_bytes() == before
    assert {file.name for file in tmp_path.iterdir()} == FILES - {"SHA256SUMS"}


# Mistakes


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        ((), "expected opdop run NAME, or opdop run --resume DIR"),
        (("factord",), "Did you mean 'factored'?"),
        (("factored", "--preset", "practicle"), "Did you mean 'practical'?"),
        (("factored", "--algorithm", "opo"), "Did you mean 'oppo'?"),
        (("factored", "--set", "move=1"), "Did you mean 'moves'?"),
        (("factored", "--param", "step=1"), "Did you mean 'step_scale'?"),
        (("factored", "--param", "step_scale"), "expected name=number"),
        (("factored", "--param", "step_scale=fast"), "expected name=number"),
        (("factored", "--param", "step_scale=1", "--param", "step-scale=2"), "set twice"),
        (("factored", "-k", "1.5"), "expected a whole number, such as 100000 or 1e5"),
        (("factored", "-k", "many"), "expected a whole number, such as 100000 or 1e5"),
        (("factored", "-k", "nan"), "expected a whole number, such as 100000 or 1e5"),
        (("factored", "-k", "0"), "episodes is 0; expected"),
        (("factored", "-k", "9", "--planned-episodes", "x"), "planned-episodes is 'x'"),
        (("factored", "-k", "9", "--delta", "2"), "failure_probability is 2.0; expected the probability"),
        (("factored", "-k", "9", "--delta", "0.95"), "For a guarantee with probability 0.95, give 0.05."),
        (("factored", "-k", "9", "--records", "1"), "records is 1; expected a whole number, at least 2"),
        (("factored", "-k", "9", "--measure-every", "0"), "at least 1"),
        (("factored", "-k", "9", "--figure", "run.gif"), "expected a file ending in .svg, .png, .pdf"),
        (("--resume", "nowhere"), "there is no run in 'nowhere'"),
    ],
)
def test_mistakes_are_answered_in_a_line(arguments: tuple[str, ...], answer: str) -> None:
    assert answer in refused("run", *arguments)


def test_infeasible_problems_end_with_status_1() -> None:
    assert "no policy" in refused("run", "queue", "--set", "throughput=11", status=1)


def test_resume_takes_everything_from_its_folder(kept: Path) -> None:
    assert "leave out --seed" in refused("run", "--resume", str(kept), "--seed", "5")
    assert "leave out NAME" in refused("run", "queue", "--resume", str(kept))


def test_run_on_a_model_of_ones_own_goes_on_where_it_was_started(tmp_path: Path) -> None:
    lever = opdop.TabularCMDP(np.ones((1, 2, 1)), [[0, 1]], [[1, 0]], 3.0, horizon=4)
    opdop.train(lever, episodes=10, checkpoint=tmp_path)
    assert "resume it where it was started" in refused("run", "--resume", str(tmp_path))


def test_damaged_checkpoint_is_refused(tmp_path: Path) -> None:
    (tmp_path / CHECKPOINT).write_bytes(b"nonsense")
    assert CHECKPOINT in refused("run", "--resume", str(tmp_path))


def test_folder_that_cannot_be_written_is_said_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    assert "cannot" in refused("run", "factored", "-k", "100000000", "--out", str(tmp_path / "file"))


# The program as a shell runs it


def program(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "opdop", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


SIGNALLED_AT_THE_FIRST_PROGRESS = """
import os, runpy, sys
from opdop.report.terminal.progress import Watch

call, number = Watch.__call__, int(sys.argv.pop(1))

def call_and_signal(self, progress):
    first = self.episode is None
    call(self, progress)
    if first:
        os.kill(os.getpid(), number)

Watch.__call__ = call_and_signal
runpy.run_module("opdop", run_name="__main__")
"""


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted_run_is_resumed_bit_for_bit(number: int, status: int, tmp_path: Path) -> None:
    folder, episodes = tmp_path / "my run", 20_000
    arguments = [str(int(number)), "run", "factored", "-k", str(episodes), "--out", str(folder)]
    command = [sys.executable, "-c", SIGNALLED_AT_THE_FIRST_PROGRESS, *arguments]
    child = subprocess.run(command, capture_output=True, text=True, check=False, timeout=50)
    assert (child.returncode, child.stdout) == (status, "")
    assert child.stderr.startswith("interrupted at episode ")
    assert child.stderr.endswith(f"; resume with: opdop run --resume '{folder}'\n")
    assert 0 < int(child.stderr.split()[3].rstrip(";")) < episodes
    text = answered("run", "--resume", str(folder))
    assert f"saved in {folder}: run.npz" in text
    assert same(opdop.Run.load(folder), opdop.train("factored", "replan", episodes=episodes, certificates=25))


def test_pipe_has_nothing_but_the_result() -> None:
    child = program("run", "factored", "-k", "2000")
    out, err = child.communicate(timeout=50)
    assert (child.returncode, err) == (0, "")
    assert "\x1b" not in out
    assert all(line == line.rstrip() and len(line) <= 80 for line in out.splitlines())


def test_terminal_shows_a_bar_and_ctrl_c_ends_it() -> None:
    """Without a folder nothing is kept, and this is said."""
    child, terminal = pty.fork()
    if child == 0:
        os.environ.update(COLUMNS="80", TERM="xterm")
        os.execv(sys.executable, [sys.executable, "-m", "opdop", "run", "factored", "-k", "1e8"])
    shown, sent, patience = "", False, time.monotonic() + 50
    while time.monotonic() < patience:
        if not select.select([terminal], [], [], 1.0)[0]:
            continue
        try:
            shown += os.read(terminal, 65536).decode(errors="replace")
        except OSError:  # the other side is closed
            break
        if not sent and "multiplier" in shown:
            os.write(terminal, b"\x03")
            sent = True
    os.close(terminal)
    if not sent:
        os.kill(child, signal.SIGKILL)  # it would play 1e8 episodes
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 130
    assert "learning" in shown
    assert "/100000000" in shown
    assert "per episode: regret" in shown
    assert "; nothing is saved without --out DIR" in shown


def test_compiling_is_said_if_it_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    said, announced = [], threading.Event()

    def busy(words: str) -> AbstractContextManager[None]:
        said.append(words)
        announced.set()
        return nullcontext()

    def execute_when_announced(*arguments: Any, **options: Any) -> opdop.Run:
        assert announced.wait(50)
        return execute(*arguments, **options)

    monkeypatch.setattr(command, "_SOON", 0.0)
    monkeypatch.setattr(command, "busy", busy)
    monkeypatch.setattr(opdop.runs, "execute", execute_when_announced)
    answered("run", "factored", "-k", "100")
    assert said == ["compiling, once"]
