"""The search for `practical` constants: it moves to cheaper settings only, and names them by all parameters."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import opdop
import studies.peers.search as module
from opdop.algorithms import find
from studies.general.settings import Setting
from studies.peers.search import FOLDER, SPEC, Search, named

PAGES = Path(__file__).parents[2] / "docs" / "algorithms"


def test_every_peer_is_searched_from_a_setting_with_all_parameters_but_how_often_it_plans():
    spec = tomllib.loads(SPEC.read_text(encoding="utf-8"))
    own = {name: find(name).presets.parameters("practical") for name in opdop.algorithms()}
    peers = {name for name in own if own[name] and name not in ("opdop", "opdop-lstd", "oppo", "replan")}
    assert set(spec["start"]) == peers
    for name, start in spec["start"].items():
        assert set(start) - set(spec["fixed"]) == set(own[name]) - {"growth"}


def test_the_search_moves_one_parameter_at_a_time_to_the_least_cost(tmp_path: Path, monkeypatch):
    spec = {"episodes": 4, "factors": [10.0, 3.0], "tries": 30, "finalists": 2, "lengths": [4], "seeds": [0]}
    spec |= {"fixed": ["growth"], "least": {"dope": {"bonus_scale": 0.2}}}
    spec |= {"start": {"dope": {"radius_scale": 1.0, "bonus_scale": 1.0, "growth": 0.02}}}
    search = Search("dope", spec, tmp_path)

    def cost(parameters: dict[str, float]) -> float:
        text = named("dope", parameters).text
        value = abs(parameters["radius_scale"] - 0.03) + abs(parameters["bonus_scale"] - 10.0)
        return search.tried.setdefault(text, value)

    monkeypatch.setattr(search, "cost", cost)
    search.run()
    assert search.finalists()[0].text == "dope,radius_scale=0.03,bonus_scale=10,growth=0.02"
    assert len(search.tried) <= 30
    assert all(Setting(text).parameters["bonus_scale"] >= 0.2 for text in search.tried)
    assert all(Setting(text).parameters["growth"] == 0.02 for text in search.tried)
    assert module.named("dope", {"radius_scale": 1e-6, "bonus_scale": 0.1}).text in {
        "dope,radius_scale=1e-06,bonus_scale=0.1"
    }


@pytest.mark.parametrize("name", sorted(tomllib.loads(SPEC.read_text(encoding="utf-8"))["start"]))
def test_the_page_of_a_peer_has_the_recorded_search_and_its_defaults_are_the_first_row(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def unknown(*arguments: object, **options: object) -> None:
        raise opdop.InvalidParameterError("only recorded runs count here")

    monkeypatch.setattr(Setting, "train", unknown)
    search = Search(name, tomllib.loads(SPEC.read_text(encoding="utf-8")), FOLDER)
    search.run()
    search.print_table()
    printed = capsys.readouterr().out
    page = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    rows = [line.replace(f"`{name},", "`") for line in printed.splitlines() if line.startswith("| `")]
    assert rows == [line for line in page.splitlines() if re.match(r"\| `\w+=", line)]
    assert f"Here {len(search.tried)} settings were tried." in page
    chosen = dict(each.split("=") for each in rows[0].split("`")[1].split(","))
    for parameter, default in find(name).presets.parameters("practical").items():
        assert float(chosen.get(parameter, default)) == pytest.approx(default, rel=1e-12), parameter
