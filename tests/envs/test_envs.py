"""Every problem that ships: known optima, what all must have in common, and what wrong parameters lead to."""

from __future__ import annotations

import math
import pickle
from collections import deque
from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opdop.envs import Environment, Parameter, environment, environments, make, parse, registry
from opdop.envs import binding_constraint as binding
from opdop.model import InfeasibleError, InvalidParameterError, OpdopError, TabularCMDP
from opdop.planning import solve, solve_lp

NAMES = list(environments())
PARAMETERS = [(name, key) for name, entry in environments().items() for key in entry.parameters]
every_environment = pytest.mark.parametrize("name", NAMES)


def shown(cmdp: TabularCMDP, value: float) -> float:
    """Return an episode's total reward in the problem's own units."""
    return cmdp.display.quantities[0].shown(value)


# Known optima


def test_factored_has_the_optimum_of_the_dope_experiments() -> None:
    optimum = solve(make("factored"))
    assert optimum.value == pytest.approx(2.0, abs=1e-12)
    assert optimum.dual == pytest.approx([2 / 3], abs=1e-12)
    assert optimum.unconstrained.reward == pytest.approx(4.0, abs=1e-12)


@pytest.mark.parametrize(("states", "rounds", "allowed"), [(3, 2, 1), (4, 3, 1), (5, 4, 3), (2, 5, 2)])
def test_factored_earns_a_fixed_sum_for_each_round_of_the_cycle(states: int, rounds: int, allowed: int) -> None:
    optimum = solve(make("factored", states=states, stages=rounds * states, moves=float(allowed * states)))
    assert optimum.value == pytest.approx(allowed * (states + 1) / 2, abs=1e-12)
    assert optimum.dual == pytest.approx([(states + 1) / 2 / states], abs=1e-12)
    assert optimum.slater_gap == pytest.approx(allowed * states, abs=1e-12)


def test_media_streaming_has_the_optimum_of_the_dope_experiments() -> None:
    cmdp = make("media-streaming")
    optimum = solve(cmdp)
    assert shown(cmdp, optimum.value) == pytest.approx(6.7467, abs=5e-5)
    assert optimum.dual == pytest.approx([0.495], abs=5e-4)
    assert shown(cmdp, optimum.unconstrained.reward) == pytest.approx(5.393, abs=5e-4)
    assert cmdp.display.quantities[0].text(optimum.value) == "6.7467 steps"
    assert cmdp.display.quantities[1].constraint(cmdp.thresholds[0]) == "fast services <= 5 services"


def test_media_streaming_unconstrained_serves_fast_always() -> None:
    cmdp = make("media-streaming", capacity=4, stages=15, fast=0.7, playback=0.6)
    S = cmdp.num_states
    fast = cmdp.dense().transition_matrix(0).reshape(S, 2, S)[:, 1]
    empty = sum(np.linalg.matrix_power(fast, h)[0, 0] for h in range(15))
    assert shown(cmdp, solve(cmdp).unconstrained.reward) == pytest.approx(empty, abs=1e-9)


def test_inventory_unconstrained_earns_the_mean_demand_every_day() -> None:
    cmdp = make("inventory")
    mean_demand = 0.2 * (1 + 2 + 3) + 0.05 * (4 + 5)
    optimum = solve(cmdp)
    assert shown(cmdp, optimum.unconstrained.reward) == pytest.approx(7 * 8 * mean_demand, abs=1e-9)
    assert cmdp.display.quantities[1].shown(cmdp.thresholds[0]) == pytest.approx(3.5 * 19, abs=1e-9)
    # From an occupancy-measure LP written apart from this package and solved by HiGHS.
    assert shown(cmdp, optimum.value) == pytest.approx(80.98885137539158, abs=1e-6)


def test_inventory_is_the_one_that_the_paper_describes_and_its_code_pays_a_sold_out_store() -> None:
    cmdp = make("inventory").tabular()
    optimum = solve(cmdp).value
    levels, units = np.indices((6, 6))
    sales = np.minimum(levels, units) @ np.array(cmdp.display.parameters["demand"])  # by units in store after the order
    paid = sales[np.minimum(levels + units, 5)] / sales.max()
    kernel = cmdp.transition_matrix(0).reshape(6, 6, 6)
    variant = TabularCMDP(kernel, paid, cmdp.utilities, cmdp.thresholds, horizon=7)
    assert optimum == pytest.approx(6.13552, abs=5e-6)
    assert solve(variant).value == pytest.approx(6.66532, abs=5e-6)
    for value in ("6.13552", "6.66532"):
        assert value in environments()["inventory"].description


