"""Evaluation episodes, averages of realised totals, and simulators whose random state cannot be saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import opdop
from opdop import Episode, InvalidParameterError, ModelSimulator, Run, Task, make, train
from opdop.runs.realised import batch_means, moving_averages
from tests.support.bakery import make_bakery
from tests.support.same_runs import same


class Reseeded:
    """Plays a shipped problem without saying which; its stream can be begun anew, but not saved."""

    def __init__(self) -> None:
        self.reseed(0)

    def reseed(self, seed: int) -> None:
        self.inner = ModelSimulator(make("factored").tabular(), seed=seed)

    def play(self, policy: Any) -> Episode:
        return self.inner.play(policy)


def told(episodes: int = 60) -> Task:
    cmdp = make("factored").tabular()
    return Task(cmdp.horizon, cmdp.num_states, cmdp.num_actions, cmdp.thresholds, cmdp.initial, episodes)


def test_evaluation_contains_the_true_values_of_the_policy() -> None:
    cmdp = make("inventory").tabular()
    for seed in range(5):
        run = train("inventory", episodes=100, seed=seed)
        found = run.evaluate_episodes(400, seed=seed)
        true = opdop.evaluate(cmdp, run.policy).totals
        assert (found.lower <= true).all()
        assert (true <= found.upper).all()
        assert (found.lower <= found.means).all()
        assert (found.means <= found.upper).all()
    mean, low, high = found.interval(1)
    assert low <= mean <= high
    assert f"orders and storage <= 66.5 dollars: {mean:,.0f}"[:36] in found.text
    assert "400 fresh episodes of the final policy" in str(found)


@pytest.mark.parametrize("kind", ["final", "average", "recommended"])
def test_every_policy_of_a_run_without_a_model_can_be_evaluated(kind: str) -> None:
    run = train(make_bakery(), episodes=50)
    found = run.evaluate_episodes(30, kind)
    assert found.name == kind
    assert found.lines[1].startswith("flour <= 25 dollars: ")
    again = run.evaluate_episodes(30, kind)
    assert np.array_equal(found.means, again.means)
    if kind != "recommended":  # which bakes nothing for certain after so few episodes
        assert not np.array_equal(found.means, run.evaluate_episodes(30, kind, seed=1).means)


def test_evaluation_of_train_is_saved_with_the_run(tmp_path: Path) -> None:
    run = train(make_bakery(), episodes=40, evaluation_episodes=25)
    assert run.evaluation is not None
    again = Run.load(run.save(tmp_path))
    assert again.evaluation is not None
    assert again.evaluation.record() == run.evaluation.record()
    assert again.evaluation.lines == run.evaluation.lines
    assert run.evaluation.lead in run.summary()
    with pytest.raises(InvalidParameterError, match="which is not saved with it; expected simulator="):
        again.evaluate_episodes(10)
    assert np.array_equal(again.evaluate_episodes(25, simulator=make_bakery()).means, run.evaluation.means)


def test_evaluation_does_not_change_the_episodes_that_follow(tmp_path: Path) -> None:
    whole = train(make_bakery(), episodes=40)
    half = train(make_bakery(), episodes=20, planned_episodes=40, evaluation_episodes=5)
    half.evaluate_episodes(7)
    rest = train(half.simulator, episodes=20, planned_episodes=40, evaluation_episodes=5, start=half)
    assert rest.history.equals(whole.history)


def test_policy_of_a_continuous_run_is_evaluated_as_it_acts() -> None:
    run = train("reservoir", episodes=3, evaluation_episodes=5)
    assert run.evaluation is not None
    assert run.evaluation.episodes == 5
    assert "thousand EUR" in run.evaluation.text


def test_simulator_that_only_reseeds_is_resumed_deterministically_and_the_run_says_so(tmp_path: Path) -> None:
    def resumed(folder: Path) -> Run:
        train(Reseeded(), task=told(), episodes=25, checkpoint=folder)
        return train(Reseeded(), task=told(), episodes=60, checkpoint=folder)

    one, two = resumed(tmp_path / "one"), resumed(tmp_path / "two")
    assert one.history.equals(two.history)
    whole = train(Reseeded(), task=told(), episodes=60)
    assert whole.history.head(25).equals(one.history.head(25))  # what was saved is bit for bit the same
    assert not whole.history.equals(one.history)
    assert one.origin["resumed"] == [25]
    assert "Resumed after episode 25" in one.summary()
    assert "random stream began anew" in one.summary()
    assert "Resumed" not in whole.summary()
    assert same(Run.load(one.save(tmp_path / "saved")).history, one.history)


def test_moving_averages_follow_the_totals() -> None:
    run = train(Reseeded(), task=told(400), episodes=400)
    found = moving_averages(run)
    totals = run.history["realised_reward"].to_numpy()
    last = found.means[0, -1]
    assert last == pytest.approx(totals[320:].mean(), rel=1e-9)
    assert found.episodes[0] == 1
    assert found.means[0, 0] == totals[0]
    assert np.isnan(found.halves[:, 0]).all()
    assert (found.halves[:, -1] > 0.0).all()
    means, halves = batch_means(run)
    assert means[0] == pytest.approx(totals[200:].mean(), rel=1e-9)
    assert (halves < found.halves[:, -1] * 5).all()


def test_interval_of_realised_totals_covers_the_mean_of_a_fixed_policy() -> None:
    """A learner that plays one policy: 95 % intervals of its mean are right in at least 33 of 40 seeds."""

    cmdp = make("factored").tabular()
    uniform = opdop.TabularPolicy.uniform(cmdp.horizon, cmdp.num_states, cmdp.num_actions)

    class Fixed:
        def propose(self) -> Any:
            return uniform

        def learn(self, episode: Any) -> None: ...

        def diagnostics(self) -> dict[str, float]:
            return {}

        def state(self) -> dict[str, Any]:
            return {}

        def restore(self, state: Any) -> None: ...

    true = opdop.evaluate(cmdp, uniform).totals
    right = 0
    for seed in range(40):
        run = train(Reseeded(), Fixed(), task=told(200), episodes=200, seed=seed)
        means, halves = batch_means(run)
        right += bool(abs(means[0] - true[0]) <= halves[0])
    assert right >= 33
