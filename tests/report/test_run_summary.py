"""Facts about what a person sees of a run: numbers in own units, the verdict, tables, the bar and the figure."""

import io
import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text as FigureText
from rich.console import Console, RenderableType

import opdop
from opdop.model.rounding import number, short_number
from opdop.report import figures
from opdop.report.summary.run_summary import RunSummary
from opdop.report.summary.solution import solution_of
from opdop.report.terminal import progress as live
from opdop.report.terminal import tables
from opdop.runs import Progress
from tests.support.same_runs import columns_of

SHIPPED = {"factored": 3000, "queue": 1000, "media-streaming": 2000, "river-crossing": 500, "inventory": 1000}


@pytest.fixture(scope="module")
def runs() -> dict[str, opdop.Run]:
    return {name: opdop.train(name, episodes=episodes) for name, episodes in SHIPPED.items()}


@pytest.fixture(scope="module")
def slack() -> opdop.Run:
    """A run whose constraint costs nothing."""
    return opdop.train(opdop.make("media-streaming", fast_services=9.0), episodes=500)


def printed(page: RenderableType, width: int = 80) -> str:
    console = Console(width=width, color_system=None, highlight=False)
    with console.capture() as capture:
        console.print(page)
    return capture.get()


def altered(run: opdop.Run, **last: float) -> RunSummary:
    """Return a run whose sums after the last episode are others."""
    history = run.history.tail(1)
    for name, value in last.items():
        history = history.with_columns(**{name: np.array([value])})
    return RunSummary(replace(run, columns=columns_of(history)))


# Numbers


@pytest.mark.parametrize("name", SHIPPED)
def test_regret_in_own_units_is_the_difference_of_the_values_shown(name: str, runs: dict[str, opdop.Run]) -> None:
    record = RunSummary(runs[name]).record()
    reward, sign = record["reward"], 1.0 if record["reward"]["better"] == "more" else -1.0
    lost = sign * (reward["optimum"]["own"] - reward["average"]["own"])
    assert record["regret"]["per_episode"]["own"] == pytest.approx(lost, abs=1e-9)
    assert record["regret"]["total"]["own"] == pytest.approx(lost * record["episodes"])


@pytest.mark.parametrize("name", SHIPPED)
def test_violation_in_own_units_is_the_distance_to_the_constraint(name: str, runs: dict[str, opdop.Run]) -> None:
    record = RunSummary(runs[name]).record()
    for constraint in record["constraints"]:
        sign = 1.0 if constraint["better"] == "more" else -1.0
        short = sign * (constraint["threshold"]["own"] - constraint["average"]["own"])
        assert constraint["violation"]["per_episode"]["own"] == pytest.approx(max(short, 0.0), abs=1e-9)
    worst = max(constraint["violation"]["total"]["model"] for constraint in record["constraints"])
    assert record["violation"]["total"]["model"] == pytest.approx(worst)
    assert record["hard_violation"]["total"]["model"] >= worst - 1e-9


def test_multiplier_in_own_units_is_that_of_solve(runs: dict[str, opdop.Run]) -> None:
    for name in ("queue", "inventory"):
        summary = RunSummary(runs[name])
        solved = solution_of(opdop.make(name)).record()
        for ours, theirs in zip(summary.record()["constraints"], solved["constraints"], strict=True):
            assert ours["multiplier"]["optimum"] == theirs["multiplier"]
            ratio = theirs["multiplier"]["own"] / theirs["multiplier"]["model"]
            final = ours["multiplier"]["final"]
            assert final["own"] == pytest.approx(ratio * final["model"])


