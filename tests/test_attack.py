"""Facts about the attacks: a few hundred of their cases find nothing here, and they notice what they look for.

`make attack` runs all of them; see docs/reliability.md.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import opdop
from attack import __main__ as program
from attack import api, command_line, disk, files, keys, kills, readers, sizes
from attack.mutations import damage
from attack.sandbox import BAD, FINE, Tally, Wrong, judge_message
from opdop.model import OpdopError

FEW = {files: 72, readers: 80, command_line: 10, sizes: 12, keys: 2, disk: 12}


@pytest.mark.parametrize("attack", FEW, ids=lambda module: module.__name__.rpartition(".")[2])
def test_a_few_cases_of_each_attack_find_nothing(attack: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    state = attack.prepare(tmp_path)
    for case in range(FEW[attack]):
        assert ended(attack, state, case) in FINE


def test_wrong_arguments_of_the_api_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the calls that train and save: tests/model has the models, and preparing all takes long."""
    monkeypatch.chdir(tmp_path)  # a call with a relative path may write there
    calls = [call for call in api._calls(tmp_path) if call.name != "Doubling"]
    for case in range(400):
        assert ended(api, calls, case) in FINE


def ended(attack: Any, state: Any, case: int) -> str:
    """Return how a case ends, as the sandbox counts it."""
    try:
        outcome: str = attack.probe(state, case)
    except OpdopError as error:
        outcome, _ = judge_message(str(error))
    return outcome


def test_every_attack_is_in_the_table_and_has_enough_cases() -> None:
    modules = {path.stem for path in Path(program.__file__).parent.glob("*.py") if "def probe" in path.read_text()}
    assert set(program.ATTACKS) == modules
    assert {module.__name__.rpartition(".")[2] for module in (*FEW, api, kills)} == modules
    least = {"files": 5000, "api": 5000, "command_line": 2000}
    assert all(program.ATTACKS[name][0] >= cases for name, cases in least.items())
    assert sum(seconds for _, seconds, _, _ in program.ATTACKS.values()) <= 600.0


def test_a_wrong_number_is_called_wrong(tmp_path: Path) -> None:
    """A run whose truth is another must be noticed by the attack on files."""
    state = files.prepare(tmp_path)
    other = files.State(tmp_path, files.numbers_of(opdop.train("factored", episodes=20, seed=4)), b"", b"")
    assert files._expect(files.numbers_of(opdop.Run.load(tmp_path / "run")) == state.run, "") == "right"
    with pytest.raises(Wrong):
        files._same_numbers(other, "untouched")


def test_damage_changes_the_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for seed in range(50):
        path.write_bytes(b"0123456789" * 50)
        damage(path, np.random.default_rng(seed))
        assert path.read_bytes() != b"0123456789" * 50


def test_the_table_counts_every_outcome() -> None:
    tally = Tally("files")
    for outcome in (*FINE, *BAD, "right"):
        tally.add(outcome, "")
    assert tally.bad == len(BAD)
    assert program.table([tally])[-1] == "| **all** | 8 | 2 | 1 | 1 | 1 | 1 | 1 | 1 |"
    assert judge_message("\x1b[31mred")[0] == "traceback"
