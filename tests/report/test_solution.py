"""Facts about what a person sees: numbers in own units, maps, the reward-utility plane, figures and tables."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure
from rich.console import Console, RenderableType

import opdop
from opdop.model import Geometry, InvalidModelError, InvalidParameterError
from opdop.planning import solve, solve_lp
from opdop.report import figures
from opdop.report.summary.plane import slices, trace
from opdop.report.summary.solution import Solution, duration, solution_of
from opdop.report.summary.visit_map import VisitMap
from opdop.report.terminal import tables

ONE_CONSTRAINT = ["factored", "inventory", "media-streaming", "random-tabular", "river-crossing", "gridworld"]


@pytest.fixture(scope="module")
def gridworld() -> Solution:
    return solution_of(opdop.make("gridworld"))


@pytest.fixture(scope="module")
def queue() -> Solution:
    return solution_of(opdop.make("queue"))


@pytest.fixture(scope="module")
def queue_figure(queue: Solution) -> Figure:
    return figures.picture(queue)


def lever(threshold: float) -> opdop.TabularCMDP:
    """One state, four stages: an action earns, the other satisfies the constraint."""
    return opdop.TabularCMDP(np.ones((1, 2, 1)), [[0, 1]], [[1, 0]], threshold, horizon=4)


def printed(page: RenderableType, width: int = 80) -> str:
    console = Console(width=width, color_system=None, highlight=False)
    with console.capture() as capture:
        console.print(page)
    return capture.get()


# Own units


def test_multiplier_in_own_units_is_the_slope_of_the_optimum() -> None:
    found = solution_of(opdop.make("inventory"))
    step = 1e-3
    values = [
        found.reward.shown(solve(opdop.make("inventory", budget=66.5 + change)).value) for change in (-step, step)
    ]
    assert found.constraints[0].own_multiplier == pytest.approx((values[1] - values[0]) / (2 * step), rel=1e-6)


def test_published_optima_are_shown_in_published_units() -> None:
    streaming, factored = solution_of(opdop.make("media-streaming")), solution_of(opdop.make("factored"))
    assert streaming.record()["reward"]["optimum"]["own"] == pytest.approx(6.7467, abs=5e-5)
    assert streaming.record()["constraints"][0]["multiplier"]["own"] == pytest.approx(0.495, abs=5e-4)
    assert factored.record()["reward"]["optimum"]["own"] == pytest.approx(2.0)
    assert factored.record()["reward"]["price"]["own"] == pytest.approx(2.0)


def test_price_in_own_units_is_the_difference_of_the_values_shown(queue: Solution) -> None:
    shown = [queue.reward.shown(value) for value in (queue.optimum.value, queue.optimum.unconstrained.reward)]
    assert queue.own_price == pytest.approx(abs(shown[0] - shown[1]))


def test_time_is_positive_and_readable(queue: Solution) -> None:
    assert queue.seconds > 0.0
    assert duration(90.0) == "90.00 s"


# Tables


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_overview_fits_the_terminal_and_cuts_nothing(width: int, gridworld: Solution, queue: Solution) -> None:
    text = printed(tables.overview([gridworld, queue], width=width), width)
    assert max(map(len, text.splitlines())) <= width
    for wanted in ("gridworld", "18.7081", "customer-slots", "0.243", "2.195", "binds"):
        assert wanted in text
    assert "…" not in text


@pytest.mark.parametrize("name", opdop.environments())
def test_pages_fit_80_columns_and_cut_nothing(name: str) -> None:
    found = solution_of(opdop.make(name))
    for page in (tables.solution_page(found, width=80), tables.problem_page(opdop.environments()[name], found)):
        text = printed(page)
        assert max(map(len, text.splitlines())) <= 80
        assert "…" not in text
        assert all(" ".join(constraint.sentence.split()) in " ".join(text.split()) for constraint in found.constraints)


def test_slater_gap_of_zero_is_said_in_words() -> None:
    text = " ".join(printed(tables.solution_page(solution_of(lever(4.0)), width=80)).split())
    assert "Slater gap 0: no policy has slack" in text


def test_constraint_that_does_not_bind_is_said_to_cost_nothing() -> None:
    found = solution_of(opdop.make("media-streaming", fast_services=9.0))
    assert not found.binds
    text = " ".join(printed(tables.solution_page(found, width=80)).split())
    assert "binds no: it costs nothing, and the optimal policy has a slack of 0.4430 services" in text
    assert "the constraints cost 0.0000 steps of the objective" in text


def test_a_model_without_words_has_a_page_too() -> None:
    text = printed(tables.solution_page(solution_of(lever(3.0)), width=80))
    assert "utility 0 >= 3" in text
    assert "parameters   none" in text


# Maps


def test_visits_on_the_map_add_up_to_the_stages(gridworld: Solution) -> None:
    visits = VisitMap.of(gridworld.cmdp, gridworld.optimum.policy)
    assert np.nansum(visits.visits) == pytest.approx(gridworld.cmdp.horizon)


def test_visits_of_hazards_are_what_the_constraint_counts(gridworld: Solution) -> None:
    visits = VisitMap.of(gridworld.cmdp, gridworld.optimum.policy)
    on_hazards = sum(visits.visits[cell] for cell, mark in visits.marks.items() if mark == "hazard")
    constraint = gridworld.constraints[0]
    assert on_hazards == pytest.approx(constraint.quantity.shown(constraint.attained))


def test_map_of_a_known_walk() -> None:
    """Three cells in a row and a wall: the walker goes right twice, and stays at the goal, which is never left."""
    moves = np.zeros((3, 2, 3))
    moves[[0, 1, 2], 0, [1, 2, 2]] = 1.0
    moves[[0, 1, 2], 1, [0, 0, 2]] = 1.0
    geometry = Geometry(
        cells=((0, 0), (0, 1), (0, 2)),
        marks={0: "start", 1: "hazard", 2: "goal"},
        walls=((1, 0),),
        arrows=((0, 1), (0, -1)),
    )
    display = opdop.Display("walk", quantities=opdop.Display.plain(1).quantities, geometry=geometry)
    cmdp = opdop.TabularCMDP(moves, np.zeros((3, 2)), np.ones((3, 2)), 1.0, horizon=5, display=display)
    visits = VisitMap.of(cmdp, np.broadcast_to([1.0, 0.0], (5, 3, 2)))
    text = visits.text()
    assert text is not None
    assert text.plain == "S> !> Go    1.00 1.00 3.00\n##"
    assert visits.legend == "S start, ! hazard, G goal, # wall, > most likely move, o stays, . not visited"
    assert visits.direction((0, 2)) == (0, 0)
    assert visits.direction((0, 1)) == (0, 1)


def test_map_is_left_out_if_it_does_not_fit(gridworld: Solution) -> None:
    visits = VisitMap.of(gridworld.cmdp, gridworld.optimum.policy)
    assert visits.text(20) is None
    narrow = visits.text(30)
    assert narrow is not None
    assert "18.71" not in narrow.plain  # the map alone, without the numbers beside it
    assert "wider than this terminal" in printed(tables.solution_page(gridworld, width=20))


def test_problem_without_a_map_says_so() -> None:
    found = solution_of(lever(3.0))
    with pytest.raises(InvalidModelError, match="no map"):
        VisitMap.of(found.cmdp, found.optimum.policy)


# The reward-utility plane


def test_frontier_of_the_lever_is_a_line() -> None:
    plane = trace(lever(3.0))
    np.testing.assert_allclose(plane.frontier, [(0.0, 4.0), (4.0, 0.0)], atol=1e-12)
    assert plane.complete


@pytest.mark.parametrize("name", ONE_CONSTRAINT)
def test_optimum_lies_on_the_frontier(name: str) -> None:
    found = solution_of(opdop.make(name))
    plane = trace(found.cmdp, tolerance=1e-9, passes=5000)
    assert plane.complete
    utilities, rewards = plane.frontier.T
    assert (np.diff(utilities) > 0).all()
    assert (np.diff(rewards) < 0).all()
    assert np.interp(found.cmdp.thresholds[0], utilities, rewards) == pytest.approx(found.optimum.value, abs=1e-6)
    np.testing.assert_allclose(plane.frontier[0], found.optimum.unconstrained.totals[::-1], atol=1e-9)
    np.testing.assert_allclose(plane.frontier[-1], found.optimum.slater.totals[::-1], atol=1e-9)


def test_frontier_agrees_with_the_linear_program_at_other_thresholds() -> None:
    utilities, rewards = trace(opdop.make("media-streaming"), tolerance=1e-9, passes=5000).frontier.T
    for budget in (0.3, 2.0, 7.5):
        other = opdop.make("media-streaming", fast_services=budget)
        assert np.interp(other.thresholds[0], utilities, rewards) == pytest.approx(solve_lp(other).value, abs=1e-6)


def test_no_policy_lies_outside_the_hull() -> None:
    cmdp = opdop.make("random-tabular")
    hull = trace(cmdp, tolerance=1e-9, passes=5000).hull
    edges = np.roll(hull, -1, axis=0) - hull
    outward = np.stack([edges[:, 1], -edges[:, 0]], axis=1)
    random = np.random.default_rng(0)
    H, S, A = cmdp.horizon, cmdp.num_states, cmdp.num_actions
    inside = []
    for _ in range(300):
        values = opdop.evaluate(cmdp, random.dirichlet(np.full(A, 0.1), size=(H, S)))
        beyond = (np.array([values.utilities[0], values.reward]) - hull) * outward
        inside.append(beyond.sum(axis=1).max() <= 1e-9)
    assert all(inside)


def test_plane_stops_when_its_passes_are_used_up() -> None:
    plane = trace(opdop.make("river-crossing"), passes=20)
    assert not plane.complete
    assert plane.passes <= 20 + 8  # the extremes are always found


def test_slices_fall_concavely_and_contain_the_optimum(queue: Solution) -> None:
    for i, threshold in enumerate(queue.cmdp.thresholds):
        levels, rewards = slices(queue.cmdp, queue.optimum, i, points=8).T
        slopes = np.diff(rewards) / np.diff(levels)
        assert (slopes <= 1e-9).all()
        assert (np.diff(slopes) <= 1e-6).all()
        assert rewards[levels == threshold] == queue.optimum.value
    with pytest.raises(InvalidModelError, match="one constraint"):
        trace(queue.cmdp)


# Figures


@pytest.fixture
def odd_settings() -> Iterator[None]:
    """Settings that a person may have made, and that must not show."""
    with mpl.rc_context({"font.size": 30, "axes.facecolor": "red", "svg.fonttype": "none"}):
        yield


def labels(file: Path) -> str:
    """Return an SVG's text: the words are drawn as shapes and written beside them as comments."""
    return file.read_text(encoding="utf-8")