def test_joint_violation_of_constraints_in_different_units_is_a_share_of_the_range(runs: dict[str, opdop.Run]) -> None:
    run = runs["queue"]
    summary = RunSummary(run)
    record = summary.record()
    H = run.policy.table.shape[0]
    for name in ("violation", "hard_violation"):
        assert record[name]["unit"] == "% of its range"
        assert record[name]["total"]["own"] == pytest.approx(100.0 * record[name]["total"]["model"] / H)
    assert "model units" not in printed(tables.run_page(summary))
    # A share of the range is the same number for every constraint, whatever its unit is.
    for quantity in run.display.quantities[1:]:
        span = abs(quantity.shown(float(H)) - quantity.shown(0.0))
        assert abs(quantity.scale) * 1.5 / span == pytest.approx(summary.hard_violation.shown(1.5) / 100.0)


def test_hard_violation_of_each_constraint_is_in_its_unit_and_at_most_the_joint_one(runs: dict[str, opdop.Run]) -> None:
    summary = RunSummary(runs["queue"])
    page, totals = printed(tables.run_page(summary), width=120), []
    for measure, each, quantity in zip(
        summary.hard_violations, summary.violations, runs["queue"].display.quantities[1:], strict=True
    ):
        assert (measure.scale, measure.unit) == (abs(quantity.scale), quantity.unit)
        assert each.total <= measure.total <= summary.hard_violation.total
        assert f"hard violation: {quantity.name}" in page
        totals.append(measure.total)
    assert summary.hard_violation.total <= sum(totals) + 1e-9


def test_loaded_run_tells_the_same(runs: dict[str, opdop.Run], tmp_path: Path) -> None:
    for name, run in runs.items():
        loaded = RunSummary(opdop.Run.load(run.save(tmp_path / name)))
        assert json.dumps(loaded.record()) == json.dumps(RunSummary(run).record())
        assert printed(tables.run_page(loaded)) == printed(tables.run_page(RunSummary(run)))


def test_run_on_an_unknown_model_is_refused(runs: dict[str, opdop.Run]) -> None:
    with pytest.raises(opdop.InvalidParameterError, match="no optimum to compare it with"):
        RunSummary(replace(runs["factored"], optimum=None))


# The verdict


@pytest.mark.parametrize(
    ("regret", "shortfall", "verdict"),
    [
        (24.0, 60.0, "is within 0.4% of the optimum and violates the constraint by 0.02 moves per episode."),
        (24.0, -60.0, "is within 0.4% of the optimum and satisfies the constraint."),
        (-24.0, 60.0, "is 0.4% better than the optimum, because it violates the constraint by 0.02 moves per episode."),
        (3000.0, 0.0, "is 50% worse than the optimum and satisfies the constraint."),
        (0.0, 0.0, "is within 0% of the optimum and satisfies the constraint."),
        (0.001, 1e-9, "is within less than 0.01% of the optimum and satisfies the constraint."),
    ],
)
def test_verdict_is_one_plain_sentence(
    regret: float, shortfall: float, verdict: str, runs: dict[str, opdop.Run]
) -> None:
    summary = altered(runs["factored"], regret=regret, shortfall_0=shortfall)
    assert summary.verdict == f"The average policy {verdict}"


def test_verdict_names_every_violated_constraint(runs: dict[str, opdop.Run]) -> None:
    summary = altered(runs["queue"], shortfall_0=10.0, shortfall_1=-10.0)
    assert summary.verdict.endswith(
        "and violates the constraint on service effort by 0.06 units of effort per episode."
    )
    both = altered(runs["queue"], shortfall_0=10.0, shortfall_1=10.0).verdict
    assert "effort and the constraint on customers admitted by 0.01 customers per episode." in both
    assert altered(runs["queue"], shortfall_0=0.0, shortfall_1=0.0).verdict.endswith("and satisfies every constraint.")


def test_verdict_says_amounts_where_the_optimum_is_nothing(runs: dict[str, opdop.Run]) -> None:
    run = runs["factored"]
    assert run.optimum is not None
    summary = altered(replace(run, optimum=replace(run.optimum, value=0.0)), regret=300.0, shortfall_0=0.0)
    assert "is 0.1 points per episode worse than the optimum and" in summary.verdict


