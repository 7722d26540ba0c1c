"""Algorithm 3: counts give the paper's optimistic estimates, whichever way they are kept."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from opdop import Counts, Episode, InvalidModelError, InvalidParameterError, OpdopError, TabularPolicy, Task
from opdop.algorithms import SpanRadius, WeissmanRadius
from opdop.algorithms import counts as module
from opdop.algorithms.task import by_action
from opdop.kernels import counts as kernel
from tests.support.plain_learner import estimate, random_episodes
from tests.support.strategies import SEEDS, Array

NEVER = 1e-9  # a table is used from a billion times as many transitions as there are


@contextmanager
def storage(*, table_up_to: int = 0, table_from_share: float = 1) -> Iterator[None]:
    """Start with lists above so many states, and turn to a table when one transition in so many has been seen."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "TABLE_UP_TO", table_up_to)
        patch.setattr(module, "TABLE_FROM_SHARE", table_from_share)
        yield


def in_table(task: Task, **options: Any) -> Counts:
    with storage(table_up_to=10**6):
        return Counts(task, **options)


def in_lists(task: Task, **options: Any) -> Counts:
    """Return counts that stay lists for ever."""
    with storage(table_from_share=NEVER):
        return Counts(task, **options)


def is_table(counts: Counts) -> bool:
    return isinstance(counts.arrays, kernel.CountTable)


def task_of(H: int, S: int, A: int, I: int = 1) -> Task:
    return Task(H, S, A, np.full(I, 0.5), np.eye(S)[0], episodes=1000, slater_gap=0.1)


def random_policy(seed: int, sizes: tuple[int, ...]) -> TabularPolicy:
    return TabularPolicy.trusted(np.random.default_rng(seed).dirichlet(np.ones(sizes[2]), sizes[:2]))


class PerStage:
    """A radius of its own for every stage; a rule of a person's own making."""

    def __init__(self, seed: int, scale: float, optimistic_init: float = 0.0) -> None:
        self.seed, self.scale, self.optimistic_init = seed, scale, optimistic_init

    def radii(self, task: Task, ridge: float) -> Array:
        return self.scale * np.random.default_rng(self.seed).random(task.horizon)


# By hand


@pytest.mark.parametrize("make", [in_table, in_lists])
def test_estimates_of_a_two_stage_example_by_hand(make: Any):
    # One state with two actions, then two states. Three visits to (x 0, a 1) at stage 0, ridge 1: n + ridge = 4.
    task = task_of(2, 2, 2)
    counts = make(task, radius=0.125)
    for successor, second_action, signal in ((0, 0, 0.25), (1, 0, 0.5), (1, 0, 0.5)):
        signals = np.array([[signal, 1.0], [1.0 - signal, 0.0]])
        counts.observe(Episode(np.array([0, successor, 0]), np.array([1, second_action]), signals))
    policy = TabularPolicy([[[0.25, 0.75], [0.5, 0.5]], [[0.5, 0.5], [0.75, 0.25]]])
    found = counts.evaluate(policy)

    r = Fraction(1, 8)  # the radius
    # Stage 1: (0, 0) seen once with reward 1: 1/2 + 2r/sqrt(2) above 1/2, below the cap of 1. (1, 0) seen twice.
    once, twice = 0.5 + 0.25 / math.sqrt(2), 2 / 3 + 0.25 / math.sqrt(3)
    never = float(2 * r)
    stage_1 = [[once, never], [twice, never]]
    np.testing.assert_allclose(found.q[0, 1], stage_1, rtol=1e-15, atol=0)
    v = [0.5 * once + 0.5 * never, 0.75 * twice + 0.25 * never]
    np.testing.assert_allclose(found.v[0, 1], v, rtol=1e-15, atol=0)
    # Stage 0, (0, 1): mean (1/4 + 1/2 + 1/2)/4, successors 1/4 and 2/4, bonus r/2, and twice that is added.
    expected = 1.25 / 4 + v[0] / 4 + v[1] / 2 + 2 * 0.125 / 2
    assert found.q[0, 0, 0, 1] == pytest.approx(expected, rel=1e-15)
    assert found.v[0, 0, 0] == pytest.approx(0.25 * never + 0.75 * expected, rel=1e-15)
    # The utility: nothing at stage 1, so there only the bonus is left.
    np.testing.assert_allclose(found.q[1, 1], [[0.25 / math.sqrt(2), never], [0.25 / math.sqrt(3), never]], rtol=1e-15)
    assert found.v[:, 2].max() == 0.0