def test_map_names_what_it_shows(gridworld: Solution, tmp_path: Path) -> None:
    text = labels(figures.save(figures.picture(gridworld), tmp_path / "map.svg"))
    for word in ("gridworld", "start", "goal", "hazard", "wall", "row", "column", "expected stages in a cell"):
        assert f"<!-- {word} -->" in text


def test_plane_names_what_it_shows(gridworld: Solution, tmp_path: Path) -> None:
    text = labels(figures.save(figures.picture(gridworld, plane=True), tmp_path / "plane.svg"))
    for word in (
        "attainable",
        "best attainable",
        "constraint violated",
        "constraint: ≤ 0.5 stages",
        "slope: multiplier 2.168",
        "optimum",
        "unconstrained policy",
        "max-slack policy",
        "stages on hazards (less is better)",
        "stages at the goal (more is better)",
    ):
        assert f"<!-- {word} -->" in text


def test_several_constraints_have_a_panel_each(queue_figure: Figure, tmp_path: Path) -> None:
    assert len(queue_figure.axes) == 2
    text = labels(figures.save(queue_figure, tmp_path / "queue.svg"))
    assert "service effort, units of effort (less is better)" in text
    assert "customers admitted (more is better)" in text


@pytest.mark.parametrize("plane", [False, True])
def test_svg_is_the_same_every_time(plane: bool, gridworld: Solution, tmp_path: Path) -> None:
    first = figures.save(figures.picture(gridworld, plane=plane), tmp_path / "a.svg").read_bytes()
    second = figures.save(figures.picture(gridworld, plane=plane), tmp_path / "b.svg").read_bytes()
    assert first == second
    assert b"<dc:date>" not in first
    assert len(first) < 100_000


