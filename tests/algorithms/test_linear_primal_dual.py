"""The linear primal-dual method: against least squares on all data, and facts that its paper states."""

from __future__ import annotations

import math

import numpy as np
import pytest

import opdop
from opdop import Episode, InvalidParameterError, LinearCMDP, ModelSimulator, Task, train
from opdop.algorithms import find
from opdop.algorithms.linear_primal_dual import LinearPrimalDual, SoftMaxConstants, linear_features
from opdop.model.features import embedding
from tests.support.strategies import Array


def constants(**changed: float) -> SoftMaxConstants:
    numbers = {"step_size": 2.0, "dual_step_size": 0.3, "dual_bound": 5.0, "radius": 0.4, "ridge": 0.7}
    return SoftMaxConstants("none", **{**numbers, **changed})


def plain_policy(episodes: list[Episode], phi: Array, dual: float, n: SoftMaxConstants) -> tuple[Array, Array]:
    """Lines 4 to 12 from a list of all episodes, with phi [S, A, d]; return the policy [H, S, A] and V_1 [2, S]."""
    S, A, d = phi.shape
    H = len(episodes[0].actions)
    policy, V = np.zeros((H, S, A)), np.zeros((2, S))
    for h in reversed(range(H)):
        gram = n.ridge * np.eye(d) + sum(np.outer(p, p) for p in (phi[e.states[h], e.actions[h]] for e in episodes))
        Q = np.zeros((2, S, A))
        for j in range(2):
            rows = [phi[e.states[h], e.actions[h]] * (e.signals[j, h] + V[j, e.states[h + 1]]) for e in episodes]
            w = np.linalg.solve(gram, sum(rows))
            width = np.sqrt(np.einsum("xad,de,xae->xa", phi, np.linalg.inv(gram), phi))
            Q[j] = np.minimum(phi @ w + n.radius * width, H)
        scores = n.step_size * (Q[0] + dual * Q[1])
        policy[h] = np.exp(scores - scores.max(axis=1, keepdims=True))
        policy[h] /= policy[h].sum(axis=1, keepdims=True)
        V = (policy[h] * Q).sum(axis=2)
    return policy, V


@pytest.mark.parametrize("problem", ["random-embedding", "random-tabular"])
def test_sums_give_what_least_squares_on_all_episodes_give(problem: str):
    cmdp = opdop.make(problem)
    task, numbers = Task.of(cmdp, episodes=50), constants()
    S, A = cmdp.num_states, cmdp.num_actions
    stored = linear_features(task)
    phi = np.eye(S * A).reshape(S, A, -1) if stored is None else stored.reshape(-1, A, S).transpose(2, 1, 0)
    learner, simulator = LinearPrimalDual(task, numbers), ModelSimulator(cmdp, seed=2)
    episodes: list[Episode] = []
    dual = 0.0
    for k in range(30):
        policy = learner.propose()
        if k:
            expected, V = plain_policy(episodes, phi, dual, numbers)
            np.testing.assert_allclose(policy.table, expected, rtol=1e-8, atol=1e-12)
            dual = float(np.clip(dual + 0.3 * (cmdp.thresholds[0] - task.initial @ V[1]), 0.0, 5.0))
        episode = simulator.play(policy)
        episodes.append(episode)
        learner.learn(episode)
        if not k:
            dual = float(learner.dual[0])
        assert learner.dual[0] == pytest.approx(dual, rel=1e-9, abs=1e-12)


def test_one_hot_features_as_an_embedding_give_the_policies_of_counts():
    cmdp = opdop.make("random-tabular")
    H, S, A = cmdp.horizon, cmdp.num_states, cmdp.num_actions
    pairs = np.eye(S * A).reshape(S, A, S * A)
    kernels = np.stack([np.asarray(cmdp.transition_matrix(h)) for h in range(H)])
    signals = cmdp.signals.reshape(2, H, S * A)
    features = embedding(pairs, np.eye(S), pairs)
    linear = LinearCMDP(features, kernels.reshape(H, -1), signals[0], signals[1], cmdp.thresholds)
    learners = [LinearPrimalDual(Task.of(each, episodes=50), constants()) for each in (cmdp, linear)]
    assert [learner.constants["dimension"] for learner in learners] == [15, 15]
    simulator = ModelSimulator(cmdp, seed=3)
    for _ in range(40):
        one, two = (learner.propose() for learner in learners)
        np.testing.assert_allclose(one.table, two.table, rtol=1e-7, atol=1e-12)
        episode = simulator.play(one)
        for learner in learners:
            learner.learn(episode)


