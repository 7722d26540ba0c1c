"""DOPE and OptPess-LP: the papers' programs, zero violation, and the safe baseline that both are told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog

import opdop
from opdop import Baseline, InvalidModelError, InvalidParameterError, ModelSimulator, TabularPolicy, Task, train
from opdop.algorithms import ReplanningLearner, find
from opdop.algorithms.dope import DopeConstants, DopePlanner, signal_widths
from opdop.algorithms.optpess_lp import OptPessConstants, OptPessPlanner
from opdop.algorithms.peers import BaselineFirst, empirical_values
from opdop.confidence import Observations
from opdop.confidence.bernstein_set import BernsteinSet
from opdop.kernels import dynamic_programming
from opdop.planning import max_slack_policy

NAMES = ["dope", "optpess-lp"]
PAPER = DopeConstants(1.0, 1.0, np.inf, 0.1)


def observed(cmdp: opdop.TabularCMDP, task: Task, episodes: int) -> Observations:
    """Return what the uniform policy observes."""
    learner = ReplanningLearner(task, BaselineFirst(NoPlan(), Baseline.of(cmdp)))
    simulator = ModelSimulator(cmdp, seed=1)
    uniform = TabularPolicy.uniform(cmdp.horizon, cmdp.num_states, cmdp.num_actions)
    for _ in range(episodes):
        learner.counts.observe(simulator.play(uniform))
    return learner.observations()


class NoPlan:
    """Finds no safe policy, ever."""

    def safe_plan(self, data: Observations, baseline: Baseline) -> None:
        return None

    def described(self) -> dict[str, Any]:
        return {"planner": "none"}


# The papers' programs


def extended_program(
    lower: np.ndarray, upper: np.ndarray, signals: np.ndarray, threshold: float, initial: np.ndarray, horizon: int
) -> float | None:
    """Return the optimum of DOPE's extended linear program in z(h, x, a, y); None if it is infeasible."""
    S, A = signals.shape[2:]
    H, size = horizon, horizon * S * A * S
    index = np.arange(size).reshape(H, S, A, S)
    reward, utility = (np.repeat(np.broadcast_to(s, (H, S, A)).ravel(), S) for s in signals)
    equal, right = [], []
    for h in range(H):
        for x in range(S):
            row = np.zeros(size)
            row[index[h, x].ravel()] = 1.0
            if h > 0:
                row[index[h - 1, :, :, x].ravel()] -= 1.0
            equal.append(row)
            right.append(initial[x] if h == 0 else 0.0)
    below, limits = [-utility], [-threshold]
    for h in range(H):
        for x in range(S):
            for a in range(A):
                for y in range(S):
                    at = (h * S * A + x * A + a) % len(lower)
                    for sign, end in ((1.0, upper[at, y]), (-1.0, lower[at, y])):
                        row = np.zeros(size)
                        row[index[h, x, a]] = -sign * end
                        row[index[h, x, a, y]] += sign
                        below.append(row)
                        limits.append(0.0)
    found = linprog(-reward, np.array(below), limits, np.array(equal), right, (0.0, None), method="highs")
    return None if found.status else -float(found.fun)


@pytest.mark.parametrize("threshold", [0.9, 1.4, 2.2, 6.0])
def test_the_walk_over_boxes_solves_the_extended_linear_program(threshold: float):
    cmdp = opdop.make("random-tabular", states=3, actions=2, stages=3)
    task = replace(Task.of(cmdp, episodes=100), thresholds=np.array([min(threshold, 3.0)]))
    data = observed(cmdp, task, 40)
    constants = DopeConstants(0.02, 0.001, 1.0, 0.1)
    planner, baseline = DopePlanner(task, constants), Baseline(TabularPolicy.uniform(3, 3, 2), [0.5])
    plan = planner.safe_plan(data, baseline)
    kernels = BernsteinSet(data, planner.log_term, constants.radius_scale)
    means, own = data.signal_means().reshape(2, 3, 3, 2), signal_widths(data, 0.0)
    width = np.minimum(kernels.widths, 1.0).reshape(3, 3, 2)
    signals = np.stack([means[0] + own + 0.001 * 9 / 0.5 * width, np.maximum(means[1] - own, 0.0) - 3 * width])
    boxes = kernels.balls(np.zeros(2))
    expected = extended_program(
        boxes.lower, boxes.lower + boxes.room, signals, float(task.thresholds[0]), cmdp.initial, 3
    )
    if expected is None:
        assert plan is None
        return
    assert plan is not None
    assert plan.estimates[0] == pytest.approx(expected, abs=1e-7)
    assert plan.estimates[1] >= task.thresholds[0] - 1e-9
    # The Markov policy attains the plan's values under a kernel of the set: it is not better than the set allows.
    v = np.empty((2, 2, 3))
    dynamic_programming.evaluate(kernels.balls(np.array([1.0, plan.dual[0]])), signals, plan.policy.table, v)
    weights = np.array([1.0, plan.dual[0]])
    assert weights @ (v[:, 0] @ cmdp.initial) == pytest.approx(weights @ plan.estimates, abs=1e-7)


