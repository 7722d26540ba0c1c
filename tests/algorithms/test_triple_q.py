"""Triple-Q: against a plain implementation of its algorithm, and facts that its paper states."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import opdop
from opdop import InvalidParameterError, ModelSimulator, Task, train
from opdop.algorithms import find
from opdop.algorithms.triple_q import TripleQ, TripleQConstants


def constants(**changed: Any) -> TripleQConstants:
    numbers = {"rate": 2.5, "eta": 1.5, "bonus": 0.2, "extra_bonus": 0.3, "margin": 2.0, "frame": 7}
    return TripleQConstants("none", **{**numbers, **changed})


class PlainTripleQ:
    """The paper's algorithm with dictionaries, one step after the other as in the box; shares no code."""

    def __init__(self, H: int, S: int, A: int, rho: float, numbers: TripleQConstants) -> None:
        self.H, self.A, self.rho, self.n = H, A, rho, numbers
        keys = [(h, x, a) for h in range(H) for x in range(S) for a in range(A)]
        self.Q, self.C = dict.fromkeys(keys, float(H)), dict.fromkeys(keys, float(H))
        self.N = dict.fromkeys(keys, 0)
        self.Z, self.Cbar, self.k = 0.0, 0.0, 0

    def best(self, h: int, x: int) -> list[int]:
        values = [self.Q[h, x, a] + self.Z / self.n.eta * self.C[h, x, a] for a in range(self.A)]
        return [a for a in range(self.A) if values[a] == max(values)]

    def learn(self, episode: opdop.Episode) -> None:
        n, V, W = self.n, 0.0, 0.0
        for h in range(self.H + 1):
            if h < self.H:
                now = h, int(episode.states[h]), int(episode.actions[h])
                self.N[now] += 1
                V, W = self.Q[now], self.C[now]
            else:
                V = W = 0.0
            if h > 0:
                before = h - 1, int(episode.states[h - 1]), int(episode.actions[h - 1])
                t = self.N[before]
                rate = (n.rate + 1) / (n.rate + t)
                b = n.bonus * math.sqrt(rate)
                r, g = episode.signals[:, h - 1]
                self.Q[before] = (1 - rate) * self.Q[before] + rate * (r + V + b)
                self.C[before] = (1 - rate) * self.C[before] + rate * (g + W + b)
            if h == 0:
                self.Cbar += W
        self.k += 1
        if self.k % n.frame == 0:
            for key in self.Q:
                self.N[key] = 0
                self.Q[key] += n.extra_bonus
                if self.Q[key] >= self.H or self.C[key] >= self.H:
                    self.Q[key] = self.C[key] = float(self.H)
            self.Z = max(self.Z + self.rho + n.margin - self.Cbar / n.frame, 0.0)
            self.Cbar = 0.0


@pytest.mark.parametrize("noisy", [False, True])
def test_it_is_the_papers_algorithm(noisy: bool):
    cmdp = opdop.make("random-tabular")
    H, S, A = cmdp.horizon, cmdp.num_states, cmdp.num_actions
    numbers = constants()
    learner = TripleQ(Task.of(cmdp, episodes=100, noisy=noisy), numbers)
    plain = PlainTripleQ(H, S, A, float(cmdp.thresholds[0]), numbers)
    simulator = ModelSimulator(cmdp, seed=4, noisy=noisy)
    for _ in range(60):
        policy = learner.propose()
        for h in range(H):
            for x in range(S):
                best = plain.best(h, x)
                np.testing.assert_allclose(policy.table[h, x][best], 1.0 / len(best))
        episode = simulator.play(policy)
        learner.learn(episode)
        plain.learn(episode)
        assert learner.queue == pytest.approx(plain.Z, rel=1e-12, abs=1e-12)
    for j, table in enumerate((plain.Q, plain.C)):
        np.testing.assert_allclose(learner.q[j].ravel(), list(table.values()), rtol=1e-12)
    assert learner.queue > 0.0


