"""Bars of `train` and `sweep`: in terminals and notebooks, for long runs, and never where nobody watches."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import pytest

import opdop
from opdop import InvalidParameterError, train
from opdop.report.terminal import bars
from opdop.runs.progress import is_watched
from tests.support.bakery import make_bakery


class Screen:
    """A stand-in for IPython: what a notebook would show."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, kernel: bool = True) -> None:
        self.shown: list[str] = []
        shell = types.SimpleNamespace(kernel=object()) if kernel else types.SimpleNamespace()
        package: Any = types.ModuleType("IPython")
        package.get_ipython = lambda: shell
        module: Any = types.ModuleType("IPython.display")
        module.HTML = lambda text: text
        module.display = self.display
        monkeypatch.setitem(sys.modules, "IPython", package)
        monkeypatch.setitem(sys.modules, "IPython.display", module)

    def display(self, content: str, display_id: bool) -> Screen:
        assert display_id
        self.shown.append(content)
        return self

    def update(self, content: str) -> None:
        self.shown.append(content)


def test_nothing_is_shown_where_nobody_watches(capfd: pytest.CaptureFixture[str]) -> None:
    assert not is_watched()
    train("factored", episodes=20)
    assert capfd.readouterr() == ("", "")


def test_bar_is_shown_at_once_if_it_is_asked_for(capfd: pytest.CaptureFixture[str]) -> None:
    train("factored", episodes=20, progress=True)
    out, err = capfd.readouterr()
    assert out == ""
    assert "20/20" in err
    assert "regret" in err


def test_bar_of_a_simulator_names_no_regret(capfd: pytest.CaptureFixture[str]) -> None:
    train(make_bakery(), episodes=20, progress=True)
    err = capfd.readouterr().err
    assert "20/20" in err
    assert "multiplier" in err
    assert "regret" not in err


def test_short_runs_have_no_bar_in_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("opdop.runs.progress.is_watched", lambda: True)
    train("factored", episodes=20)
    assert capfd.readouterr() == ("", "")


def test_bar_in_a_notebook_needs_no_widgets(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    screen = Screen(monkeypatch)
    assert is_watched()
    train("factored", episodes=30, progress=True, piece=1)
    assert screen.shown[0].startswith('<progress value="1" max="30"')
    assert "1 of 30 episodes" in screen.shown[0]
    assert screen.shown[-1] == ""  # it is removed at the end
    assert capfd.readouterr() == ("", "")
    short = Screen(monkeypatch)
    train("factored", episodes=30)
    assert short.shown == []
    Screen(monkeypatch, kernel=False)
    assert not is_watched()


def test_bar_in_a_notebook_shows_a_long_run(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen(monkeypatch)
    monkeypatch.setattr(bars, "WORTH_SHOWING", 0.0)
    train("factored", episodes=5)
    before = len(screen.shown)
    assert before >= 2
    train("factored", episodes=5, progress=False)
    assert len(screen.shown) == before


def test_function_and_false_replace_the_bar(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("opdop.runs.progress.is_watched", lambda: True)
    monkeypatch.setattr("opdop.report.terminal.progress.WORTH_SHOWING", 0.0)
    seen: list[int] = []
    train("factored", episodes=9, progress=lambda now: seen.append(now.episode), piece=3)
    assert seen == [3, 6, 9]
    train("factored", episodes=9, progress=False)
    assert capfd.readouterr() == ("", "")
    with pytest.raises(InvalidParameterError, match="progress is 3; expected True, False, a function, or None"):
        train("factored", episodes=9, progress=3)  # type: ignore[arg-type]


def test_sweep_has_a_bar_too(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    spec = {"episodes": 5, "seeds": 1, "problem": ["factored"]}
    opdop.sweep(spec, tmp_path / "quiet", workers=1)
    assert capfd.readouterr() == ("", "")
    opdop.sweep(spec, tmp_path / "shown", workers=1, progress=True)
    assert "runs done" in capfd.readouterr().err
