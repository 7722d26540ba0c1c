"""Runs of simulators whose model is not known: settings apply or are refused, and measures have honest names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import opdop
from opdop import Episode, InvalidParameterError, ModelSimulator, Run, Task, make, train
from opdop.cli.application import app
from opdop.runs.realised import batch_means
from opdop.runs.unknown_model import FIRST_BOUND, PATIENCE, GrowingBound


class Hidden:
    """Plays a shipped problem without saying which."""

    def __init__(self, name: str = "factored", seed: int = 0) -> None:
        self.inner = ModelSimulator(make(name).tabular(), seed=seed)

    def play(self, policy: Any) -> Episode:
        return self.inner.play(policy)

    def state(self) -> Any:
        return self.inner.state()

    def restore(self, state: Any) -> None:
        self.inner.restore(state)


def told(episodes: int = 200, **changes: Any) -> Task:
    cmdp = make("factored").tabular()
    sizes = cmdp.horizon, cmdp.num_states, cmdp.num_actions
    return Task(*sizes, cmdp.thresholds, cmdp.initial, episodes, **changes)


def test_settings_reach_a_task_that_leaves_them_open() -> None:
    run = train(Hidden(), task=told(), episodes=20, slater_gap=0.5, failure_probability=0.1, noisy=True)
    assert run.constants["slater_gap"] == 0.5
    assert run.constants["failure_probability"] == 0.1
    assert (run.config.slater_gap, run.config.failure_probability, run.config.noisy) == (0.5, 0.1, True)


@pytest.mark.parametrize(
    ("task", "given", "message"),
    [
        (
            {"slater_gap": 0.3},
            {"slater_gap": 0.5},
            "slater_gap is 0.5, and the task's is 0.3; expected it in one place",
        ),
        ({"failure_probability": 0.2}, {"failure_probability": 0.1}, "failure_probability is 0.1, and the task's is"),
        ({}, {"planned_episodes": 100}, "planned_episodes is 100, and the task plans 200; expected the same"),
        ({}, {"episodes": 300}, r"episodes is 300, but the task plans 200, .* say planned_episodes=200"),
    ],
)
def test_conflicting_settings_are_refused(task: dict[str, Any], given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        train(Hidden(), task=told(**task), **{"episodes": 20, **given})


def test_run_may_go_beyond_the_plan_if_it_says_so() -> None:
    run = train(Hidden(), task=told(episodes=10, slater_gap=0.5), episodes=15, planned_episodes=10)
    assert run.episodes[-1] == 15


def test_nothing_that_one_episode_measured_is_called_a_true_value(tmp_path: Path) -> None:
    run = train(Hidden(), task=told(), episodes=50)
    names = set(run.history.columns)
    assert {"realised_reward", "realised_utility_0", "realised_shortfall_0", "total_realised_reward"} <= names
    assert not {"reward", "utility_0", "regret", "violation", "hard_violation"} & names
    for measure in (run.regret, run.violation, run.hard_violation):
        assert measure.shape == run.episodes.shape
        assert np.isnan(measure).all()
    again = Run.load(run.save(tmp_path))
    assert again.history.equals(run.history)
    total = float(run.history["total_realised_reward"][-1])
    assert run.average.reward == pytest.approx(total / 50)


def test_unknown_slater_gap_is_a_normal_case() -> None:
    run = train(Hidden(), task=told(400), episodes=400)
    assert run.constants["dual_bound_grows"] is True
    assert run.constants["dual_bound"] >= FIRST_BOUND
    doubling = train(Hidden(), algorithm="doubling:opdop", task=told(100), episodes=100)
    assert doubling.constants["dual_bound_grows"] is True


class AtBound:
    """A learner whose multiplier is always at its bound."""

    task, constants = None, {}

    def __init__(self) -> None:
        self.dual_bound, self.dual, self.episodes = FIRST_BOUND, np.full(1, FIRST_BOUND), 0

    def learn(self, episode: Any) -> None:
        self.dual[:] = self.dual_bound
        self.episodes += 1

    def state(self) -> dict[str, Any]:
        return {"dual": self.dual.copy()}

    def restore(self, state: Any) -> None:
        assert (state["dual"] <= self.dual_bound).all()


def test_bound_doubles_after_twice_the_patience_each_time() -> None:
    learner = GrowingBound(AtBound())
    bounds = []
    for _ in range(7 * PATIENCE):
        learner.learn(None)  # type: ignore[arg-type]
        bounds.append(learner.inner.dual_bound)
    changes = 1 + np.flatnonzero(np.diff([FIRST_BOUND, *bounds]))
    assert changes.tolist() == [PATIENCE, 3 * PATIENCE, 7 * PATIENCE]
    again = GrowingBound(AtBound())
    again.restore(learner.state())
    assert (again.inner.dual_bound, again.waited, again.patience) == (8 * FIRST_BOUND, 0, 8 * PATIENCE)


def test_run_with_a_growing_bound_is_resumed_bit_for_bit(tmp_path: Path) -> None:
    whole = train(Hidden(), task=told(60), episodes=60)
    train(Hidden(), task=told(60), episodes=25, checkpoint=tmp_path)
    again = train(Hidden(), task=told(60), episodes=60, checkpoint=tmp_path)
    assert again.history.equals(whole.history)
    np.testing.assert_array_equal(again.policy.table, whole.policy.table)


def test_growing_bound_learns_as_well_as_the_known_gap() -> None:
    cmdp = make("factored").tabular()
    best = opdop.solve(cmdp)
    run = train(Hidden(), task=told(1500), episodes=1500)
    values = opdop.evaluate(cmdp, run.mixture)
    assert best.value - values.reward <= 0.1 * cmdp.horizon
    assert cmdp.thresholds[0] - values.utilities[0] <= 0.1 * cmdp.horizon


def test_summary_gives_realised_totals_with_intervals_that_contain_the_true_values(tmp_path: Path) -> None:
    cmdp = make("factored").tabular()
    run = train(
        Hidden(), opdop.OPPO.preset(told(400, slater_gap=0.5), opdop.Counts, "paper"), task=told(400), episodes=400
    )
    means, halves = batch_means(run)  # these constants hardly change the uniform policy
    true = opdop.evaluate(cmdp, run.policy).totals
    assert (np.abs(means - true) <= 2.0 * halves + 0.02 * cmdp.horizon).all()
    assert (0.0 < halves).all()
    text = run.summary()
    assert "The model is not known: these are realised totals" in text
    assert "±" in text
    assert repr(run).endswith("seed 0, model not known)")
    run.save(tmp_path / "one")
    result = CliRunner().invoke(app, ["report", str(tmp_path)])
    assert result.exit_code == 0
    assert "realised totals" in result.output


def test_summary_of_a_known_model_names_the_optimum() -> None:
    run = train("inventory", episodes=100)
    assert "dollars at the optimum" in run.summary()
    assert "<b>inventory: 100 episodes" in run._repr_html_()