def test_dopes_bonus_for_random_rewards_is_three_horizons_by_the_slack_times_their_width():
    # As in the authors' code: r + (3 H / slack) beta_l + (H^2 / slack) beta-bar, and cost c + beta_l + H beta-bar.
    cmdp, slack = opdop.make("random-tabular", states=3, actions=2, stages=3), 0.5
    task = Task.of(cmdp, episodes=100, noisy=True)
    learner = ReplanningLearner(task, BaselineFirst(NoPlan(), Baseline.of(cmdp)))
    simulator = ModelSimulator(cmdp, seed=1, noisy=True)
    for _ in range(400):
        learner.counts.observe(simulator.play(TabularPolicy.uniform(3, 3, 2)))
    data, planner = learner.observations(), DopePlanner(task, PAPER)
    bar = BernsteinSet(data, planner.log_term, 1.0).widths
    reward, utility = planner.signals(data, bar, slack)
    seen = data.signal_number > 0
    own = np.sqrt(planner.signal_log_term / np.maximum(data.signal_number, 1))
    means = data.signal_means().reshape(2, -1)
    np.testing.assert_allclose(reward.ravel()[seen], (means[0] + 18.0 * own + 18.0 * bar)[seen])
    np.testing.assert_allclose(utility.ravel()[seen], (np.maximum(means[1] - own, 0.0) - 3.0 * bar)[seen])


def test_optpess_plans_in_the_empirical_model_when_the_baseline_is_known_to_be_safe():
    cmdp = opdop.make("random-tabular", states=3, actions=2, stages=3)
    task, baseline = Task.of(cmdp, episodes=100, baseline=True), Baseline.of(cmdp)
    data, H, S = observed(cmdp, task, 60), 3, 3
    for scale in (1.0, 1e-3):
        planner = OptPessPlanner(task, OptPessConstants(scale, 1.0, 0.1))
        width = scale * np.sqrt(planner.log_term / np.maximum(data.number, 1)).reshape(3, 3, 2)
        means = data.signal_means().reshape(2, 3, 3, 2)
        costs = np.stack([means[0], 1.0 - means[1] + (1.0 + S * H) * width])
        own, budget = empirical_values(data, baseline.policy, costs)[1], H - task.thresholds[0]
        true = H - opdop.evaluate(cmdp, baseline.policy).utilities[0]
        plan = planner.safe_plan(data, baseline)
        assert (plan is None) == (own >= (budget + true) / 2)
        if plan is not None:
            assert empirical_values(data, plan.policy, costs)[1] <= budget + 1e-9
            assert plan.estimates[1] == pytest.approx(H - empirical_values(data, plan.policy, costs)[1], abs=1e-9)


# Safety


@pytest.mark.parametrize("name", NAMES)
def test_no_episode_violates_the_constraint_with_the_papers_sets(name: str):
    cmdp, K = opdop.make("factored"), 40_000 if name == "dope" else 300_000
    task = Task.of(cmdp, episodes=K, baseline=True)
    inner = DopePlanner(task, PAPER) if name == "dope" else OptPessPlanner(task, OptPessConstants(1.0, 1.0, 0.1))
    watched = Watched(inner)
    learner = ReplanningLearner(task, BaselineFirst(watched, task.baseline), growth=0.1)
    run = train(cmdp, learner, episodes=K)
    assert run.hard_violation[-1] == 0.0
    assert watched.found > 0  # it does not only play the baseline
    # Pessimism: what the plan expects of the utility is at most the true one.
    for plan in watched.plans:
        assert plan.estimates[1] <= opdop.evaluate(cmdp, plan.policy).utilities[0] + 1e-9
        if name == "dope":  # and optimism: no safe policy is better than it expects
            assert plan.estimates[0] >= run.optimum.value