def test_notes_warn_of_what_the_numbers_do_not_show(runs: dict[str, opdop.Run], slack: opdop.Run) -> None:
    assert RunSummary(runs["factored"]).notes == ()
    assert RunSummary(slack).notes == ("The constraint does not bind: it costs no reward, and its multiplier Y* is 0.",)
    odd = opdop.train("factored", "doubling:oppo", episodes=40, measure_every=8)
    words = " ".join(RunSummary(odd).notes)
    assert "ignores the constraint and maximises the reward alone" in words
    assert "One episode in 8 was measured, and its values are used for the 7 after it" in words
    assert "not exact sums" in words
    assert "The planned K was doubled" in words
    assert not RunSummary(odd).record()["exact"]


# Tables


@pytest.mark.parametrize("name", SHIPPED)
def test_page_fits_80_columns_and_has_every_number(name: str, runs: dict[str, opdop.Run]) -> None:
    run = runs[name]
    summary = RunSummary(run)
    text = printed(tables.run_page(summary))
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    words = " ".join(text.split())
    assert summary.verdict in words
    for constant in run.constants:
        assert constant == "preset" or f"{constant}=" in words
    assert f"opdop, preset practical constants step_size={run.constants['step_size']:.4g}," in words
    assert f"episodes {SHIPPED[name]:,} in" in words
    assert "seed 0" in words
    assert "regret" in words
    assert "hard violation" in words
    reward = summary.reward
    assert run.optimum is not None
    assert run.last is not None
    for value in (run.optimum.value, run.average.reward, run.last.reward, run.optimum.unconstrained.reward):
        assert f"{round(reward.shown(value), 4) + 0.0:.4f}" in words


def test_algorithms_page_has_every_preset_with_its_parameters() -> None:
    text = printed(tables.algorithms_page(list(opdop.algorithms().values())))
    assert max(map(len, text.splitlines())) <= 80
    parameters = tables.preset_parameters()
    words = set(text.split())
    for algorithm in opdop.algorithms().values():
        for preset in algorithm.presets.makes:
            assert words >= set(algorithm.presets.summary(preset).split())
            assert all(f"{name}=" in text for name in algorithm.presets.parameters(preset))
    for name, values in parameters.items():
        assert f"\n{name} " in text
        assert all(f"{parameter}={value:g}" in text for parameter, value in values.items())
    assert parameters["certified"] == {"margin": 0.0}
    assert all(name in text for name in opdop.algorithms())


# The bar


def watched(*, terminal: bool, seconds: list[float], monkeypatch: pytest.MonkeyPatch) -> str:
    """Return what is shown of a run whose progress is told at these times, ten episodes of a hundred each."""
    file, clock = io.StringIO(), iter(seconds)
    monkeypatch.setattr(live.time, "monotonic", lambda: next(clock, seconds[-1]))
    console = Console(file=file, force_terminal=terminal, width=80, color_system=None)
    with live.Watch(console, opdop.make("factored").display.quantities) as watch:
        for k in range(1, len(seconds) + 1):
            watch(Progress(10 * k, 100, 5.0 * k, 1.0 * k, 2.0 * k, np.array([0.25])))
    assert watch.episode == 10 * len(seconds)
    return file.getvalue()


def test_bar_appears_for_what_takes_longer_than_two_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = watched(terminal=True, seconds=[0.0, 0.6], monkeypatch=monkeypatch)
    assert "20/100 episodes" in shown
    assert "per episode: regret 0.5000 points, violation 0.1000 moves, hard 0.2000" in shown
    assert "multiplier 0.25" in shown
    assert watched(terminal=True, seconds=[0.0, 0.1], monkeypatch=monkeypatch) == ""
    assert watched(terminal=True, seconds=[0.05 * k for k in range(10)], monkeypatch=monkeypatch) == ""


