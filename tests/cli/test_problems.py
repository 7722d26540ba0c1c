"""Facts about the command line: what it prints, how it reports mistakes, and how it ends."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import opdop
from opdop.cli import app
from opdop.cli.application import COMMANDS
from opdop.report.summary import solution
from tests.support import bakery

NAMES = list(opdop.environments())


def run(*arguments: str, columns: int = 80) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": str(columns)})


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
    assert "Traceback" not in result.output
    return result.stderr


def program(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the installed program as a shell would."""
    settings = {key: value for key, value in os.environ.items() if key not in {"COLUMNS", "NO_COLOR", "FORCE_COLOR"}}
    command = [sys.executable, "-m", "opdop", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**settings, **environment})


# envs


def test_envs_lists_every_problem_within_80_columns() -> None:
    text = answered("envs")
    assert max(map(len, text.splitlines())) <= 80
    for name, entry in opdop.environments().items():
        assert any(line.startswith(f"{name} ") for line in text.splitlines())
        assert entry.summary.split()[0] in text
    assert "6.7467" in text
    assert "8276.4344" in text


def test_envs_has_summaries_in_the_table_if_the_terminal_is_wide() -> None:
    text = run("envs", columns=200).stdout
    for name, entry in opdop.environments().items():
        assert any(line.startswith(name) and line.endswith(entry.summary) for line in text.splitlines())


@pytest.mark.parametrize("name", NAMES)
def test_envs_says_all_about_one_problem(name: str) -> None:
    entry = opdop.environments()[name]
    text = answered("envs", name)
    assert max(map(len, text.splitlines())) <= 80
    words = " ".join(text.split())
    assert entry.description in words
    for key, parameter in entry.parameters.items():
        assert f"\n{key} " in text
        assert parameter.help.split()[0] in words


def test_envs_json_has_every_problem_with_its_parameters() -> None:
    record = json.loads(answered("envs", "--json"))
    assert record["format"] == "opdop.envs/2"
    assert [each["name"] for each in record["problems"]] == NAMES
    for each in record["problems"]:
        defaults = {key: parameter["default"] for key, parameter in each["parameters"].items()}
        assert defaults == each["solution"]["parameters"]
    one = json.loads(answered("envs", "queue", "--json"))
    assert [each["name"] for each in one["problems"]] == ["queue"]


# solve


@pytest.mark.parametrize("name", NAMES)
def test_solve_json_can_be_evaluated_again(name: str, tmp_path: Path) -> None:
    file = tmp_path / "policy.npy"
    record: dict[str, Any] = json.loads(answered("solve", name, "--json", "--policy", str(file)))
    cmdp = opdop.make(record["problem"], **record["parameters"])
    values = opdop.evaluate(cmdp, np.load(file))
    for found, signal in zip([record["reward"], *record["constraints"]], values.totals, strict=True):
        assert found["optimum"]["model"] == pytest.approx(signal, abs=1e-9)
    quantities = cmdp.display.quantities
    for found, quantity in zip([record["reward"], *record["constraints"]], quantities, strict=True):
        assert found["optimum"]["own"] == pytest.approx(quantity.shown(found["optimum"]["model"]))
        assert found["better"] == ("less" if quantity.scale < 0 else "more")
    optimum = opdop.solve(cmdp)
    assert [constraint["multiplier"]["model"] for constraint in record["constraints"]] == optimum.dual.tolist()
    assert record["slater_gap"] == optimum.slater_gap
    model = cmdp.tabular()
    assert (record["states"], record["actions"]) == (model.num_states, model.num_actions)
    assert (record["stages"], record["num_constraints"]) == (model.horizon, model.num_constraints)


def test_solve_says_what_the_constraint_costs() -> None:
    text = answered("solve", "media-streaming")
    for words in (
        "constraint    fast services <= 5 services",
        "yes: one more service of budget saves 0.4952 steps of",
        "5 services: the slack of the max-slack policy",
        "the constraints cost 1.3536 steps of the objective",
        "dual walk, 7 backward passes,",
        "fast_services=5",
    ):
        assert words in text


def test_solve_draws_a_map_where_there_is_one() -> None:
    text = answered("solve", "gridworld")
    assert "\n  Sv" in text
    assert "S start, ! hazard, G goal, # wall," in text
    assert "expected stages in each cell" not in answered("solve", "queue")


