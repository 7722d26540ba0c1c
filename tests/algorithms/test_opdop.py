"""Algorithm 1 as a learner: the paper's steps in the paper's order, from episodes alone."""

from __future__ import annotations

import ast
import dataclasses
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import opdop
from opdop import (
    OPDOP,
    OPPO,
    Counts,
    Doubling,
    Episode,
    Estimates,
    InvalidModelError,
    InvalidParameterError,
    ModelSimulator,
    OpdopError,
    TabularCMDP,
    TabularPolicy,
    Task,
    train,
)
from opdop.algorithms import FixedRadius, choose
from opdop.algorithms.doubling import phases
from opdop.kernels.primal_dual import PROBABILITY_FLOOR
from tests.support.plain_learner import PlainOPDOP, random_episodes
from tests.support.strategies import Array, Sketch, sketch_of, sketches

PACKAGE = Path(opdop.__file__).parent


def learner_of(cmdp: TabularCMDP, episodes: int = 100, preset: str = "practical", **options: Any) -> OPDOP:
    return OPDOP.preset(Task.of(cmdp, episodes=episodes, slater_gap=0.5, **options), Counts, preset)


def assert_same_state(one: Any, two: Any) -> None:
    ours, theirs = one.state(), two.state()
    assert ours.keys() == theirs.keys()
    for name in ours:
        assert ours[name].dtype == theirs[name].dtype
        assert ours[name].tobytes() == theirs[name].tobytes(), name


# The first episodes, by hand


def by_hand(sizes: tuple[int, int, int, int] = (2, 2, 2, 1)) -> OPDOP:
    """Return a learner with alpha = 1/2, eta = 1/4, theta = 1/5, chi = 3, radius 1/8, ridge 1, threshold 1.75."""
    H, S, A, I = sizes
    task = Task(H, S, A, np.full(I, 1.75), np.eye(S)[0], episodes=10, slater_gap=0.1)
    numbers = {"step_size": 0.5, "dual_step_size": 0.25, "mixing": 0.2, "dual_bound": 3.0}
    return OPDOP(task, Counts(task, radius=0.125), **numbers)


def test_first_policy_is_uniform_and_first_multiplier_zero():
    learner = by_hand((3, 4, 3, 2))
    np.testing.assert_array_equal(learner.propose().table, 1.0 / 3.0)  # Q^0 = 0
    np.testing.assert_array_equal(learner.dual, 0.0)  # Y^0
    learner.learn(random_episodes(0, 1, (3, 4, 3, 2))[0])
    np.testing.assert_array_equal(learner.dual, 0.0)  # Y^1 = Y^0, because V^0 = b


def test_three_episodes_by_hand():
    learner = by_hand()
    # In every episode: state 0, action 0, state 1, action 1; reward 1 then 0, utility 0 then 1.
    episode = Episode(np.array([0, 1, 0]), np.array([0, 1]), np.array([[1.0, 0.0], [0.0, 1.0]]))

    # Episode 1, from nothing: both estimates are the bonus 2 * (1/8) / sqrt(1) everywhere.
    learner.propose()
    learner.learn(episode)
    np.testing.assert_array_equal(learner.estimates.q, 0.25)

    # Episode 2. Equal Q: pi^2 is uniform. Y^2 = 0 + 1/4 (1.75 - 0.25) = 0.375.
    np.testing.assert_allclose(learner.propose().table, 0.5, rtol=1e-15)
    learner.learn(episode)
    assert learner.dual[0] == 0.375
    # One visit, n + ridge = 2: mean 1/2 where the signal was 1, P^ = 1/2 to state 1, 2 bonus = .25/sqrt(2).
    bonus, never = 0.25 / math.sqrt(2), 0.25
    u1 = 0.5 + bonus  # Q_g at stage 1, state 1, action 1
    g1 = 0.5 * never + 0.5 * u1  # V_g there under the uniform policy
    g0 = 0.0 + 0.5 * g1 + bonus  # Q_g at stage 0, state 0, action 0
    r1 = 0.5 * never + 0.5 * bonus
    r0 = 0.5 + 0.5 * r1 + bonus
    q = learner.estimates.q
    for found, expected in ((q[1, 1, 1, 1], u1), (q[1, 0, 0, 0], g0), (q[0, 0, 0, 0], r0), (q[0, 1, 1, 1], bonus)):
        assert found == pytest.approx(expected, rel=1e-15)
    assert q[0, 0, 0, 1] == q[1, 0, 0, 1] == never

    # Episode 3. From the uniform policy: mixing changes nothing, then exp(1/2 (Q_r + .375 Q_g)).
    policy = learner.propose().table
    seen, unseen = math.exp(0.5 * (r0 + 0.375 * g0)), math.exp(0.5 * (never + 0.375 * never))
    assert policy[0, 0, 0] == pytest.approx(seen / (seen + unseen), rel=1e-15)
    learner.learn(episode)
    # Y^3 = Y^2 + 1/4 (1.75 - V_g^2(x_1)), V_g^2 = the mean of g0 and the bonus, both seen by the uniform pi^2.
    assert learner.dual[0] == pytest.approx(0.375 + 0.25 * (1.75 - (0.5 * g0 + 0.5 * never)), rel=1e-15)


