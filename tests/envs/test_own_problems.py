"""Problems of one's own by name: files, functions with parameters, and entry points; in Python and in commands."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path
from typing import Any

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


def answered(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
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


def test_entry_point_is_a_problem(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Entry:
        name = "my-plant"

        def load(self) -> Any:
            return lambda: make("queue")

    monkeypatch.setattr(
        importlib.metadata, "entry_points", lambda group: [Entry()] if group == "opdop.problems" else []
    )
    assert make("my-plant").display.name == "my-plant"


def test_commands_take_files_and_functions(module: str, tmp_path: Path) -> None:
    file = str(save_model(make("media-streaming").tabular(), tmp_path / "media.npz"))
    assert "one more service of budget saves 0.4952 steps" in answered("solve", file)
    assert "stages=3" in answered("solve", f"{module}:make_problem", "--set", "stages=3")
    assert "average" in answered("run", file, "--episodes", "20")
    text = answered("check", file)
    assert "reachable" in text
    assert "binds" in text
    assert "episodes" in text


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
    assert "is worth 1 dollars of revenue" in opdop.solve(cmdp)._repr_html_()
