"""OptPrimalDual-CMDP of Efroni, Mannor and Pirotta: its steps, its projection and its optimism."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import opdop
from opdop import OPDOP, InvalidParameterError, ModelSimulator, Task, train
from opdop.algorithms import find
from opdop.algorithms.opt_primal_dual import L1BonusRadius, dual_step_size, policy_step_size
from opdop.planning import value_functions

NAME = "opt-primal-dual"


def learner_of(task: Task, preset: str = "paper", **parameters: float) -> OPDOP:
    algorithm = find(NAME)
    return algorithm.build(task, algorithm.preset(preset, parameters))


def test_step_sizes_are_those_that_minimise_the_regret_of_both_players():
    task = Task.of(opdop.make("factored"), episodes=400)
    H, K, A, rho = 6, 400, 2, 4.0
    largest = (1.0 + rho) * H

    def policy_regret(t: float) -> float:
        return math.log(A) / t + t * K * largest**2 / 2.0

    def dual_regret(t: float) -> float:
        return t * rho**2 / 2.0 + K * H**2 / (2.0 * t)

    for regret, step in ((policy_regret, policy_step_size(task, rho)), (dual_regret, 1.0 / dual_step_size(task, rho))):
        assert regret(step) < min(regret(0.999 * step), regret(1.001 * step))
    learner = learner_of(task)
    assert (learner.step_size, learner.dual_step_size) == (policy_step_size(task, rho), dual_step_size(task, rho))
    assert (learner.dual_bound, learner.mixing) == (2.0 * H / task.slater_gap, 0.0)


def test_multipliers_stay_in_their_projection_and_reach_its_end():
    cmdp = opdop.make("media-streaming")
    run = train(cmdp, NAME, episodes=600, dual_bound=0.05, parameters={"dual_step_scale": 10.0})
    dual = run.history["dual_0"].to_numpy()
    assert dual.min() >= 0.0
    assert dual.max() == 0.05


def test_the_policy_is_proportional_to_the_exponential_of_all_scores_so_far():
    cmdp = opdop.make("random-tabular")
    task = Task.of(cmdp, episodes=60)
    learner, simulator = learner_of(task, "practical"), ModelSimulator(cmdp, seed=4)
    scores = np.zeros((task.horizon, task.num_states, task.num_actions))
    for _ in range(60):
        learner.learn(simulator.play(learner.propose()))
        q = learner.estimates.q
        scores += learner.step_size * (q[0] + np.tensordot(learner.dual, q[1:], axes=1))
    expected = np.exp(scores - scores.max(axis=2, keepdims=True))
    expected /= expected.sum(axis=2, keepdims=True)
    np.testing.assert_allclose(learner.propose().table, expected, atol=1e-12)


@pytest.mark.parametrize("noisy", [False, True])
def test_the_papers_estimates_are_optimistic_everywhere(noisy: bool):
    cmdp = opdop.make("random-tabular", states=4, actions=2, stages=3)
    task = Task.of(cmdp, episodes=4000, noisy=noisy)
    # With a hundredth of the bonus estimates are below H - h, so that optimism is not empty.
    for scale, least in ((1.0, 0.0), (0.01, -0.2)):
        learner = (
            learner_of(task) if scale == 1.0 else learner_of(task, "practical", radius_scale=scale, step_scale=1000.0)
        )
        simulator = ModelSimulator(cmdp, seed=0, noisy=noisy)
        lowest = math.inf
        for _ in range(300):
            policy = learner.propose()
            learner.learn(simulator.play(policy))
            values = value_functions(cmdp, policy)
            lowest = min(lowest, float((learner.estimates.v - values).min()))
        assert lowest >= least


def test_estimates_are_plain_means_with_the_bonus_of_the_visits():
    cmdp = opdop.make("factored")
    task = replace(Task.of(cmdp, episodes=50), stationary=False, stationary_signals=False)
    learner, simulator = learner_of(task, "practical", radius_scale=0.001), ModelSimulator(cmdp, seed=1)
    for _ in range(50):
        learner.learn(simulator.play(learner.propose()))
    estimates = learner.evaluator.evaluate(learner.propose())
    number, bonus = learner.evaluator.number[-1], 2.0 * L1BonusRadius(0.001).radii(task, 0.0)[-1]
    with np.errstate(divide="ignore"):
        means = np.where(number > 0, cmdp.signals[:, 0] + bonus / np.sqrt(number), np.inf)
    np.testing.assert_allclose(estimates.q[:, -1], np.minimum(means, 1.0), atol=1e-12)


def test_what_the_theory_does_not_cover_is_refused():
    with pytest.raises(InvalidParameterError, match="`opt-primal-dual` counts visits, so it needs finitely many"):
        train("reservoir", NAME, episodes=5)
    task = replace(Task.of(opdop.make("factored"), episodes=5), slater_gap=None)
    with pytest.raises(InvalidParameterError, match="the Slater gap is unknown"):
        find(NAME).build(task, "paper")
    with pytest.raises(InvalidParameterError, match="`opt-primal-dual` has no preset 'certified'; it has paper, prac"):
        find(NAME).build(task, "certified")