def test_paper_constants_in_plain_numbers():
    task = Task(4, 5, 3, np.array([1.0]), np.eye(5)[0], episodes=100_000)
    found = find("triple-q").preset("paper").constants(task)
    iota = 128.0 * math.log(math.sqrt(2 * 5 * 3 * 4) * 100_000)
    assert iota == pytest.approx(1780.05, abs=0.01)
    assert found.rate == found.eta == pytest.approx(10.0)
    assert found.frame == 1000
    assert found.bonus == pytest.approx(math.sqrt(iota))  # sqrt(H^2 iota) / 4
    assert found.extra_bonus == pytest.approx(2 * 64 * math.sqrt(iota) / 10)
    assert found.margin == pytest.approx(8 * math.sqrt(15 * 4**6 * iota**3) / 10)


def test_the_first_visit_of_a_frame_forgets_the_optimistic_value():
    """The learning rate of the first visit is 1, so that rates of all visits sum to 1: the paper's first lemma."""
    cmdp = opdop.TabularCMDP(np.ones((1, 1, 2, 1)), [[[0.3, 0.3]]], [[[0.7, 0.7]]], 0.5)
    learner = TripleQ(Task.of(cmdp, episodes=100), constants(bonus=0.0, frame=50))
    simulator = ModelSimulator(cmdp, seed=0)
    for _ in range(20):
        learner.learn(simulator.play(learner.propose()))
    np.testing.assert_allclose(learner.q[:, 0, 0], [[0.3, 0.3], [0.7, 0.7]], rtol=1e-12)


def test_the_queue_is_at_least_the_estimated_violation_of_all_frames():
    """Its update makes Z at least the sum of rho + epsilon - C-bar / frame: why Z over-estimates the violation."""
    cmdp, numbers = opdop.make("media-streaming"), constants(frame=10)
    learner = TripleQ(Task.of(cmdp, episodes=200), numbers)
    simulator, estimated, sums = ModelSimulator(cmdp, seed=1), 0.0, []
    for k in range(200):
        policy = learner.propose()
        episode = simulator.play(policy)
        sums.append(learner.q[1, 0, episode.states[0], episode.actions[0]])
        learner.learn(episode)
        if (k + 1) % 10 == 0:
            estimated += float(cmdp.thresholds[0]) + numbers.margin - float(np.mean(sums))
            sums = []
            assert learner.queue >= estimated - 1e-9


@pytest.mark.parametrize("problem", ["media-streaming", "factored", "river-crossing"])
def test_all_episodes_together_have_no_violation_though_single_ones_do(problem: str):
    """Zero constraint violation, the paper's title; slack cancels in it, and its policies are deterministic."""
    run = train(problem, "triple-q", episodes=20_000, measure_every=5)
    assert run.violation[-1] == 0.0
    assert run.hard_violation[-1] > 0.0


def test_several_constraints_and_continuous_states_are_refused():
    with pytest.raises(InvalidParameterError, match="proven for one constraint, and this task has 2"):
        train("queue", "triple-q", episodes=5)
    with pytest.raises(InvalidParameterError, match="needs finitely many states"):
        train("reservoir", "triple-q", episodes=5)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"eta": 0.0}, "eta is 0.0; expected a number, above 0"),
        ({"margin": -1.0}, "at least 0"),
        ({"frame": 0}, "frame"),
    ],
)
def test_constants_out_of_range_are_refused(changed: dict[str, float], said: str):
    with pytest.raises(InvalidParameterError, match=said):
        constants(**changed)


def test_its_counts_make_certificates():
    run = train("factored", "triple-q", episodes=3000)
    certificate = run.certificate()
    assert certificate.reward_lower <= run.optimum.value <= certificate.optimum_upper


def test_uniform_plays_uniformly_and_learns_nothing():
    cmdp = opdop.make("factored")
    run = train(cmdp, "uniform", episodes=500)
    assert (run.policy.table == 0.5).all()
    value = opdop.evaluate(cmdp, run.policy)
    np.testing.assert_allclose(run.history["reward"], value.reward, rtol=1e-12)
    assert run.certificate().optimum_upper >= run.optimum.value