def test_nothing_is_shown_where_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    assert watched(terminal=False, seconds=[0.0, 60.0], monkeypatch=monkeypatch) == ""


def test_costs_of_several_constraints_are_in_the_unit_of_each() -> None:
    quantities = opdop.make("queue").display.quantities
    each = np.array([1.0, 0.0]), np.array([2.0, 0.5])
    progress = Progress(10, 100, 10.0, 1.0, 2.0, np.array([1.0, 1.0]), violations=each[0], hard_violations=each[1])
    text = live.costs_so_far(progress, quantities).plain
    assert "regret 6.0000 customer-slots, " in text
    for quantity, violation, hard in zip(quantities[1:], *each, strict=True):
        scale = abs(quantity.scale) / 10
        shown = f"violation of {quantity.name} {scale * violation:.4f} {quantity.unit}, hard {scale * hard:.4f}"
        assert shown in text
    assert "multipliers 1, 6" in text


# The figure


@pytest.fixture
def odd_settings() -> Iterator[None]:
    """Settings that a person may have made, and that must not show."""
    with mpl.rc_context({"font.size": 30, "axes.facecolor": "red", "svg.fonttype": "none"}):
        yield


def labels(run: opdop.Run, folder: Path) -> str:
    """Return the figure as SVG: words are drawn as shapes and written beside them as comments."""
    return figures.save(figures.run_figure(run), folder / "run.svg").read_text(encoding="utf-8")


def test_figure_names_what_it_shows(runs: dict[str, opdop.Run], tmp_path: Path) -> None:
    text = labels(runs["media-streaming"], tmp_path)
    for words in (
        "media-streaming: opdop, preset practical, 2,000 episodes, seed 0",
        "Regret, steps per episode",
        "Violation, services per episode",
        "Multiplier, steps per unit",
        "Each episode's policy, estimated and true",
        "average so far",
        "average, slack cancels",
        "average, hard violation",
        "Y*: at the optimum",
        "estimated",
        "optimum, or threshold",
        "steps with an empty buffer (less is better)",
    ):
        assert f"<!-- {words} -->" in text


def test_several_constraints_share_the_panels(runs: dict[str, opdop.Run], tmp_path: Path) -> None:
    text = labels(runs["queue"], tmp_path)
    for words in (
        "Worst violation, % of its range per episode",
        "service effort",
        "customers admitted (more is better)",
    ):
        assert f"<!-- {words} -->" in text


def test_negative_regret_is_drawn_below_zero_and_said(tmp_path: Path) -> None:
    run = opdop.train("factored", "oppo", episodes=1000)
    assert run.regret[-1] < 0.0
    panel = figures.run_figure(run).axes[0]
    assert panel.get_ylim()[0] < run.regret[-1] / 1000 < 0.0
    assert "<!-- better than the optimum -->" in labels(run, tmp_path)


def test_curves_are_averages_per_episode_in_own_units(runs: dict[str, opdop.Run]) -> None:
    run = runs["inventory"]
    regret, violation = figures.run_figure(run).axes[:2]
    scale = abs(run.display.quantities[1].scale)
    for axes, words, sums in (
        (regret, "average so far", run.regret * abs(run.display.quantities[0].scale)),
        (violation, "average, slack cancels", run.violation * scale),
        (violation, "average, hard violation", run.hard_violation * scale),
    ):
        line = next(line for line in axes.lines if line.get_label() == words)
        np.testing.assert_allclose(np.asarray(line.get_ydata()), sums / run.episodes, rtol=1e-12)


