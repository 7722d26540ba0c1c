"""Runs, problems and certificates in Python and notebooks: plots, comparisons, reports, short reprs and safe HTML."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

import opdop
from opdop import Display, InvalidParameterError, Quantity, TabularCMDP, train
from tests.support.bakery import make_bakery

EVIL = '<script>alert("x")</script>'


@pytest.fixture(scope="module")
def realised() -> Any:
    return train(make_bakery(), episodes=120, certificates=3, evaluation_episodes=10)


@pytest.mark.parametrize("ending", [".png", ".svg", ".pdf"])
def test_plot_of_a_run_without_a_model(realised: Any, tmp_path: Path, ending: str) -> None:
    figure = realised.plot(tmp_path / f"run{ending}")
    assert isinstance(figure, Figure)
    assert (tmp_path / f"run{ending}").stat().st_size > 5_000
    texts = [each.get_text() for axes in figure.axes for each in (*axes.texts, *axes.get_legend().get_texts())]
    assert "profit, dollars (more is better)" in texts
    assert "flour, dollars (less is better)" in texts
    assert "Multiplier, dollars per dollar" in texts
    assert {"moving average", "budget", "certified ≤"} <= set(texts)
    limit = next(line for line in figure.axes[1].lines if line.get_label() == "budget")
    assert limit.get_ydata()[0] == pytest.approx(25.0)


@pytest.mark.parametrize("problem", ["factored", "reservoir"])
def test_plot_of_a_known_or_continuous_run(problem: str) -> None:
    assert isinstance(train(problem, episodes=3).plot(), Figure)


def test_plot_refuses_a_file_that_is_no_figure(realised: Any) -> None:
    with pytest.raises(InvalidParameterError, match="expected a file ending in"):
        realised.plot("run.txt")


def test_report_and_comparison_of_runs_in_memory(realised: Any, tmp_path: Path) -> None:
    page = opdop.report([realised, train("factored", episodes=20)], tmp_path / "page.html")
    assert "realised profit" in page.read_text()
    found = opdop.compare([realised, train(make_bakery(), "oppo", episodes=120)])
    assert repr(found).startswith("Comparison(2 runs in 2 groups")
    assert "realised flour" in str(found)
    assert "realised totals: the model is not known" in str(found)
    assert {each.metric.unit for each in found.verdicts} == {"dollars"}
    with pytest.raises(InvalidParameterError, match="there is no run that can be shown"):
        opdop.compare([])


def test_comparison_makes_its_runs_and_a_page(tmp_path: Path) -> None:
    given: dict[str, Any] = {"seeds": 2, "episodes": 30, "workers": 1, "out": tmp_path, "progress": False}
    found = opdop.compare("factored", ["opdop", "oppo"], problem_parameters={"stages": 4}, **given)
    assert found.page == tmp_path / "report.html"
    assert found.page.exists()
    assert found.runs.total_runs == 4
    assert str(opdop.compare(tmp_path)) == str(found)
    with pytest.raises(InvalidParameterError, match="there is no environment"):
        opdop.compare("factorred", **given)


def test_verify_takes_names_and_models() -> None:
    found = opdop.verify("factored", seeds=1, episodes=10, problem_parameters={"stages": 5})
    assert found.failed == 0
    assert opdop.verify([opdop.make("factored")], seeds=1, episodes=5).failed == 0
    with pytest.raises(InvalidParameterError, match="does not guarantee optimism"):
        opdop.verify("factored", preset="paper", only_optimism=True)


class Tags(HTMLParser):
    """Collects tags, and refuses what loads or runs anything."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in ("script", "img", "link", "iframe", "style")
        assert not any(name.startswith("on") or name in ("src", "href") for name, _ in attrs)
        self.tags.append(tag)


def shown(text: str) -> str:
    parser = Tags()
    parser.feed(text)
    assert "table" in parser.tags
    assert EVIL not in text
    assert not re.search(r"#[0-9a-fA-F]{3,6}\b|rgb\(", text)  # colours are those of the page, light or dark
    return re.sub(r"<[^>]*>", " ", text)


