"""Facts about the report: how runs are grouped, what the page shows, and that names in runs cannot inject markup."""

import itertools
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.path import Path as Path2D
from matplotlib.text import Text

import opdop
from opdop.model import InvalidParameterError
from opdop.report import figures
from opdop.report.figures.groups import metric_figure
from opdop.report.html import svg
from opdop.report.html.write import write_report
from opdop.report.summary import sentences as words
from opdop.report.summary.collection import Collection, collect, gather
from opdop.report.summary.verdicts import verdicts
from opdop.sweeps.store import Store, write_json
from tests.support.same_runs import columns_of

HOSTILE = "<script>alert('x')</script><img src=x onerror=alert(1)> & $\\frac{1}$ \x1b[31m"
VOID = {"meta", "br", "hr", "img", "link", "input"}


@pytest.fixture(scope="module")
def runs() -> dict[tuple[str, str, int], opdop.Run]:
    wanted = [("factored", name, seed) for name in ("opdop", "oppo") for seed in range(5)]
    wanted += [("queue", "opdop", seed) for seed in range(2)] + [("river-crossing", "opdop", 0)]
    return {(p, a, s): opdop.train(p, a, episodes=400, seed=s, records=60) for p, a, s in wanted}


@pytest.fixture(scope="module")
def folder(runs: dict[tuple[str, str, int], opdop.Run], tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sweep")
    for (problem, algorithm, seed), run in runs.items():
        run.save(root / "runs" / f"{problem}-{algorithm}-{seed}")
    return root


@pytest.fixture(scope="module")
def collected(folder: Path) -> Collection:
    return collect(folder)


@pytest.fixture(scope="module")
def page(collected: Collection, tmp_path_factory: pytest.TempPathFactory) -> str:
    file = write_report(collected, tmp_path_factory.mktemp("page") / "report.html", kinds=()).page
    return file.read_text(encoding="utf-8")


class Strict(HTMLParser):
    """Reads a page and keeps what is wrong with it, what it would load, and what a reader sees."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.loads: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.uses: list[str] = []
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._look(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._look(tag, attrs)
        if "svg" not in self.open:
            self.wrong.append(f"<{tag}/> outside of a figure")

    def _look(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        names = [name for name, _ in attrs]
        if len(names) != len(set(names)):
            self.wrong.append(f"<{tag}> has an attribute twice")
        for name, value in attrs:
            if name.startswith("on"):
                self.wrong.append(f"<{tag}> has {name}")
            if name == "id":
                self.ids.append(value or "")
            loads = name in ("src", "srcset", "data", "action", "poster") or (
                name == "href" and tag not in ("a", "use")
            )
            if loads and not (tag == "image" and (value or "").startswith("data:image/png;base64,")):  # it is inside
                self.loads.append(f"{tag} {value}")
            if name == "href" and tag in ("a", "use"):
                self.links.append(value or "")
            self.uses += re.findall(r"url\(#([^)]*)\)", value or "")

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"</{tag}> closes nothing")

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text += data


def read(page: str) -> Strict:
    parser = Strict()
    parser.feed(page)
    parser.close()
    parser.wrong += [f"<{tag}> is never closed" for tag in parser.open]
    return parser


# Which runs are put together


def test_runs_that_differ_in_nothing_but_the_seed_are_one_group(collected: Collection) -> None:
    groups = {section.name: [(g.label, g.seeds) for g in section.groups] for section in collected.sections}
    assert groups == {
        "factored": [("opdop", (0, 1, 2, 3, 4)), ("oppo", (0, 1, 2, 3, 4))],
        "queue": [("opdop", (0, 1))],
        "river-crossing": [("opdop", (0,))],
    }


def test_groups_are_named_by_what_they_differ_in() -> None:
    common: dict[str, Any] = {"episodes": 20, "records": 10}
    different = [
        opdop.train("factored", **common),
        opdop.train("factored", preset="certified", **common),
        opdop.train("factored", parameters={"radius_scale": 0.1}, **common),
        opdop.train("factored", noisy=True, **common),
    ]
    labels = [group.label for group in gather(different).sections[0].groups]
    assert sorted(labels) == [
        "opdop certified",
        "opdop practical",
        "opdop practical noisy",
        "opdop practical radius_scale=0.1",
    ]


def test_other_parameters_make_another_section_with_other_files() -> None:
    sections = gather([opdop.train(opdop.make("factored", moves=m), episodes=20) for m in (2.0, 3.0)]).sections
    assert [section.key for section in sections] == ["factored", "factored-2"]


def test_a_copy_of_a_run_counts_once_and_is_named(runs: dict[tuple[str, str, int], opdop.Run], tmp_path: Path) -> None:
    for name in ("a", "b"):
        runs["factored", "opdop", 0].save(tmp_path / name)
    found = collect(tmp_path)
    assert found.total_runs == 1
    assert [(each.place, "the same run as a" in each.reason) for each in found.missing] == [("b", True)]


def test_a_single_run_is_a_report_too(runs: dict[tuple[str, str, int], opdop.Run], tmp_path: Path) -> None:
    runs["queue", "opdop", 1].save(tmp_path / "one")
    assert collect(tmp_path / "one").total_runs == 1


def test_runs_of_other_lengths_are_compared_where_both_were_recorded(
    runs: dict[tuple[str, str, int], opdop.Run],
) -> None:
    run = runs["factored", "opdop", 0]
    half = replace(run, columns=columns_of(run.history[::2][5:20]), config=run.config.but(seed=9))
    group = gather([run, half]).sections[0].groups[0]
    assert (group.grid[0], group.grid[-1]) == (half.episodes[0], half.episodes[-1])
    both = group.column("regret")
    there = np.isin(group.grid, half.episodes)
    np.testing.assert_array_equal(both[1, there], half.regret)
    np.testing.assert_array_equal(both[0], run.regret[np.isin(run.episodes, group.grid)])
    assert not there.all()


def test_broken_and_failed_and_unfinished_runs_are_listed_not_fatal(folder: Path, tmp_path: Path) -> None:
    root = tmp_path / "all"
    shutil.copytree(folder / "runs" / "factored-opdop-0", root / "runs" / "whole")
    shutil.copytree(folder / "runs" / "factored-opdop-1", root / "runs" / "broken")
    damaged = root / "runs" / "broken" / "run.npz"
    damaged.write_bytes(damaged.read_bytes()[:-100])
    opdop.train("factored", episodes=20, checkpoint=root / "runs" / "unfinished")
    Store(root).write_failure({}, "bad", ValueError(HOSTILE), "")
    (root / "failed" / "worse.json").write_text("{", encoding="utf-8")
    found = collect(root)
    assert found.total_runs == 1
    assert [each.place for each in found.missing] == [
        "runs/broken",
        "runs/unfinished",
        "failed/bad.json",
        "failed/worse.json",
    ]
    page = write_report(found, root / "report.html", kinds=()).page.read_text(encoding="utf-8")
    parsed = read(page)
    assert parsed.wrong == []
    assert "script" not in parsed.tags
    assert "cannot be used as an opdop run" in parsed.text
    assert "ValueError: <script>alert('x')</script>" in parsed.text
    assert str(root) not in page


@pytest.mark.parametrize("prepare", [lambda path: None, lambda path: path.mkdir()])
def test_a_folder_without_runs_is_refused(prepare: Callable[[Path], None], tmp_path: Path) -> None:
    prepare(tmp_path / "none")
    with pytest.raises(InvalidParameterError, match=r"there is no (folder|run)"):
        collect(tmp_path / "none")


def test_a_run_whose_model_is_not_known_has_a_section_of_its_own(tmp_path: Path) -> None:
    cmdp = opdop.make("factored")

    class Stranger:
        def __init__(self) -> None:
            self.inside = opdop.ModelSimulator(cmdp, seed=0)

        def play(self, policy: Any) -> Any:
            return self.inside.play(policy)

    task = opdop.Task.of(cmdp, episodes=10, slater_gap=1.0)
    opdop.train(Stranger(), task=task, episodes=10, slater_gap=1.0).save(tmp_path / "a")
    opdop.train(cmdp, episodes=10).save(tmp_path / "b")
    found = collect(tmp_path)
    assert not found.missing
    assert {type(section).__name__ for section in found.sections} == {"Section", "RealisedSection"}


def changed(run: opdop.Run, **columns: Any) -> opdop.Run:
    table = run.history.with_columns(**{name: pl.lit(value) for name, value in columns.items()})
    return replace(run, columns=columns_of(table))


ODD: dict[str, Callable[[opdop.Run], opdop.Run]] = {
    "an infinite regret": lambda run: changed(run, regret=np.inf),
    "a violation that is NaN": lambda run: changed(run, violation=np.nan),
    "a huge regret": lambda run: changed(run, regret=1e300),
    "other episodes": lambda run: changed(run, episode=10**12 + run.episodes),
    "an average that is NaN": lambda run: replace(run, average=replace(run.average, reward=np.nan)),
    "a unit without size": lambda run: replace(
        run, display=replace(run.display, quantities=tuple(replace(each, scale=0.0) for each in run.display.quantities))
    ),
    "a quantity too few": lambda run: replace(run, display=replace(run.display, quantities=run.display.quantities[:1])),
}


@pytest.mark.parametrize("what", ODD)
def test_an_odd_run_with_a_right_checksum_is_listed_and_the_rest_is_shown(
    runs: dict[tuple[str, str, int], opdop.Run], tmp_path: Path, what: str
) -> None:
    ODD[what](runs["factored", "opdop", 1]).save(tmp_path / "odd")
    runs["factored", "opdop", 0].save(tmp_path / "whole")
    for found in (collect(tmp_path), gather([ODD[what](runs["factored", "opdop", 1]), runs["factored", "opdop", 0]])):
        assert [group.seeds for section in found.sections for group in section.groups] == [(0,)]
        assert [each.place for each in found.missing] in (["odd"], ["run 0"])
        assert found.missing[0].reason


def test_runs_that_cannot_be_compared_do_not_stop_the_page(
    runs: dict[tuple[str, str, int], opdop.Run], tmp_path: Path
) -> None:
    first, second, third = (runs["factored", "opdop", seed] for seed in range(3))
    without_multipliers = changed(third, dual_0=np.nan)  # as of a learner without diagnostics
    other_thresholds = replace(second, thresholds=second.thresholds + 1.0, config=second.config.but(seed=7))
    found = gather(
        [
            replace(first, columns=columns_of(first.history[:5])),
            replace(second, columns=columns_of(second.history[-5:])),
        ]
    )
    assert "does not overlap" in found.missing[0].reason
    found = gather([first, without_multipliers, other_thresholds])
    assert [section.total_runs for section in found.sections] == [2, 1]
    assert read(write_report(found, tmp_path / "r.html", kinds=()).page.read_text(encoding="utf-8")).wrong == []


@pytest.mark.parametrize("name", ["manifest.json", "spec.toml", "failed/one.json", "runs/one/run.npz"])
def test_pipes_in_the_place_of_files_are_not_waited_for(
    runs: dict[tuple[str, str, int], opdop.Run], tmp_path: Path, name: str
) -> None:
    runs["factored", "opdop", 0].save(tmp_path / "runs" / "whole")
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(tmp_path / name)
    assert collect(tmp_path).total_runs == 1


# The page


def test_page_is_well_formed_and_its_links_lead_somewhere(page: str) -> None:
    assert page.startswith("<!DOCTYPE html>\n")
    found = read(page)
    assert found.wrong == []
    assert len(found.ids) == len(set(found.ids))
    assert all(link.startswith("#") and link[1:] in found.ids for link in found.links)
    assert set(found.uses) <= set(found.ids)


def test_page_loads_nothing_and_runs_nothing(page: str) -> None:
    found = read(page)
    assert found.loads == []
    assert not {"script", "link", "iframe", "object", "embed", "base", "form"} & set(found.tags)
    for sign in ("http://", "https://", "@import", "javascript:", "//cdn"):
        assert sign not in page
    assert [load for load in re.findall(r"url\(([^)]*)\)", page) if not load.startswith("#")] == []
    assert "Content-Security-Policy" in page
    assert "default-src 'none'" in page


def test_page_has_every_part_in_sentences_and_numbers(page: str, collected: Collection) -> None:
    text = " ".join(read(page).text.split())
    for wanted in (
        "Summary",
        "Glossary",
        "Which differences are clear",
        "moves",
        "mean of 5 runs; band: 95 % t interval of the mean",
        "mean of 2 runs; band: from the smallest to the largest",
        "a guide and not a bound",
        "step_size",
        "opdop run factored",
        "for seed in 0 1 2 3 4; do",
        opdop.__version__,
    ):
        assert wanted.lower() in text.lower(), wanted
    for section in collected.sections:
        for group in section.groups:
            assert " ".join(words.result_sentence(section, group).split()) in text
        for verdict in verdicts(section):
            assert verdict.words in text
    assert page.count('<svg class="figure"') == page.count("<figure>")


def test_results_come_first_and_the_glossary_last(page: str) -> None:
    sections = re.findall(r'<section(?: class="\w+")? id="([^"]*)"', page)
    assert sections == [
        "summary",
        "problem-factored",
        "problem-queue",
        "problem-river-crossing",
        "origin",
        "glossary",
    ]


def test_constrained_quantity_is_the_first_column_and_every_cell_names_its_column(page: str) -> None:
    cells = re.findall(r'<th scope="row">opdop, average policy</th>\s*<td class="n" data-label="([^"]*)">', page)
    assert cells[0] == "moves"
    assert page.count("<td") == page.count("data-label=")


def test_numbers_on_the_page_are_those_of_the_runs(collected: Collection) -> None:
    section = collected.sections[0]
    group = section.groups[0]
    finals = section.metrics[0].per_episode(group)
    for run in group.runs:
        own = abs(run.display.quantities[0].scale) * run.regret[-1] / 400
        assert finals[run.config.seed] == pytest.approx(own, rel=1e-12)
    mean = np.mean([run.display.quantities[0].shown(run.average.reward) for run in group.runs])
    said = words.result_sentence(section, group)
    assert float(said.split(" ±")[0]) == pytest.approx(mean, abs=0.005)


def test_same_runs_give_the_same_bytes(page: str, folder: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        found = collect(folder)
        only = Collection(found.name, found.sections[2:], found.missing, found.manifest, found.spec)
        write_report(only, tmp_path / name / "report.html", kinds=())
    for file in (tmp_path / "one").rglob("*.*"):
        assert file.read_bytes() == (tmp_path / "two" / file.relative_to(tmp_path / "one")).read_bytes()
    assert len(page.encode()) < 3 * 2**20


def test_hostile_names_stay_text(runs: dict[tuple[str, str, int], opdop.Run], tmp_path: Path) -> None:
    run = runs["factored", "opdop", 0]
    quantities = tuple(replace(each, name=HOSTILE, unit=HOSTILE) for each in run.display.quantities)
    display = replace(run.display, name=HOSTILE, summary=HOSTILE, quantities=quantities, parameters={HOSTILE: HOSTILE})
    shown = "".join(letter for letter in HOSTILE if letter.isprintable())  # a configuration refuses the others
    config = run.config.but(problem=shown, algorithm=shown, preset=shown, parameters={shown: 1.0})
    nasty = replace(run, display=display, config=config, constants={HOSTILE: HOSTILE})
    nasty.save(tmp_path / "runs" / "a")
    (tmp_path / "spec.toml").write_text(HOSTILE, encoding="utf-8")
    manifest = {"versions": {HOSTILE: HOSTILE}, "commit": HOSTILE, "machine": [HOSTILE]}
    write_json(tmp_path / "manifest.json", manifest)
    page = write_report(collect(tmp_path), tmp_path / "report.html", kinds=()).page.read_text(encoding="utf-8")
    found = read(page)
    assert found.wrong == []
    assert found.loads == []
    assert not {"script", "img"} & set(found.tags)
    assert "<script>alert('x')</script>" in found.text
    assert "\x1b" not in page


def test_a_model_of_ones_own_has_a_page_without_a_frontier(tmp_path: Path) -> None:
    own = opdop.TabularCMDP(np.ones((1, 2, 1)), [[0, 1]], [[1, 0]], 3.0, horizon=4)
    section = gather([opdop.train(own, episodes=50, seed=seed) for seed in range(2)]).sections[0]
    assert section.cmdp is None
    page = write_report(Collection("own", (section,)), tmp_path / "report.html", kinds=()).page
    assert "not one that ships" in page.read_text(encoding="utf-8")


def test_one_episode_is_enough(tmp_path: Path) -> None:
    found = gather([opdop.train("factored", episodes=1)])
    assert read(write_report(found, tmp_path / "r.html", kinds=()).page.read_text(encoding="utf-8")).wrong == []


# The figures


def test_figures_are_saved_in_every_form(collected: Collection, tmp_path: Path) -> None:
    only = Collection("few", collected.sections[2:])
    seen: list[tuple[int, int]] = []
    written = write_report(only, tmp_path / "r.html", progress=lambda done, total: seen.append((done, total)))
    names = {path.name for path in written.figures}
    assert {path.parent for path in written.figures} == {tmp_path / "r" / "figures"}
    for what in (
        "regret",
        "violation",
        "hard-violation",
        "multiplier",
        "plane",
        "total-regret",
        "map-optimum",
        "map-1",
    ):
        assert {f"river-crossing-{what}{kind}" for kind in figures.KINDS} <= names
    assert seen == [(k, len(names) // 3) for k in range(1, len(names) // 3 + 1)]


def test_curves_are_the_mean_and_band_of_the_runs(collected: Collection) -> None:
    section = collected.sections[0]
    axes = metric_figure(section, section.metrics[0]).axes[0]
    line = next(line for line in axes.lines if line.get_label() == "opdop")
    runs = [run.regret / run.episodes for run in section.groups[0].runs]
    scale = abs(section.summary.reward.scale)
    assert float(np.asarray(line.get_ydata())[-1]) == pytest.approx(scale * np.mean([each[-1] for each in runs]))
    assert len(axes.collections) == 2


def test_negative_regret_shows_below_zero_and_is_said(collected: Collection) -> None:
    section = collected.sections[0]
    assert min(section.metrics[0].per_episode(section.groups[1]).values()) < 0.0
    for total in (False, True):
        axes = metric_figure(section, section.metrics[0], total=total).axes[0]
        line = next(line for line in axes.lines if line.get_label() == "oppo")
        assert axes.get_ylim()[0] < np.min(np.asarray(line.get_ydata())) < 0.0
        assert "more reward than the optimum has" in [text.get_text() for text in axes.texts]


def test_guide_has_the_slope_of_the_theory_and_says_that_it_is_a_guide() -> None:
    section = gather([opdop.train("media-streaming", episodes=20_000, preset="scaled")]).sections[0]
    for total, power, name in ((False, -0.5, "guide: 1/√episodes"), (True, 0.5, "guide: √episodes")):
        axes = metric_figure(section, section.metrics[0], total=total).axes[0]
        guide = next(line for line in axes.lines if line.get_zorder() == 6)
        k, values = np.asarray(guide.get_xdata(), float), np.asarray(guide.get_ydata(), float)
        assert np.polyfit(np.log(k), np.log(values), 1)[0] == pytest.approx(power)
        mean = next(line for line in axes.lines if line.get_label() == "opdop")
        assert values[-1] == pytest.approx(float(np.asarray(mean.get_ydata())[-1]))
        assert name in [text.get_text() for text in axes.texts]


def test_certified_groups_have_their_bounds_drawn_and_their_cards_shown(tmp_path: Path) -> None:
    for seed in range(2):
        opdop.train("factored", episodes=200, seed=seed, preset="certified").save(tmp_path / f"run-{seed}")
    collected = collect(tmp_path)
    (section,) = collected.sections
    card = section.groups[0].summaries[0].guarantee
    for key, bound in (("regret", card.regret), ("violation", card.violation)):
        metric = next(metric for metric in section.metrics if metric.key == key)
        axes = figures.metric_figure(section, metric, total=True).axes[0]
        ends = [float(np.asarray(line.get_ydata())[-1]) for line in axes.lines]
        assert any(end == pytest.approx(metric.scale * bound()) for end in ends)
        assert any("proved bound" in text.get_text() for text in axes.texts)
        averages = figures.metric_figure(section, metric).axes[0]
        assert not any("proved bound" in text.get_text() for text in averages.texts)
    page = write_report(collected, tmp_path / "page.html", kinds=()).page.read_text(encoding="utf-8")
    assert "the bounds hold in 2 of 2 runs" in page
    assert "with probability at least 0.95" in page


def test_path_ends_where_the_average_policy_is_and_star_at_the_optimum(collected: Collection) -> None:
    section = collected.sections[0]
    below = figures.ground(section, 0)
    axes = figures.path_figure(section, 0, below, figures.whole(section, 0, below), "title").axes[0]
    reward, constrained = section.summary.run.display.quantities
    star = next(line for line in axes.lines if line.get_marker() == "*")
    optimum = section.summary.optimum
    place = constrained.shown(float(optimum.utility_values[0])), reward.shown(optimum.value)
    assert (star.get_xdata()[0], star.get_ydata()[0]) == pytest.approx(place)
    line = next(line for line in axes.lines if line.get_label() == "opdop")
    averages = np.mean([run.average.totals for run in section.groups[0].runs], axis=0)
    end = np.asarray(line.get_xydata())[-1]
    assert tuple(end) == pytest.approx((constrained.shown(averages[1]), reward.shown(averages[0])), rel=1e-9)
    assert below.best is not None
    across = below.best[np.argsort(below.best[:, 0])]
    assert np.interp(place[0], across[:, 0], across[:, 1]) == pytest.approx(place[1], abs=1e-9)


@pytest.mark.parametrize("problem", sorted(opdop.environments()))
def test_labels_of_a_plane_overlap_neither_each_other_nor_marks(problem: str) -> None:
    episodes = 300 if np.isfinite(opdop.make(problem).num_states) else 12
    runs = [opdop.train(problem, name, episodes=episodes) for name in ("opdop", "oppo")]
    (section,) = gather(runs).sections
    for constraint in range(len(section.summary.constraints)):
        ground = figures.ground(section, constraint)
        full = figures.whole(section, constraint, ground)
        for view in (full, figures.close(section, constraint, full)):
            if view is not None:
                check_labels(figures.path_figure(section, constraint, ground, view, problem))


def check_labels(figure: Figure) -> None:
    """Check that labels are inside the panel, off all marks, and apart from each other; all but one are off curves."""
    axes = figure.axes[0]
    canvas: Any = FigureCanvasAgg(figure)
    # Without the lines that lead from labels to their points.
    boxes = {text: Text.get_window_extent(text, canvas.get_renderer()) for text in axes.texts}
    assert "optimum" in [text.get_text() for text in boxes]
    for one, two in itertools.combinations(boxes.values(), 2):
        assert not one.overlaps(two)
    for text, box in boxes.items():
        frame = axes.bbox
        assert frame.x0 <= box.x0 < box.x1 <= frame.x1
        assert frame.y0 <= box.y0 < box.y1 <= frame.y1
        for line in axes.lines:
            points = line.get_transform().transform(np.asarray(line.get_xydata()))
            marked = line.get_marker() != "None"
            if marked:
                assert not any(box.contains(*point) for point in points), text.get_text()
            elif text.get_text() != "optimum" and line.get_linewidth() > 0.5:  # thin lines are single seeds
                assert not Path2D(points).intersects_bbox(box, filled=False), text.get_text()


def test_average_policies_never_lie_beyond_the_exact_frontier(collected: Collection) -> None:
    section = collected.sections[0]
    hull = figures.ground(section, 0).area
    assert hull is not None
    edges = np.roll(hull, -1, axis=0) - hull
    reward, constrained = section.summary.run.display.quantities
    orientation = np.sign(reward.scale * constrained.scale)
    for group in section.groups:
        for run in group.runs:
            point = np.array([constrained.shown(float(run.average.utilities[0])), reward.shown(run.average.reward)])
            away = point - hull
            beside = orientation * (edges[:, 0] * away[:, 1] - edges[:, 1] * away[:, 0])
            assert beside.min() > -1e-9


def test_colours_of_a_figure_are_left_to_the_page(collected: Collection) -> None:
    section = collected.sections[0]
    text = svg.inline(metric_figure(section, section.metrics[0]), "a", "words & more")
    assert "var(--blue)" in text
    assert not re.search(r"#0072b2|#222222", text, re.IGNORECASE)
    assert 'aria-label="words &amp; more"' in text
    assert "font-family" not in text
    light, dark = svg.style_sheet()
    assert light.count("--") == dark.count("--") == len(svg.PALETTE)


def test_names_inside_figures_are_their_own(collected: Collection) -> None:
    section = collected.sections[0]
    figure = metric_figure(section, section.metrics[0])
    one, two = (set(re.findall(r' id="([^"]*)"', svg.inline(figure, name, ""))) for name in ("one", "two"))
    assert one
    assert not one & two


def test_history_columns_that_the_report_needs_are_recorded(runs: dict[tuple[str, str, int], opdop.Run]) -> None:
    history: pl.DataFrame = runs["queue", "opdop", 0].history
    assert {"regret", "violation", "hard_violation", "dual_1", "total_reward", "total_utility_1"} <= set(
        history.columns
    )


def test_report_of_a_run_in_memory_is_a_page(tmp_path: Path) -> None:
    run = opdop.train("factored", episodes=50)
    page = opdop.report(run, tmp_path / "page.html")
    assert "factored" in page.read_text(encoding="utf-8")
    with pytest.raises(InvalidParameterError, match="no run that can be shown"):
        opdop.report([], tmp_path / "none.html")