class Watched:
    """A planner that keeps its plans."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.plans = inner, []

    @property
    def found(self) -> int:
        return len(self.plans)

    def safe_plan(self, data: Observations, baseline: Baseline) -> Any:
        plan = self.inner.safe_plan(data, baseline)
        self.plans += [] if plan is None else [plan]
        return plan

    def described(self) -> dict[str, Any]:
        return self.inner.described()


@pytest.mark.parametrize("name", NAMES)
def test_the_first_episodes_play_the_baseline(name: str):
    cmdp = opdop.make("factored")
    run = train(cmdp, name, episodes=3, preset="paper")
    policy, slack = max_slack_policy(cmdp)
    np.testing.assert_array_equal(run.policy.table, policy.table)
    assert run.constants["told_baseline_slack"] == slack.tolist() == [3.0]


# The baseline


def test_the_max_slack_policy_has_the_slater_gap():
    queue = {"capacity": 2, "stages": 5, "effort_budget": 12.0, "throughput": 2.0}
    for name, parameters in (("factored", {}), ("media-streaming", {}), ("queue", queue)):
        cmdp = opdop.make(name, **parameters)
        policy, slack = max_slack_policy(cmdp)
        np.testing.assert_allclose(opdop.evaluate(cmdp, policy).utilities - cmdp.thresholds, slack, atol=1e-9)
        assert slack.min() == pytest.approx(opdop.solve(cmdp).slater_gap, abs=1e-8)


def test_a_baseline_is_checked():
    cmdp = opdop.make("factored")
    task = Task.of(cmdp, episodes=10, baseline=True)
    assert task.baseline is not None
    assert Task.of(cmdp, episodes=10).baseline is None
    with pytest.raises(InvalidParameterError, match=r"slack is \[0.0\]; expected positive numbers"):
        Baseline(TabularPolicy.uniform(6, 3, 2), [0.0])
    with pytest.raises(InvalidModelError, match="policy"):
        replace(task, baseline=Baseline(TabularPolicy.uniform(5, 3, 2), [1.0]))
    with pytest.raises(InvalidParameterError, match="2 slacks; expected one for each of 1"):
        replace(task, baseline=Baseline(TabularPolicy.uniform(6, 3, 2), [1.0, 1.0]))
    with pytest.raises(InvalidModelError, match=r"expected an opdop\.Baseline"):
        replace(task, baseline=0.5)


@pytest.mark.parametrize("name", NAMES)
def test_what_the_theory_does_not_cover_is_refused(name: str):
    with pytest.raises(InvalidParameterError, match=f"`{name}` counts visits, so it needs finitely many states"):
        train("reservoir", name, episodes=5)
    with pytest.raises(InvalidParameterError, match=f"`{name}` is proven for one constraint, and this task has 2"):
        train("queue", name, episodes=5)
    with pytest.raises(InvalidParameterError, match=r"the task has none: give the task baseline=opdop.Baseline"):
        find(name).build(Task.of(opdop.make("factored"), episodes=5))


def test_a_run_without_a_model_takes_the_baseline_of_its_task(tmp_path: Any):
    cmdp = opdop.make("factored")

    class Unknown:
        """A simulator whose model is not known."""

        def __init__(self) -> None:
            self.inner = ModelSimulator(cmdp, seed=5)

        def play(self, policy: Any) -> opdop.Episode:
            return self.inner.play(policy)

        def state(self) -> Any:
            return self.inner.state()

        def restore(self, state: Any) -> None:
            self.inner.restore(state)

    task = Task.of(cmdp, episodes=30, baseline=True)
    run = train(Unknown(), "dope", episodes=20, task=task, checkpoint=tmp_path)
    assert run.constants["told_baseline_slack"] == [3.0]
    other = replace(task, baseline=Baseline(TabularPolicy.uniform(6, 3, 2), [1.0]))
    with pytest.raises(InvalidParameterError, match="another run"):
        train(Unknown(), "dope", episodes=30, task=other, checkpoint=tmp_path)
