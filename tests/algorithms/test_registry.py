"""Every algorithm in the registry does what every algorithm must do."""

import numpy as np
import pytest

import opdop
from opdop.algorithms import Algorithm, Preset, Task, find
from opdop.algorithms.constants import ALGORITHM_1
from opdop.algorithms.preset_makers import Presets
from opdop.algorithms.registry import algorithm
from opdop.runs import train

NAMES = sorted(opdop.algorithms())
PROBLEMS = {"one constraint": ("random-tabular", {}), "linear": ("random-mixture", {"states": 6, "stages": 3})}


def problem(kind: str) -> opdop.TabularCMDP:
    name, parameters = PROBLEMS[kind]
    return opdop.make(name, **parameters)


# What every learner must do is checked in tests/testing/test_check_learner.py.


@pytest.mark.parametrize("name", NAMES)
def test_another_seed_gives_another_run(name: str):
    cmdp = problem("one constraint")
    runs = [train(cmdp, name, episodes=60, seed=seed) for seed in (1, 2)]
    learnt = [run.snapshot[1] for run in runs if run.snapshot is not None]
    assert any(not np.array_equal(learnt[0][key], learnt[1][key]) for key in learnt[0] if key.startswith("learner."))


@pytest.mark.parametrize(("name", "preset"), [(name, preset) for name in NAMES for preset in find(name).presets.makes])
def test_every_preset_is_printed_and_stored_with_its_numbers(name: str, preset: str):
    constants = train(problem("one constraint"), name, episodes=3, preset=preset).constants
    assert constants["preset"] == preset
    assert find(name).presets.summary(preset)
    for parameter, value in find(name).presets.parameters(preset).items():
        assert constants.get(parameter, value) == value
    for number in ("failure_probability", "planned_episodes", "slater_gap"):
        assert np.isfinite(constants[number]), number
    if find(name).presets is ALGORITHM_1:
        steps = "step_size", "dual_step_size", "mixing", "dual_bound"
        balls = constants["radius"]["rule"] == "BallRadius"
        own = ("log_sets", "signal_log_sets") if balls else ("ridge", "first_radius", "last_radius")
        for number in (*steps, *own):
            assert np.isfinite(constants[number]), number


def test_two_algorithms_of_one_name_are_an_error():
    def build(task, preset):
        raise AssertionError

    build.__module__ = "somewhere.else"
    with pytest.raises(opdop.InvalidParameterError, match="two algorithms named 'opdop'"):
        algorithm("opdop", summary="another")(build)


def test_a_misspelt_algorithm_is_answered_with_a_suggestion():
    with pytest.raises(opdop.InvalidParameterError, match="Did you mean 'opdop-lstd'"):
        find("opdop-lsdt")


def test_a_given_simulator_plays_on_with_its_own_stream():
    cmdp = problem("one constraint")
    seeded = [train(opdop.ModelSimulator(cmdp, seed=seed), episodes=30).history for seed in (7, 7, 8)]
    assert seeded[0].equals(seeded[1])
    assert seeded[0].equals(train(cmdp, episodes=30, seed=7).history)
    assert not seeded[0].equals(seeded[2])


# Presets of their own


def _own(task: Task, dual_bound: float | None, width: float = 2.0, spare: float = 0.0) -> dict[str, object]:
    """Where the numbers come from.

    More about them.
    """
    return {"width": width, "spare": spare, "dual_bound": dual_bound, "horizon": task.horizon}


def test_an_algorithm_may_have_presets_and_parameters_of_its_own():
    own = Algorithm("mine", "a summary", lambda task, preset: preset.constants(task), Presets("mine", {"wide": _own}))
    task = Task.of(problem("linear"), episodes=5)
    assert own.build(task, "wide") == {"width": 2.0, "spare": 0.0, "dual_bound": None, "horizon": 3}
    assert own.build(task, own.preset("wide", {"width": 3.0, "spare": 0.0}, 7.0))["dual_bound"] == 7.0
    assert own.presets.parameters("wide") == {"width": 2.0, "spare": 0.0}
    assert own.presets.summary("wide") == "Where the numbers come from"
    for name, parameters, said in (
        ("practical", {}, "`mine` has no preset 'practical'; it has wide"),
        ("wide", {"wdth": 1.0}, "'wide' of `mine` has no parameter 'wdth'; it has width, spare. Did you mean 'width'"),
        ("wide", {"width": 0.0}, "width is 0.0; expected a positive number"),
        ("wide", {"width": "much"}, "width is 'much'; expected a positive number"),
        ("wide", [1.0], "parameters are"),
    ):
        with pytest.raises(opdop.InvalidParameterError, match=said):
            own.preset(name, parameters)
    with pytest.raises(opdop.InvalidParameterError, match="`mine` has no preset 'paper'"):
        own.build(task, Preset("paper"))  # of Algorithm 1


def test_doubling_has_the_presets_of_its_algorithm():
    assert find("doubling:replan").presets is find("replan").presets
    with pytest.raises(opdop.InvalidParameterError, match="`replan` has no preset 'paper'"):
        train(problem("linear"), "doubling:replan", episodes=5, preset="paper")