def test_set_takes_values_of_every_type() -> None:
    settings = ("states=6", "share=0.7", "stationary=yes", "signals=uniform", "successors=none", "seed=5")
    arguments = [part for setting in settings for part in ("--set", setting)]
    found = json.loads(answered("solve", "random-tabular", "--json", *arguments))["parameters"]
    assert (found["states"], found["share"], found["stationary"]) == (6, 0.7, True)
    assert (found["signals"], found["successors"], found["seed"]) == ("uniform", None, 5)
    effort = json.loads(answered("solve", "queue", "--json", "-s", "effort=1,2,4"))["parameters"]["effort"]
    assert effort == [1.0, 2.0, 4.0]


def test_set_changes_the_answer() -> None:
    values = [
        json.loads(answered("solve", "factored", "--json", "--set", f"moves={moves}"))["reward"]["optimum"]["own"]
        for moves in (1, 2, 3)
    ]
    assert values == pytest.approx([2 / 3, 4 / 3, 2.0])


@pytest.mark.parametrize("ending", ["svg", "png", "pdf"])
def test_figure_is_saved(ending: str, tmp_path: Path) -> None:
    file = tmp_path / f"river.{ending}"
    text = answered("solve", "river-crossing", "--figure", str(file))
    assert f"figure saved to {file}" in text
    assert file.stat().st_size > 1000


def test_plane_is_drawn_if_wished_and_json_stays_alone(tmp_path: Path) -> None:
    file = tmp_path / "plane.svg"
    json.loads(answered("solve", "river-crossing", "--plane", "--figure", str(file), "--json"))
    assert "<!-- attainable -->" in file.read_text(encoding="utf-8")


# Mistakes


@pytest.mark.parametrize("command", ["solve", "envs"])
def test_misspelt_problem_is_answered_with_the_right_one(command: str) -> None:
    assert "Did you mean 'media-streaming'?" in refused(command, "medea-streaming")


@pytest.mark.parametrize(
    ("setting", "answer"),
    [
        ("fast_service=3", "Did you mean 'fast_services'?"),
        ("fast=2", "expected a number, at least 0, at most 1"),
        ("stages=ten", "expected a whole number"),
        ("stages=2.5", "expected a whole number"),
        ("stages", "expected key=value"),
        ("fast_services=100", "expected less than 10"),
        ("slow=0.95", "expected slow below fast"),
    ],
)
def test_wrong_settings_are_answered_with_what_was_expected(setting: str, answer: str) -> None:
    assert answer in refused("solve", "media-streaming", "--set", setting)


def test_setting_given_twice_is_refused() -> None:
    assert "twice" in refused("solve", "factored", "--set", "moves=1", "--set", "moves=2")


def test_infeasible_problems_end_with_status_1() -> None:
    message = refused("solve", "queue", "--set", "throughput=11", status=1)
    assert "no policy" in message
    assert "7.19984 customers" in message
    refused("solve", "queue", "--set", "throughput=11", "--json", status=1)


@pytest.mark.parametrize(
    ("option", "file", "answer"),
    [
        ("--figure", "map.gif", "expected a file ending in .svg, .png, .pdf"),
        ("--figure", "missing/map.svg", "there is no folder"),
        ("--policy", "policy.csv", "expected a file ending in .npy"),
        ("--policy", "missing/policy.npy", "cannot write"),
    ],
)
def test_files_that_cannot_be_written_are_refused(option: str, file: str, answer: str, tmp_path: Path) -> None:
    assert answer in refused("solve", "factored", option, str(tmp_path / file))


def test_unknown_commands_and_missing_names_explain_themselves() -> None:
    result = run("sovle")
    assert result.exit_code == 2
    assert "solve" in result.stderr
    assert run("solve").exit_code == 2


def test_interrupt_ends_quietly(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(solution, "solution_of", interrupt)
    result = run("solve", "factored")
    assert result.exit_code == 130
    assert result.output == ""


def test_other_errors_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(solution, "solution_of", fail)
    assert isinstance(run("solve", "factored").exception, RuntimeError)


# Help


def test_help_teaches_by_examples() -> None:
    for arguments in ((), *((name,) for name in COMMANDS)):
        text = answered(*arguments, "--help")
        assert "Examples:\n" in text
        assert max(map(len, text.splitlines())) <= 80
    assert "opdop solve gridworld --set size=9 --figure map.svg" in answered("--help")


def test_examples_of_the_help_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "spec.toml").write_text('episodes = 100\nseeds = 1\n[[problem]]\nname = "factored"\n')
    own = "my_module.py:make_simulator"
    (tmp_path / "my_module.py").write_text(f"{Path(bakery.__file__).read_text()}\n\nmake_simulator = make_bakery\n")
    (tmp_path / "own.toml").write_text(f'episodes = 100\nseeds = 1\n[[problem]]\nname = "{own}"\n')
    named = ("envs", "solve", "algorithms", "run", "sweep", "runs")
    text = answered("--help") + "".join(answered(each, "--help") for each in named)
    lines = [line.split("|")[0].split("   ")[0] for line in map(str.strip, text.splitlines())]
    commands = [shlex.split(line)[1:] for line in dict.fromkeys(lines) if line.startswith("opdop ")]
    assert len(commands) >= 16
    for command in commands:
        if not {"--scheduler", "LOG.csv"} & {*command}:  # tests/sweeps/test_dask.py and test_certify.py have these
            answered(*command, *(["-k", "40"] if command == ["verify"] else []))  # it takes half a minute as it is


