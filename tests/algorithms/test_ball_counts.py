"""Counts with confidence balls, and counts that pool the visits of all stages."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import opdop
from opdop import OPDOP, Counts, Episode, InvalidModelError, ModelSimulator, OpdopError, Task, train
from opdop.algorithms import BallRadius, FixedRadius, PaperRadius, WeissmanRadius
from opdop.kernels.sorting import sort_states
from opdop.kernels.visits import BallVisits
from tests.algorithms.test_counts import in_lists, in_table, random_policy, storage, task_of
from tests.support import plain_balls
from tests.support.plain_learner import random_episodes
from tests.support.same_runs import assert_same
from tests.support.strategies import SEEDS

BALL = BallRadius()


def steady_episodes(seed: int, count: int, sizes: tuple[int, int, int, int], stages: int) -> list[Episode]:
    """Return random episodes whose signals depend on state and action, and on the stage if there are `stages`."""
    H, S, A, I = sizes
    signals = np.random.default_rng(seed).random((1 + I, stages, S, A))
    plain = random_episodes(seed + 1, count, sizes)
    stage = np.arange(H) % stages
    return [Episode(e.states, e.actions, signals[:, stage, e.states[:-1], e.actions]) for e in plain]


# The arithmetic


@settings(max_examples=40)
@given(SEEDS, st.integers(0, 60), st.sampled_from([(1, 1, 1), (3, 1, 2), (1, 4, 2), (4, 6, 2), (3, 9, 3)]), st.data())
def test_estimates_are_those_of_the_plain_evaluator(seed: int, count: int, sizes: tuple[int, int, int], data: Any):
    stationary, steady, noisy = (data.draw(st.booleans()) for _ in range(3))
    I = data.draw(st.integers(1, 2))
    task = replace(task_of(*sizes, I), stationary=stationary, stationary_signals=steady, noisy=noisy)
    episodes = steady_episodes(seed, count, (*sizes, I), 1 if steady else sizes[0])
    policy = random_policy(seed, sizes)
    q, v = plain_balls.estimate(task, episodes, policy.table)
    for make in (in_table, in_lists):
        counts = make(task, radius=BALL)
        for episode in episodes:
            counts.observe(episode)
        assert counts.number.shape[0] == (1 if stationary else sizes[0])
        found = counts.evaluate(policy)
        np.testing.assert_allclose(found.q, q, rtol=0, atol=1e-12)
        np.testing.assert_allclose(found.v, v, rtol=0, atol=1e-12)


@pytest.mark.parametrize("make", [in_table, in_lists])
def test_a_deterministic_signal_is_known_after_one_visit(make: Any):
    counts = make(task_of(1, 2, 2), radius=BALL)
    counts.observe(Episode(np.array([0, 1]), np.array([1]), np.array([[0.25], [0.75]])))
    q = counts.evaluate(random_policy(0, (1, 2, 2))).q
    np.testing.assert_array_equal(q[:, 0, 0, 1], [0.25, 0.75])
    np.testing.assert_array_equal(q[:, 0, 0, 0], 1.0)


def test_a_wider_ball_gives_larger_estimates_up_to_the_best_state():
    sizes, policy = (3, 5, 2), random_policy(3, (3, 5, 2))
    episodes = steady_episodes(3, 500, (*sizes, 1), 3)
    found = []
    for scale in (0.0, 0.1, 0.5, 1.0, 100.0):
        counts = Counts(task_of(*sizes), radius=BallRadius(scale))
        for episode in episodes:
            counts.observe(episode)
        found.append(counts.evaluate(policy).q.copy())
    for narrow, wide in itertools.pairwise(found):
        assert (wide >= narrow - 1e-12).all()
        assert (wide > narrow + 1e-6).any()
    mean = np.array([[episode.signals[0, -1] for episode in episodes]])
    assert found[0][0, -1].max() <= mean.max()  # a ball of width 0 is the empirical kernel, without any bonus


def test_a_scale_of_one_is_optimistic_and_a_ball_of_no_width_is_not():
    cmdp = opdop.make("media-streaming")
    best = opdop.solve(cmdp)
    task = Task.of(cmdp, episodes=300)
    simulator = ModelSimulator(cmdp, seed=0)
    episodes = [simulator.play(best.policy) for _ in range(300)]
    totals = []
    for scale in (1.0, 0.0):
        counts = Counts(task, radius=BallRadius(scale))
        for episode in episodes:
            counts.observe(episode)
        totals.append(float(counts.evaluate(best.policy).v[0, 0] @ task.initial))
    assert totals[0] >= best.value
    assert abs(totals[1] - best.value) < 1.0


@settings(max_examples=60)
@given(SEEDS, st.integers(1, 400), st.integers(1, 5), st.booleans())
def test_states_are_sorted_by_value_and_then_by_number_from_any_order(seed: int, S: int, values: int, nearly: bool):
    rng = np.random.default_rng(seed)
    v = rng.integers(0, 10**values, (1, 1, S)).astype(float)
    expected = np.argsort(-v[0, 0], kind="stable")
    order = (expected.copy() if nearly else rng.permutation(S)).reshape(1, 1, S)
    if nearly and S > 1:
        order[0, 0, [0, -1]] = order[0, 0, [-1, 0]]
    sort_states(v, 0, 0, order, 0)
    np.testing.assert_array_equal(order[0, 0], expected)


# Pooling


@pytest.mark.parametrize("radius", [WeissmanRadius(0.1, pools=True), BALL])
@pytest.mark.parametrize("make", [in_table, in_lists])
def test_with_one_stage_pooled_counts_are_the_counts(make: Any, radius: Any):
    sizes = (1, 6, 3)
    plain = make(task_of(*sizes), radius=radius)
    pooled = make(replace(task_of(*sizes), stationary=True, stationary_signals=True), radius=radius)
    for k, episode in enumerate(steady_episodes(0, 50, (*sizes, 1), 1)):
        policy = random_policy(k, sizes)
        np.testing.assert_array_equal(plain.evaluate(policy).q, pooled.evaluate(policy).q)
        for counts in (plain, pooled):
            counts.observe(episode)


@pytest.mark.parametrize("make", [in_table, in_lists])
def test_pooled_bonuses_are_those_of_all_visits(make: Any):
    # Two stages, one state, one action: three episodes are six visits.
    task = replace(task_of(2, 1, 1), stationary=True, stationary_signals=True)
    rule = WeissmanRadius(0.01, pools=True)
    counts = make(task, radius=rule, ridge=0.5)
    for _ in range(3):
        counts.observe(Episode(np.zeros(3, dtype=int), np.zeros(2, dtype=int), np.full((2, 2), 0.25)))
    assert counts.number.tolist() == [[[6.0]]]
    found, radii = counts.evaluate(random_policy(0, (2, 1, 1))), rule.radii(task, 0.5)
    last = 6 * 0.25 / 6.5 + 2 * radii[1] / math.sqrt(6.5)
    first = 6 * (0.25 + last) / 6.5 + 2 * radii[0] / math.sqrt(6.5)
    np.testing.assert_allclose(found.q[:, :, 0, 0], [[first, last]] * 2, rtol=1e-14)


def test_a_visit_at_one_stage_is_known_at_all_stages():
    task = replace(task_of(3, 40, 2), stationary=True, stationary_signals=True)
    for make in (in_table, in_lists):
        counts = make(task, radius=BALL)
        counts.observe(Episode(np.array([5, 7, 7, 9]), np.array([1, 0, 0]), np.full((2, 3), 0.5)))
        touched = counts.evaluate(random_policy(0, (3, 40, 2))).touched
        assert np.argwhere(touched).tolist() == [[h, x] for h in range(3) for x in (5, 7)]


def test_a_rule_decides_whether_visits_are_pooled_and_the_papers_does_not():
    task = Task.of(opdop.make("factored"), episodes=100)
    assert task.stationary
    assert task.stationary_signals
    for rule, stages in (
        (BALL, 1),
        (WeissmanRadius(), 6),
        (WeissmanRadius(pools=True), 1),
        (0.5, 6),
        (PaperRadius(), 6),
    ):
        assert len(Counts(task, radius=rule).number) == stages
    assert len(Counts(replace(task, stationary=False), radius=BALL).number) == 6
    mixed = Counts(replace(task, stationary_signals=False), radius=BALL).arrays.visits
    assert (len(mixed.number), len(mixed.signal_number)) == (1, 6)
    assert len(OPDOP.preset(task, Counts, "paper").evaluator.number) == 6
    assert not getattr(FixedRadius(1.0), "pools", False)


def test_pooling_narrows_the_estimates():
    cmdp = opdop.make("media-streaming")
    totals = []
    for stationary in (False, True):
        task = Task.of(cmdp, episodes=300, stationary=stationary)
        counts, simulator, policy = Counts(task, radius=BALL), ModelSimulator(cmdp, seed=0), opdop.solve(cmdp).policy
        for _ in range(300):
            counts.observe(simulator.play(policy))
        totals.append(float(counts.evaluate(policy).v[0, 0] @ task.initial))
    assert totals[1] < totals[0] - 0.5
    assert totals[1] >= opdop.evaluate(cmdp, policy).reward


# Refuted declarations


@pytest.mark.parametrize("make", [in_table, in_lists])
def test_two_values_of_a_deterministic_signal_are_refused(make: Any):
    counts = make(task_of(1, 2, 2), radius=BALL)
    counts.observe(Episode(np.array([1, 0]), np.array([1]), np.array([[0.5], [0.5]])))
    with pytest.raises(InvalidModelError, match=r"state 1 and action 1 has been observed with two values"):
        counts.observe(Episode(np.array([1, 0]), np.array([1]), np.array([[0.5], [0.25]])))


def test_signals_wrongly_declared_stationary_are_refused_in_the_compiled_loop_too():
    cmdp = opdop.make("random-tabular")
    task = Task.of(cmdp, episodes=100, stationary=False, stationary_signals=True)
    constants = {"step_size": 0.1, "dual_step_size": 0.1, "mixing": 0.0, "dual_bound": 1.0}
    with pytest.raises(InvalidModelError, match="two values at all stages together"):
        train(cmdp, OPDOP(task, Counts(task, radius=BALL), **constants), episodes=100)


# Saved and restored, compiled and not


@settings(max_examples=20)
@given(SEEDS, st.sampled_from(["table", "lists", "turning"]), st.booleans(), st.booleans(), st.booleans())
def test_a_restored_state_goes_on_bitwise(seed: int, form: str, stationary: bool, steady: bool, noisy: bool):
    sizes = (3, 5, 2)
    task = replace(task_of(*sizes), stationary=stationary, stationary_signals=steady, noisy=noisy)
    episodes = steady_episodes(seed, 40, (*sizes, 1), 1 if steady else 3)
    with storage(table_up_to=99 if form == "table" else 0, table_from_share=1e-9 if form == "lists" else 3):
        whole, half = Counts(task, radius=BALL), Counts(task, radius=BALL)
        for k, episode in enumerate(episodes):
            if k == 20:
                half.restore(whole.state())
            for counts in (whole, half) if k >= 20 else (whole,):
                counts.evaluate(random_policy(k, sizes))
                counts.observe(episode)
    ours, theirs = whole.state(), half.state()
    assert ours.keys() == theirs.keys()
    for name in ours:
        assert ours[name].tobytes() == theirs[name].tobytes(), name


def test_a_damaged_number_of_signals_is_refused():
    counts = Counts(task_of(2, 3, 2), radius=BALL)
    for episode in steady_episodes(0, 10, (2, 3, 2, 1), 2):
        counts.observe(episode)
    state = counts.state()
    with pytest.raises(OpdopError, match="not observed as often"):
        counts.restore({**state, "signal_number": state["signal_number"] + 1.0})


CASES = {
    "pooled balls": ("factored", {}, BALL, {}),
    "balls by stage": ("random-tabular", {"states": 8}, BALL, {}),
    "balls in lists": ("random-tabular", {"states": 40, "successors": 4}, BALL, {}),
    "noisy pooled balls": ("queue", {}, BALL, {"noisy": True}),
    "pooled bonuses": ("media-streaming", {}, WeissmanRadius(0.01, 1.0, pools=True), {}),
}


@pytest.mark.parametrize("case", CASES)
def test_step_by_step_compiled_and_resumed_give_the_same_bits(case: str, tmp_path: Any):
    name, parameters, radius, options = CASES[case]
    cmdp, constants = opdop.make(name, **parameters), {"step_size": 0.3, "dual_step_size": 0.1, "mixing": 0.001}

    def made(episodes: int, **more: Any) -> Any:
        task = Task.of(cmdp, episodes=90, **options)
        learner = OPDOP(task, Counts(task, radius=radius), dual_bound=5.0, **constants)
        return train(cmdp, learner, episodes=episodes, planned_episodes=90, seed=3, **options, **more)

    whole = made(90)
    assert_same(whole, made(90, compiled=False))
    assert_same(whole, made(90, piece=7))
    made(40, checkpoint=tmp_path)
    assert_same(whole, made(90, checkpoint=tmp_path))


def test_balls_are_sized_like_the_task() -> None:
    task = task_of(2, 3, 2)
    counts = Counts(task, radius=BALL)
    visits = counts.arrays.visits
    counts._counts = counts.arrays._replace(visits=visits._replace(moved=np.zeros((2, 5))))
    with pytest.raises(InvalidModelError, match="moved has shape"):
        counts.evaluate(random_policy(0, (2, 3, 2)))
    assert isinstance(visits, BallVisits)


def test_a_learner_with_balls_learns_on_a_shipped_problem():
    cmdp = opdop.make("factored")
    task = Task.of(cmdp, episodes=20_000)
    run, plain = (
        train(cmdp, OPDOP.preset(task, Counts(task, radius=radius), "certified"), episodes=20_000, seed=0)
        for radius in (BALL, WeissmanRadius())
    )
    # Violation per episode .11 against .59 at K = 1e5 in a prototype: here only that it is less than half.
    assert run.violation[-1] < 0.5 * plain.violation[-1]
