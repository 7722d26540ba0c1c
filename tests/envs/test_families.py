"""The families of random problems for studies: what all must have in common, and what the list must cover."""

from __future__ import annotations

import numpy as np
import pytest

from opdop.envs.binding_constraint import CLEARLY
from opdop.envs.families import HALVES, draw, families
from opdop.envs.families.family import constrained, family, whole
from opdop.model import InvalidParameterError, TabularCMDP
from opdop.planning import evaluate, solve

FAMILIES = families()
every_family = pytest.mark.parametrize("name", list(FAMILIES))


@every_family
def test_every_family_binds_with_a_slater_gap(name: str) -> None:
    cmdp = draw(name, 0).tabular()
    optimum = solve(cmdp)
    assert optimum.slater_gap > 0.0
    assert optimum.dual.sum() > 0.0
    assert optimum.price >= CLEARLY * optimum.unconstrained.reward
    assert (optimum.utility_values >= cmdp.thresholds - 1e-9).all()
    low, high = FAMILIES[name].gap
    assert low - 1e-4 <= cmdp.display.parameters["gap"] <= high + 1e-4  # type: ignore[operator]


@every_family
def test_every_family_draws_the_same_problem_for_a_seed_and_another_for_the_next(name: str) -> None:
    first, again, other = draw(name, 1).tabular(), draw(name, 1).tabular(), draw(name, 2).tabular()
    for one, two in zip((*first.transitions, first.signals), (*again.transitions, again.signals), strict=True):
        assert np.array_equal(one, two)
    assert np.array_equal(first.thresholds, again.thresholds)
    assert not np.array_equal(first.thresholds, other.thresholds)


@every_family
def test_every_family_leaves_the_uniform_policy_something_to_learn(name: str) -> None:
    cmdp = draw(name, 0).tabular()
    H, S, A = cmdp.horizon, cmdp.num_states, cmdp.num_actions
    values, optimum = evaluate(cmdp, np.full((H, S, A), 1.0 / A)), solve(cmdp)
    lacking = max(float((cmdp.thresholds - values.utilities).max()), 0.0)
    assert optimum.value - values.reward + 2.0 * optimum.dual.sum() * lacking > 1e-3 * optimum.value


@every_family
def test_linear_families_have_features_and_others_do_not(name: str) -> None:
    problem = draw(name, 0)
    assert (problem.learner_features is not None) is FAMILIES[name].linear


@pytest.mark.parametrize("half", HALVES)
def test_each_half_covers_what_a_user_may_bring(half: str) -> None:
    drawn = {name: draw(name, 0) for name in families(half)}
    assert any(cmdp.is_sparse for cmdp in drawn.values())
    assert any(not cmdp.is_sparse and not cmdp.is_stationary for cmdp in drawn.values())
    assert any(cmdp.is_stationary for cmdp in drawn.values())
    assert {1, 3} <= {cmdp.num_constraints for cmdp in drawn.values()}
    assert min(cmdp.horizon for cmdp in drawn.values()) == 1
    assert max(cmdp.horizon for cmdp in drawn.values()) >= 40
    assert any(FAMILIES[name].noisy for name in drawn)
    assert any(FAMILIES[name].linear for name in drawn)
    assert any(FAMILIES[name].gap[1] < 0.1 for name in drawn)


def test_the_halves_have_no_family_in_common_and_all_sizes_together() -> None:
    training, validation = families("training"), families("validation")
    assert not training.keys() & validation.keys()
    sizes = [draw(name, 0) for name in FAMILIES]
    assert min(cmdp.num_states for cmdp in sizes) == 1
    assert max(cmdp.num_states for cmdp in sizes) == 500
    assert max(cmdp.horizon for cmdp in sizes) > 120


def test_the_gap_is_its_share_of_the_range_of_the_utility() -> None:
    free = FAMILIES["dense"].draw(np.random.default_rng(3))
    extremes = solve(free)
    span = float(extremes.slater.utilities[0] - extremes.unconstrained.utilities[0])
    cmdp = constrained(free, 0.3)
    assert cmdp is not None
    assert solve(cmdp).slater_gap == pytest.approx(0.3 * span, abs=1e-9)


def test_frozen_lake_slips_to_each_side_in_a_third_of_the_moves() -> None:
    cmdp = draw("frozen-lake-4x4", 0)
    rows = cmdp.dense().transition_matrix(0).reshape(17, 4, 17)
    assert rows[6, 2, [7, 10, 2]] == pytest.approx([1 / 3] * 3)  # right of row 1, column 2: a hole, and both sides
    assert rows[5, 0, 16] == rows[15, 3, 16] == rows[16, 1, 16] == 1.0  # holes and the goal end the episode
    # The chance of having reached the goal: value iteration over the map, without the package's kernels.
    chance = np.eye(17)[15]
    for _ in range(98):  # the goal pays at the stage after it is reached
        chance = np.where(np.arange(17) == 15, 1.0, (rows @ chance).max(axis=1))
    chance = (rows @ chance).max(axis=1)
    assert solve(cmdp).unconstrained.reward == pytest.approx(chance[0], abs=1e-9)


def test_deep_sea_pays_only_a_diver_who_always_goes_right() -> None:
    free: TabularCMDP = FAMILIES["deep-sea"].draw(np.random.default_rng(0))
    assert solve(free).unconstrained.reward == pytest.approx(1.0, abs=1e-12)


def test_a_taxi_delivers_within_the_episode_from_everywhere() -> None:
    free: TabularCMDP = FAMILIES["taxi"].draw(np.random.default_rng(0))
    assert free.num_states == 500
    assert solve(free).unconstrained.reward == pytest.approx(1.0, abs=1e-12)


def test_sizes_stay_within_their_bounds() -> None:
    random = np.random.default_rng(0)
    drawn = [whole(random, 2, 5) for _ in range(500)]
    assert set(drawn) == {2, 3, 4, 5}


def test_unknown_families_and_seeds_are_refused() -> None:
    with pytest.raises(InvalidParameterError, match=r"no family 'chian'.*chain"):
        draw("chian", 0)
    with pytest.raises(Exception, match="seed"):
        draw("chain", -1)
    with pytest.raises(InvalidParameterError, match="known already"):
        family("chain", "training")(FAMILIES["chain"].draw)