def test_inventory_cuts_orders_that_do_not_fit() -> None:
    cmdp = make("inventory")
    rows = cmdp.transition_matrix(0).reshape(6, 6, 6)
    for x in range(6):
        for a in range(6 - x, 6):
            assert np.array_equal(rows[x, a], rows[x, 5 - x])
            assert np.array_equal(cmdp.signals[:, 0, x, a], cmdp.signals[:, 0, x, 5 - x])
    assert rows[2, 1] == pytest.approx([0.3, 0.2, 0.2, 0.3, 0.0, 0.0])  # 3 in store meet a demand of 3+, 2, 1, 0


@pytest.mark.parametrize(("customers", "effort"), [(3, 1), (4, 1), (5, 2)])
def test_queue_with_sure_service_lets_the_unserved_come_last(customers: int, effort: int) -> None:
    # Service and admission are sure or not at all. Who is served within the slot never waits; of the u others, who
    # come one in each of the last slots, the last waits 0 slots, the one before 1, and so on.
    cmdp = make(
        "queue",
        stages=7,
        service=(0.0, 1.0),
        effort=(0.0, 1.0),
        admission=(0.0, 1.0),
        effort_budget=float(effort),
        throughput=float(customers),
    )
    unserved = customers - effort
    assert shown(cmdp, solve(cmdp).value) == pytest.approx(unserved * (unserved - 1) / 2, abs=1e-9)


@pytest.mark.parametrize(("states", "stages", "strokes"), [(6, 20, 10.0), (4, 9, 2.5), (2, 5, 1.0)])
def test_river_without_current_pays_for_each_stroke_after_the_crossing(
    states: int, stages: int, strokes: float
) -> None:
    # m strokes earn max(0, m - (S - 1)), which is convex: the best is a mixture of swimming always and never.
    cmdp = make(
        "river-crossing",
        states=states, stages=stages, strokes=strokes, forward=1.0, back=0.0, hold=1.0, near_reward=0.0,
    )  # fmt: skip
    optimum = solve(cmdp)
    slope = (stages - states + 1) / stages
    assert optimum.dual == pytest.approx([slope], abs=1e-12)
    assert shown(cmdp, optimum.value) == pytest.approx(10_000 * slope * strokes, abs=1e-7)


def test_river_has_the_kernel_of_strehl_and_littman() -> None:
    rows = make("river-crossing").dense().transition_matrix(0).reshape(6, 2, 6)
    assert np.array_equal(rows[:, 0].argmax(axis=1), [0, 0, 1, 2, 3, 4])
    assert rows[0, 1] == pytest.approx([0.7, 0.3, 0, 0, 0, 0])
    assert rows[2, 1] == pytest.approx([0, 0.1, 0.6, 0.3, 0, 0])
    assert rows[5, 1] == pytest.approx([0, 0, 0, 0, 0.7, 0.3])


@pytest.mark.parametrize("allowed", [1.0, 4.5])
def test_hospital_whose_patients_stay_one_day_has_the_same_problem_every_day(allowed: float) -> None:
    cmdp = make("hospital-beds", beds=5, planned=4, stay=1.0, emergencies=2.0, turned_away=allowed, occupied=0)
    chances = [math.exp(-2.0) * 2.0**n / math.factorial(n) for n in range(40)]
    refused = [sum(p * max(n - (5 - a), 0) for n, p in enumerate(chances)) for a in range(5)]
    # Planned patients against refusals is concave, so the best is a mixture of two neighbouring numbers.
    assert shown(cmdp, solve(cmdp).value) == pytest.approx(14 * np.interp(allowed / 14, refused, range(5)), abs=1e-9)


def test_hospital_conserves_the_number_of_patients() -> None:
    cmdp = make("hospital-beds")
    rows, beds = cmdp.transition_matrix(0).reshape(13, 4, 13), np.arange(13)
    treated, refused = 3.0 * cmdp.rewards[0], 1.5 * (1.0 - cmdp.utilities[0, 0])
    expected = beds[:, None] * (1.0 - 1.0 / 4.0) + treated + 1.5 - refused
    assert rows @ beds == pytest.approx(expected, abs=1e-9)