def test_paper_constants_in_plain_numbers():
    task = Task(4, 5, 3, np.array([1.0]), np.eye(5)[0], episodes=10_000, slater_gap=0.5, failure_probability=0.05)
    found = find("linear-primal-dual").preset("paper").constants(task)
    assert found.dual_bound == 16.0  # 2 H / gap
    assert found.step_size == pytest.approx(math.log(3) * 100 / (2 * (1 + 16 + 4)))
    assert found.dual_step_size == pytest.approx(16 / (100 * 4))
    assert found.radius == pytest.approx(15 * 4 * math.sqrt(math.log(4 * math.log(3) * 15 * 4 * 10_000 / 0.05)))
    assert found.ridge == 1.0


def test_with_the_papers_radius_every_estimate_is_optimistic():
    """Q^k exceeds the value of the policy that it was made for, in every episode: the paper's key lemma."""
    history = train("random-embedding", "linear-primal-dual", preset="paper", episodes=300).history
    assert (history["estimated_reward"] >= history["reward"]).all()
    assert (history["estimated_utility_0"] >= history["utility_0"]).all()


def test_the_soft_max_is_nearly_greedy():
    """Its average of Q_r + Y Q_g misses the maximum by at most log(A) / alpha: the paper's lemma on the soft-max."""
    cmdp = opdop.make("random-tabular")
    learner, simulator = LinearPrimalDual(Task.of(cmdp, episodes=50), constants()), ModelSimulator(cmdp, seed=0)
    missed = []
    for _ in range(40):
        policy, dual = learner.propose(), learner.dual[0]
        q = learner.counts.q.swapaxes(-1, -2)
        scores = q[0] + dual * q[1]
        missed.append((scores.max(axis=2) - (policy.table * scores).sum(axis=2)).max())
        learner.learn(simulator.play(policy))
    assert 0.0 < max(missed) <= math.log(3) / 2.0


def test_signals_that_are_not_linear_in_phi_bring_their_own_features():
    cmdp = opdop.make("random-embedding")
    features = cmdp.learner_features
    left = features.form.left
    assert len(linear_features(Task.of(cmdp, episodes=5))) == len(left) + features.signal_dim
    A, S = cmdp.num_actions, cmdp.num_states
    inside = embedding(
        left.reshape(-1, A, S).transpose(2, 1, 0), features.form.right.T, left.reshape(-1, A, S).transpose(2, 1, 0)
    )
    task = Task(2, S, A, np.array([1.0]), np.eye(S)[0], 5, slater_gap=1.0, features=inside)
    phi = linear_features(task)
    assert len(phi) == len(left)
    assert np.linalg.norm(phi, axis=0).max() <= 1.0 + 1e-12


def test_what_is_no_linear_mdp_is_refused_with_an_alternative():
    for problem in ("random-mixture", "reservoir"):
        with pytest.raises(InvalidParameterError, match=r"is for linear MDPs.*`opdop-lstd` takes all"):
            train(problem, "linear-primal-dual", episodes=5)
    with pytest.raises(InvalidParameterError, match="proven for one constraint, and this task has 2"):
        train("queue", "linear-primal-dual", episodes=5)


@pytest.mark.parametrize("changed", [{"radius": -1.0}, {"ridge": 0.0}, {"step_size": math.inf}])
def test_constants_out_of_range_are_refused(changed: dict[str, float]):
    with pytest.raises(InvalidParameterError, match=f"{next(iter(changed))} is"):
        LinearPrimalDual(Task.of(opdop.make("factored"), episodes=5), constants(**changed))


def test_its_regret_and_violation_shrink_on_a_linear_mdp():
    short, long = (train("random-embedding", "linear-primal-dual", episodes=K) for K in (1000, 16_000))
    for measure in ("regret", "violation"):
        assert getattr(long, measure)[-1] / 16_000 < 0.5 * getattr(short, measure)[-1] / 1000
