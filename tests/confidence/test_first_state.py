"""A first state whose distribution is not known is one more row of the confidence set; bounds hold with it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from opdop import InvalidModelError, TabularCMDP, TabularPolicy, Task, certify, evaluate, solve, train
from opdop.confidence import Certifier, Observations, OptimisticOracle, TabularSet, plan_optimistically
from opdop.confidence.first_state import FIRST_SHARE, FirstState, row_bounds
from opdop.model import Episode, ModelSimulator
from tests.support.data_sets import KINDS, contains, observe
from tests.support.strategies import POLICY_KINDS, SEEDS, Sketch, evaluate_plainly, policy_table, sketches


def observed_first(sketch: Sketch, seed: int, number: int) -> Any:
    return np.random.default_rng([seed, 3]).multinomial(number, sketch.initial)


def is_allowed(first: FirstState, truth: Any) -> bool:
    """Whether a distribution is within the ball, and gives no more than u_n to the states that did not occur."""
    assert first.visits is not None
    assert first.ball is not None
    number = first.visits.sum()
    near = np.abs(first.visits / max(number, 1) - truth).sum() <= first.ball.widths[0] + 1e-12
    return bool(number == 0 or (near and truth[first.visits == 0].sum() <= first.ball.unseen[0] + 1e-12))


@settings(max_examples=40)
@given(SEEDS, st.integers(1, 6), st.sampled_from([0, 1, 4, 60, 5000]))
def test_expectation_at_the_first_state_is_that_of_a_linear_program(seed: int, S: int, number: int):
    rng = np.random.default_rng(seed)
    visits = rng.multinomial(number, rng.dirichlet(np.full(S, 0.5)))
    first, v, weights = FirstState(np.full(S, 1 / S), visits, 0.2), rng.random((2, S)), rng.normal(size=2)
    assert first.ball is not None
    # Variables: the distribution q, and |q - shares| <= t.
    shares, eye = visits / max(number, 1), np.eye(S)
    upper = np.block([[eye, -eye], [-eye, -eye]])
    limits = np.concatenate([shares, -shares])
    if number:
        upper = np.vstack([upper, np.r_[np.zeros(S), np.ones(S)], np.r_[(visits == 0) * 1.0, np.zeros(S)]])
        limits = np.concatenate([limits, first.ball.widths, first.ball.unseen])
    found = linprog(-np.r_[weights @ v, np.zeros(S)], upper, limits, [np.r_[np.ones(S), np.zeros(S)]], [1.0])
    assert weights @ first.expect(v, weights) == pytest.approx(-found.fun, abs=1e-9)


@settings(max_examples=60)
@given(sketches(), SEEDS, KINDS, POLICY_KINDS, st.sampled_from([0, 1, 5, 200, 10**5]))
def test_bounds_hold_wherever_kernel_and_first_state_are_in_the_set(
    sketch: Sketch, seed: int, kinds: dict[str, Any], policy: str, number: int
):
    data = replace(observe(sketch, seed, **kinds), first_visits=observed_first(sketch, seed, number))
    confidence = TabularSet(data, 0.3)
    assume(contains(confidence, sketch) and is_allowed(confidence.first, sketch.initial))
    table = policy_table(seed, sketch, policy)
    v = evaluate_plainly(sketch.P, sketch.signals, table)[:, 0] @ sketch.initial
    assert (confidence.lower(table) <= v + 1e-9).all()
    assert (v <= confidence.upper(table) + 1e-9).all()
    assert plan_optimistically(OptimisticOracle(confidence)).upper >= solve(sketch.build()).value - 1e-8


def test_first_state_has_a_tenth_of_the_failure_probability_and_everything_else_the_rest():
    data = observe_hidden(40)
    known, estimated = (TabularSet(each, 0.1) for each in (replace(data, first_visits=None), data))
    assert known.first.ball is None
    assert estimated.first.risk == pytest.approx(FIRST_SHARE * 0.1)
    assert (estimated.widths >= known.widths).all()
    again = TabularSet(replace(data, first_visits=None), 0.1 * (1.0 - FIRST_SHARE))
    np.testing.assert_array_equal(again.widths, estimated.widths)
    assert estimated.failure_probability == 0.1
    assert estimated.basis == f"{known.basis}, first state from 40 observed"
    widths, unseen = row_bounds([40], [data.num_states], 0.01)
    assert estimated.first.ball is not None
    assert (estimated.first.ball.widths, estimated.first.ball.unseen) == (widths, unseen)


def test_true_distribution_leaves_its_set_no_more_often_than_allowed():
    # All numbers of episodes up to 200 at once, 300 sequences, risk 0.2: at most 60 on average; 4.5 sigma is 31 more.
    rng, risk, outside = np.random.default_rng(5), 0.2, 0
    for _ in range(300):
        truth = rng.dirichlet(np.full(3, 0.6))
        drawn = rng.choice(3, p=truth, size=200)
        counts = np.cumsum(np.eye(3, dtype=np.int64)[drawn], axis=0)
        checked = [*range(20), *range(20, 200, 9)]
        outside += not all(is_allowed(FirstState(truth, counts[n], risk), truth) for n in checked)
    assert outside <= 91


class Hidden:
    """Plays a problem with two first states, of which the second is rare, and does not say so."""

    def __init__(self, seed: int) -> None:
        self.cmdp = two_firsts()
        self.inner = ModelSimulator(self.cmdp, seed=seed)

    def play(self, policy: Any) -> Episode:
        return self.inner.play(policy)

    def state(self) -> Any:
        return self.inner.state()

    def restore(self, state: Any) -> None:
        self.inner.restore(state)


def two_firsts() -> TabularCMDP:
    """Return a problem whose first state is never left: 0 in 70 % of the episodes, or 2, where nothing is earned."""
    stays = np.repeat(np.eye(3)[:, None], 2, axis=1)
    return TabularCMDP(
        stays, [[1.0, 0.8], [0.5, 0.5], [0.0, 0.0]], [[0.5, 1.0], [0.5, 0.5], [0.0, 0.0]], 1.5,
        initial=[0.7, 0.0, 0.3], horizon=4,
    )  # fmt: skip


def told(visits: Any, guess: Any, episodes: int) -> Task:
    cmdp = two_firsts()
    sizes = cmdp.horizon, cmdp.num_states, cmdp.num_actions
    return Task(*sizes, cmdp.thresholds, guess, episodes, slater_gap=0.5, stationary=True, first_visits=visits)


def observe_hidden(episodes: int) -> Observations:
    cmdp = two_firsts()
    guess = np.eye(cmdp.num_states)[0]
    run = train(Hidden(0), task=told(np.zeros(cmdp.num_states, int), guess, episodes), episodes=episodes)
    assert isinstance(run.observations, Observations)
    return run.observations


def test_certificates_of_runs_whose_first_state_was_guessed_are_true_and_others_are_not():
    cmdp = two_firsts()
    guess = np.eye(cmdp.num_states)[0]  # wrong: the last state is first in 30 % of the episodes
    best, false, false_if_known = solve(cmdp).value, 0, 0
    for seed in range(12):
        task = told(np.zeros(cmdp.num_states, dtype=np.int64), guess, 400)
        run = train(Hidden(seed), task=task, episodes=400, seed=seed)
        data = run.observations
        assert isinstance(data, Observations)
        assert data.first_visits is not None
        assert data.first_visits.sum() == 400
        uniform = TabularPolicy.uniform(cmdp.horizon, cmdp.num_states, cmdp.num_actions)
        for policy in (uniform, solve(cmdp).policy, run.policy):
            false += not is_true(certify(run, policy), cmdp, best)
            known = Certifier(TabularSet(replace(data, first_visits=None).as_declared(), 0.05))
            false_if_known += not is_true(known.certificate(policy), cmdp, best)
    assert false == 0  # 0.05 of 12 runs are allowed on average
    assert false_if_known >= 10


def is_true(certificate: Any, cmdp: Any, best: float) -> bool:
    values = evaluate(cmdp, certificate.policy).totals
    low = np.append(certificate.reward_lower, certificate.utility_lower)
    high = np.append(certificate.reward_upper, certificate.utility_upper)
    inside = (low <= values + 1e-9).all() and (values <= high + 1e-9).all()
    return bool(inside and best <= certificate.optimum_upper + 1e-9)


def test_first_states_are_saved_with_the_run_and_its_checkpoint(tmp_path: Any):
    cmdp = two_firsts()
    visits = np.arange(cmdp.num_states)
    task = told(visits, np.full(cmdp.num_states, 1.0 / cmdp.num_states), 60)
    whole = train(Hidden(1), task=task, episodes=60)
    train(Hidden(1), task=task, episodes=25, checkpoint=tmp_path)
    again = train(Hidden(1), task=task, episodes=60, checkpoint=tmp_path)
    loaded = type(whole).load(whole.save(tmp_path / "saved"))
    for run in (whole, again, loaded):
        assert run.observations is not None
        assert run.observations.first_visits is not None
        assert run.observations.first_visits.sum() == 60 + visits.sum()
        np.testing.assert_array_equal(run.observations.first_visits, whole.observations.first_visits)
    assert "first state from 63 observed" in whole.certificate().basis


def test_two_data_sets_add_up_their_first_states_and_must_agree_whether_they_are_known():
    one = observe_hidden(20)
    both = one.merged(one)
    np.testing.assert_array_equal(both.first_visits, 2 * one.first_visits)
    with pytest.raises(InvalidModelError, match="takes the distribution of the first state as known"):
        one.merged(replace(one, first_visits=None))
    for wrong in ([1, 2], [0.5, 1, 1], [-1, 1, 1], "abc"):
        with pytest.raises(InvalidModelError, match="first_visits"):
            replace(one, first_visits=wrong)


def test_least_squares_bound_the_first_state_too():
    cmdp = two_firsts()
    guess = np.eye(cmdp.num_states)[0]
    task = replace(told(np.zeros(cmdp.num_states, dtype=np.int64), guess, 30), stationary=False)
    run = train(Hidden(0), "opdop-lstd", task=task, episodes=30)
    certificate = run.certificate("final")
    assert "first state from 30 observed" in certificate.basis
    assert is_true(certificate, cmdp, solve(cmdp).value)
    known = certify(replace_first(run), "final")
    assert known.reward_lower != certificate.reward_lower


def replace_first(run: Any) -> Any:
    return replace(run, observations=replace(run.observations, first_visits=None))


def test_log_without_a_stated_first_state_is_certified_from_its_own(tmp_path: Any):
    cmdp = two_firsts()
    H, S, A = cmdp.horizon, cmdp.num_states, cmdp.num_actions
    simulator = ModelSimulator(cmdp, seed=4)
    played = [simulator.play(TabularPolicy.uniform(H, S, A)) for _ in range(300)]
    log = {
        "episode": np.repeat(np.arange(300), H),
        "stage": np.tile(np.arange(H), 300),
        "state": np.concatenate([each.states[:-1] for each in played]),
        "action": np.concatenate([each.actions for each in played]),
        "next_state": np.concatenate([each.states[1:] for each in played]),
        "reward": np.concatenate([each.signals[0] for each in played]),
        "utility": np.concatenate([each.signals[1] for each in played]),
    }
    text = f"horizon = {H}\nstates = {S}\nactions = {A}\nstationary = true\n"
    limit = f"[[constraint]]\ncolumn = 'utility'\nthreshold = {cmdp.thresholds[0]}\n"
    (tmp_path / "task.toml").write_text(text + limit)
    found = certify(log, task=tmp_path / "task.toml")
    assert "first state from 300 observed" in found.basis
    assert is_true(found, cmdp, solve(cmdp).value)
    (tmp_path / "stated.toml").write_text(text + f"initial = {cmdp.initial.tolist()}\n" + limit)
    stated = certify(log, task=tmp_path / "stated.toml")
    assert "first state" not in stated.basis
    assert stated.gap < found.gap