@pytest.mark.usefixtures("odd_settings")
def test_figures_do_not_depend_on_a_persons_settings(gridworld: Solution, tmp_path: Path) -> None:
    odd = figures.save(figures.picture(gridworld), tmp_path / "a.svg").read_bytes()
    with mpl.rc_context():
        mpl.rcdefaults()
        assert figures.save(figures.picture(gridworld), tmp_path / "b.svg").read_bytes() == odd
    assert mpl.rcParams["font.size"] == 30


@pytest.mark.parametrize(("ending", "magic"), [(".png", b"\x89PNG"), (".pdf", b"%PDF"), (".SVG", b"<?xml")])
def test_figures_are_saved_in_every_form(ending: str, magic: bytes, gridworld: Solution, tmp_path: Path) -> None:
    assert figures.save(figures.picture(gridworld), tmp_path / f"map{ending}").read_bytes().startswith(magic)


def test_figure_is_80_mm_wide_and_its_words_stay_on_the_page(gridworld: Solution, queue_figure: Figure) -> None:
    for figure in (figures.picture(gridworld), figures.picture(gridworld, plane=True), queue_figure):
        page = figure.bbox
        assert page.width / figure.dpi == pytest.approx(80 / 25.4)
        figure.canvas.draw()
        needed = figure.get_tightbbox()
        assert needed.x0 >= -0.01
        assert needed.x1 <= page.width / figure.dpi + 0.01


def test_large_maps_are_drawn_as_an_image(tmp_path: Path) -> None:
    found = solution_of(opdop.make("gridworld", size=52, seed=1))
    file = figures.save(figures.picture(found), tmp_path / "large.svg")
    assert file.stat().st_size < 1_000_000


@pytest.mark.parametrize("name", ["map.gif", "map", "missing/map.svg"])
def test_figure_that_cannot_be_saved_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidParameterError, match=r"expected a file ending in \.svg|there is no folder"):
        figures.check_target(tmp_path / name)


def test_drawing_leaves_pyplot_alone_and_the_command_line_loads_no_figures() -> None:
    code = (
        "import sys, opdop.cli; assert 'matplotlib' not in sys.modules; "
        "import opdop.report.figures; assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
