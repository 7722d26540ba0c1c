"""OptPess-PrimalDual: decreasing pessimism, the multiplier's step, optimism, and what it refuses."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import opdop
from opdop import InvalidParameterError, ModelSimulator, Task, train
from opdop.algorithms import find
from opdop.kernels.optpess import pessimism_of

NAME = "optpess-primal-dual"


def test_the_pessimism_decreases_like_one_over_the_root_of_the_episodes():
    k = np.arange(1.0, 20_001.0)
    shift = math.log(1e4)
    found = np.array([pessimism_of(each, 3.0, shift) for each in k])
    logs = np.log(k) + shift
    np.testing.assert_allclose(found, 3.0 * (logs + 1.0) / np.sqrt(k * logs), rtol=1e-12)
    assert (np.diff(found) < 0.0).all()
    # Its sum is 2 sqrt(k log(k / delta')) up to a constant: the terms are the differences of that function.
    assert found.sum() == pytest.approx(3.0 * 2.0 * math.sqrt(k[-1] * logs[-1]), rel=0.05)


def test_the_multiplier_moves_by_the_estimated_violation_and_the_pessimism():
    cmdp = opdop.make("media-streaming")
    task = Task.of(cmdp, episodes=40)
    algorithm, simulator = find(NAME), ModelSimulator(cmdp, seed=0)
    learner = algorithm.build(task, algorithm.preset("practical", {"dual_step_scale": 1.0}))
    before, estimate, b = 0.0, 0.0, cmdp.thresholds[0]
    for k in range(1, 40):
        policy = learner.propose()
        assert set(np.unique(policy.table)) == {0.0, 1.0}
        if k > 1:
            peer = learner.peer
            moved = before + b - estimate + pessimism_of(k - 1.0, peer.pessimism, peer.log_shift)
            assert peer.queue[0] == pytest.approx(max(moved, 0.0), rel=1e-12)
            eta = task.slater_gap * task.horizon * math.sqrt(k)
            assert learner.dual[0] == pytest.approx(peer.queue[0] / eta, rel=1e-12)
        before, estimate = learner.peer.queue[0], learner.diagnostics()["estimated_utility_0"]
        learner.learn(simulator.play(policy))


@pytest.mark.parametrize("noisy", [False, True])
def test_the_papers_estimates_are_optimistic_for_both_signals(noisy: bool):
    cmdp = opdop.make("random-tabular")
    task = Task.of(cmdp, episodes=2000, noisy=noisy)
    learner, simulator = find(NAME).build(task, "paper"), ModelSimulator(cmdp, seed=2, noisy=noisy)
    for _ in range(300):
        policy = learner.propose()
        values = opdop.evaluate(cmdp, policy)
        numbers = learner.diagnostics()
        assert numbers["estimated_reward"] >= values.reward
        assert numbers["estimated_utility_0"] >= values.utilities[0]
        learner.learn(simulator.play(policy))


def test_more_pessimism_gives_less_violation_and_the_sum_stays_bounded():
    violations = []
    for scale in (0.0001, 0.01):
        run = train("factored", NAME, episodes=8000, parameters={"pessimism_scale": scale, "dual_step_scale": 1.0})
        violations.append(run.violation)
    assert violations[1][-1] < 0.2 * violations[0][-1]
    half = int(np.searchsorted(run.episodes, 4000))
    assert violations[1][-1] <= violations[1][:half].max() + 1e-9  # bounded: no more in the second half


def test_what_the_theory_does_not_cover_is_refused():
    with pytest.raises(InvalidParameterError, match="counts visits, so it needs finitely many states"):
        train("reservoir", NAME, episodes=5)
    with pytest.raises(InvalidParameterError, match="is proven for one constraint, and this task has 2"):
        train("queue", NAME, episodes=5)
    task = replace(Task.of(opdop.make("factored"), episodes=5), slater_gap=None)
    with pytest.raises(InvalidParameterError, match="needs to know by how much some policy keeps the constraint"):
        find(NAME).build(task)
