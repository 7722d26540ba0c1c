"""Every constant of every preset is the number that the paper or its derivation says, and is stored with the run."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opdop import OPDOP, OPPO, Counts, Episode, InvalidModelError, InvalidParameterError, TabularCMDP, Task, train
from opdop.algorithms import (
    BallRadius,
    Constants,
    FixedRadius,
    PaperRadius,
    Preset,
    SpanRadius,
    WeissmanRadius,
    choose,
    find,
    presets,
)
from tests.support.strategies import sketch_of

EXACT = 1e-14  # relative: a few roundings, nothing else

sizes = {
    "H": st.integers(1, 40),
    "S": st.sampled_from([1, 2, 3, 10, 53, 64, 1100, 5000]),
    "A": st.sampled_from([1, 2, 7, 1000]),
    "I": st.integers(1, 4),
    "K": st.sampled_from([1, 10, 12345, 10**8, 2**31 - 1]),
    "p": st.sampled_from([0.5, 0.05, 1e-9]),
}


def task_of(H: int, S: int, A: int, I: int, K: int, p: float, gap: float | None = 0.25, noisy: bool = False) -> Task:
    return Task(H, S, A, np.full(I, 0.5), np.eye(S)[0], K, p, gap, noisy)


def log(value: Decimal | int) -> Decimal:
    return Decimal(value).ln()


def assert_equal(found: Any, expected: Decimal | list[Decimal]) -> None:
    np.testing.assert_allclose(found, np.array(expected, dtype=float), rtol=EXACT, atol=0)


# The paper's numbers


@given(**sizes)
def test_paper_constants_are_those_of_theorem_2(H: int, S: int, A: int, I: int, K: int, p: float):
    constants = choose(task_of(H, S, A, I, K, p), "paper")
    with localcontext(prec=50):
        root = Decimal(K).sqrt()
        assert_equal(constants.step_size, log(A).sqrt() / (H**2 * root))
        assert_equal(constants.dual_step_size, 1 / root)
        assert_equal(constants.mixing, 1 / Decimal(K))
        assert constants.dual_bound == 2 * H / 0.25
        assert constants.ridge == 1.0
        beta = H * (S * log(Decimal(S * A * H * K) / Decimal(p))).sqrt()
        task = task_of(H, S, A, I, K, p)
        assert_equal(constants.radius.radii(task, 1.0), [beta] * H)
        scaled = choose(task, "paper", C1=0.125).radius.radii(task, 1.0)
        assert_equal(scaled, [beta / 8] * H)


def test_paper_constants_in_plain_numbers():
    # H = 4, S = 5, A = 3, K = 10^4, p = 1/20: 16 * 100 below the root, log(5 * 3 * 40000 * 20) under it.
    constants = choose(task_of(4, 5, 3, 1, 10_000, 0.05, gap=0.5), "paper")
    assert constants.step_size == pytest.approx(0.0006550922, rel=1e-6)  # 1.0481471 / 1600
    assert (constants.dual_step_size, constants.mixing, constants.dual_bound) == (0.01, 0.0001, 16.0)
    found = constants.radius.radii(task_of(4, 5, 3, 1, 10_000, 0.05), 1.0)
    assert found == pytest.approx(4 * math.sqrt(5 * math.log(12_000_000)), rel=1e-15)


# The certified radius


def weissman(H: int, S: int, A: int, I: int, K: int, p: float, ridge: Decimal, noisy: bool) -> list[Decimal]:
    """Return the radii as the docstring derives them, in 60 digits; stages from 0, so the value ahead spans H-1-h."""
    P = Decimal(p)
    delta = (P / 4 if noisy else P / 2) / (H * S * A * K)
    transition = (log(Decimal(2**S - 2) / delta) / 2).sqrt() if S > 1 else Decimal(0)
    signal = ridge.sqrt()
    if noisy:
        delta_signal = (P / 4) / ((1 + I) * H * S * A * K)
        signal += (log(2 / delta_signal) / 2).sqrt()
    return [((H - 1 - h) * (transition + ridge.sqrt()) + signal) / 2 for h in range(H)]


@given(**sizes, ridge=st.sampled_from([1.0, 0.3, 7.0]), noisy=st.booleans())
def test_weissman_radius_is_its_derivation(H: int, S: int, A: int, I: int, K: int, p: float, ridge: float, noisy: bool):
    task = task_of(H, S, A, I, K, p, noisy=noisy)
    with localcontext(prec=60):
        expected = weissman(H, S, A, I, K, p, Decimal(ridge), noisy)
        assert_equal(WeissmanRadius().radii(task, ridge), expected)
        assert_equal(WeissmanRadius(0.5).radii(task, ridge), [radius / 2 for radius in expected])


def test_one_state_leaves_nothing_to_learn_about_transitions():
    # R = 2, 1, 0 and ridge 1: 2 * radius = R * (0 + 1) + 1.
    np.testing.assert_array_equal(WeissmanRadius().radii(task_of(3, 1, 2, 1, 100, 0.05), 1.0), [1.5, 1.0, 0.5])


def test_the_last_stage_of_certain_signals_needs_no_confidence():
    # There is no value ahead and no noise: only the ridge is made up for.
    for K in (10, 10**9):
        assert WeissmanRadius().radii(task_of(4, 9, 3, 2, K, 0.05), 1.0)[-1] == 0.5


@given(**sizes, noisy=st.booleans(), margin=st.sampled_from([0.0, 0.125]))
def test_certified_constants_are_those_of_the_docs(
    H: int, S: int, A: int, I: int, K: int, p: float, noisy: bool, margin: float
):
    task = task_of(H, S, A, I, K, p, noisy=noisy)
    certified = choose(task, "certified", margin=margin)
    assert certified.radius == BallRadius(1.0)
    assert (certified.mixing, certified.ridge, certified.parameters) == (0.0, 1.0, {"margin": margin})
    with localcontext(prec=50):
        chi = 2 * H / (Decimal("0.25") - Decimal(margin))
        assert_equal([certified.dual_bound, certified.dual_total], [chi, chi])
        assert_equal(certified.step_size, (48 * log(A) / (K * (H + 1) * (2 * H + 1))).sqrt() / (1 + chi))
        aims = [Decimal(float(b)) + Decimal(margin) for b in task.thresholds]
        squares = sum(max(b, H - b) ** 2 for b in aims)
        assert_equal(certified.dual_step_size, chi / (K * squares).sqrt())
        share = Decimal(p) / (4 if noisy else 2)
        rows = Decimal(H * S * A)
        sets, means = certified.radius.log_sets(task)
        assert_equal(means, log((1 + I) * rows / share))
        if S > 1:
            assert_equal(sets, log((2 ** (S - 1) - 1) * rows / share))


def test_scaled_scales_the_papers_steps_and_weissmans_radius_by_its_named_parameters():
    task = task_of(5, 6, 3, 1, 4000, 0.05)
    paper = choose(task, "paper")
    parameters = {
        "radius_scale": 0.25,
        "step_scale": 8.0,
        "dual_step_scale": 2.0,
        "ridge_scale": 0.5,
        "optimistic_init": 0.75,
    }
    scaled = choose(task, "scaled", **parameters)
    np.testing.assert_array_equal(scaled.radius.radii(task, 1.0), WeissmanRadius().radii(task, 1.0) / 4.0)
    assert scaled.step_size == 8.0 * paper.step_size
    assert scaled.dual_step_size == 2.0 * paper.dual_step_size
    assert (scaled.mixing, scaled.dual_bound) == (paper.mixing, paper.dual_bound)
    assert scaled.dual_total == paper.dual_total == math.inf
    assert (scaled.ridge, scaled.radius) == (0.5 * paper.ridge, WeissmanRadius(0.25, optimistic_init=0.75))
    assert scaled.parameters == parameters


@pytest.mark.parametrize("noisy", [False, True])
def test_practical_depends_on_neither_horizon_nor_plan_but_for_the_bound(noisy: bool):
    short, long = (task_of(H, 6, 3, 1, K, 0.05, noisy=noisy) for H, K in ((5, 10), (50, 10**6)))
    one, other = choose(short, "practical"), choose(long, "practical")
    for name in ("step_size", "dual_step_size", "mixing", "damping", "relative", "ridge", "radius", "parameters"):
        assert getattr(one, name) == getattr(other, name)
    assert one.dual_bound == other.dual_bound / 10.0
    np.testing.assert_array_equal(one.radius.radii(short, 1.0), other.radius.radii(long, 1.0)[-5:])


def test_practical_uses_the_parameters_for_noise_only_if_signals_are_random():
    task = task_of(3, 6, 3, 1, 100, 0.05)
    noisy = task_of(3, 6, 3, 1, 100, 0.05, noisy=True)
    options = {"radius_scale": 0.5, "noise_scale": 0.25, "noise_visits": 4.0, "optimistic_init": 0.75}
    calm, random = (choose(each, "practical", **options).radius for each in (task, noisy))
    assert calm == SpanRadius(0.5, 0.001, 0.0, 0.75, 1.0, 0.2, 0.1, 0.0, pools=True)
    assert random == SpanRadius(0.5, 0.001, 0.25, 0.75, 4.0, 0.2, 0.1, 0.3, pools=True)
    np.testing.assert_array_equal(2.0 * calm.radii(task, 1.0), [1.5, 1.0, 0.5])
    np.testing.assert_array_equal(2.0 * random.radii(task, 1.0), [1.75, 1.25, 0.75])


def test_practical_trusts_pooled_visits_later_if_asked():
    task = replace(task_of(3, 6, 3, 1, 100, 0.05), stationary=True, stationary_signals=True)
    assert choose(task, "practical", pooled_visits=4.0).radius.trusted_from == 4.0
    assert choose(task, "practical").radius.trusted_from == 1.0
    noisy = replace(task, noisy=True)
    assert choose(noisy, "practical", pooled_visits=4.0, noise_visits=9.0).radius.trusted_from == 9.0
    assert choose(replace(task, stationary=False), "practical", pooled_visits=4.0).radius.trusted_from == 1.0


def test_a_margin_must_be_less_than_the_slater_gap():
    task = task_of(4, 5, 3, 1, 100, 0.05, gap=0.5)
    assert choose(task, "certified", margin=0.25).dual_bound == 32.0
    with pytest.raises(InvalidParameterError, match=r"margin is 0.5; expected less than the Slater gap 0.5"):
        choose(task, "certified", margin=0.5)
    with pytest.raises(InvalidParameterError, match=r"margin is -1.0; expected a positive number"):
        choose(task, "certified", margin=-1.0)
    high = Task(2, 2, 2, np.array([1.5]), np.array([1.0, 0.0]), episodes=10)
    with pytest.raises(InvalidParameterError, match=r"margin is 0.75; expected thresholds plus margin of at most"):
        OPDOP.preset(high, Counts, "certified", dual_bound=1.0, margin=0.75)


def test_practical_has_the_defaults_it_says():
    task = task_of(5, 6, 3, 1, 4000, 0.05)
    default = choose(task, "practical")
    assert default.described(task) == choose(task, "practical", **default.parameters).described(task)
    assert set(default.parameters) == set(presets()["practical"])


def test_fixed_radius_is_the_same_at_every_stage():
    np.testing.assert_array_equal(FixedRadius(0.75).radii(task_of(3, 2, 2, 1, 10, 0.1), 1.0), [0.75] * 3)


# The dual bound


def test_a_preset_object_is_its_name_with_parameters_and_dual_bound():
    task = task_of(4, 5, 3, 1, 100, 0.05)
    preset = Preset("practical", {"radius_scale": 0.5}, dual_bound=2.0)
    constants = preset.constants(task)
    assert constants == choose(task, preset) == choose(task, "practical", radius_scale=0.5, dual_bound=2.0)
    one, two = OPDOP.preset(task, Counts, preset), find("opdop").build(task, preset)
    assert (
        one.constants
        == two.constants
        == OPDOP.preset(task, Counts, "practical", radius_scale=0.5, dual_bound=2.0).constants
    )
    with pytest.raises(InvalidParameterError, match="in the Preset, or with a preset's name"):
        OPDOP.preset(task, Counts, preset, dual_bound=1.0)


def test_a_parameter_of_continuous_states_is_refused_for_finitely_many():
    task = task_of(4, 5, 3, 1, 100, 0.05)
    with pytest.raises(InvalidParameterError, match="reevaluate_at_growth is a parameter of problems with continuous"):
        choose(task, "practical", reevaluate_at_growth=2.0)


@pytest.mark.parametrize("preset", list(presets()))
def test_a_task_without_slater_gap_and_dual_bound_is_refused_with_both_remedies(preset: str):
    unknown = task_of(4, 5, 3, 1, 100, 0.05, gap=None)
    with pytest.raises(InvalidParameterError, match=r"the Slater gap is unknown.*slater_gap=.*dual_bound="):
        choose(unknown, preset)
    assert choose(unknown, preset, dual_bound=3.5).dual_bound == 3.5


def test_a_given_dual_bound_replaces_the_slater_gaps():
    assert choose(task_of(4, 5, 3, 1, 100, 0.05, gap=0.5), "paper", dual_bound=1.25).dual_bound == 1.25


@pytest.mark.parametrize("bound", [0.0, -1.0, math.nan, math.inf])
def test_a_dual_bound_must_be_positive(bound: float):
    with pytest.raises(InvalidParameterError, match="dual_bound"):
        choose(task_of(4, 5, 3, 1, 100, 0.05), "paper", dual_bound=bound)


def tight() -> TabularCMDP:
    """Return a model in which the only policy that satisfies the constraint has no slack."""
    return TabularCMDP(np.ones((1, 2, 1)), rewards=[[0, 1]], utilities=[[1, 0]], thresholds=3, horizon=3)


def test_a_model_without_slack_asks_for_a_dual_bound():
    assert Task.of(tight(), episodes=10).slater_gap is None
    with pytest.raises(InvalidParameterError, match="Slater gap"):
        train(tight(), episodes=10)
    assert train(tight(), episodes=10, dual_bound=5.0).constants["dual_bound"] == 5.0


def test_a_task_of_a_model_knows_its_exact_slater_gap():
    # The largest utility is 4, the threshold 3.
    cmdp = TabularCMDP(np.ones((1, 2, 1)), rewards=[[0, 1]], utilities=[[1, 0]], thresholds=3, horizon=4)
    assert Task.of(cmdp, episodes=10).slater_gap == 1.0
    assert Task.of(cmdp, episodes=10, slater_gap=0.5).slater_gap == 0.5


# Names


def test_an_unknown_preset_is_answered_with_the_nearest():
    with pytest.raises(InvalidParameterError, match=r"no preset 'practicle'; there are .* Did you mean 'practical'\?"):
        choose(task_of(2, 2, 2, 1, 10, 0.05), "practicle")


def test_an_unknown_parameter_is_answered_with_the_nearest():
    with pytest.raises(InvalidParameterError, match=r"no parameter 'radius_size'.* Did you mean 'radius_scale'\?"):
        choose(task_of(2, 2, 2, 1, 10, 0.05), "practical", radius_size=1.0)
    with pytest.raises(InvalidParameterError, match="'certified' has no parameter 'radius_scale'; it has margin"):
        choose(task_of(2, 2, 2, 1, 10, 0.05), "certified", radius_scale=0.5)


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf, True, "1"])
def test_a_parameter_must_be_a_positive_number(value: Any):
    with pytest.raises(InvalidParameterError, match="radius_scale"):
        choose(task_of(2, 2, 2, 1, 10, 0.05), "practical", radius_scale=value)


def test_an_unknown_algorithm_is_answered_with_the_nearest():
    with pytest.raises(InvalidParameterError, match=r"no algorithm 'opdopp'; there are .* Did you mean 'opdop'\?"):
        find("opdopp")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"episodes": 0}, "episodes is 0"),
        ({"episodes": 2**31}, "episodes is 2147483648"),
        ({"episodes": 1.5}, "episodes is 1.5"),
        ({"episodes": True}, "episodes is True"),
        ({"failure_probability": 0.0}, "failure_probability is 0.0"),
        ({"failure_probability": 1.0}, "failure_probability is 1.0"),
        ({"failure_probability": math.nan}, "failure_probability is nan"),
        ({"slater_gap": 0.0}, "slater_gap is 0.0"),
        ({"slater_gap": -1.0}, "slater_gap is -1.0"),
        ({"slater_gap": math.inf}, "slater_gap is inf"),
    ],
)
def test_a_task_says_what_is_wrong_with_its_plan(changed: dict[str, Any], said: str):
    plan = {"episodes": 10, "failure_probability": 0.05, "slater_gap": 0.1} | changed
    with pytest.raises(InvalidParameterError, match=said):
        Task(2, 2, 2, np.array([0.5]), np.array([1.0, 0.0]), **plan)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"horizon": 0}, "horizon is 0"),
        ({"num_states": 1.0}, "num_states is 1.0"),
        ({"num_actions": -1}, "num_actions is -1"),
        ({"thresholds": []}, "thresholds have shape"),
        ({"thresholds": [[0.5]]}, "thresholds have shape"),
        ({"thresholds": [math.nan]}, "thresholds"),
        ({"initial": [1.0]}, r"initial has shape \[1\]; expected \[S\] = \[2\]"),
        ({"initial": [0.5, 0.4]}, "sums to 0.9"),
        ({"initial": [1.5, -0.5]}, "at least 0"),
    ],
)
def test_a_task_says_what_is_wrong_with_its_sizes(changed: dict[str, Any], said: str):
    sizes: dict[str, Any] = {"horizon": 2, "num_states": 2, "num_actions": 2, "thresholds": [0.5], "initial": [1, 0]}
    with pytest.raises(InvalidModelError, match=said):
        Task(**(sizes | changed), episodes=10)


def test_a_task_takes_plain_lists_and_numbers():
    task = Task(2, 2, 2, 0.5, [1, 0], episodes=10, slater_gap=0.1)
    np.testing.assert_array_equal(task.thresholds, [0.5])
    np.testing.assert_array_equal(task.initial, [1.0, 0.0])
    learner = OPDOP.preset(task, Counts, "practical")
    learner.propose()
    learner.learn(Episode(np.array([0, 1, 1]), np.array([0, 1]), np.zeros((2, 2))))
    assert learner.episodes == 1


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"step_size": -1.0}, "step_size"),
        ({"step_size": math.nan}, "step_size"),
        ({"dual_step_size": math.inf}, "dual_step_size"),
        ({"mixing": 1.5}, "mixing is 1.5; expected a number, 0 to 1"),
        ({"dual_bound": -1.0}, "dual_bound"),
    ],
)
def test_a_learner_refuses_impossible_numbers(changed: dict[str, float], said: str):
    numbers = {"step_size": 0.1, "dual_step_size": 0.1, "mixing": 0.1, "dual_bound": 1.0} | changed
    task = task_of(2, 2, 2, 1, 10, 0.05)
    with pytest.raises(InvalidParameterError, match=said):
        OPDOP(task, Counts(task), **numbers)


# Stored with every result

STORED = {
    "preset",
    "step_size",
    "dual_step_size",
    "mixing",
    "dual_bound",
    "ridge",
    "radius",
    "first_radius",
    "last_radius",
    "failure_probability",
    "planned_episodes",
    "slater_gap",
}


@pytest.mark.parametrize("algorithm", ["opdop", "oppo"])
@pytest.mark.parametrize("preset", list(presets()))
def test_every_constant_used_is_stored_with_the_run(preset: str, algorithm: str):
    cmdp = sketch_of(0, constraints=2).build()
    run = train(cmdp, algorithm, episodes=20, preset=preset, failure_probability=0.1)
    task = Task.of(cmdp, episodes=20, failure_probability=0.1)
    learner = find(algorithm).build(task, preset)
    stored = run.constants
    assert stored["preset"] == preset
    expected = STORED | set(presets()[preset]) | ({"relative"} if preset == "practical" else set())
    if preset == "certified":
        radii = {"ridge", "first_radius", "last_radius"}  # balls have none
        expected = expected - radii | {"log_sets", "signal_log_sets", "stationary", "stationary_signals"}
        expected = expected - {"margin"} if algorithm == "oppo" else expected | {"dual_total"}
        sets = BallRadius().log_sets(learner.task)
        assert (stored["log_sets"], stored["signal_log_sets"]) == sets
    else:
        assert stored["first_radius"] == learner.evaluator.radii[0]
        assert stored["last_radius"] == learner.evaluator.radii[-1]
    assert set(stored) == expected
    for name in ("step_size", "dual_step_size", "mixing", "dual_bound"):
        assert stored[name] == getattr(learner, name)
    rules = {"paper": "PaperRadius", "certified": "BallRadius", "practical": "SpanRadius", "scaled": "WeissmanRadius"}
    assert stored["radius"]["rule"] == rules[preset]
    assert (stored["failure_probability"], stored["planned_episodes"], stored["slater_gap"]) == (
        0.1,
        20,
        task.slater_gap,
    )
    assert json.loads(json.dumps(stored)) == stored


def test_oppo_has_no_multiplier_and_no_mixing():
    task = task_of(2, 2, 2, 1, 10, 0.05, gap=None)
    learner = find("oppo").build(task, "practical")
    assert isinstance(learner, OPPO)
    assert (learner.dual_step_size, learner.dual_bound, learner.mixing) == (0.0, 0.0, 0.0)
    assert learner.step_size == choose(task, "practical", dual_bound=1.0).step_size
    assert (learner.constants["dual_step_size"], learner.constants["mixing"]) == (0.0, 0.0)


def test_a_ready_evaluators_own_radius_and_ridge_are_stored():
    task = task_of(3, 2, 2, 1, 10, 0.05)
    learner = OPDOP.preset(task, Counts(task, radius=0.25, ridge=2.0), "practical")
    assert learner.constants["radius"] == {"rule": "FixedRadius", "value": 0.25}
    assert (learner.constants["first_radius"], learner.constants["ridge"]) == (0.25, 2.0)


def test_numbers_without_a_preset_are_stored_as_such():
    task = task_of(3, 2, 2, 1, 10, 0.05)
    numbers = {"step_size": 0.5, "dual_step_size": 0.25, "mixing": 0.125, "dual_bound": 2.0}
    stored = OPDOP(task, Counts(task, radius=PaperRadius(0.5)), **numbers).constants
    assert stored["preset"] == "none"
    assert {name: stored[name] for name in numbers} == numbers
    assert stored["radius"] == {"rule": "PaperRadius", "C1": 0.5}
    assert set(stored) == STORED | {"damping", "relative"}


def test_constants_are_plain_data():
    task = task_of(3, 4, 2, 1, 10, 0.05)
    described = Constants("mine", 0.1, 0.2, 0.3, 4.0, FixedRadius(1.0), 1.0, {"twist": 2.0}).described(task)
    assert described["twist"] == 2.0
    assert json.loads(json.dumps(described)) == described