@settings(max_examples=40)
@given(sketches(states=(1, 5), actions=(1, 3), horizon=(1, 4)))
def test_learner_follows_the_papers_algorithms(sketch: Sketch):
    # Large steps, so that policy and multipliers move within a few episodes and both clips are reached.
    H, S, A, I = sketch.sizes
    cmdp = sketch.build()
    task = Task.of(cmdp, episodes=30, slater_gap=0.5)
    numbers = {"step_size": 0.7, "dual_step_size": 0.6, "mixing": 0.05, "dual_bound": 1.5}
    learner = OPDOP(task, Counts(task, radius=0.05, ridge=0.7), **numbers)
    plain = PlainOPDOP(
        (H, S, A, I),
        sketch.thresholds.tolist(),
        sketch.initial.tolist(),
        alpha=0.7,
        eta=0.6,
        theta=0.05,
        chi=1.5,
        radii=[0.05] * H,
        ridge=0.7,
    )
    simulator = ModelSimulator(cmdp, seed=7, noisy=True)
    for _ in range(30):
        policy = learner.propose()
        np.testing.assert_allclose(policy.table, plain.propose(), rtol=0, atol=1e-11)
        episode = simulator.play(policy)
        learner.learn(episode)
        plain.learn(episode)
        np.testing.assert_allclose(learner.estimates.q, plain.q, rtol=0, atol=1e-11)
        np.testing.assert_allclose(learner.dual, plain.dual, rtol=0, atol=1e-11)
        np.testing.assert_allclose(learner.utility_estimates, plain.utility, rtol=0, atol=1e-11)


@pytest.mark.parametrize(("threshold", "end"), [(0.1, 0.0), (2.9, 1.5)], ids=["no multiplier", "the largest"])
def test_the_papers_steps_reach_both_ends_of_the_multipliers_range(threshold: float, end: float):
    # Otherwise the comparison above would not test the clips.
    task = Task(3, 1, 2, [threshold], [1.0], episodes=10, slater_gap=0.5)
    numbers = {"step_size": 0.7, "dual_step_size": 0.6, "mixing": 0.05, "dual_bound": 1.5}
    learner = OPDOP(task, Counts(task, radius=0.05, ridge=0.7), **numbers)
    plain = PlainOPDOP(
        (3, 1, 2, 1), [threshold], [1.0], alpha=0.7, eta=0.6, theta=0.05, chi=1.5, radii=[0.05] * 3, ridge=0.7
    )
    for episode in random_episodes(0, 10, (3, 1, 2, 1)):
        for each in (learner, plain):
            each.propose()
            each.learn(episode)
    assert learner.dual[0] == plain.dual[0] == end


# Order


def altered(episode: Episode, sizes: tuple[int, int, int, int]) -> Episode:
    _, S, A, _ = sizes
    return Episode((episode.states + 1) % S, (episode.actions + 1) % A, 1.0 - episode.signals)


@pytest.mark.parametrize("k", [1, 2, 7])
def test_estimates_of_an_episode_have_not_seen_it(k: int):
    sizes = (3, 4, 3, 2)
    learners = [by_hand(sizes), by_hand(sizes)]
    episodes = random_episodes(3, k + 1, sizes)
    for n, episode in enumerate(episodes, start=1):
        for learner, other in zip(learners, (episode, altered(episode, sizes)), strict=True):
            learner.propose()
            learner.learn(other if n == k else episode)
        same = np.array_equal(learners[0].estimates.q, learners[1].estimates.q)
        assert same == (n <= k)  # pi^k, Q^k, V^k and Y^k are as if it had never been; the next ones are not
        if n <= k:
            np.testing.assert_array_equal(learners[0].policy, learners[1].policy)
            np.testing.assert_array_equal(learners[0].dual, learners[1].dual)
            np.testing.assert_array_equal(learners[0].utility_estimates, learners[1].utility_estimates)