@pytest.mark.parametrize("make", [in_table, in_lists])
def test_bonus_is_radius_over_the_root_of_visits_and_ridge(make: Any):
    counts = make(task_of(1, 1, 1), radius=0.25, ridge=2.0)
    policy = TabularPolicy.uniform(1, 1, 1)
    nothing = Episode(np.array([0, 0]), np.array([0]), np.zeros((2, 1)))
    for n in range(20):
        assert counts.evaluate(policy).q[0, 0, 0, 0] == pytest.approx(2 * 0.25 / math.sqrt(n + 2.0), rel=4e-16)
        counts.observe(nothing)


@pytest.mark.parametrize("make", [in_table, in_lists])
def test_estimates_are_clipped_at_the_episodes_left_and_at_zero(make: Any):
    H = 4
    counts = make(task_of(H, 3, 2), radius=100.0)
    policy = TabularPolicy.uniform(H, 3, 2)
    for episode in random_episodes(0, 5, (H, 3, 2, 1)):
        found = counts.evaluate(policy)
        for h in range(H):
            np.testing.assert_array_equal(found.q[:, h], float(H - h))
            np.testing.assert_allclose(found.v[:, h], H - h, rtol=1e-15)
        counts.observe(episode)
    # No signal may be negative, so only a direct look at the kernel can reach the lower clip.
    counts = make(task_of(1, 1, 1), radius=0.0)
    kernel.observe_episode(
        counts.arrays, np.zeros(2, dtype=np.int64), np.zeros(1, dtype=np.int64), np.full((2, 1), -5.0)
    )
    np.testing.assert_array_equal(counts.evaluate(TabularPolicy.uniform(1, 1, 1)).q, 0.0)


@pytest.mark.parametrize("make", [in_table, in_lists])
def test_what_was_never_tried_is_estimated_to_be_the_best_until_it_is_tried(make: Any):
    H = 3
    counts = make(task_of(H, 2, 2), radius=WeissmanRadius(1e-3, optimistic_init=1.0))
    policy = TabularPolicy.uniform(H, 2, 2)
    counts.observe(Episode(np.zeros(H + 1, dtype=np.int64), np.zeros(H, dtype=np.int64), np.zeros((2, H))))
    q = counts.evaluate(policy).q
    for h in range(H):
        np.testing.assert_allclose(q[:, h, 0, 1], H - h, rtol=1e-15)  # the other action
        np.testing.assert_allclose(q[:, h, 1], H - h, rtol=1e-15)  # the other state
    assert (q[:, -1, 0, 0] < 0.01).all()  # tried once, and nothing came of it


@pytest.mark.parametrize("make", [in_table, in_lists])
def test_a_pair_is_estimated_to_be_the_best_until_it_is_trusted_also_after_a_restart(make: Any):
    task = task_of(1, 2, 2)
    rule = SpanRadius(1e-3, 1e-3, optimistic_init=1.0, trusted_from=3.0)
    counts, policy = make(task, radius=rule, ridge=1e-4), TabularPolicy.uniform(1, 2, 2)
    for visit in range(1, 5):
        counts.observe(Episode(np.zeros(2, dtype=np.int64), np.zeros(1, dtype=np.int64), np.full((2, 1), 0.25)))
        again = make(task, radius=rule, ridge=1e-4)
        again.restore(counts.state())
        for each in (counts, again):
            q = each.evaluate(policy).q[:, 0, 0, 0]
            np.testing.assert_allclose(q, 1.0 if visit < 3 else 0.25, atol=1e-3)
    with pytest.raises(InvalidParameterError, match=r"trusted_from is 0.5; expected a number, at least 1"):
        make(task, radius=SpanRadius(1e-3, 1e-3, trusted_from=0.5))