def test_notebooks_show_small_tables_with_escaped_names() -> None:
    evil = TabularCMDP(
        np.ones((1, 2, 1)),
        rewards=[[0.0, 30.0]],
        costs=[[0.0, 20.0]],
        budgets=100.0,
        horizon=10,
        units={"reward": (f"profit {EVIL}", "dollars"), "cost": (f"rent {EVIL}", "dollars")},
        display=Display(EVIL, EVIL),
    )
    run = train(evil, episodes=30, evaluation_episodes=5)
    for each in (evil, opdop.solve(evil), run, run.certificate(), run.evaluation, opdop.compare(run)):
        text = shown(each._repr_html_())  # type: ignore[union-attr]
        assert "&lt;script&gt;" in text
        assert "dollars" in text
    unknown = train(make_bakery(), episodes=30)
    assert "flour &lt;= 25 dollars" in shown(unknown._repr_html_())
    assert "flour" in shown(make_bakery()._repr_html_())
    assert "hm³" in shown(opdop.make("reservoir")._repr_html_())  # type: ignore[attr-defined]


def test_reprs_have_at_most_two_lines(realised: Any, tmp_path: Path) -> None:
    cmdp = opdop.make("inventory").tabular()
    task = opdop.Task.of(cmdp, episodes=10)
    policy = opdop.TabularPolicy.uniform(3, 4, 2)
    made = opdop.sweep({"episodes": 5, "seeds": 1, "problem": ["factored"]}, tmp_path, workers=1)
    things = [
        cmdp,
        opdop.make("reservoir"),
        opdop.make("random-mixture"),
        opdop.solve(cmdp),
        realised,
        realised.certificate(),
        realised.evaluation,
        realised.observations,
        policy,
        realised.mixture,
        task,
        made,
        made.spec,
        opdop.Agent(task),
        opdop.ModelSimulator(cmdp),
        opdop.make("reservoir").simulator(),
        make_bakery(),
        make_bakery().play(policy_for(make_bakery())),
        opdop.compare(realised),
    ]
    for each in things:
        assert len(repr(each)) <= 240, repr(each)
        assert repr(each).count("\n") <= 1
        assert "object at 0x" not in repr(each), repr(each)


def policy_for(simulator: Any) -> opdop.TabularPolicy:
    return opdop.TabularPolicy.uniform(simulator.horizon, simulator.num_states, simulator.num_actions)


def test_history_becomes_a_pandas_frame(realised: Any) -> None:
    pytest.importorskip("pandas")
    frame = realised.history.to_pandas()
    assert list(frame.columns) == realised.history.columns
    assert frame["realised_reward"].to_numpy().tolist() == realised.history["realised_reward"].to_list()


def test_every_face_of_a_known_run_in_dollars_is_in_dollars(tmp_path: Path) -> None:
    """A problem whose signals are far from [0, 1]: no output shows a number of the model's own units as dollars."""
    shop = TabularCMDP(
        np.full((2, 2, 2), 0.5),
        rewards=[[0.0, 500.0], [-100.0, 300.0]],
        costs=[[0.0, 80.0], [10.0, 60.0]],
        utilities=[[1.0, 0.0], [1.0, 0.5]],
        thresholds=1.0,
        budgets=150.0,
        horizon=5,
        units={"reward": ("profit", "dollars"), "cost": ("rent", "dollars")},
    )
    best = opdop.solve(shop)
    assert "one more dollar of budget is worth" in str(best)
    run = train(shop, episodes=300)
    assert "rent <= 150 dollars" in run.summary()
    values = dict(zip(("profit",), [run.display.quantities[0].shown(run.average.reward)], strict=True))
    assert f"{values['profit']:.6g} dollars on average" in run.summary()
    assert "regret: " in run.summary()
    from opdop.report.summary.run_summary import RunSummary

    record = RunSummary(run).record()
    assert record["reward"]["average"]["own"] == pytest.approx(values["profit"])
    names = [each["name"] for each in record["constraints"]]
    cost = record["constraints"][names.index("rent")]
    assert cost["threshold"]["own"] == pytest.approx(150.0)
    page = opdop.report(run, tmp_path / "page.html").read_text()
    assert "rent ≤ 150 dollars" in page
    certificate = run.certificate()
    assert any("rent <= " in each and "dollars" in each for each in certificate.sentences())


def test_quantity_without_a_unit_is_shown_without_one() -> None:
    assert Quantity("reward").constraint(1.0) == "reward >= 1"
