"""Problems of one's own by name: files, functions with parameters, and entry points; in Python and in commands."""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

import opdop
from opdop import OpdopError, make, save_model
from opdop.cli.application import app
from opdop.runs import execute

MODULE = '''
"""A module with a problem."""
import opdop

def make_problem(*, stages: int = 4, moves: float = 2.0):
    """Return a problem of my own."""
    return opdop.make("factored", stages=stages, moves=moves)

def broken():
    return 3

def needs(x):
    return x
'''


@pytest.fixture
def module(tmp_path: Path) -> str:
    (tmp_path / "mine.py").write_text(MODULE)
    return str(tmp_path / "mine.py")


def answered(*arguments: str, anyway: bool = False) -> str:
    """Return what a command prints; `anyway`: its status may also be 1, as that of a policy that is not certified."""
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"})
    assert result.exit_code in ((0, 1) if anyway else (0,)), result.output
    assert isinstance(result.exception, SystemExit | None), result.output
    return result.output


def test_file_and_function_are_problems_by_name(module: str, tmp_path: Path) -> None:
    made = make(f"{module}:make_problem", stages=5)
    assert made.display.parameters == {"stages": 5, "moves": 2.0}
    assert made.display.name == f"{module}:make_problem"
    file = str(save_model(make("factored").tabular(), tmp_path / "factored.npz"))
    assert opdop.solve(file).value == opdop.solve("factored").value
    run = opdop.train(file, episodes=20)
    assert run.config.problem == file