@pytest.mark.parametrize("pooled", [False, True])
@pytest.mark.parametrize("make", [in_table, in_lists])
def test_doubt_and_trust_follow_from_the_counts_alone(make: Any, pooled: bool):
    # Plain formulas of all counts, after random episodes, beside the widths and doubts that are renewed visit by visit.
    H, S, A, ridge = 3, 4, 2, 1e-4
    task = replace(task_of(H, S, A), stationary=pooled, stationary_signals=pooled)
    rule = SpanRadius(1e-3, 1e-3, optimistic_init=1.0, trust_growth=0.7, value_doubt=0.5, signal_doubt=0.25, pools=True)
    counts, random = make(task, radius=rule, ridge=ridge), np.random.default_rng(5)
    for episode in range(1, 121):
        reachable = 3 if episode <= 80 else 4  # the last state is discovered late
        states = np.minimum(random.geometric(0.5, H + 1) - 1, reachable - 1)
        counts.observe(Episode(states, (random.random(H) < 0.1).astype(np.int64), random.random((2, H))))
        if episode % 10:
            continue
        visits, n = counts.arrays.visits, counts.number  # [L, S, A]
        here = n.sum(axis=2)
        seen = here > 0.0
        unvisited = np.array([not seen.all()] if pooled else [*(~seen[1:]).any(axis=1), False])
        least = max(1.0, 0.7 * (1 + np.floor(np.log2(max(n.mean(), 0.5)))))
        trusted = n >= np.where(unvisited, least, 1.0)[:, None, None]
        first = counts.first_widths[: len(n), None, None]
        width = np.where(trusted, 1.0 / np.sqrt(n + ridge), first)
        np.testing.assert_allclose(visits.width.reshape(len(n), A, S), width.transpose(0, 2, 1), rtol=1e-12)
        tried, m = np.maximum(n, 1.0), np.maximum(here, here.mean())[:, :, None]
        doubt = np.maximum(np.floor(np.log2(np.maximum(m, 0.5))) - np.floor(np.log2(A * tried)), 0.0) / tried * (n > 0)
        np.testing.assert_allclose(visits.doubt.reshape(len(n), A, S), doubt.transpose(0, 2, 1), rtol=1e-12)
        again = make(task, radius=rule, ridge=ridge)
        again.restore(counts.state())
        for name in ("width", "doubt", "inverse"):
            np.testing.assert_array_equal(getattr(again.arrays.visits, name), getattr(visits, name))
        policy = TabularPolicy.uniform(H, S, A)
        np.testing.assert_array_equal(again.evaluate(policy).q, counts.evaluate(policy).q)


def test_doubt_adds_a_share_of_the_range_of_what_may_follow():
    # State 0 is visited 8 times with action 0 and once with action 1. Of its 9 visits, log2 is 3; of A n = 2 it is 1.
    task, policy = task_of(2, 3, 2), TabularPolicy.uniform(2, 3, 2)
    counts = Counts(task, radius=SpanRadius(1e-9, 1e-9, value_doubt=0.1, signal_doubt=0.05), ridge=1e-12)
    for n in range(9):
        states, actions = np.array([0, 1 + n % 2, 0]), np.array([int(n == 8), 0])
        counts.observe(Episode(states, actions, np.array([[0.0, n % 2]] * 2)))
    found = counts.evaluate(policy)
    low, high = found.v[0, 1, 1:]
    assert high - low > 0.3
    np.testing.assert_allclose(found.q[:, 0, 0, 0], (low + high) / 2.0, atol=1e-6)  # played as often as others
    np.testing.assert_allclose(found.q[:, 0, 0, 1], low + 2.0 * (0.1 * (high - low) + 0.05), atol=1e-6)