def walk(cmdp: TabularCMDP, avoid: set[int]) -> dict[int, int]:
    """Return the number of moves from the start to each state, by breadth-first search over the picture."""
    geometry = cmdp.display.geometry
    assert geometry is not None
    state = {cell: x for x, cell in enumerate(geometry.cells)}
    moves, waiting = {0: 0}, deque([0])
    while waiting:
        x = waiting.popleft()
        cell = geometry.cells[x]
        assert cell is not None
        for i, j in geometry.arrows:
            y = state.get((cell[0] + i, cell[1] + j))
            if y is not None and y not in moves and y not in avoid:
                moves[y] = moves[x] + 1
                waiting.append(y)
    return moves


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("size", [3, 6, 9])
def test_gridworld_without_slips_trades_time_for_hazards(seed: int, size: int) -> None:
    cmdp = make("gridworld", size=size, seed=seed, slip=0.0, hazard_stages=1e-6)
    geometry = cmdp.display.geometry
    assert geometry is not None
    hazards = {x for x, mark in geometry.marks.items() if mark == "hazard"}
    (goal,) = (x for x, mark in geometry.marks.items() if mark == "goal")
    direct, around = walk(cmdp, avoid=set()), walk(cmdp, avoid=hazards)
    assert len(direct) == cmdp.num_states  # no state is cut off
    assert direct[goal] < around[goal]
    optimum = solve(cmdp)
    assert optimum.unconstrained.reward == pytest.approx(cmdp.horizon - direct[goal], abs=1e-9)
    assert optimum.value == pytest.approx(cmdp.horizon - around[goal], abs=1e-3)
    assert optimum.active.all()


@pytest.mark.parametrize("seed", range(10))
def test_gridworld_binds_on_every_map(seed: int) -> None:
    optimum = solve(make("gridworld", seed=seed))
    assert optimum.active.all()
    assert optimum.slater_gap == pytest.approx(0.5, abs=1e-9)  # standing still is safe


def test_gridworld_slips_to_the_sides_only() -> None:
    cmdp = make("gridworld", slip=0.2).dense()
    geometry = cmdp.display.geometry
    assert geometry is not None
    S, A = cmdp.num_states, cmdp.num_actions
    rows = cmdp.transition_matrix(0).reshape(S, A, S)
    state = {cell: x for x, cell in enumerate(geometry.cells)}
    for x, cell in enumerate(geometry.cells):
        assert cell is not None
        for a, (i, j) in enumerate(geometry.arrows):
            expected = np.zeros(S)
            sides = [(j, i), (-j, -i)]
            for (di, dj), p in zip([(i, j), *sides], [0.8, 0.1, 0.1], strict=True):
                expected[state.get((cell[0] + di, cell[1] + dj), x)] += p
            if geometry.marks.get(x) == "goal":
                expected = np.eye(S)[x]
            assert rows[x, a] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("signals", ["uniform", "bernoulli"])
@pytest.mark.parametrize("stationary", [False, True])
@pytest.mark.parametrize("successors", [None, 2])
def test_random_tabular_binds_at_its_share_of_the_largest_utility(
    signals: str, stationary: bool, successors: int | None
) -> None:
    for seed in range(5):
        cmdp = make(
            "random-tabular", seed=seed, signals=signals, stationary=stationary, successors=successors, share=0.7
        )
        optimum = solve(cmdp)
        assert optimum.active.all()
        assert cmdp.thresholds[0] == pytest.approx(0.7 * (cmdp.thresholds[0] + optimum.slater_gap), abs=1e-9)
        assert cmdp.is_stationary is stationary
        assert cmdp.is_sparse is (successors is not None)
        assert set(np.unique(cmdp.signals)) == {0.0, 1.0} or signals == "uniform"


def test_random_tabular_draws_distinct_successors() -> None:
    cmdp = make("random-tabular", states=40, successors=7, concentration=50.0, signals="bernoulli")
    for h in range(cmdp.horizon):
        assert (np.diff(cmdp.transition_matrix(h).indptr) == 7).all()


def test_random_tabular_seeds_differ_and_leave_numpys_global_state_alone() -> None:
    before = repr(np.random.get_state())  # noqa: NPY002
    first, second = make("random-tabular", seed=1), make("random-tabular", seed=2)
    assert not np.array_equal(first.signals, second.signals)
    assert repr(np.random.get_state()) == before  # noqa: NPY002


