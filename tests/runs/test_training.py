"""A run is the same, bit for bit, however it is played; what it reports is exact."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from numpy.typing import NDArray

import opdop
from opdop import (
    OPDOP,
    Counts,
    Doubling,
    Episode,
    InvalidParameterError,
    LinearCMDP,
    ModelSimulator,
    Policy,
    PolicyMixture,
    Run,
    TabularCMDP,
    TabularPolicy,
    Task,
    evaluate,
    train,
)
from opdop.algorithms import counts as counts_module
from opdop.kernels.counts import CountTable
from opdop.runs.trainer import next_size
from tests.support.plain_learner import random_episodes
from tests.support.same_runs import assert_same, bits
from tests.support.strategies import FORMS, Array, Sketch, evaluate_plainly, sketch_of, sketches, totals_plainly


@dataclass(frozen=True)
class Case:
    """A problem and the way to train on it."""

    name: str
    model: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    episodes: int = 150
    table_up_to: int | None = None  # None: as shipped
    table_from_share: int | None = None

    def build(self, patch: pytest.MonkeyPatch) -> TabularCMDP:
        if self.table_up_to is not None:
            patch.setattr(counts_module, "TABLE_UP_TO", self.table_up_to)
        if self.table_from_share is not None:
            patch.setattr(counts_module, "TABLE_FROM_SHARE", self.table_from_share)
        patch.setattr(Doubling.__init__, "__kwdefaults__", {"first": 32})
        return sketch_of(5, **self.model).build()

    def train(self, patch: pytest.MonkeyPatch, **changes: Any) -> Run:
        cmdp = self.build(patch)
        return train(cmdp, **{"slater_gap": 0.3, "episodes": self.episodes, "seed": 3, **self.options, **changes})


ALL_AT_ONCE = {"constraints": 3, "form": "sparse per stage", "first_state": "random", "kernel": "few successors"}
CASES = [
    Case("plain"),
    Case("three constraints", {"constraints": 3}),
    Case("two constraints, odd sizes", {"constraints": 2, "states": 7, "actions": 5, "horizon": 3}),
    *(Case(form, {"form": form}) for form in FORMS[1:]),
    Case("random first state", {"first_state": "random"}),
    Case("noisy", options={"noisy": True}),
    Case("oppo", options={"algorithm": "oppo"}),
    Case("doubling", options={"algorithm": "doubling:opdop"}),
    Case("doubling oppo, noisy", options={"algorithm": "doubling:oppo", "noisy": True}),
    Case("certified", options={"preset": "certified"}),
    Case("every third measured", options={"measure_every": 3}),
    Case("few records", options={"records": 5}),
    Case("past the plan", options={"planned_episodes": 40, "records": 10}),
    Case("lists for ever", {"states": 6}, table_up_to=0, table_from_share=1),
    Case("lists, then a table", {"states": 6}, table_up_to=0, table_from_share=10),
    Case("a table from the first episode on", table_up_to=0, table_from_share=10**6),
    Case("40 states", {"states": 40, "form": "sparse stationary", "kernel": "few successors"}),
    Case("130 states, few of them reached", {"states": 130, "kernel": "unreachable", "form": "sparse stationary"}),
    Case("all at once", ALL_AT_ONCE, {"noisy": True, "measure_every": 3}),
    Case(
        "all at once, doubling, lists, then a table",
        ALL_AT_ONCE,
        {"noisy": True, "measure_every": 3, "algorithm": "doubling:opdop"},
        table_up_to=0,
        table_from_share=8,
    ),
]
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


# The same run, however it is played


@every_case
def test_step_by_step_and_compiled_are_the_same_run(case: Case, monkeypatch: pytest.MonkeyPatch):
    assert_same(case.train(monkeypatch), case.train(monkeypatch, compiled=False))


@every_case
@pytest.mark.parametrize("piece", [1, 7, 1000])
def test_pieces_of_any_size_make_the_same_run(case: Case, piece: int, monkeypatch: pytest.MonkeyPatch):
    assert_same(case.train(monkeypatch), case.train(monkeypatch, piece=piece))


@every_case
@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "step by step"])
def test_training_on_is_training_longer(case: Case, compiled: bool, monkeypatch: pytest.MonkeyPatch):
    options = {"planned_episodes": case.options.get("planned_episodes", case.episodes)}
    whole = case.train(monkeypatch, **options)
    part = case.train(monkeypatch, episodes=61, **options)
    snapshot = {name: bits(array) for name, array in part.snapshot[1].items()}
    rest = case.train(monkeypatch, episodes=case.episodes - 61, start=part, compiled=compiled, **options)
    assert_same(whole, rest)
    assert {name: bits(array) for name, array in part.snapshot[1].items()} == snapshot  # training on changes nothing


def test_the_cases_do_what_their_names_say(monkeypatch: pytest.MonkeyPatch):
    by_name = {case.name: case for case in CASES}

    def is_table(name: str, episodes: int) -> bool:
        with monkeypatch.context() as patch:
            cmdp = by_name[name].build(patch)
            learner = OPDOP.preset(Task.of(cmdp, episodes=150, slater_gap=0.3), Counts, "practical")
            train(cmdp, learner, episodes=episodes, seed=3, slater_gap=0.3)
        return isinstance(learner.evaluator.arrays, CountTable)

    assert is_table("plain", 1)
    assert not is_table("lists for ever", 150)
    assert not is_table("lists, then a table", 5)
    assert is_table("lists, then a table", 150)
    assert is_table("a table from the first episode on", 1)
    assert not is_table("40 states", 1)
    with monkeypatch.context() as patch:
        run = by_name["doubling"].train(patch)
    assert run.constants["doubling_phase"] == 2  # 32 + 64 + 54
    assert len(by_name["few records"].train(monkeypatch).history) == 5
    assert int(by_name["past the plan"].train(monkeypatch).episodes[-1]) == 150


@settings(max_examples=25)
@given(sketches())
def test_any_model_gives_the_same_run_step_by_step_and_compiled(sketch: Sketch):
    cmdp = sketch.build()
    options: dict[str, Any] = {"episodes": 25, "slater_gap": 0.3, "seed": 1, "preset": "practical"}
    assert_same(train(cmdp, **options), train(cmdp, compiled=False, **options))


def test_the_same_seed_gives_the_same_bits_and_another_does_not():
    cmdp = sketch_of(1).build()
    one, two, other = (train(cmdp, episodes=300, seed=seed) for seed in (4, 4, 5))
    assert_same(one, two)
    assert bits(one.policy.table) != bits(other.policy.table)
    assert bits(one.history["reward"].to_numpy()) != bits(other.history["reward"].to_numpy())


@pytest.mark.parametrize("noisy", [False, True])
def test_a_loop_of_ones_own_gives_the_same_policies(noisy: bool):
    cmdp = sketch_of(2, constraints=2, first_state="random").build()
    runs = [train(cmdp, episodes=k, planned_episodes=60, seed=9, noisy=noisy) for k in (1, 2, 17, 60)]
    learner = OPDOP.preset(Task.of(cmdp, episodes=60, noisy=noisy), Counts, "practical")
    simulator = ModelSimulator(cmdp, seed=9, noisy=noisy)
    tables = []
    for _ in range(60):
        policy = learner.propose()
        tables.append(policy.table)
        learner.learn(simulator.play(policy))
    for k, run in zip((1, 2, 17, 60), runs, strict=True):
        assert bits(run.policy.table) == bits(tables[k - 1])
    assert runs[-1].constants == learner.constants


def test_a_ready_learner_plays_the_same_compiled_and_step_by_step():
    # Even if it was asked for a policy before, and its evaluator has seen episodes of which the learner knows nothing.
    cmdp = sketch_of(2).build()
    task = Task.of(cmdp, episodes=60)

    def ready() -> OPDOP:
        counts = Counts(task, radius=0.2, ridge=0.4)
        for episode in random_episodes(0, 5, (cmdp.horizon, cmdp.num_states, cmdp.num_actions, 1)):
            counts.evaluate(TabularPolicy.uniform(cmdp.horizon, cmdp.num_states, cmdp.num_actions))
            counts.observe(episode)
        learner = OPDOP(task, counts, step_size=0.3, dual_step_size=0.3, mixing=0.1, dual_bound=5.0)
        learner.propose()
        return learner

    one, two = (train(cmdp, ready(), episodes=60, compiled=compiled) for compiled in (True, False))
    assert_same(one, two)
    assert one.config.preset is None
    assert one.constants["preset"] == "none"
    first = train(cmdp, ready(), episodes=1)
    np.testing.assert_array_equal(first.policy.table, 1.0 / cmdp.num_actions)


def test_a_learner_goes_on_by_hand_where_the_compiled_loop_stopped():
    cmdp = sketch_of(2).build()
    task = Task.of(cmdp, episodes=100)
    compiled, by_hand = (OPDOP.preset(task, Counts, "practical") for _ in range(2))
    compiled.propose()  # must not be proposed again after the loop
    run = train(cmdp, compiled, episodes=50, planned_episodes=100, seed=1)
    simulator = ModelSimulator(cmdp, seed=1)
    for _ in range(50):
        by_hand.learn(simulator.play(by_hand.propose()))
    assert bits(compiled.policy) == bits(run.policy.table) == bits(by_hand.policy)
    assert bits(compiled.propose().table) == bits(by_hand.propose().table)


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "step by step"])
def test_a_checkpoint_goes_on_bitwise(compiled: bool, tmp_path: Path):
    cmdp = sketch_of(2, constraints=2).build()
    options: dict[str, Any] = {"planned_episodes": 90, "seed": 2, "compiled": compiled}
    train(cmdp, episodes=40, checkpoint=tmp_path, **options)
    assert_same(train(cmdp, episodes=90, checkpoint=tmp_path, **options), train(cmdp, episodes=90, **options))
    # Nothing is left to do: the result is there at once, and the same.
    assert_same(train(cmdp, episodes=90, checkpoint=tmp_path, **options), train(cmdp, episodes=90, **options))


def test_training_on_with_other_arguments_is_refused():
    cmdp = sketch_of(2).build()
    run = train(cmdp, episodes=10, planned_episodes=20)
    with pytest.raises(InvalidParameterError, match="its seed is 0, and now it is 1"):
        train(cmdp, episodes=10, planned_episodes=20, seed=1, start=run)
    with pytest.raises(InvalidParameterError, match="of another run"):
        train(sketch_of(3).build(), episodes=10, planned_episodes=20, start=run)


# What a run reports


def replay(sketch: Sketch, episodes: int, seed: int, **options: Any) -> tuple[Array, list[Array], OPDOP]:
    """Return the true totals [K, 1+I] of all policies by plain NumPy, the policies and the learner."""
    cmdp = sketch.build()
    learner = OPDOP.preset(Task.of(cmdp, episodes=episodes, **options), Counts, "practical")
    simulator = ModelSimulator(cmdp, seed=seed, noisy=options.get("noisy", False))
    totals, tables = [], []
    for _ in range(episodes):
        policy = learner.propose()
        tables.append(policy.table)
        totals.append(totals_plainly(sketch, policy.table))
        learner.learn(simulator.play(policy))
    return np.array(totals), tables, learner


SKETCHES = {
    "plain": {},
    "three constraints, random first state": {"constraints": 3, "first_state": "random"},
    "sparse, some states never reached": {"form": "sparse stationary", "kernel": "unreachable", "states": 8},
}


@pytest.mark.parametrize("kinds", SKETCHES.values(), ids=SKETCHES)
@pytest.mark.parametrize("noisy", [False, True])
def test_a_run_reports_the_true_values_of_every_policy(kinds: dict[str, Any], noisy: bool):
    sketch = sketch_of(11, **kinds)
    episodes = 120
    totals, tables, learner = replay(sketch, episodes, seed=6, slater_gap=0.3, noisy=noisy)
    cmdp = sketch.build()
    run = train(cmdp, episodes=episodes, seed=6, slater_gap=0.3, noisy=noisy)
    best = opdop.solve(cmdp).value
    I = len(sketch.thresholds)

    history = run.history
    np.testing.assert_array_equal(history["episode"], np.arange(1, episodes + 1))
    exact = {"rtol": 0, "atol": 1e-10}
    np.testing.assert_allclose(history["reward"], totals[:, 0], **exact)
    np.testing.assert_allclose(history["total_reward"], totals[:, 0].cumsum(), **exact)
    np.testing.assert_allclose(run.regret, (best - totals[:, 0]).cumsum(), **exact)
    shortfalls = sketch.thresholds - totals[:, 1:]
    for i in range(I):
        np.testing.assert_allclose(history[f"utility_{i}"], totals[:, 1 + i], **exact)
        np.testing.assert_allclose(history[f"shortfall_{i}"], shortfalls[:, i].cumsum(), **exact)
    np.testing.assert_allclose(run.violation, np.maximum(shortfalls.cumsum(axis=0).max(axis=1), 0.0), **exact)
    np.testing.assert_allclose(run.hard_violation, np.maximum(shortfalls.max(axis=1), 0.0).cumsum(), **exact)
    estimated = learner.diagnostics()
    for name in ("estimated_reward", *(f"estimated_utility_{i}" for i in range(I)), *(f"dual_{i}" for i in range(I))):
        assert history[name][-1] == estimated[name]

    np.testing.assert_allclose(run.average.totals, totals.mean(axis=0), rtol=0, atol=1e-12)
    assert bits(run.policy.table) == bits(tables[-1])
    assert bits(run.last.totals) == bits(evaluate(cmdp, run.policy).totals)
    np.testing.assert_allclose(run.last.totals, totals[-1], rtol=0, atol=1e-12)


@settings(max_examples=20)
@given(sketches(states=(1, 5)))
def test_the_mixture_has_the_average_values_and_occupancy_of_all_policies(sketch: Sketch):
    cmdp = sketch.build()
    run = train(cmdp, episodes=60, seed=8, slater_gap=0.3)
    np.testing.assert_allclose(evaluate(cmdp, run.mixture).totals, run.average.totals, rtol=0, atol=1e-9)
    np.testing.assert_allclose(totals_plainly(sketch, run.mixture.table), run.average.totals, rtol=0, atol=1e-9)
    totals, _, _ = replay(sketch, 60, seed=8, slater_gap=0.3)
    np.testing.assert_allclose(run.average.totals, totals.mean(axis=0), rtol=0, atol=1e-12)


def test_the_mixture_has_the_average_values_after_many_episodes():
    cmdp = opdop.make("media-streaming")
    run = train(cmdp, episodes=30_000)
    np.testing.assert_allclose(evaluate(cmdp, run.mixture).totals, run.average.totals, rtol=0, atol=1e-9)


@pytest.mark.parametrize("records", [2, 10, 1000])
def test_sums_include_all_episodes_however_few_are_kept(records: int):
    cmdp = sketch_of(1, constraints=2).build()
    run, full = (train(cmdp, episodes=500, records=r) for r in (records, 2000))
    assert run.episodes[-1] == full.episodes[-1] == 500
    assert len(full.history) == 500
    assert len(run.history) == min(records, 500)
    expected = full.history.filter(pl.col("episode").is_in(run.history["episode"].to_list()))
    assert run.history.equals(expected)
    assert bits(run.average.totals) == bits(full.average.totals)


def test_measuring_every_third_episode_holds_its_values():
    cmdp = sketch_of(1, constraints=2).build()
    run, full = (train(cmdp, episodes=200, records=2000, measure_every=n) for n in (3, 1))
    assert bits(run.policy.table) == bits(full.policy.table)  # measuring changes nothing that is learnt
    held = np.arange(200) // 3 * 3
    for name in ("reward", "utility_0", "utility_1"):
        assert bits(run.history[name].to_numpy()) == bits(full.history[name].to_numpy()[held])
    for name in ("estimated_reward", "dual_0", "dual_1"):
        assert bits(run.history[name].to_numpy()) == bits(full.history[name].to_numpy())
    np.testing.assert_allclose(run.history["total_reward"], full.history["reward"].to_numpy()[held].cumsum())


def test_pieces_grow_with_speed_and_do_not_keep_anybody_waiting():
    def after(seconds: float, rounds: int = 20) -> int:
        size = 1
        for _ in range(rounds):
            size = next_size(size, seconds)
        return size

    assert [after(1e-6, rounds) for rounds in (0, 1, 2, 3)] == [1, 8, 64, 512]
    assert after(1e-6) == 2**16
    assert after(1e-3) == 100  # a tenth of a second
    assert after(0.05) == after(0.25) == 8  # as many as are measured together, in at most two seconds
    assert after(0.5) == 4
    assert after(60.0) == 1


def test_progress_is_told_between_pieces():
    heard = []
    run = train("factored", episodes=100, piece=30, progress=heard.append)
    assert [told.episode for told in heard] == [30, 60, 90, 100]
    assert {told.episodes for told in heard} == {100}
    assert heard[-1].regret == run.regret[-1]
    assert heard[-1].violation == run.violation[-1]
    assert heard[-1].hard_violation == run.hard_violation[-1]
    assert heard[-1].dual[0] == run.history["dual_0"][-1]


def test_a_linear_model_is_trained_on_as_its_table_with_features():
    features = opdop.model.features.one_hot(2, 2)
    kernel = np.array([0.5, 0.5, 0.1, 0.9, 0.3, 0.7, 0.8, 0.2])
    linear = LinearCMDP(features, kernel, [0.2, 0.9, 0.4, 0.6], [0.8, 0.1, 0.5, 0.7], 1.2, horizon=3)
    for algorithm in ("opdop", "opdop-lstd"):
        assert_same(train(linear, algorithm, episodes=30), train(linear.tabular(), algorithm, episodes=30))


def test_a_run_has_the_settings_that_it_was_given():
    run = train("factored", "oppo", episodes=20, seed=7, preset="paper", parameters={"C1": 0.5}, noisy=True)
    asked = run.config
    assert (asked.problem, asked.algorithm, asked.preset) == ("factored", "oppo", "paper")
    assert (asked.episodes, asked.seed, asked.noisy, asked.parameters) == (20, 7, True, {"C1": 0.5})
    assert run.constants["C1"] == 0.5


# Learners and simulators of one's own


class Box:
    """A simulator that shows nothing of its model."""

    def __init__(self, cmdp: TabularCMDP, seed: int) -> None:
        self._inner = ModelSimulator(cmdp, seed=seed)
        self.seen: list[Array] = []

    def play(self, policy: Policy) -> Episode:
        episode = self._inner.play(policy)
        self.seen.append(episode.signals.sum(axis=1))
        return episode


class OpenBox(Box):
    """One whose state can be saved."""

    def state(self) -> Any:
        return self._inner.generator.bit_generator.state

    def restore(self, state: Any) -> None:
        self._inner.generator.bit_generator.state = state


def test_a_simulator_without_a_model_is_learnt_from_and_its_totals_recorded():
    cmdp = sketch_of(4, constraints=2, first_state="random").build()
    box, task = Box(cmdp, seed=5), Task.of(cmdp, episodes=200)
    run = train(box, task=task, episodes=200, records=1000)
    known = train(cmdp, episodes=200, seed=5)
    assert bits(run.policy.table) == bits(known.policy.table)  # it learns what it would learn from the model
    assert run.constants == known.constants

    totals = np.array(box.seen)
    np.testing.assert_array_equal(run.history["realised_reward"], totals[:, 0])
    np.testing.assert_array_equal(run.history["realised_utility_1"], totals[:, 2])
    np.testing.assert_allclose(run.average.totals, totals.mean(axis=0), rtol=1e-13)
    shortfalls = (cmdp.thresholds[0] - totals[:, 1]).cumsum()
    np.testing.assert_allclose(run.history["realised_shortfall_0"], shortfalls, atol=1e-11)
    assert np.isnan(run.regret).all()
    assert np.isnan(run.violation).all()
    assert run.optimum is None
    assert run.last is None
    assert run.snapshot is not None
    assert run.origin["model"] is None


def test_the_mixture_of_an_unknown_model_is_a_sample_of_the_policies():
    cmdp = sketch_of(4).build()
    task = Task.of(cmdp, episodes=300)
    policies = set()
    learner = OPDOP.preset(task, Counts, "practical")
    simulator = ModelSimulator(cmdp, seed=5)
    for _ in range(300):
        policy = learner.propose()
        policies.add(bits(policy.table))
        learner.learn(simulator.play(policy))

    few = train(Box(cmdp, seed=5), task=task, episodes=10)
    assert isinstance(few.mixture, PolicyMixture)
    assert len(few.mixture.parts) == 10  # all of them
    many = train(Box(cmdp, seed=5), task=task, episodes=300)
    assert isinstance(many.mixture, PolicyMixture)
    parts = [bits(part.table) for part in many.mixture.parts]
    assert len(set(parts)) == 64
    assert set(parts) <= policies
    np.testing.assert_array_equal(many.mixture.weights, 1.0 / 64.0)
    again = train(Box(cmdp, seed=5), task=task, episodes=300)
    assert [bits(part.table) for part in again.mixture.parts] == parts


def test_every_policy_is_equally_likely_to_be_in_the_sample():
    # 64 of 200 are kept; which, is told apart by their one probability. Over 20 seeds the later half of the episodes
    # has 20 * 32 = 640 of 1280 places, with a standard deviation below 18: five of them are allowed.
    class Numbered:
        def __init__(self) -> None:
            self.k = 0

        def propose(self) -> TabularPolicy:
            return TabularPolicy([[[self.k / 1000.0, 1.0 - self.k / 1000.0]]])

        def learn(self, episode: Episode) -> None:
            self.k += 1

        def diagnostics(self) -> dict[str, float]:
            return {}

        def state(self) -> dict[str, NDArray[Any]]:
            return {"k": np.array(self.k)}

        def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
            self.k = int(state["k"])

    cmdp = TabularCMDP(np.ones((1, 2, 1)), [[0, 1]], [[1, 0]], thresholds=0.5, horizon=1)
    task = Task.of(cmdp, episodes=200)
    late = 0
    for seed in range(20):
        run = train(Box(cmdp, seed=0), Numbered(), task=task, episodes=200, seed=seed)
        late += sum(part.table[0, 0, 0] >= 0.1 for part in run.mixture.parts)
    assert abs(late - 640) <= 5 * 18


def test_a_simulator_without_a_model_needs_a_task():
    cmdp = sketch_of(4).build()
    with pytest.raises(InvalidParameterError, match=r"Box is a simulator whose model is not known.*task=opdop\.Task"):
        train(Box(cmdp, seed=0), episodes=10)


def test_a_simulator_that_cannot_be_saved_continues_with_its_own_stream_and_the_run_says_so(tmp_path: Path):
    cmdp = sketch_of(4).build()
    box, task = Box(cmdp, seed=0), Task.of(cmdp, episodes=10)
    train(box, task=task, episodes=4, checkpoint=tmp_path)
    run = train(box, task=task, episodes=10, checkpoint=tmp_path)  # the same object: its stream was never lost
    assert run.origin["resumed"] == [4]
    assert run.history.equals(train(Box(cmdp, seed=0), task=task, episodes=10).history)


def test_a_simulator_that_can_be_saved_goes_on_bitwise(tmp_path: Path):
    cmdp = sketch_of(4).build()
    task = Task.of(cmdp, episodes=150)
    whole = train(OpenBox(cmdp, seed=5), task=task, episodes=150)
    train(OpenBox(cmdp, seed=5), task=task, episodes=70, checkpoint=tmp_path)
    rest = train(OpenBox(cmdp, seed=99), task=task, episodes=150, checkpoint=tmp_path)
    assert whole.history.equals(rest.history)
    assert bits(whole.policy.table) == bits(rest.policy.table)
    assert [bits(p.table) for p in whole.mixture.parts] == [bits(p.table) for p in rest.mixture.parts]


class Bandit:
    """A learner that is nothing but the protocol: it repeats its better half, and says little."""

    def __init__(self, shape: tuple[int, int, int]) -> None:
        self.shape, self.best, self.tried = shape, -1.0, 0

    def propose(self) -> TabularPolicy:
        H, S, A = self.shape
        return TabularPolicy.deterministic(np.full((H, S), self.tried % A), A)

    def learn(self, episode: Episode) -> None:
        total = float(episode.signals[0].sum())
        if total < self.best:
            self.tried += 1
        self.best = max(self.best, total)

    def diagnostics(self) -> dict[str, float]:
        return {"estimated_reward": self.best}

    def state(self) -> dict[str, NDArray[Any]]:
        return {"best": np.array(self.best), "tried": np.array(self.tried)}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.best, self.tried = float(state["best"]), int(state["tried"])


def test_a_learner_of_ones_own_is_trained_measured_and_continued():
    sketch = sketch_of(4, constraints=2)
    cmdp = sketch.build()
    shape = cmdp.horizon, cmdp.num_states, cmdp.num_actions
    run = train(cmdp, Bandit(shape), episodes=50, planned_episodes=50, seed=1)
    learner, simulator, rewards = Bandit(shape), ModelSimulator(cmdp, seed=1), []
    for _ in range(50):
        policy = learner.propose()
        rewards.append(evaluate_plainly(sketch.P, sketch.signals, policy.table)[0, 0] @ sketch.initial)
        learner.learn(simulator.play(policy))
    np.testing.assert_allclose(run.history["reward"], rewards, rtol=0, atol=1e-12)
    assert bits(run.policy.table) == bits(policy.table)
    assert run.history["estimated_reward"][-1] == learner.best
    assert run.history["dual_1"].is_nan().all()  # it has none
    assert run.config.algorithm == "Bandit"
    assert run.config.preset is None
    assert dict(run.constants) == {}

    part = train(cmdp, Bandit(shape), episodes=20, planned_episodes=50, seed=1)
    assert_same(run, train(cmdp, Bandit(shape), episodes=30, planned_episodes=50, seed=1, start=part))


def test_a_finished_checkpoint_of_a_learner_of_ones_own_is_the_same_run(tmp_path: Path):
    cmdp = sketch_of(4).build()
    shape = cmdp.horizon, cmdp.num_states, cmdp.num_actions
    one, two = (train(cmdp, Bandit(shape), episodes=20, checkpoint=tmp_path) for _ in range(2))
    assert_same(one, two)


def test_a_ready_learner_takes_no_parameters():
    cmdp = sketch_of(4).build()
    learner = OPDOP.preset(Task.of(cmdp, episodes=10), Counts, "practical")
    for option in ({"parameters": {"radius_scale": 0.1}}, {"dual_bound": 1.0}):
        with pytest.raises(InvalidParameterError, match="belong to algorithms chosen by name"):
            train(cmdp, learner, episodes=10, **option)


@pytest.mark.parametrize("change", [{"states": 5}, {"actions": 2}, {"horizon": 3}, {"constraints": 2}])
def test_a_learner_for_another_task_is_refused(change: dict[str, int]):
    learner = OPDOP.preset(Task.of(sketch_of(4, **change).build(), episodes=10, slater_gap=0.1), Counts, "practical")
    with pytest.raises(InvalidParameterError, match="learner is for another task"):
        train(sketch_of(4).build(), learner, episodes=10)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"episodes": 0}, "episodes is 0"),
        ({"episodes": 2.5}, "episodes is 2.5"),
        ({"episodes": True}, "episodes is True"),
        ({"seed": -1}, "seed is -1"),
        ({"planned_episodes": 0}, "planned_episodes is 0"),
        ({"measure_every": 0}, "measure_every is 0"),
        ({"records": 1}, "records is 1"),
        ({"piece": 0}, "piece is 0"),
        ({"failure_probability": 2.0}, "failure_probability is 2.0"),
        ({"slater_gap": -1.0}, "slater_gap is -1.0"),
        ({"dual_bound": 0.0}, "dual_bound is 0.0"),
        ({"preset": "papre"}, "Did you mean 'paper'"),
        ({"parameters": {"radius": 1.0}}, "no parameter 'radius'"),
        ({"algorithm": "opodop"}, "Did you mean 'opdop'"),
    ],
)
def test_impossible_arguments_are_refused_in_words(changed: dict[str, Any], said: str):
    with pytest.raises(InvalidParameterError, match=said):
        train("factored", **{"episodes": 10, **changed})