@pytest.mark.parametrize("noisy", [False, True])
def test_certified_needs_no_optimistic_init(noisy: bool):
    # Its own bonus is already more than anything can be worth.
    task = Task(5, 4, 3, np.array([0.5]), np.eye(4)[0], episodes=10, slater_gap=0.1, noisy=noisy)
    plain, optimistic = Counts(task), Counts(task, radius=WeissmanRadius(optimistic_init=1.0))
    np.testing.assert_array_equal(plain.q, optimistic.q)
    np.testing.assert_array_equal(plain.arrays.visits.width, optimistic.arrays.visits.width)


# Against the paper's formulas, from the list of episodes


@st.composite
def seen(draw: st.DrawFn) -> dict[str, Any]:
    """Draw sizes, episodes, a policy, a ridge and radii."""
    sizes = (draw(st.integers(1, 4)), draw(st.integers(1, 9)), draw(st.integers(1, 4)), draw(st.integers(1, 3)))
    count = draw(st.integers(0, 25))
    spread = draw(st.sampled_from([0.3, 1.0]))
    seed, scale = draw(SEEDS), draw(st.sampled_from([0.0, 0.1, 1.0, 5.0]))
    optimistic_init = draw(st.sampled_from([0.0, 0.7, 1.0])) if scale else 0.0  # it is a matter of the bonus
    return {
        "sizes": sizes,
        "episodes": random_episodes(seed, count, sizes, draw(st.sampled_from([0, 1, 4])), spread),
        "policy": random_policy(seed + 1, sizes),
        "ridge": draw(st.sampled_from([1.0, 0.4, 3.0, 1e-3])),
        "radius": PerStage(seed + 2, scale, optimistic_init),
    }


@given(seen())
def test_counts_estimate_what_the_paper_writes(case: dict[str, Any]):
    task = task_of(*case["sizes"])
    radii = case["radius"].radii(task, case["ridge"])
    rest = case["ridge"], 1 + task.num_constraints, case["radius"].optimistic_init
    q, v = estimate(case["episodes"], case["policy"].table, radii, *rest)
    for make in (in_table, in_lists):
        counts = make(task, radius=case["radius"], ridge=case["ridge"])
        for episode in case["episodes"]:
            counts.observe(episode)
        assert is_table(counts) == (make is in_table)
        found = counts.evaluate(case["policy"])
        np.testing.assert_allclose(found.q, q, rtol=0, atol=1e-12)
        np.testing.assert_allclose(found.v, v, rtol=0, atol=1e-12)


@settings(max_examples=25)
@given(seen())
def test_compiled_evaluate_equals_its_source(case: dict[str, Any]):
    for make in (in_table, in_lists):
        counts = make(task_of(*case["sizes"]), radius=case["radius"], ridge=case["ridge"])
        for episode in case["episodes"]:
            counts.observe(episode)
        found = counts.evaluate(case["policy"])
        q, v = found.q.copy(), found.v.copy()
        compiled = kernel._evaluate_table if is_table(counts) else kernel._evaluate_lists
        compiled.py_func(counts.arrays, by_action(case["policy"].table), counts.q, counts.v)
        np.testing.assert_allclose(found.q, q, rtol=0, atol=1e-13)
        np.testing.assert_allclose(found.v, v, rtol=0, atol=1e-13)


@settings(max_examples=20)
@given(SEEDS, st.integers(0, 40))
def test_many_states_start_as_lists_and_estimate_the_same(seed: int, count: int):
    sizes = (3, 131, 2, 2)  # three blocks of states; most of them stay untouched
    task = task_of(*sizes)
    counts = Counts(task, radius=PerStage(seed, 0.3), ridge=0.5)
    assert not is_table(counts)
    episodes = random_episodes(seed, count, sizes, spread=0.2)
    for episode in episodes:
        counts.observe(episode)
    policy = random_policy(seed, sizes)
    q, v = estimate(episodes, policy.table, counts.radii, 0.5, 3)
    found = counts.evaluate(policy)
    np.testing.assert_allclose(found.q, q, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.v, v, rtol=0, atol=1e-12)