def test_multiplier_follows_the_estimate_of_the_policy_before():
    sizes = (3, 4, 3, 2)
    learner = by_hand(sizes)
    for episode in random_episodes(5, 20, sizes):
        dual, estimated = learner.dual.copy(), learner.utility_estimates.copy()
        learner.propose()
        learner.learn(episode)
        moved = dual + 0.25 * (1.75 - estimated)
        np.testing.assert_array_equal(learner.dual, np.clip(moved, 0.0, 3.0))
        np.testing.assert_array_equal(learner.utility_estimates, learner.estimated_totals()[1:])


def test_utility_is_estimated_from_the_distribution_of_the_first_state():
    initial = np.array([0.5, 0.25, 0.25])
    task = Task(2, 3, 2, [0.5, 1.0], initial, episodes=10, slater_gap=0.1)
    learner = OPDOP.preset(task, Counts, "practical")
    for episode in random_episodes(2, 6, (2, 3, 2, 2)):
        learner.propose()
        learner.learn(episode)
    v = learner.estimates.v[:, 0]
    expected = [0.5 * v[j, 0] + 0.25 * v[j, 1] + 0.25 * v[j, 2] for j in range(3)]
    np.testing.assert_allclose(learner.estimated_totals(), expected, rtol=1e-15)
    estimated = learner.diagnostics()
    assert estimated["estimated_utility_1"] == learner.estimated_totals()[2]
    assert estimated["dual_1"] == learner.dual[1]
    assert estimated["episodes"] == 6.0


# Proposing and learning


def test_asked_again_the_learner_proposes_the_same():
    cmdp = sketch_of(0).build()
    learner, simulator = learner_of(cmdp), ModelSimulator(cmdp, seed=0)
    for _ in range(5):
        policy = learner.propose()
        assert learner.propose() is policy
        learner.learn(simulator.play(policy))


def test_learning_needs_a_proposal():
    with pytest.raises(OpdopError, match="propose first"):
        by_hand().learn(random_episodes(0, 1, (2, 2, 2, 1))[0])


def test_a_proposed_policy_is_not_changed_by_later_ones():
    cmdp = sketch_of(0).build()
    learner, simulator = learner_of(cmdp), ModelSimulator(cmdp, seed=0)
    policies, copies = [], []
    for _ in range(10):
        policies.append(learner.propose())
        copies.append(policies[-1].table.copy())
        learner.learn(simulator.play(policies[-1]))
    for policy, copy in zip(policies, copies, strict=True):
        np.testing.assert_array_equal(policy.table, copy)
        with pytest.raises(ValueError, match="read-only"):
            policy.table[0, 0, 0] = 1.0


def test_an_episode_that_does_not_fit_leaves_the_learner_as_it_was():
    sizes = (2, 2, 2, 1)
    learner, other = by_hand(sizes), by_hand(sizes)
    for episode in random_episodes(0, 5, sizes):
        for each in (learner, other):
            each.propose()
            each.learn(episode)
    learner.propose()
    with pytest.raises(InvalidModelError, match="states"):
        learner.learn(Episode(np.array([0, 5, 0]), np.array([0, 0]), np.zeros((2, 2))))
    assert_same_state(learner, other)


def test_a_state_saved_between_proposal_and_learning_gives_the_same_proposal_again():
    cmdp = sketch_of(0).build()
    learner, other = learner_of(cmdp), learner_of(cmdp)
    simulator = ModelSimulator(cmdp, seed=0)
    for _ in range(5):
        learner.learn(simulator.play(learner.propose()))
    policy = learner.propose()
    other.restore(learner.state())
    np.testing.assert_array_equal(other.propose().table, policy.table)


def test_a_learner_restored_to_its_beginning_begins_again():
    cmdp = sketch_of(0, constraints=2).build()
    learner = learner_of(cmdp)
    beginning = learner.state()

    def policies() -> list[Array]:
        simulator, found = ModelSimulator(cmdp, seed=3), []
        for _ in range(6):
            found.append(learner.propose().table)
            learner.learn(simulator.play(learner.propose()))
        return found

    first = policies()
    learner.restore(beginning)
    for one, two in zip(first, policies(), strict=True):
        np.testing.assert_array_equal(one, two)