def test_version_is_the_packages() -> None:
    assert answered("--version") == f"opdop {opdop.__version__}\n"


# The program as a shell runs it


def test_program_prints_plain_text_into_a_pipe() -> None:
    result = program("solve", "gridworld")
    assert result.returncode == 0
    assert result.stderr == ""
    assert "\x1b" not in result.stdout
    assert all(line == line.rstrip() and len(line) <= 80 for line in result.stdout.splitlines())


def test_program_respects_no_color_and_forced_color() -> None:
    assert "\x1b[31m" in program("solve", "facored", FORCE_COLOR="1").stderr
    plain = program("solve", "facored", FORCE_COLOR="1", NO_COLOR="1")
    assert "\x1b[31m" not in plain.stderr
    assert plain.returncode == 2


def test_program_prints_where_only_ascii_can_be_printed() -> None:
    result = program("envs", PYTHONIOENCODING="ascii")
    assert result.returncode == 0
    assert "media-streaming" in result.stdout


INTERRUPTED_AT_IMPORT = """
import os, runpy, signal, sys, time

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[-1]:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(60)

sys.meta_path.insert(0, Interrupt())
sys.argv = ["opdop", "solve", "factored", "--set", sys.argv[-1]]
runpy.run_module("opdop", run_name="__main__")
"""


@pytest.mark.parametrize("module", ["opdop.cli", "typer", "numba", "opdop.planning"])
def test_ctrl_c_ends_the_program_quietly_at_any_time(module: str) -> None:
    """The program is interrupted when it begins to import a module: from its first import to that of the planner."""
    command = [sys.executable, "-c", INTERRUPTED_AT_IMPORT, module]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=50)
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "")


@pytest.mark.parametrize("arguments", [("--help",), ("run", "--help"), ("solve", "factored"), ("envs", "--json")])
def test_closed_pipe_ends_the_program_quietly_with_status_141(arguments: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)  # as `| head` does when it has read enough
    command = [sys.executable, "-m", "opdop", *arguments]
    result = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False, timeout=50)
    os.close(writer)
    assert (result.returncode, result.stderr) == (141, "")


# Start-up

HEAVY = {"numba", "scipy", "polars", "matplotlib"}


START = "import opdop.__main__ as program; program.main()"


@pytest.mark.parametrize(
    ("code", "arguments"),
    [
        ("import opdop", ""),
        ("from opdop import InvalidParameterError", ""),
        ("from opdop.runs import RunConfig", ""),
        (START, "--help"),
        (START, "--version"),
        (START, "run --help"),
        (START, "solve --help"),
    ],
)
def test_start_imports_nothing_heavy(code: str, arguments: str) -> None:
    watch = "import atexit, sys; atexit.register(lambda: print('loaded:', *sys.modules))"
    command = [sys.executable, "-c", f"{watch}; {code}", *arguments.split()]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in result.stdout.partition("loaded: ")[2].split()}
    assert "opdop" in loaded
    assert HEAVY.isdisjoint(loaded)


def test_every_public_name_is_found_and_listed() -> None:
    for package in (opdop, opdop.model, opdop.runs):
        assert set(package.__all__) <= set(dir(package))
        assert all(getattr(package, name) is not None for name in package.__all__)
    with pytest.raises(AttributeError, match="module 'opdop' has no attribute 'trian'"):
        opdop.trian  # noqa: B018
    assert opdop.algorithms is sys.modules["opdop.algorithms"]


@pytest.mark.parametrize("command", ["report", "runs", "certify", "sweep"])
def test_a_name_of_400_letters_is_answered_in_one_line(command: str, tmp_path: Path) -> None:
    more = ["--out", str(tmp_path / "out")] if command == "sweep" else []
    result = run(command, "9" * 400, *more)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