def test_random_tabular_gives_up_when_nothing_binds() -> None:
    with pytest.raises(InvalidParameterError, match="hardly binds"):
        make("random-tabular", share=1e-6)


# Facts about every problem


@every_environment
def test_every_environment_binds_with_slack_to_spare(name: str) -> None:
    cmdp = make(name).tabular()
    optimum = solve(cmdp)
    assert optimum.slater_gap > 1e-3
    assert optimum.active.all()
    assert (optimum.dual > 1e-3).all()
    assert optimum.value < optimum.unconstrained.reward - 1e-3
    assert optimum.utility_values == pytest.approx(cmdp.thresholds, abs=1e-9)


@every_environment
def test_every_environment_has_the_optimum_of_the_occupancy_program(name: str) -> None:
    cmdp = make(name).tabular()
    optimum, program = solve(cmdp), solve_lp(cmdp)
    assert optimum.value == pytest.approx(program.value, abs=1e-6)
    assert optimum.dual == pytest.approx(program.dual, abs=1e-5)
    assert optimum.slater_gap == pytest.approx(program.slater_gap, abs=1e-6)


@every_environment
def test_every_environment_is_the_same_each_time(name: str) -> None:
    first, second = make(name).tabular(), make(name).tabular()
    for one, other in zip(first.transitions, second.transitions, strict=True):
        assert np.array_equal(one, other)
    for field in ("signals", "thresholds", "initial"):
        assert np.array_equal(getattr(first, field), getattr(second, field))
    assert first.display == second.display


@every_environment
def test_every_environment_is_the_same_dense_and_sparse(name: str) -> None:
    cmdp = make(name).tabular()
    dense, sparse = solve(cmdp.dense()), solve(cmdp.sparse())
    assert dense.value == pytest.approx(sparse.value, abs=1e-9)
    assert dense.dual == pytest.approx(sparse.dual, abs=1e-9)
    assert dense.slater_gap == pytest.approx(sparse.slater_gap, abs=1e-9)


@every_environment
def test_every_environment_has_a_name_a_summary_and_units(name: str) -> None:
    entry, cmdp = environments()[name], make(name).tabular()
    display = cmdp.display
    assert display.name == entry.name == name
    assert display.summary == entry.summary
    assert entry.summary.endswith(".")
    assert len(entry.summary) < 100
    assert len(entry.description) > 150
    assert "\n" not in entry.description
    assert len(display.quantities) == 1 + cmdp.num_constraints
    assert all(quantity.name and quantity.unit for quantity in display.quantities)
    assert len(display.state_names) in (0, cmdp.num_states)
    assert len(display.action_names) in (0, cmdp.num_actions)
    assert len(set(display.state_names)) == len(display.state_names)
    assert len(set(display.action_names)) == len(display.action_names)
    if display.geometry is not None:
        assert len(display.geometry.cells) == cmdp.num_states
        assert len(set(display.geometry.cells) | set(display.geometry.walls)) == (
            len(display.geometry.cells) + len(display.geometry.walls)
        )
        assert set(display.geometry.marks) <= set(range(cmdp.num_states))
        assert len(display.geometry.arrows) == cmdp.num_actions


@every_environment
def test_every_environment_keeps_the_values_it_was_built_from(name: str) -> None:
    entry = environments()[name]
    stages = {"stages": 11} if "stages" in entry.parameters else {}
    cmdp = make(name, **stages)
    defaults = {key: parameter.default for key, parameter in entry.parameters.items()}
    assert cmdp.display.parameters == {**defaults, **stages}
    assert make(name, **dict(cmdp.display.parameters)).display == cmdp.display
    copied = pickle.loads(pickle.dumps(cmdp))
    assert np.array_equal(copied.tabular().signals, cmdp.tabular().signals)
    assert copied.display == cmdp.display


@every_environment
def test_every_parameter_is_documented(name: str) -> None:
    for parameter in environments()[name].parameters.values():
        assert len(parameter.help) > 5
        assert not parameter.help.endswith(".")
        assert parameter.expected
        bounded = parameter.low is not None or parameter.above is not None
        assert bounded or parameter.choices or parameter.type in (bool, str)