class Forgetful:
    """An evaluator written by a user: its estimates are what it observed last."""

    def __init__(self, task: Task) -> None:
        self.task, self.bits = task, 0.0

    def evaluate(self, policy: TabularPolicy) -> Estimates:
        H, S, A = policy.table.shape
        q = np.full((2, H, S, A), self.bits)
        q[..., 0] /= 2.0
        v = np.zeros((2, H + 1, S))
        v[:, :H] = np.einsum("jhxa,hxa->jhx", q, policy.table)
        return Estimates(q, v, np.ones((H, S), dtype=bool))

    def observe(self, episode: Episode, estimates: Estimates) -> None:
        self.bits = float(episode.signals.sum())

    def state(self) -> dict[str, Any]:
        return {"bits": np.array(self.bits)}

    def restore(self, state: Any) -> None:
        self.bits = float(state["bits"])


def test_any_evaluator_will_do_and_is_restored_with_its_estimates():
    task = Task(2, 2, 2, [0.5], [1.0, 0.0], episodes=10, slater_gap=0.1)
    learner = OPDOP.preset(task, Forgetful(task), "practical")
    assert not {"radius", "first_radius", "ridge"} & set(learner.constants)  # the preset's were not used
    for episode in random_episodes(0, 4, (2, 2, 2, 1)):
        learner.propose()
        learner.learn(episode)
    assert (learner.propose().table[..., 1] > 0.5).all()
    other = OPDOP.preset(task, Forgetful(task), "practical")
    other.restore(learner.state())
    np.testing.assert_array_equal(other.propose().table, learner.propose().table)


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("policy", lambda p: p * 2.0, "not consist of probabilities"),
        ("dual", lambda y: y + 1e9, "outside"),
        ("dual", lambda y: y - 1e9, "outside"),
        ("utility_estimates", lambda u: u * np.nan, "not finite"),
        ("policy", lambda p: p[:1], "expected float64"),
    ],
)
def test_a_damaged_state_is_refused(name: str, change: Any, said: str):
    learner = by_hand()
    state = learner.state()
    with pytest.raises(OpdopError, match=said):
        learner.restore({**state, name: change(state[name])})


# A learner never sees the model


def test_a_task_holds_sizes_thresholds_and_plans_only():
    assert {field.name for field in dataclasses.fields(Task)} == {
        "horizon",
        "num_states",
        "num_actions",
        "thresholds",
        "initial",
        "episodes",
        "failure_probability",
        "slater_gap",
        "noisy",
        "stationary",  # whether the kernel and the signals are the same at every stage
        "stationary_signals",
        "absorbing",  # the state in which an episode rests after its end, and its signals there
        "rest",
        "first_visits",  # how often each state was observed as a first state, if its distribution is not known
        "baseline",  # a policy that keeps the constraints, and its slack, where an algorithm must be told one
        "features",  # which the paper takes as known; the parameters that go with them are not among them
    }


def reachable(thing: Any, known: set[int]) -> Iterator[Any]:
    """Yield everything that can be reached through attributes and containers."""
    if id(thing) in known or isinstance(thing, (type, str, int, float)):
        return
    known.add(id(thing))
    yield thing
    inside = list(vars(thing).values()) if hasattr(thing, "__dict__") and not callable(thing) else []
    if isinstance(thing, dict):
        inside += thing.values()
    if isinstance(thing, (list, tuple)):
        inside += thing
    for each in inside:
        yield from reachable(each, known)


@pytest.mark.parametrize("make", ["OPDOP", "Doubling"])
def test_nothing_of_the_model_can_be_reached_from_a_learner(make: str):
    cmdp = sketch_of(0, constraints=2).build()
    task = Task.of(cmdp, episodes=50)
    if make == "OPDOP":
        learner: Any = OPDOP.preset(task, Counts, "practical")
    else:
        learner = Doubling(task, lambda phase: OPDOP.preset(phase, Counts, "practical"), first=8)
    simulator = ModelSimulator(cmdp, seed=0)
    for _ in range(20):
        learner.learn(simulator.play(learner.propose()))
    hidden = [*cmdp.transitions, cmdp.signals]
    found = list(reachable(learner, set()))
    assert any(
        isinstance(thing, np.ndarray) and np.shares_memory(thing, learner.policy) for thing in found
    )  # it gets there
    for thing in found:
        assert not isinstance(thing, TabularCMDP)
        if isinstance(thing, np.ndarray):
            assert not any(np.shares_memory(thing, array) for array in hidden)


