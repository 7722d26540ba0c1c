"""A method that a user overrides is always called: the compiled loop runs only where it does the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from opdop import LSTD, OPDOP, OPPO, Counts, Doubling, Episode, Learner, ModelSimulator, Run, TabularPolicy, Task, train
from opdop.algorithms import Estimates
from opdop.kernels import loops
from tests.support.same_runs import assert_same, bits
from tests.support.strategies import Array, sketch_of

EPISODES = 60
CMDP = sketch_of(5, constraints=2).build()
TASK = Task.of(CMDP, episodes=EPISODES, slater_gap=0.3)


class LearnsEverySecondEpisode(OPDOP):
    def learn(self, episode: Episode) -> None:
        if self.episodes % 2:
            self._proposed = None
            self.episodes += 1
        else:
            super().learn(episode)


class ProposesFirstActionMoreOften(OPDOP):
    def propose(self) -> TabularPolicy:
        table = super().propose().table.copy()
        table[..., 0] += 1.0
        return TabularPolicy(table / table.sum(axis=2, keepdims=True))


class DoublesTheEstimates(OPDOP):
    def estimated_totals(self) -> Array:
        return 2.0 * super().estimated_totals()


class ReportsOtherNumbers(OPDOP):
    def diagnostics(self) -> dict[str, float]:
        return {**super().diagnostics(), "estimated_reward": -1.0}


class HalvesCounts(Counts):
    def evaluate(self, policy: TabularPolicy) -> Estimates:
        found = super().evaluate(policy)
        return Estimates(found.q / 2.0, found.v / 2.0, found.touched)


class CountsNoSignals(Counts):
    def observe(self, episode: Episode, estimates: Estimates | None = None) -> None:
        super().observe(replace(episode, signals=0.0 * episode.signals))


class HalvesLeastSquares(LSTD):
    def evaluate(self, policy: TabularPolicy) -> Estimates:
        found = super().evaluate(policy)
        return Estimates(found.q / 2.0, found.v / 2.0, found.touched)


class DoublingThatForgets(Doubling):
    def learn(self, episode: Episode) -> None:
        super().learn(replace(episode, signals=0.0 * episode.signals))


class PlaysTheFirstAction(ModelSimulator):
    def play(self, policy: Any) -> Episode:
        H, S, A = CMDP.horizon, CMDP.num_states, CMDP.num_actions
        return super().play(TabularPolicy.deterministic(np.zeros((H, S), dtype=np.int64), A))


def doubling(build: Callable[[Task], OPDOP], kind: type[Doubling] = Doubling) -> Doubling:
    return kind(TASK, build, first=16)


def patched_learner() -> OPDOP:
    learner = OPDOP.preset(TASK, Counts, "practical")
    learn = learner.learn
    learner.learn = lambda episode: learn(replace(episode, signals=0.0 * episode.signals))  # type: ignore[method-assign]
    return learner


def patched_evaluator() -> OPDOP:
    learner = OPDOP.preset(TASK, Counts, "practical")
    learner.evaluator = CountsNoSignals(TASK)
    return learner


LEARNERS: dict[str, Callable[[], Learner]] = {
    "OPDOP.learn": lambda: LearnsEverySecondEpisode.preset(TASK, Counts, "practical"),
    "OPDOP.propose": lambda: ProposesFirstActionMoreOften.preset(TASK, Counts, "practical"),
    "OPDOP.estimated_totals": lambda: DoublesTheEstimates.preset(TASK, Counts, "practical"),
    "OPDOP.diagnostics": lambda: ReportsOtherNumbers.preset(TASK, Counts, "practical"),
    "Counts.evaluate": lambda: OPDOP.preset(TASK, HalvesCounts, "practical"),
    "Counts.observe": lambda: OPDOP.preset(TASK, CountsNoSignals, "practical"),
    "LSTD.evaluate": lambda: OPDOP.preset(TASK, HalvesLeastSquares, "practical"),
    "Doubling over OPDOP.learn": lambda: doubling(
        lambda task: LearnsEverySecondEpisode.preset(task, Counts, "practical")
    ),
    "Doubling over Counts.observe": lambda: doubling(lambda task: OPDOP.preset(task, CountsNoSignals, "practical")),
    "Doubling.learn": lambda: doubling(lambda task: OPDOP.preset(task, Counts, "practical"), DoublingThatForgets),
    "learn of one object": patched_learner,
    "evaluator of one object": patched_evaluator,
}
PLAIN: dict[str, Callable[[], Learner]] = {
    "OPDOP with counts": lambda: OPDOP.preset(TASK, Counts, "practical"),
    "OPDOP with least squares": lambda: OPDOP.preset(TASK, LSTD, "practical"),
    "OPPO": lambda: OPPO.preset(TASK, Counts, "practical"),
    "Doubling": lambda: doubling(lambda task: OPDOP.preset(task, Counts, "practical")),
}


class Named(OPDOP):
    """A subclass that adds a method and overrides none that the loop replaces."""

    def name(self) -> str:
        return "mine"


@pytest.fixture
def loop_calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The episodes of every call of the compiled loop."""
    calls: list[int] = []
    original = loops.run_episodes

    def counted(*arguments: Any) -> int:
        calls.append(int(original(*arguments)))
        return calls[-1]

    monkeypatch.setattr(loops, "run_episodes", counted)
    return calls