def wrong_values(parameter: Parameter) -> Iterator[object]:
    """Yield values of other types, not finite, or out of range."""
    number = parameter.type in (int, float)
    yield from (object(), {}, b"1", 1j, [], (), [[1.0], [1.0, 2.0]], ["a"], [None], np.array(0.5), np.array([True]))
    yield from () if parameter.optional else (None,)
    yield from () if parameter.type is str else ("", "a few", "3")
    yield from (math.nan, math.inf, -math.inf, np.float64("nan"), 10**5000)
    yield from (0.5, np.float32(1.5)) if parameter.type is int else ()
    yield from (True, False, np.True_) if parameter.type is not bool else (0, 1, 1.0)
    yield from ("Uniform", "", 3) if parameter.choices else ()
    outside = [bound - 1 for bound in (parameter.low, parameter.above) if bound is not None]
    outside += [bound + 1 for bound in (parameter.high, parameter.below) if bound is not None]
    outside += [bound for bound in (parameter.above, parameter.below) if bound is not None]
    yield from outside if number else ()
    if parameter.type is tuple:
        yield from (1.0, (0.5, math.nan), (0.5, True), (0.5, "x"), *((bound,) for bound in outside))


@pytest.mark.parametrize(("name", "key"), PARAMETERS)
def test_every_wrong_value_is_an_invalid_parameter(name: str, key: str) -> None:
    for value in wrong_values(environments()[name].parameters[key]):
        with pytest.raises(InvalidParameterError, match=rf"^{key} of '{name}' is .*; expected "):
            make(name, **{key: value})


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("factored", {"moves": 6.0}, "less than 6"),
        ("media-streaming", {"slow": 0.9}, "slow below fast"),
        ("media-streaming", {"start": 10}, "at most the capacity"),
        ("inventory", {"demand": (0.5, 0.4)}, "sum to 1"),
        ("inventory", {"demand": (1.0, 0.0)}, "both above 0"),
        ("inventory", {"order_cost": 0, "unit_cost": 0, "holding_cost": 0}, "both above 0"),
        ("inventory", {"start": 6}, "at most the capacity"),
        ("random-tabular", {"successors": 6}, "number of states"),
        ("random-tabular", {"states": 100_000}, "set successors"),
        ("queue", {"effort": (1.0, 2.0)}, "one effort for each mode"),
        ("queue", {"effort": (0.0, 0.0, 0.0)}, "costs effort"),
        ("queue", {"throughput": 13}, "one customer a slot"),
        ("queue", {"effort_budget": 1e300}, "less than 72"),
        ("gridworld", {"walls": 0.7, "hazards": 0.3}, "some cells must be free"),
        ("gridworld", {"stages": 2}, "more stages"),
        ("gridworld", {"walls": 0.99, "hazards": 0.001}, "other shares"),
        ("river-crossing", {"forward": 0.6, "back": 0.5}, "at most 1"),
        ("river-crossing", {"strokes": 20}, "less than 20"),
    ],
)
def test_parameters_that_do_not_fit_together_are_invalid(name: str, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        make(name, **parameters)


def values_of(parameter: Parameter) -> st.SearchStrategy[Any]:
    """Return a strategy for small values within a parameter's own bounds."""
    low = parameter.low if parameter.low is not None else parameter.above or 0
    high = min(bound for bound in (parameter.high, parameter.below, low + 12) if bound is not None)
    number = st.floats(low, high, exclude_min=parameter.above is not None, exclude_max=parameter.below is not None)
    chosen: dict[Any, st.SearchStrategy[Any]] = {
        bool: st.booleans(),
        int: st.integers(int(low), int(high)),
        float: number,
        str: st.sampled_from(parameter.choices or ("",)),
        tuple: st.lists(number, min_size=1, max_size=3).map(tuple),
    }
    return chosen[parameter.type] | st.none() if parameter.optional else chosen[parameter.type]


@every_environment
@given(data=st.data())
def test_every_value_within_bounds_makes_a_problem_or_says_why_not(name: str, data: st.DataObject) -> None:
    # Each parameter is drawn or left at its default; the model validates itself, so being built is being valid.
    chosen = {
        key: data.draw(values_of(parameter), label=key)
        for key, parameter in environments()[name].parameters.items()
        if data.draw(st.booleans(), label=f"set {key}")
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(binding, "ATTEMPTS", 10)  # not 100: where the constraint hardly ever binds, that takes seconds
        try:
            cmdp = make(name, **chosen)
        except InvalidParameterError:
            return
    assert cmdp.display.parameters.keys() == environments()[name].parameters.keys()
    try:
        assert solve(cmdp).value <= cmdp.horizon + 1e-9
    except InfeasibleError:
        assert name in ("hospital-beds", "inventory", "queue", "reservoir")  # elsewhere doing nothing is feasible


@given(
    weights=st.lists(st.floats(0.01, 1.0), min_size=2, max_size=8),
    capacity=st.integers(1, 7),
    prices=st.tuples(*[st.floats(0.5, 10.0)] * 4),
)
def test_inventory_of_any_demand_is_a_problem(weights: list[float], capacity: int, prices: tuple[float, ...]) -> None:
    price, order_cost, unit_cost, holding_cost = prices
    demand = np.array(weights) / sum(weights)
    dear = order_cost + (unit_cost + holding_cost) * capacity
    cmdp = make(
        "inventory",
        capacity=capacity, demand=demand, price=price,
        order_cost=order_cost, unit_cost=unit_cost, holding_cost=holding_cost, budget=2 * dear,
    )  # fmt: skip
    assert cmdp.display.quantities[1].shown(0.0) == pytest.approx(7 * dear)
    # The store can be filled every day, which meets every demand that fits.
    met = sum(d * p for d, p in enumerate(demand) if d <= capacity)
    assert shown(cmdp, solve(cmdp).unconstrained.reward) == pytest.approx(7 * price * met)


def test_large_problems_are_sparse_and_small_in_memory() -> None:
    grid = make("gridworld", size=100)
    assert grid.num_states > 8000
    assert len(grid.transitions.probabilities) <= 3 * grid.num_states * 5  # type: ignore[union-attr]
    wide = make("random-tabular", states=2000, actions=5, stages=20, successors=5, stationary=True, share=0.9)
    assert len(wide.transitions.probabilities) <= 2000 * 5 * 5  # type: ignore[union-attr]
    for name in ("queue", "media-streaming"):
        assert make(name, capacity=20_000).num_states == 20_001


# The registry


def test_the_registry_finds_every_problem_and_cannot_be_changed() -> None:
    expected = {
        "factored", "gridworld", "inventory", "media-streaming", "queue", "random-tabular", "river-crossing",
    }  # fmt: skip
    assert expected <= set(NAMES)
    assert sorted(NAMES) == NAMES
    with pytest.raises(TypeError):
        environments()["mine"] = environments()["queue"]  # type: ignore[index]
    entry = environments()["queue"]
    assert isinstance(entry, Environment)
    with pytest.raises(TypeError):
        entry.parameters["mine"] = Parameter("mine")  # type: ignore[index]


def test_a_problem_built_directly_is_the_problem_that_make_builds() -> None:
    built = environments()["river-crossing"].build(stages=9, strokes=4)
    assert built.display == make("river-crossing", stages=9, strokes=4).display


def test_an_unknown_environment_says_which_exist() -> None:
    with pytest.raises(InvalidParameterError, match=r"'quue'\. Did you mean 'queue'\? Environments: factored, grid"):
        make("quue")
    with pytest.raises(InvalidParameterError, match="there is no environment 7"):
        make(7)  # type: ignore[arg-type]


def test_an_unknown_parameter_says_which_exist() -> None:
    with pytest.raises(
        InvalidParameterError,
        match=r"'queue' has no parameter 'capcity'\. Did you mean 'capacity'\? .*: capacity, stages",
    ):
        make("queue", capcity=3)


def test_numbers_of_numpy_are_numbers() -> None:
    cmdp = make("queue", capacity=np.int64(3), effort_budget=np.float32(20), service=np.array([0.1, 0.4, 0.9]))
    assert cmdp.display.parameters["capacity"] == 3
    assert type(cmdp.display.parameters["capacity"]) is int
    assert cmdp.display.parameters["effort_budget"] == 20.0
    assert cmdp.display.parameters["service"] == (0.1, 0.4, 0.9)


def test_settings_from_a_command_line_get_their_types() -> None:
    assert parse("random-tabular", ["states=7", "share=.5", "stationary=yes", "successors=none"]) == {
        "states": 7, "share": 0.5, "stationary": True, "successors": None,
    }  # fmt: skip
    assert parse("random-tabular", ["successors=3", "stationary=False", "signals=bernoulli"]) == {
        "successors": 3, "stationary": False, "signals": "bernoulli",
    }  # fmt: skip
    assert parse("queue", ["service=0.1, 0.5,0.9", "effort-budget=1e1"]) == {
        "service": (0.1, 0.5, 0.9), "effort_budget": 10.0,
    }  # fmt: skip
    assert parse("queue", ["service=(0.1,0.5)"]) == {"service": (0.1, 0.5)}
    assert parse("queue", []) == {}


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("states", "'states' is not a setting .* expected key=value"),
        ("=3", "expected key=value"),
        ("stats=3", "Did you mean 'states'"),
        ("states=3.5", "states of 'random-tabular' is '3.5'; expected a whole number"),
        ("states=many", "is 'many'; expected a whole number, at least 1"),
        ("states=none", "is 'none'; expected a whole number"),
        ("share=nan", "is 'nan'; expected a number, above 0, below 1"),
        ("share=1", "expected a number, above 0, below 1"),
        ("stationary=perhaps", "is 'perhaps'; expected true or false"),
        ("signals=normal", "is 'normal'; expected one of uniform, bernoulli"),
        ("successors=0", "expected a whole number, at least 1, at most 100000, or none"),
    ],
)
def test_settings_that_cannot_be_read_say_why(setting: str, message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        parse("random-tabular", [setting])


def test_settings_given_twice_or_lists_of_words_are_refused() -> None:
    with pytest.raises(InvalidParameterError, match="set twice"):
        parse("queue", ["stages=3", "stages=4"])
    for text in ("", "a,b", "()", "0.5,,x", "2"):
        with pytest.raises(InvalidParameterError, match="expected a list of numbers, each at least 0, at most 1"):
            parse("queue", [f"service={text}"])


@pytest.fixture
def _own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_found", dict(environments()))


@pytest.mark.usefixtures("_own_registry")
def test_anyone_can_register_a_problem_and_no_name_is_taken_twice() -> None:
    @environment("mine-10", summary="A problem of my own.")
    def mine(*, stages: Annotated[int, Parameter("stages in one episode", low=1)] = 4) -> TabularCMDP:
        """One state,
        two actions."""
        return TabularCMDP(np.ones((1, 2, 1)), [[0, 1]], [[1, 0]], 3, horizon=stages)

    @environment("mine-9", summary="Another.")
    def other() -> TabularCMDP:
        """Nothing to set."""
        return mine()

    assert environments()["mine-10"].description == "One state, two actions."
    assert list(environments()).index("mine-9") < list(environments()).index("mine-10")
    assert make("mine-10", stages=5).display.parameters == {"stages": 5}
    assert mine(stages=6).horizon == 6
    with pytest.raises(InvalidParameterError, match="do not make a problem: thresholds"):
        make("mine-10", stages=2)
    with pytest.raises(InvalidParameterError, match="two environments named 'mine-10'"):
        environment("mine-10", summary="Once more.")(mine)
    with pytest.raises(InvalidParameterError, match="two environments named 'queue'"):
        environment("queue", summary="Another queue.")(mine)


@pytest.mark.usefixtures("_own_registry")
def test_a_problem_that_does_not_explain_itself_is_refused() -> None:
    def positional(stages: Annotated[int, Parameter("stages")] = 1) -> TabularCMDP:
        """Has a positional parameter."""
        raise NotImplementedError

    def required(*, stages: Annotated[int, Parameter("stages")]) -> TabularCMDP:
        """Has a parameter without a default."""
        raise NotImplementedError

    def bare(*, stages: int = 1) -> TabularCMDP:
        """Has an undocumented parameter."""
        raise NotImplementedError

    def odd(*, stages: Annotated[dict[str, int], Parameter("stages")] = {}) -> TabularCMDP:  # noqa: B006
        """Has a parameter of an odd type."""
        raise NotImplementedError

    def outside(*, stages: Annotated[int, Parameter("stages", low=1)] = 0) -> TabularCMDP:
        """Has a default that is out of range."""
        raise NotImplementedError

    def silent() -> TabularCMDP:
        raise NotImplementedError

    cases: list[tuple[Any, str]] = [
        (positional, "keyword-only"),
        (required, "have a default"),
        (bare, "not documented"),
        (odd, "expected int, float"),
        (outside, "stages of 'new' is 0"),
        (silent, "no description"),
    ]
    for function, message in cases:
        with pytest.raises(OpdopError, match=message):
            environment("new", summary="New.")(function)
    assert "new" not in environments()