def test_guide_falls_with_the_root_of_the_episodes(tmp_path: Path) -> None:
    run = opdop.train("media-streaming", episodes=2000, preset="scaled")  # practical's regret falls faster
    assert "<!-- Multiplier, steps per unit (√ scale) -->" in labels(run, tmp_path)  # it swings far above Y*
    panel = figures.run_figure(run).axes[0]
    guide = next(line for line in panel.lines if line.get_label() == "falls as 1/√episode")
    k, values = np.asarray(guide.get_xdata()), np.asarray(guide.get_ydata())
    np.testing.assert_allclose(values * np.sqrt(k), values[-1] * np.sqrt(k[-1]))
    assert values[-1] == pytest.approx(run.regret[-1] / 2000)


def test_words_stay_on_the_page_and_apart(runs: dict[str, opdop.Run], slack: opdop.Run) -> None:
    single = opdop.train("factored", episodes=1)
    for run in (*runs.values(), slack, single):
        figure = figures.run_figure(run)
        renderer = FigureCanvasAgg(figure).get_renderer()
        parts: list[Any] = [axes.get_legend() for axes in figure.axes if axes.get_legend() is not None]
        parts += [text for text in figure.findobj(FigureText) if text.get_fontweight() == "bold" and text.get_text()]
        parts += figure.axes
        boxes = [
            part.get_window_extent(renderer) if part in figure.axes else part.get_tightbbox(renderer) for part in parts
        ]
        page = figure.bbox
        for box in boxes:
            assert page.x0 <= box.x0 <= box.x1 <= page.x1
            assert page.y0 <= box.y0 <= box.y1 <= page.y1
        for one, other in combinations(boxes, 2):
            assert not one.overlaps(other)
        needed = figure.get_tightbbox()
        assert needed.x0 >= 0.0
        assert needed.x1 <= page.width / figure.dpi
        assert figure.get_figwidth() == pytest.approx(160 / 25.4)


@pytest.mark.usefixtures("odd_settings")
def test_figure_is_the_same_every_time_and_everywhere(runs: dict[str, opdop.Run], tmp_path: Path) -> None:
    odd = labels(runs["factored"], tmp_path)
    with mpl.rc_context():
        mpl.rcdefaults()
        assert labels(runs["factored"], tmp_path) == odd
    assert "<dc:date>" not in odd
    assert len(odd) < 400_000


def test_the_late_multiplier_is_its_mean_over_the_second_half_of_the_episodes():
    # Every episode is recorded, and 101 is odd: half of the middle one counts.
    summary = RunSummary(opdop.train("media-streaming", episodes=101, records=1000, seed=1))
    dual = summary.run.history["dual_0"].to_numpy()
    assert len(dual) == 101
    assert dual.max() > dual[-1]  # so that the mean is not the final value
    expected = (0.5 * dual[50] + dual[51:].sum()) / 50.5
    assert summary.late_multiplier(0) == pytest.approx(expected, rel=1e-12)
    # Few records: each counts for the episodes since the one before.
    few = RunSummary(opdop.train("media-streaming", episodes=100, records=4, seed=1))
    episode, held = (few.run.history[name].to_numpy() for name in ("episode", "dual_0"))
    each = np.array([held[np.searchsorted(episode, k)] for k in range(51, 101)])
    assert few.late_multiplier(0) == pytest.approx(each.mean(), rel=1e-12)


def test_hard_violations_of_constraints_in_different_units_say_their_units(runs: dict[str, opdop.Run]) -> None:
    page = " ".join(printed(tables.run_page(RunSummary(runs["queue"])), width=200).split())
    last = runs["queue"].history_in_units().row(-1, named=True)
    for name, column, unit in (
        ("service effort", "hard_violation_0", "units of effort"),
        ("customers admitted", "hard_violation_1", "customers"),
        ("worst constraint", "hard_violation", "% of its range"),
    ):
        assert f"hard violation: {name} {number(last[column] / 1000)} {short_number(last[column])} {unit}" in page
    assert "100 % is the most by which two episode totals can differ" in page
    assert "customer-slots per unit of effort" in page
    alone = printed(tables.run_page(RunSummary(runs["inventory"])), width=200)
    assert "its range" not in alone