def test_estimates_follow_the_policy_from_one_evaluation_to_the_next():
    # What one evaluation leaves behind must not leak into the next.
    sizes = (3, 70, 2, 1)
    episodes = random_episodes(1, 30, sizes, spread=0.5)
    for make in (in_table, in_lists):
        counts = make(task_of(*sizes), radius=0.2)
        for k, episode in enumerate(episodes):
            policy = random_policy(k, sizes)
            found = counts.evaluate(policy)
            q, v = estimate(episodes[:k], policy.table, counts.radii, 1.0, 2)
            np.testing.assert_allclose(found.q, q, rtol=0, atol=1e-12)
            np.testing.assert_allclose(found.v, v, rtol=0, atol=1e-12)
            counts.observe(episode)


# Two ways to keep the counts


@pytest.mark.parametrize(("states", "lists"), [(32, False), (33, True)])
def test_lists_begin_above_32_states(states: int, lists: bool):
    assert is_table(Counts(task_of(1, states, 2))) is not lists


def test_lists_turn_into_a_table_when_one_transition_in_twelve_was_seen():
    H, S, A = 2, 36, 2
    counts = Counts(task_of(H, S, A))
    before = 0
    for episode in random_episodes(0, 2000, (H, S, A, 1)):
        assert is_table(counts) == (before >= H * S * A * S // 12)
        counts.observe(episode)
        before = len(counts.transitions()[0])
        if is_table(counts):
            break
    assert is_table(counts)


@settings(max_examples=30)
@given(SEEDS, st.integers(1, 8), st.sampled_from([7, 40, 10**9]))
def test_turning_lists_into_a_table_changes_nothing_beyond_rounding(seed: int, states: int, share: int):
    sizes = (3, states, 2, 1)
    task, episodes = task_of(*sizes), random_episodes(seed, 60, sizes)
    with storage(table_from_share=share):
        turning = Counts(task, radius=0.3)
    staying, table = in_lists(task, radius=0.3), in_table(task, radius=0.3)
    turned = is_table(turning)
    for k, episode in enumerate(episodes):
        policy = random_policy(k, sizes)
        found = [counts.evaluate(policy).q for counts in (turning, staying, table)]
        np.testing.assert_allclose(found[0], found[1], rtol=0, atol=1e-12)
        if turned:
            np.testing.assert_array_equal(found[0], found[2])  # a table is a table
        else:
            np.testing.assert_array_equal(found[0], found[1])
        for counts in (turning, staying, table):
            counts.observe(episode)
        turned = is_table(turning)
    assert turned
    for one, two in zip(turning.transitions(), table.transitions(), strict=True):
        np.testing.assert_array_equal(one, two)


@njit(fastmath={"contract"})
def evaluate_pairs(counts, q, v, j, i, h, spans):
    kernel._evaluate_two(counts, q, v, j, i, h, spans)


@njit(fastmath={"contract"})
def estimate_each_pair(counts, q, v, j, i, h, spans):
    for pair in range(counts.seen.shape[2]):
        sums = kernel._sum_block(0.0, counts, v, j, i, h, pair)
        kernel._estimate_two(0.0, counts, q, v, j, i, h, spans, pair, sums)


@pytest.mark.parametrize(("S", "A", "I"), [(70, 2, 1), (64, 3, 2), (95, 1, 1), (200, 1, 1), (30, 2, 1)])
def test_pairs_of_large_tables_have_the_bits_of_pairs_alone(S: int, A: int, I: int):
    sizes = (3, S, A, I)
    counts, rng = in_table(task_of(*sizes), radius=0.3), np.random.default_rng(S)
    for episode in random_episodes(S, 200, sizes):
        counts.observe(episode)
    counts.arrays.visits.touched[:] = True
    v, spans = rng.random((1 + I, 4, S)), (0.3, 0.7)
    for h in (0, 1, 2):
        together, alone = rng.random((2, 1 + I, 3, A, S))
        for j in range(0, 1 + I, 2):
            i = min(j + 1, I)
            evaluate_pairs(counts.arrays, together, v, j, i, h, spans)
            estimate_each_pair(counts.arrays, alone, v, j, i, h, spans)
        np.testing.assert_array_equal(together[:, h], alone[:, h])
        assert len(np.unique(together[:, h])) > S // 2


def test_packing_the_lists_into_a_larger_pool_changes_no_bit():
    sizes = (2, 50, 3, 1)
    task = task_of(*sizes)
    packed, loose = in_lists(task, radius=0.3), in_lists(task, radius=0.3)
    roomy = 10**6
    loose._counts = loose.arrays._replace(
        successors=np.zeros(roomy, dtype=np.int32), seen=np.zeros(roomy, dtype=np.int32)
    )
    pools = set()
    for k, episode in enumerate(random_episodes(0, 3000, sizes)):
        packed.observe(episode)
        loose.observe(episode)
        pools.add(len(packed.arrays.seen))
        if k % 97 == 0:
            policy = random_policy(k, sizes)
            np.testing.assert_array_equal(packed.evaluate(policy).q, loose.evaluate(policy).q)
    assert len(loose.arrays.seen) == roomy
    assert len(pools) >= 4  # it grew several times


def test_memory_of_lists_follows_the_transitions_seen():
    H, S, A = 3, 2000, 4
    counts = Counts(task_of(H, S, A))
    for episode in random_episodes(0, 20_000, (H, S, A, 1)):
        counts.observe(episode)
    pool = len(counts.arrays.seen)
    assert len(counts.transitions()[0]) > 50_000
    assert pool <= 2 * len(counts.transitions()[0]) + 4 * H * S
    assert pool < 0.005 * H * S * A * S  # a table's


@settings(max_examples=50)
@given(seen())
def test_transitions_are_those_that_occurred(case: dict[str, Any]):
    H, S, A, _ = case["sizes"]
    expected: dict[tuple[int, int], int] = {}
    for episode in case["episodes"]:
        for h in range(H):
            key = (int((h * A + episode.actions[h]) * S + episode.states[h]), int(episode.states[h + 1]))
            expected[key] = expected.get(key, 0) + 1
    for make in (in_table, in_lists):
        counts = make(task_of(*case["sizes"]))
        for episode in case["episodes"]:
            counts.observe(episode)
        row, successor, number = counts.transitions()
        assert dict(zip(zip(row.tolist(), successor.tolist(), strict=True), number.tolist(), strict=True)) == expected
        assert (np.diff(row) >= 0).all()
        assert len(counts.transitions()[0]) == len(expected)


# Long sums


@njit
def observe_often(counts, states, actions, observed, times):
    for _ in range(times):
        kernel.observe(counts, states, actions, observed)


@pytest.mark.parametrize("make", [in_table, in_lists])
def test_a_million_observations_give_the_mean_to_the_last_bits(make: Any):
    times = 10**6
    counts = make(task_of(1, 1, 1))
    states, actions = np.zeros(2, dtype=np.int64), np.zeros(1, dtype=np.int64)
    observe_often(counts.arrays, states, actions, np.array([[0.1], [0.7]]), times)
    visits = counts.arrays.visits
    assert visits.number[0, 0] == times
    assert int(counts.transitions()[2][0]) == times
    for j, value in enumerate((0.1, 0.7)):
        exact = Fraction(value) * times
        assert abs(Fraction(visits.sums[j, 0, 0]) / exact - 1) <= 1e-15
    # A plain sum would miss this by four orders of magnitude.
    plain = np.cumsum(np.full(times, 0.1))[-1]
    assert abs(Fraction(plain) / (Fraction(0.1) * times) - 1) > 1e-12


# Saved and restored


@settings(max_examples=30)
@given(seen(), st.sampled_from(["table", "lists", "turning"]))
def test_a_restored_state_goes_on_bitwise(case: dict[str, Any], form: str):
    task, options = task_of(*case["sizes"]), {"radius": case["radius"], "ridge": case["ridge"]}
    with storage(table_up_to=99 if form == "table" else 0, table_from_share=NEVER if form == "lists" else 3):
        whole, half = Counts(task, **options), Counts(task, **options)
        middle = len(case["episodes"]) // 2
        for episode in case["episodes"][:middle]:
            whole.evaluate(case["policy"])
            whole.observe(episode)
        half.restore(whole.state())
    for episode in case["episodes"][middle:]:
        np.testing.assert_array_equal(half.evaluate(case["policy"]).q, whole.evaluate(case["policy"]).q)
        for counts in (whole, half):
            counts.observe(episode)
    whole.evaluate(case["policy"])
    half.evaluate(case["policy"])
    ours, theirs = whole.state(), half.state()
    assert ours.keys() == theirs.keys()
    for name in ours:
        assert ours[name].tobytes() == theirs[name].tobytes(), name


def damaged(state: dict[str, Any], name: str, value: Any) -> dict[str, Any]:
    return {**state, name: value}


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("number", lambda n: n + 1.0, "do not add up"),
        ("successor", lambda y: y + 100, "out of the state space"),
        ("row", lambda row: row[::-1].copy(), "not in order"),
        ("seen", lambda n: 0 * n, "do not add up"),
        ("sums", lambda s: s * np.nan, "not finite"),
        ("q", lambda q: q[:1], "expected float64"),
    ],
)
def test_a_damaged_state_is_refused(name: str, change: Any, said: str):
    sizes = (2, 3, 2, 1)
    counts = in_table(task_of(*sizes))
    for episode in random_episodes(0, 10, sizes):
        counts.observe(episode)
    state = counts.state()
    with pytest.raises(OpdopError, match=said):
        counts.restore(damaged(state, name, change(state[name])))


