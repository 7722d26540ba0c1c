"""One list of settings: what `train` accepts is what a configuration holds, with the same defaults."""

from __future__ import annotations

import inspect
import json
from dataclasses import MISSING, fields
from typing import Any

import pytest

from opdop import InvalidParameterError, train
from opdop.runs import RunConfig, execute, settings
from tests.support.same_runs import assert_same

# What decides how a run is made, but no number of it; and the learner's task, which a known problem makes itself.
NO_SETTINGS = {"task", "checkpoint", "checkpoint_seconds", "start", "progress", "compiled", "piece"}
CHANGED: dict[str, Any] = {
    "problem": "factored",
    "problem_parameters": {"horizon": 4},
    "algorithm": "doubling:opdop-lstd",
    "preset": "paper",
    "parameters": {"C1": 0.5},
    "episodes": 30,
    "seed": 4,
    "planned_episodes": 60,
    "failure_probability": 0.1,
    "slater_gap": 0.4,
    "dual_bound": 3.0,
    "noisy": True,
    "stationary": False,
    "until": "5.5 points",
    "certificates": 3,
    "measure_every": 2,
    "records": 7,
    "evaluation_episodes": 3,
}


def test_the_settings_of_train_are_those_of_a_configuration():
    # The problem's parameters are part of the problem that `train` is given.
    taken = set(inspect.signature(train).parameters)
    assert taken - NO_SETTINGS == set(settings()) - {"problem_parameters"}
    assert taken >= NO_SETTINGS


def test_the_defaults_of_train_are_those_of_a_configuration():
    defaults = {each.name: each.default for each in fields(RunConfig)}
    for name, parameter in inspect.signature(train).parameters.items():
        if name in NO_SETTINGS or parameter.default is inspect.Parameter.empty:
            assert name in {*NO_SETTINGS, "problem", "episodes"}
        elif defaults[name] is MISSING:
            assert (name, parameter.default) == ("parameters", None)
            assert RunConfig(parameters=None).parameters == {}
        else:
            assert parameter.default == defaults[name], name


def test_the_arguments_of_execute_beside_the_configuration_have_trains_defaults():
    ours, trains = (inspect.signature(function).parameters for function in (execute, train))
    assert set(ours) == {"config", "problem", "learner", *NO_SETTINGS}
    assert {name: ours[name].default for name in NO_SETTINGS} == {name: trains[name].default for name in NO_SETTINGS}


def test_every_setting_is_changed_in_these_tests():
    assert CHANGED.keys() == settings().keys()
    assert all(getattr(RunConfig(), name) != value for name, value in CHANGED.items())


def test_a_run_has_the_configuration_that_it_was_made_with():
    config = RunConfig(**{**CHANGED, "problem_parameters": {}})
    run = execute(config)
    assert run.config.but(problem_parameters={}) == config
    given = {name: value for name, value in CHANGED.items() if name != "problem_parameters"}
    assert_same(run, train(given.pop("problem"), **given))


def test_a_configuration_survives_json():
    config = RunConfig(**CHANGED)
    assert RunConfig.of(json.loads(json.dumps(config.record()))) == config


def test_a_record_of_an_earlier_version_has_the_defaults_of_settings_added_since():
    record = RunConfig(seed=5).record()
    del record["stationary"]
    assert RunConfig.of(record) == RunConfig(seed=5)


@pytest.mark.parametrize(("value", "words"), [(None, []), (True, ["--stationary"]), (False, ["--per-stage"])])
def test_whether_a_kernel_is_stationary_is_said_by_one_of_two_flags(value: bool | None, words: list[str]):
    command = RunConfig(problem="factored", episodes=5, stationary=value).command()
    assert command[5:] == ["--episodes", "5", *words, "--certificates", "0"]


@pytest.mark.parametrize("change", [{"seed": None}, {"colour": "red"}])
def test_a_record_with_a_missing_or_an_unknown_setting_is_refused(change: dict[str, Any]):
    record = {**RunConfig().record(), **change}
    if change == {"seed": None}:
        del record["seed"]
    with pytest.raises(InvalidParameterError, match="a configuration has"):
        RunConfig.of(record)


def test_a_confidence_level_is_refused_with_a_hint():
    with pytest.raises(InvalidParameterError, match=r"failure_probability is 0\.95; .* give 0\.05"):
        train("factored", episodes=10, failure_probability=0.95)