def test_wrong_names_say_what_is_missing(module: str) -> None:
    for name, words in (
        (f"{module}:nothing", "has no function 'nothing'"),
        ("nowhere.py:make", "there is no file nowhere.py"),
        ("no_such_module:make", "importing no_such_module failed: ModuleNotFoundError"),
        (f"{module}:broken", "has returned 3; expected a problem"),
        (f"{module}:needs", "parameter 'x' of"),
        ("nowhere.toml", "there is no file nowhere.toml"),
        ("factorred", "Did you mean 'factored'"),
    ):
        with pytest.raises(OpdopError, match=words):
            make(name)
    with pytest.raises(OpdopError, match="expected a whole number"):
        make(f"{module}:make_problem", stages=1.5)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Install a distribution with an entry point, as pip does: a module, and a folder that describes it."""
    site = tmp_path / "site-packages"
    about = site / "my_plant-1.0.dist-info"
    about.mkdir(parents=True)
    (site / "my_plant_module.py").write_text(MODULE)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: my-plant\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        "[opdop.problems]\nmy-plant = my_plant_module:make_problem\nmy-plant-broken = my_plant_module:nothing\n"
    )
    monkeypatch.syspath_prepend(str(site))
    yield "my-plant"
    sys.modules.pop("my_plant_module", None)


def test_entry_point_is_a_problem_with_parameters(installed: str) -> None:
    made = make(installed, stages=3)
    assert made.display.name == "my-plant"
    assert made.display.parameters == {"stages": 3, "moves": 2.0}
    with pytest.raises(OpdopError, match="loading the entry point 'my-plant-broken' failed: AttributeError"):
        make("my-plant-broken")
    with pytest.raises(OpdopError, match="Did you mean 'my-plant'"):
        make("my-plnt")


def test_commands_take_files_and_functions(module: str, tmp_path: Path) -> None:
    file = str(save_model(make("media-streaming").tabular(), tmp_path / "media.npz"))
    assert "one more service of budget saves 0.4952 steps" in answered("solve", file)
    assert "stages=3" in answered("solve", f"{module}:make_problem", "--set", "stages=3")
    assert "average" in answered("run", file, "--episodes", "20")
    text = answered("check", file)
    assert "reachable" in text
    assert "binds" in text
    assert "episodes" in text


TEXT = """format = "opdop.model/1"
states = ["open", "closed"]
actions = ["wait", "sell"]
horizon = 4
initial = "open"
budgets = {work = 5.0}
rows = [
  {state = "open", action = "wait", next = "open"},
  {state = "open", action = "sell", next = {open = 0.5, closed = 0.5}, reward = 30, costs = {work = 3}},
  {state = "closed", action = "wait", next = "open", costs = {work = 1}},
  {state = "closed", action = "sell", next = "closed"},
]
"""
PRISM = """format = "opdop.model/1"
horizon = 4
budgets = {fuel = 2}
[prism]
transitions = "model.tra"
labels = "model.lab"
reward = "model.srew"
costs = {fuel = "fuel.srew"}
"""


@pytest.fixture
def of_every_kind(module: str, installed: str, tmp_path: Path) -> dict[str, str]:
    """Return the name of a problem of each kind."""
    (tmp_path / "shop.toml").write_text(TEXT)
    (tmp_path / "shop.json").write_text(json.dumps(tomllib.loads(TEXT)))
    (tmp_path / "prism.toml").write_text(PRISM)
    (tmp_path / "model.tra").write_text("2 4 5\n0 0 0 1\n0 1 0 0.5\n0 1 1 0.5\n1 0 1 1\n1 1 0 1\n")
    (tmp_path / "model.lab").write_text('0="init"\n0: 0\n')
    (tmp_path / "model.srew").write_text("2 1\n1 1\n")
    (tmp_path / "fuel.srew").write_text("2 1\n1 1\n")
    save_model(make("factored").tabular(), tmp_path / "factored.npz")
    files = {name: str(tmp_path / name) for name in ("factored.npz", "shop.toml", "shop.json", "prism.toml")}
    return {"shipped": "factored", "function": f"{module}:make_problem", "entry point": installed, **files}


def test_every_kind_of_problem_works_in_every_command(of_every_kind: dict[str, str], tmp_path: Path) -> None:
    for kind, name in of_every_kind.items():
        folder, policy = str(tmp_path / f"run-{kind}"), str(tmp_path / f"policy-{kind}.json")
        assert "binds" in answered("solve", name), kind
        assert "reachable" in answered("check", name), kind
        assert "solution" in answered("envs", name, "--json"), kind
        assert "average" in answered("run", name, "--episodes", "40", "--out", folder), kind
        again = ["run", name] if kind in ("function", "entry point") else ["run"]
        assert "nothing to do" in answered(*again, "--resume", folder), kind
        assert "certified" in answered("certify", folder, anyway=True).lower(), kind
        assert "policy saved" in answered("policy", folder, "--kind", "final", "--out", policy), kind
        fresh = answered("certify", name, "--policy", policy, "--episodes", "30", anyway=True)
        assert "30 episodes" in " ".join(fresh.split()), kind  # lines are wrapped, and names of files are long
        assert "report.html" in answered("report", folder, "--no-figures"), kind
        assert "passed" in answered("verify", name, "-k", "5", "--seeds", "1"), kind


def test_every_kind_of_problem_works_in_sweeps_and_comparisons(of_every_kind: dict[str, str], tmp_path: Path) -> None:
    text = "episodes = 20\nseeds = 1\n" + "".join(f'[[problem]]\nname = "{name}"\n' for name in of_every_kind.values())
    (tmp_path / "spec.toml").write_text(text)
    spec, out = str(tmp_path / "spec.toml"), str(tmp_path / "sweep")
    assert "7 of 7 runs are done" in answered("sweep", spec, "--out", out, "--workers", "1", "--allow-code")
    options = ["--algorithms", "opdop", "--seeds", "1", "-k", "20", "--workers", "1", "--no-figures"]
    for kind in ("entry point", "shop.toml"):  # a comparison is a sweep and a report, which both have had every kind
        folder = str(tmp_path / f"compared-{kind}")
        assert "report.html" in answered("compare", of_every_kind[kind], *options, "--out", folder), kind


def test_sweeps_take_model_files_but_code_only_if_it_is_allowed(module: str, tmp_path: Path) -> None:
    file = str(save_model(make("factored").tabular(), tmp_path / "factored.npz"))
    algorithm = [{"name": "opdop"}]
    spec = opdop.Spec.of({"episodes": 20, "seeds": 2, "problem": [{"name": file}], "algorithm": algorithm})
    assert [execute(job).config.problem for job in spec.jobs()] == [file, file]
    with pytest.raises(OpdopError, match=r"there is no file missing\.npz"):
        opdop.Spec.of({"episodes": 20, "seeds": 1, "problem": [{"name": "missing.npz"}], "algorithm": algorithm})
    text = f'seeds = 1\n[[problem]]\nname = "{module}:make_problem"'
    with pytest.raises(OpdopError, match="a spec runs no code unless that is allowed: --allow-code"):
        opdop.Spec.parse(text)
    assert len(opdop.Spec.parse(text, allow_code=True)) == 1


def test_notebooks_show_problems_and_optima_in_own_units() -> None:
    cmdp = make("inventory").tabular()
    assert "orders and storage &lt;= 66.5 dollars" in cmdp._repr_html_()
    assert "is worth 1 dollar of revenue" in opdop.solve(cmdp)._repr_html_()