# What it refuses


@pytest.mark.parametrize("ridge", [0.0, -1.0, math.nan, math.inf, True])
def test_a_ridge_must_be_positive(ridge: Any):
    with pytest.raises(InvalidParameterError, match="ridge"):
        Counts(task_of(1, 1, 1), ridge=ridge)


@pytest.mark.parametrize("radius", [-1.0, math.nan, math.inf])
def test_a_radius_must_be_a_number_of_at_least_0(radius: float):
    with pytest.raises(InvalidParameterError, match="radius"):
        Counts(task_of(1, 1, 1), radius=radius)


GOOD = {"states": [0, 1, 0], "actions": [1, 0], "signals": [[0.0, 1.0], [0.5, 0.5]]}


@pytest.mark.parametrize(
    ("part", "value", "said"),
    [
        ("states", [0, 2, 0], r"states\[1\] is 2; expected 0 to 1"),
        ("states", [0, -1, 0], r"states\[1\] is -1"),
        ("states", [0, 1], r"states are int64 \[2\]; expected whole numbers \[3\]"),
        ("states", [0.0, 1.0, 0.0], "states are float64"),
        ("actions", [1, 3], r"actions\[1\] is 3; expected 0 to 2"),
        ("actions", [[1, 0]], r"actions are int64 \[1, 2\]"),
        ("signals", [[0.0, 1.5], [0.5, 0.5]], r"signals\[0, 1\] is 1.5; expected a number in \[0, 1\]"),
        ("signals", [[0.0, 1.0], [math.nan, 0.5]], r"signals\[1, 0\] is nan"),
        ("signals", [[0.0, 1.0]], r"signals are float64 \[1, 2\]"),
    ],
)
def test_an_episode_that_does_not_fit_is_refused_before_it_is_counted(part: str, value: Any, said: str):
    counts = in_table(task_of(2, 2, 3))
    arrays = {name: np.array(values) for name, values in {**GOOD, part: value}.items()}
    with pytest.raises(InvalidModelError, match=said):
        counts.observe(Episode(**arrays))
    assert len(counts.transitions()[0]) == 0
    counts.observe(Episode(**{name: np.array(values) for name, values in GOOD.items()}))
    assert len(counts.transitions()[0]) == 2


def test_a_policy_of_another_shape_is_refused():
    with pytest.raises(InvalidModelError, match=r"\[1, 2, 3\]; expected \[H,S,A\] = \[2,2,3\]"):
        in_table(task_of(2, 2, 3)).evaluate(TabularPolicy.uniform(1, 2, 3))