def run_of(learner: Learner, **options: Any) -> Run:
    return train(CMDP, learner, episodes=EPISODES, seed=3, slater_gap=0.3, **options)


@pytest.mark.parametrize("make", LEARNERS.values(), ids=LEARNERS)
def test_an_overridden_method_of_a_learner_is_called(make: Callable[[], Learner], loop_calls: list[int]):
    assert_same(run_of(make()), run_of(make(), compiled=False))
    assert loop_calls == []


@pytest.mark.parametrize("name", [name for name in LEARNERS if "LSTD" not in name and "Doubling" not in name])
def test_the_overridden_methods_of_these_tests_change_the_run(name: str):
    # Otherwise the test above would pass for a loop that ignores them.
    plain, other = run_of(PLAIN["OPDOP with counts"]()), run_of(LEARNERS[name]())
    assert bits(plain.history.to_numpy()) != bits(other.history.to_numpy())


@pytest.mark.parametrize("make", PLAIN.values(), ids=PLAIN)
def test_a_learner_without_overridden_methods_runs_compiled(make: Callable[[], Learner], loop_calls: list[int]):
    run_of(make())
    assert sum(loop_calls) == EPISODES


def test_a_subclass_that_overrides_nothing_of_the_loop_runs_compiled(loop_calls: list[int]):
    run_of(Named.preset(TASK, Counts, "practical"))
    assert sum(loop_calls) == EPISODES


@pytest.mark.parametrize("method", ["learn", "propose"])
def test_a_method_replaced_in_the_class_is_called(method: str, loop_calls: list[int], monkeypatch: pytest.MonkeyPatch):
    original = getattr(OPDOP, method)
    calls: list[int] = []

    def counted(self: OPDOP, *arguments: Any) -> Any:
        calls.append(1)
        return original(self, *arguments)

    monkeypatch.setattr(OPDOP, method, counted)
    run_of(OPDOP.preset(TASK, Counts, "practical"))
    assert len(calls) == EPISODES
    assert loop_calls == []


def test_an_overridden_play_of_a_simulator_is_called(loop_calls: list[int]):
    def run(**options: Any) -> Run:
        return train(PlaysTheFirstAction(CMDP, seed=1), episodes=EPISODES, slater_gap=0.3, **options)

    assert_same(run(), run(compiled=False))
    assert loop_calls == []
    plain = train(ModelSimulator(CMDP, seed=1), episodes=EPISODES, slater_gap=0.3)
    assert sum(loop_calls) == EPISODES
    assert bits(plain.history.to_numpy()) != bits(run().history.to_numpy())


def test_a_play_replaced_on_one_simulator_is_called(loop_calls: list[int]):
    simulator, played = ModelSimulator(CMDP, seed=1), []
    play = simulator.play
    simulator.play = lambda policy: played.append(policy) or play(policy)  # type: ignore[method-assign, func-returns-value]
    train(simulator, episodes=EPISODES, slater_gap=0.3)
    assert len(played) == EPISODES
    assert loop_calls == []


def test_an_evaluator_with_an_overridden_evaluate_continues_from_a_snapshot():
    def run(**options: Any) -> Run:
        return train(CMDP, LEARNERS["Counts.evaluate"](), planned_episodes=EPISODES, seed=3, slater_gap=0.3, **options)

    part = run(episodes=25)
    assert_same(run(episodes=EPISODES), run(episodes=EPISODES - 25, start=part))


def test_a_doubling_whose_phases_do_not_all_run_compiled_says_so():
    def build(task: Task) -> OPDOP:
        kind = OPDOP if task.episodes == 16 else LearnsEverySecondEpisode
        return kind.preset(task, Counts, "practical")

    with pytest.raises(Exception, match="must return learners that all run in the compiled loop, or none"):
        run_of(doubling(build))


def test_doubling_works_over_a_learner_that_is_nothing_but_the_protocol():
    class Uniform:
        def propose(self) -> TabularPolicy:
            return TabularPolicy.uniform(CMDP.horizon, CMDP.num_states, CMDP.num_actions)

        def learn(self, episode: Episode) -> None:
            pass

        def diagnostics(self) -> dict[str, float]:
            return {}

        def state(self) -> dict[str, Any]:
            return {}

        def restore(self, state: Any) -> None:
            pass

    run = run_of(doubling(lambda task: Uniform()))  # type: ignore[arg-type, return-value]
    assert dict(run.constants) == {"doubling_phase": 2, "doubling_first": 16}
    np.testing.assert_array_equal(run.policy.table, 1.0 / CMDP.num_actions)
