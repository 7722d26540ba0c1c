"""Along runs, certified estimates are optimistic and the paper's decompositions hold exactly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import opdop
from opdop import OPDOP, Counts, Episode, ModelSimulator, TabularCMDP, TabularPolicy, Task, solve, train
from opdop.algorithms import WeissmanRadius
from opdop.theory import decompose, expected_next, prediction_errors
from tests.support.compiled_episodes import advance
from tests.support.strategies import Array, Sketch, policy_table, sketch_of, sketches, totals_plainly

EXACT = {"rtol": 0, "atol": 1e-10}


# Prediction errors


@settings(max_examples=50)
@given(sketches())
def test_prediction_errors_are_their_definition(sketch: Sketch):
    H, S, A, I = sketch.sizes
    rng = np.random.default_rng(0)
    q, v = rng.random((1 + I, H, S, A)), rng.random((1 + I, H + 1, S))
    cmdp = sketch.build()
    ahead = np.einsum("hxay,jhy->jhxa", sketch.P, v[:, 1:])
    np.testing.assert_allclose(expected_next(cmdp, v), ahead, rtol=0, atol=1e-13)
    found = prediction_errors(cmdp, opdop.Estimates(q, v, np.ones((H, S), dtype=bool)))
    np.testing.assert_allclose(found, sketch.signals + ahead - q, rtol=0, atol=1e-13)


# Optimism


@dataclass(frozen=True)
class Look:
    """The largest prediction error at one episode, and how far below -4 bonus the smallest one is."""

    episode: int
    above: float
    below: float


def looks(
    cmdp: TabularCMDP, scale: float, *, episodes: int, between: int, seed: int, noisy: bool = False
) -> Iterator[Look]:
    """Yield a look at every so manieth episode of a certified run whose radius is scaled."""
    task = Task.of(cmdp, episodes=episodes, slater_gap=0.3, noisy=noisy)
    learner = OPDOP.preset(task, Counts(task, radius=WeissmanRadius(scale)), "certified")
    simulator = ModelSimulator(cmdp, seed=seed, noisy=noisy)
    counts = learner.evaluator
    assert isinstance(counts, Counts)
    while learner.episodes < episodes:
        policy = learner.propose()
        episode = simulator.play(policy)
        # The estimates of this episode have not seen it, so neither may the counts of the bonus.
        number = counts.number.copy()
        learner.learn(episode)
        bonus = counts.radii[:, None, None] / np.sqrt(number + 1.0)
        iota = prediction_errors(cmdp, learner.estimates)
        yield Look(learner.episodes, float(iota.max()), float((-4.0 * bonus - iota).max()))
        if between > 1:
            advance(learner, simulator, min(between - 1, episodes - learner.episodes))


PROBLEMS: dict[str, Any] = {
    "random": lambda: sketch_of(1).build(),
    "random, three constraints, random first state": lambda: sketch_of(2, constraints=3, first_state="random").build(),
    "random, two states": lambda: sketch_of(3, states=2, actions=2, horizon=5).build(),
    "one state": lambda: sketch_of(4, states=1, actions=3, horizon=3).build(),
    "random-tabular": lambda: opdop.make("random-tabular"),
    "factored": lambda: opdop.make("factored"),
    "media-streaming": lambda: opdop.make("media-streaming"),
    "queue": lambda: opdop.make("queue"),
    "inventory": lambda: opdop.make("inventory"),
}
every_problem = pytest.mark.parametrize("problem", PROBLEMS, ids=str)


@every_problem
@pytest.mark.parametrize("noisy", [False, True], ids=["certain", "noisy"])
@pytest.mark.parametrize("seed", [0, 1])
def test_certified_estimates_are_optimistic_and_within_four_bonuses(problem: str, noisy: bool, seed: int):
    # Optimism may fail in one run of forty (p/2 = 1/40); with these seeds it never does, at any pair or signal.
    cmdp = PROBLEMS[problem]()
    seen = list(looks(cmdp, 1.0, episodes=4000, between=40, seed=seed, noisy=noisy))
    seen += list(looks(cmdp, 1.0, episodes=60, between=1, seed=seed, noisy=noisy))
    assert len(seen) == 160
    assert max(look.above for look in seen) <= 1e-12
    assert max(look.below for look in seen) <= 1e-12


@pytest.mark.parametrize("problem", [name for name in PROBLEMS if name != "one state"], ids=str)
@pytest.mark.parametrize("noisy", [False, True], ids=["certain", "noisy"])
def test_optimism_breaks_with_a_hundredth_of_the_radius(problem: str, noisy: bool):
    seen = looks(PROBLEMS[problem](), 0.01, episodes=4000, between=40, seed=0, noisy=noisy)
    assert max(look.above for look in seen) > 0.01


@pytest.mark.slow
@pytest.mark.parametrize("noisy", [False, True], ids=["certain", "noisy"])
def test_certified_optimism_fails_in_no_more_runs_than_its_failure_probability(noisy: bool):
    # Forty runs of short plans at p = 1/20: at most p/2, one of them on average, may fail; here none does.
    failed = 0
    for seed in range(40):
        cmdp = sketch_of(seed, states=3, actions=2, horizon=4, kernel="few successors").build()
        seen = looks(cmdp, 1.0, episodes=20_000, between=100, seed=seed, noisy=noisy)
        failed += max(look.above for look in seen) > 1e-12
    assert failed <= 1


def test_optimistic_estimates_bound_every_policys_value():
    # iota <= 0 at every pair makes V^k at least the true value of pi^k, for every signal, stage and state.
    cmdp = opdop.make("random-tabular")
    learner = OPDOP.preset(Task.of(cmdp, episodes=500), Counts, "certified")
    simulator = ModelSimulator(cmdp, seed=0)
    for _ in range(500):
        policy = learner.propose()
        learner.learn(simulator.play(policy))
        assert (learner.estimates.v >= opdop.planning.value_functions(cmdp, policy) - 1e-12).all()


# Decompositions

MODELS: dict[str, dict[str, Any]] = {
    "one constraint": {},
    "three constraints": {"constraints": 3},
    "random first state": {"first_state": "random"},
    "two constraints, random first state, sparse": {
        "constraints": 2,
        "first_state": "random",
        "form": "sparse stationary",
    },
}


@pytest.mark.parametrize("kinds", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("noisy", [False, True], ids=["certain", "noisy"])
@pytest.mark.parametrize("preset", ["certified", "scaled"])
def test_decompositions_hold_at_every_episode_and_add_up_to_regret_and_violation(
    kinds: dict[str, Any], noisy: bool, preset: str
):
    sketch, K = sketch_of(21, **kinds), 150
    cmdp = sketch.build()
    best = solve(cmdp)
    learner = OPDOP.preset(Task.of(cmdp, episodes=K, slater_gap=0.3, noisy=noisy), Counts, preset)
    simulator = ModelSimulator(cmdp, seed=3, noisy=noisy)
    before, after, totals = [], [], []
    for _ in range(K):
        policy = learner.propose()
        episode = simulator.play(policy)
        learner.learn(episode)
        parts = decompose(cmdp, best.policy, policy, learner.estimates, episode)
        np.testing.assert_allclose(parts.before, parts.policy_gap + parts.expected_error, **EXACT)  # RI and gRI
        np.testing.assert_allclose(parts.after, parts.martingale - parts.path_error, **EXACT)  # RII and CII
        before.append(parts.before)
        after.append(parts.after)
        totals.append(totals_plainly(sketch, policy.table))
    summed = np.sum(before, axis=0) + np.sum(after, axis=0)

    run = train(cmdp, episodes=K, seed=3, preset=preset, slater_gap=0.3, noisy=noisy)
    optimal = np.array([best.value, *best.utility_values])
    np.testing.assert_allclose(summed, (optimal - np.array(totals)).sum(axis=0), **EXACT)
    assert summed[0] == pytest.approx(run.regret[-1], abs=1e-10)  # (R.I) + (R.II)
    for i, b in enumerate(sketch.thresholds):
        shortfall = K * (b - best.utility_values[i]) + summed[1 + i]
        assert run.history[f"shortfall_{i}"][-1] == pytest.approx(shortfall, abs=1e-10)


@settings(max_examples=40)
@given(sketches())
def test_decompositions_hold_for_any_estimates_policies_and_episode(sketch: Sketch):
    # They are identities: V = <Q, pi^k> and V_{H+1} = 0 is all they need.
    H, S, A, I = sketch.sizes
    rng = np.random.default_rng(1)
    policy, best = TabularPolicy(policy_table(2, sketch)), TabularPolicy(policy_table(3, sketch, "one action"))
    q: Array = 3.0 * rng.random((1 + I, H, S, A))
    v = np.zeros((1 + I, H + 1, S))
    v[:, :H] = np.einsum("jhxa,hxa->jhx", q, policy.table)
    episode = Episode(rng.integers(0, S, H + 1), rng.integers(0, A, H), np.zeros((1 + I, H)))
    cmdp = sketch.build()
    parts = decompose(cmdp, best, policy, opdop.Estimates(q, v, np.ones((H, S), dtype=bool)), episode)
    np.testing.assert_allclose(parts.before, parts.policy_gap + parts.expected_error, **EXACT)
    np.testing.assert_allclose(parts.after, parts.martingale - parts.path_error, **EXACT)
    expected = totals_plainly(sketch, best.table) - totals_plainly(sketch, policy.table)
    np.testing.assert_allclose(parts.before + parts.after, expected, **EXACT)


def test_the_martingale_has_mean_zero():
    # Its average over many episodes of one policy lies within five standard errors.
    sketch = sketch_of(31, first_state="random", states=3, horizon=3)
    cmdp = sketch.build()
    learner = OPDOP.preset(Task.of(cmdp, episodes=50, slater_gap=0.3), Counts, "practical")
    simulator = ModelSimulator(cmdp, seed=0)
    for _ in range(50):
        policy = learner.propose()
        learner.learn(simulator.play(policy))
    steps = np.array(
        [decompose(cmdp, policy, policy, learner.estimates, simulator.play(policy)).martingale for _ in range(2000)]
    )
    errors = steps.std(axis=0) / np.sqrt(len(steps))
    assert (errors > 1e-4).all()
    assert (np.abs(steps.mean(axis=0)) <= 5.0 * errors).all()
