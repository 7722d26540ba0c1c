"""The preset `practical`: its defaults are those of the study, and its steps are free of units, horizon and plan."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import opdop
from opdop.algorithms import OPDOP, Counts, choose
from opdop.envs.families import draw

PAGE = (Path(__file__).parents[2] / "docs" / "practical.md").read_text(encoding="utf-8")


def test_defaults_are_those_that_the_docs_print():
    found = re.findall(r"^\| `(\w+)` = ([0-9.]+) \|", PAGE, re.MULTILINE)
    task = opdop.Task.of(opdop.make("factored"), episodes=100)
    assert {name: float(value) for name, value in found} == choose(task, "practical").parameters


def test_a_longer_plan_begins_like_a_shorter_one():
    short, long = (opdop.train("media-streaming", episodes=300, planned_episodes=K, seed=3) for K in (300, 10**6))
    np.testing.assert_array_equal(short.policy.table, long.policy.table)
    assert short.regret[-1] == long.regret[-1]


def test_policies_do_not_depend_on_the_units_of_the_signals():
    # Signals an eighth as large, and so are the optimistic initial value, the bonus and the Slater gap: the same run.
    cmdp = opdop.make("random-tabular").tabular()
    small = opdop.TabularCMDP(
        cmdp.dense().transitions.rows.reshape(cmdp.horizon, cmdp.num_states, cmdp.num_actions, -1),
        cmdp.rewards / 8.0,
        cmdp.utilities / 8.0,
        cmdp.thresholds / 8.0,
        cmdp.initial,
    )
    # Without the rules for few visits: their estimates may be cut at H - h, which does not shrink with the signals.
    seldom = {"trust_growth": 1e-9, "doubt_scale": 1e-9}
    one = opdop.train(cmdp, episodes=400, dual_bound=50.0, seed=1, parameters=seldom)
    scales = seldom | {name: one.constants[name] / 8.0 for name in ("optimistic_init", "radius_scale")}
    other = opdop.train(small, episodes=400, dual_bound=8.0 * 50.0, seed=1, parameters=scales)
    np.testing.assert_allclose(other.policy.table, one.policy.table, atol=1e-6)
    assert 8.0 * other.regret[-1] == pytest.approx(one.regret[-1], rel=1e-6)


@pytest.mark.parametrize("problem", ["media-streaming", "random-tabular", "inventory"])
def test_the_multiplier_settles(problem: str):
    run = opdop.train(problem, episodes=6_000, seed=0, records=6_000, measure_every=10)
    late = run.history["dual_0"].to_numpy()[3_000:]
    assert late.std() < 0.05 * max(1.0, float(run.optimum.dual[0]))
    assert late.mean() == pytest.approx(float(run.optimum.dual[0]), abs=0.1)


def test_a_pair_that_was_unlucky_at_first_is_tried_again():
    # random-tabular of seed 2: an action looks bad after two visits; without doubt, regret stays at 0.004 for ever.
    cmdp = opdop.make("random-tabular", seed=2)
    late = []
    for doubt in (1e-9, 0.1):
        rules = {"doubt_scale": doubt, "caution": 1e-9}  # a margin happens to cure this seed as well
        run = opdop.train(cmdp, episodes=40_000, seed=2, parameters=rules, measure_every=20)
        policy = opdop.evaluate(cmdp, run.policy)
        late.append(run.optimum.value - policy.reward)
    assert late[0] > 0.003
    assert abs(late[1]) < 0.001


def test_a_chain_that_slipped_at_first_is_climbed_in_the_end():
    # This run stayed at the near end of the chain when a pair was known for good after one pooled visit.
    cmdp, options = draw("chain-slippery", 1), {"episodes": 6_000, "seed": 2, "measure_every": 20}
    stuck = opdop.train(cmdp, **options, parameters={"trust_growth": 1e-9, "doubt_scale": 1e-9})
    run = opdop.train(cmdp, **options)
    found, lost = (run.optimum.value - opdop.evaluate(cmdp, each.policy).reward for each in (run, stuck))
    assert lost > 0.5
    assert abs(found) < 0.05


def test_one_state_and_one_stage_are_learnt():
    # The first edition of `practical` never settled here: its step shrank with H^2 and its multiplier circled.
    cmdp = draw("bandit", 0)
    run = opdop.train(cmdp, episodes=2_000, seed=0)
    values = opdop.evaluate(cmdp, run.policy)
    assert values.reward == pytest.approx(run.optimum.value, rel=0.01)
    assert values.utilities[0] > cmdp.thresholds[0] - 0.005


def test_steps_in_the_compiled_loop_and_by_hand_are_the_same():
    runs = [opdop.train("queue", episodes=120, seed=2, compiled=compiled) for compiled in (True, False)]
    np.testing.assert_array_equal(*(run.policy.table for run in runs))
    np.testing.assert_array_equal(*(run.history["dual_0"].to_numpy() for run in runs))


EARLY = {"early_updates": 20.0}


@pytest.mark.parametrize("episodes", [1, 7, 40])  # while there are further updates, and after them
def test_further_updates_in_the_compiled_loop_and_by_hand_are_the_same(episodes: int):
    options = {"episodes": episodes, "seed": 2, "parameters": EARLY}
    runs = [opdop.train("queue", **options, compiled=compiled) for compiled in (True, False)]
    np.testing.assert_array_equal(*(run.policy.table for run in runs))
    for name in ("dual_0", "dual_1", "regret", "estimated_reward"):
        np.testing.assert_array_equal(*(run.history[name].to_numpy() for run in runs))


def test_a_run_is_the_same_when_it_is_interrupted_before_further_updates(tmp_path: Path):
    options = {"seed": 2, "planned_episodes": 40, "parameters": EARLY}
    opdop.train("queue", episodes=3, **options, checkpoint=tmp_path)
    parts = opdop.train("queue", episodes=40, **options, checkpoint=tmp_path)
    whole = opdop.train("queue", episodes=40, **options)
    np.testing.assert_array_equal(parts.policy.table, whole.policy.table)
    assert parts.regret[-1] == whole.regret[-1]


@pytest.mark.parametrize(("early_updates", "updates"), [(1.0, [1, 1, 1, 1, 1]), (4.0, [4, 2, 2, 1, 1])])
def test_updates_per_episode_are_early_updates_over_its_number_and_at_least_one(early_updates, updates):
    class Counting(Counts):
        evaluations = 0

        def evaluate(self, policy):
            self.evaluations += 1
            return super().evaluate(policy)

    cmdp = opdop.make("queue")
    task = opdop.Task.of(cmdp, episodes=5)
    evaluator = Counting(task, radius=0.001, ridge=0.0001)
    learner = OPDOP.preset(task, evaluator, "practical", early_updates=early_updates)
    simulator, found = opdop.ModelSimulator(cmdp, seed=0), []
    for _ in updates:
        learner.learn(simulator.play(learner.propose()))
        found.append(evaluator.evaluations)
    learner.propose()
    assert list(np.diff([*found, evaluator.evaluations])) == [*(each for each in updates[:-1]), updates[-1] - 1]


@pytest.mark.parametrize("value", [-1.0, float("nan"), 1e7])
def test_the_number_of_early_updates_is_checked(value: float):
    task = opdop.Task.of(opdop.make("queue"), episodes=5)
    evaluator = Counts(task, radius=0.001, ridge=0.0001)
    steps = {"step_size": 1.0, "dual_step_size": 0.1, "mixing": 0.0, "dual_bound": 1.0}
    with pytest.raises(opdop.InvalidParameterError, match="early_updates is"):
        OPDOP(task, evaluator, **steps, early_updates=value)


@pytest.mark.parametrize(("name", "value"), [("states", 10**6), ("states", -1), ("further_updates", -1)])
def test_a_damaged_state_of_further_updates_is_refused(name: str, value: int):
    learner = OPDOP.preset(opdop.Task.of(opdop.make("queue"), episodes=5), Counts, "practical")
    state = learner.state()
    state[name] = np.full_like(state[name], value)
    with pytest.raises(opdop.OpdopError, match=r"the saved (states|number of further updates)"):
        learner.restore(state)


def test_the_variance_behind_the_margin_is_that_of_an_episodes_total():
    # With one action there is one policy, so one distribution of totals. Its variance by hand: second moments.
    rng = np.random.default_rng(0)
    H, S = 4, 3
    kernel, utilities = rng.dirichlet(np.ones(S), size=(H, S, 1)), rng.random((1, H, S, 1))
    cmdp = opdop.TabularCMDP(kernel, np.zeros((H, S, 1)), utilities, [0.5], [1.0, 0.0, 0.0])
    mean, square = np.zeros(S), np.zeros(S)
    for h in reversed(range(H)):
        g, next_mean = utilities[0, h, :, 0], kernel[h, :, 0] @ mean
        mean, square = g + next_mean, g**2 + 2.0 * g * next_mean + kernel[h, :, 0] @ square
    task = opdop.Task.of(cmdp, episodes=100, slater_gap=0.5)
    learner, simulator = OPDOP.preset(task, Counts, "practical"), opdop.ModelSimulator(cmdp, seed=1)
    late = []
    for k in range(3_000):
        learner.learn(simulator.play(learner.propose()))
        late += [float(learner.seen.variances[0])] if k >= 1_000 else []
    assert np.mean(late) == pytest.approx(square[0] - mean[0] ** 2, rel=0.1)  # 2,000 episodes: a standard error of 3 %


@pytest.mark.parametrize("problem", ["chain-slippery", "dense-noisy"])
def test_caution_keeps_late_policies_within_the_constraint(problem: str):
    def late_violation(caution: float) -> float:
        found = []
        for seed in range(6):
            run = opdop.train(
                draw(problem, 1), episodes=4_000, seed=seed, measure_every=5, parameters={"caution": caution}
            )
            hard = run.history["hard_violation"].to_numpy()
            found.append(float(hard[-1] - np.interp(3_600, run.history["episode"].to_numpy(), hard)))
        return float(np.mean(found))

    assert late_violation(1.0) < 0.5 * late_violation(1e-9)


@pytest.mark.parametrize(("problem", "number"), [("bandit", 3), ("dense-tight", 2)])
def test_a_damping_ratio_makes_multipliers_settle_where_the_policy_reacts_little(problem: str, number: int):
    def spread(ratio: float) -> float:
        run = opdop.train(
            draw(problem, number), episodes=4_000, measure_every=100, records=4_000, parameters={"damping_ratio": ratio}
        )
        return float(run.history["dual_0"].to_numpy()[2_000:].std())

    assert spread(0.7) < 0.6 * spread(1e-9)