def imports(path: Path) -> set[str]:
    """Return the modules that a file imports, inside functions too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            found |= {node.module or ""} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def test_learners_import_no_environment_and_plan_nothing():
    files = sorted((PACKAGE / "algorithms").glob("*.py"))
    assert len(files) > 5
    for file in files:
        names = imports(file)
        assert not any(name.startswith("opdop.envs") for name in names), file.name
        assert not any(name.startswith(("opdop.runs", "opdop.sweeps", "opdop.theory")) for name in names), file.name
        # What learners are told (the Slater gap, a safe policy), and peers that plan on their own estimated model.
        plans = file.name in ("task.py", "baseline.py", "posterior.py", "optpess_lp.py")
        assert any(name.startswith("opdop.planning") for name in names) == plans, file.name


# The policy stays a distribution


def tiny(seed: int = 7) -> TabularCMDP:
    return sketch_of(seed, states=2, actions=3, horizon=2).build()


@pytest.mark.parametrize("algorithm", ["opdop", "oppo"])
@pytest.mark.parametrize("episodes", [10**5, pytest.param(10**7, marks=pytest.mark.slow)])
def test_policy_stays_a_distribution_for_long(algorithm: str, episodes: int):
    # Steps as if 1000 episodes were planned: far larger than the plan allows, so that probabilities go to their ends.
    run = train(tiny(), algorithm, episodes=episodes, planned_episodes=1000, records=100)
    for table in (run.policy.table, run.mixture.table):
        assert np.abs(table.sum(axis=2) - 1.0).max() <= 1e-12
        assert (table >= 0.0).all()
        assert np.isfinite(table).all()
    if algorithm == "oppo":
        assert run.policy.table.min() == PROBABILITY_FLOOR  # theta = 0: what loses is kept from vanishing
        np.testing.assert_array_equal(run.history["dual_0"], 0.0)
    else:
        # A mixed action has theta / A; one step takes at most alpha times the range H + chi H of the scores from it.
        constants = run.constants
        range_ = 2.0 * (1.0 + constants["dual_bound"])
        assert run.policy.table.min() >= constants["mixing"] / 3 * math.exp(-constants["step_size"] * range_)
    assert np.isfinite(run.history.to_numpy()).all()


def test_oppo_ignores_the_constraints():
    # The same model with another utility and another threshold: not a bit changes in what it plays.
    sketch = sketch_of(3)
    other = dataclasses.replace(
        sketch, signals=np.stack([sketch.signals[0], 1.0 - sketch.signals[1]]), thresholds=np.array([1e-3])
    )
    one, two = (train(each.build(), "oppo", episodes=500, seed=1) for each in (sketch, other))
    np.testing.assert_array_equal(one.policy.table, two.policy.table)
    assert one.policy.table.tobytes() != train(sketch.build(), "opdop", episodes=500, seed=1).policy.table.tobytes()


def test_oppo_is_opdop_with_zero_multiplier_and_mixing():
    cmdp = sketch_of(3, constraints=2).build()
    task = Task.of(cmdp, episodes=100)
    constants = choose(task, "practical")
    oppo = OPPO.preset(task, Counts, "practical")
    opdop_ = OPDOP(
        task,
        Counts(task, radius=constants.radius, ridge=constants.ridge),
        step_size=constants.step_size,
        dual_step_size=0.0,
        mixing=0.0,
        dual_bound=0.0,
        relative=True,
        early_updates=constants.early_updates,
    )
    simulators = [ModelSimulator(cmdp, seed=0), ModelSimulator(cmdp, seed=0)]
    for _ in range(50):
        for learner, simulator in zip((oppo, opdop_), simulators, strict=True):
            learner.learn(simulator.play(learner.propose()))
    assert_same_state(oppo, opdop_)
    np.testing.assert_array_equal(oppo.dual, 0.0)


# Doubling


def doubling_of(task: Task, first: int, built: list[Task] | None = None) -> Doubling:
    def build(phase: Task) -> OPDOP:
        if built is not None:
            built.append(phase)
        return OPDOP.preset(
            phase, Counts, "practical", optimistic_init=1e-9
        )  # without optimistic_init the multiplier moves at once

    return Doubling(task, build, first=first)


def test_doubling_doubles_the_plan_and_splits_the_failure_probability():
    task = Task(2, 2, 2, [0.5], [1.0, 0.0], episodes=999, failure_probability=0.3, slater_gap=0.1)
    built: list[Task] = []
    learner = doubling_of(task, 4, built)
    phases = []
    for episode in random_episodes(0, 4 + 8 + 16 + 1, (2, 2, 2, 1)):
        learner.propose()
        phases.append(learner.phase)
        learner.learn(episode)
    assert phases == [0] * 4 + [1] * 8 + [2] * 16 + [3]
    assert [phase.episodes for phase in built] == [4, 8, 16, 32]
    assert [phase.failure_probability for phase in built] == [0.3 / 2, 0.3 / 6, 0.3 / 12, 0.3 / 20]
    assert learner.episodes == 29
    assert learner.diagnostics()["phase"] == 3.0
    assert learner.diagnostics()["episodes"] == 29.0
    assert learner.constants["doubling_phase"] == 3
    assert learner.constants["planned_episodes"] == 32


def test_all_phases_together_fail_with_at_most_the_failure_probability():
    # 1/((i+1)(i+2)) = 1/(i+1) - 1/(i+2): any number of phases adds up to less than 1.
    task = Task(2, 2, 2, [0.5], [1.0, 0.0], episodes=999, failure_probability=0.3, slater_gap=0.1)
    played = phases(task, 1024 * (2**20 - 1))
    assert len(played) == 20
    assert math.fsum(phase.failure_probability for phase, _ in played) == pytest.approx(0.3 * (1.0 - 1.0 / 21.0))


@pytest.mark.parametrize("episodes", [1, 4, 5, 12, 13, 40])
def test_the_phases_of_a_number_of_episodes_are_those_that_a_learner_goes_through(episodes: int):
    task = Task(2, 2, 2, [0.5], [1.0, 0.0], episodes=999, failure_probability=0.3, slater_gap=0.1)
    built: list[Task] = []
    learner = doubling_of(task, 4, built)
    for episode in random_episodes(0, episodes, (2, 2, 2, 1)):
        learner.propose()
        learner.learn(episode)
    expected = phases(task, episodes, first=4)
    assert sum(played for _, played in expected) == learner.episodes == episodes
    assert expected[-1][1] == learner.played
    plans = [(plan.episodes, plan.failure_probability) for plan in built]
    assert plans == [(plan.episodes, plan.failure_probability) for plan, _ in expected]


@pytest.mark.parametrize("first", [0, -1, 2.5, True])
def test_a_first_phase_without_episodes_is_refused(first: Any):
    task = Task(2, 2, 2, [0.5], [1.0, 0.0], episodes=999, slater_gap=0.1)
    with pytest.raises(InvalidParameterError, match="first is"):
        doubling_of(task, first)


def test_each_phase_starts_afresh():
    task = Task(2, 2, 2, [1.5], [1.0, 0.0], episodes=999, slater_gap=0.1)
    learner = doubling_of(task, 8)
    for k, episode in enumerate(random_episodes(1, 8 + 16 + 1, (2, 2, 2, 1))):
        policy = learner.propose()
        if k in (0, 8, 24):
            np.testing.assert_array_equal(policy.table, 0.5)
            np.testing.assert_array_equal(learner.current.dual, 0.0)
            assert learner.current.evaluator.transitions()[0].size == 0
        elif k in (7, 23):
            assert (policy.table != 0.5).any()
            assert learner.current.dual[0] > 0.0
        learner.learn(episode)


@pytest.mark.parametrize("stop", [3, 8, 11, 24])
def test_doubling_restored_within_a_phase_goes_on_the_same(stop: int):
    cmdp = sketch_of(1, constraints=2).build()
    task = Task.of(cmdp, episodes=999)
    whole, simulator = doubling_of(task, 8), ModelSimulator(cmdp, seed=0)
    for _ in range(stop):
        whole.learn(simulator.play(whole.propose()))
    other = doubling_of(task, 8)
    other.restore(whole.state())
    assert (other.phase, other.episodes, other.planned) == (whole.phase, whole.episodes, whole.planned)
    for _ in range(30):
        policy = whole.propose()
        np.testing.assert_array_equal(other.propose().table, policy.table)
        episode = simulator.play(policy)
        whole.learn(episode)
        other.learn(episode)
    assert_same_state(whole, other)


def test_fixed_radius_and_number_are_the_same_evaluator():
    task = Task(2, 2, 2, [0.5], [1.0, 0.0], episodes=10, slater_gap=0.1)
    np.testing.assert_array_equal(Counts(task, radius=2).radii, Counts(task, radius=FixedRadius(2.0)).radii)
