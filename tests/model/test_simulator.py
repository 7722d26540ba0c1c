"""Episodes are drawn from the model and from nothing else; all seeds are fixed, and each margin is stated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from scipy import stats

from opdop import Episode, InvalidModelError, ModelSimulator, PolicyMixture, TabularCMDP, TabularPolicy, evaluate
from opdop.planning import occupancy
from tests.support.strategies import FORMS, Array, Sketch, policy_table, sketch_of, sketches_with_policy

EPISODES = 10_000
# The chance that a correct simulator fails one of these tests, had the seeds not been fixed.
SIGNIFICANCE = 1e-4


class Table:
    """A policy of a person's own making: all it has is `probabilities`."""

    def __init__(self, table: Array) -> None:
        self.table = table

    def probabilities(self, stage: int, state: int) -> Array:
        return self.table[stage, state]


class PolicyOfLists(Table):
    """One that answers with plain lists."""

    def probabilities(self, stage: int, state: int) -> Any:
        return self.table[stage, state].tolist()


def played(simulator: ModelSimulator, policy: Any, episodes: int) -> Episode:
    """Return many episodes as one: states [N, H+1], actions [N, H], signals [N, 1+I, H]."""
    all_of_them = [simulator.play(policy) for _ in range(episodes)]
    return Episode(
        np.array([episode.states for episode in all_of_them]),
        np.array([episode.actions for episode in all_of_them]),
        np.array([episode.signals for episode in all_of_them]),
    )


def assert_same(one: Episode, two: Episode) -> None:
    np.testing.assert_array_equal(one.states, two.states)
    np.testing.assert_array_equal(one.actions, two.actions)
    np.testing.assert_array_equal(one.signals, two.signals)


def assert_frequencies(counts: Array, probabilities: Array) -> None:
    """Assert that counts [n] are a likely sample from probabilities [n], by Pearson's chi-square test."""
    counts, probabilities = counts.ravel(), probabilities.ravel()
    assert counts[probabilities == 0.0].sum() == 0
    counts, probabilities = counts[probabilities > 0.0], probabilities[probabilities > 0.0]
    if len(counts) > 1:
        expected = counts.sum() * probabilities / probabilities.sum()
        assert stats.chisquare(counts, expected).pvalue > SIGNIFICANCE


@pytest.fixture(scope="module")
def sketch() -> Sketch:
    return sketch_of(7, constraints=2, kernel="few successors", first_state="random")


@pytest.fixture(scope="module")
def table(sketch: Sketch) -> Array:
    return policy_table(1, sketch, "some actions")


@pytest.fixture(scope="module")
def cmdp(sketch: Sketch) -> TabularCMDP:
    return sketch.build()


@pytest.fixture(scope="module")
def sample(cmdp: TabularCMDP, table: Array) -> Episode:
    return played(ModelSimulator(cmdp, seed=2), table, EPISODES)


@pytest.fixture(scope="module")
def noisy_sample(cmdp: TabularCMDP, table: Array) -> Episode:
    return played(ModelSimulator(cmdp, seed=3, noisy=True), table, EPISODES)


# Reproducible


@given(sketches_with_policy())
def test_the_same_seed_gives_the_same_episodes(case: tuple[Sketch, Array]):
    sketch, table = case
    cmdp = sketch.build()
    one, two = (played(ModelSimulator(cmdp, seed=5), TabularPolicy(table), 3) for _ in range(2))
    assert_same(one, two)


@pytest.mark.parametrize("noisy", [False, True])
def test_another_seed_gives_other_episodes(cmdp: TabularCMDP, table: Array, noisy: bool):
    one, two = (played(ModelSimulator(cmdp, seed=seed, noisy=noisy), table, 20) for seed in (0, 1))
    assert (one.states != two.states).any()
    assert (one.actions != two.actions).any()
    assert (one.signals != two.signals).any()


def test_successive_episodes_differ(cmdp: TabularCMDP, table: Array):
    episodes = played(ModelSimulator(cmdp, seed=0), table, 50)
    assert len(np.unique(episodes.states, axis=0)) > 10


def test_a_seed_may_be_a_sequence_or_a_generator(cmdp: TabularCMDP, table: Array):
    wanted = played(ModelSimulator(cmdp, seed=9), table, 5)
    for seed in (np.random.SeedSequence(9), np.random.default_rng(9)):
        assert_same(played(ModelSimulator(cmdp, seed=seed), table, 5), wanted)


@pytest.mark.parametrize("noisy", [False, True])
def test_each_episode_takes_the_stated_number_of_uniforms(cmdp: TabularCMDP, table: Array, noisy: bool):
    simulator = ModelSimulator(cmdp, seed=4, noisy=noisy)
    H, I = cmdp.horizon, cmdp.num_constraints
    assert simulator.uniforms_per_episode == 1 + 2 * H + (H * (1 + I) if noisy else 0)
    played(simulator, table, 3)
    generator = np.random.default_rng(4)
    generator.random(3 * simulator.uniforms_per_episode)
    assert simulator.generator.random() == generator.random()


# The same episodes whatever the form


@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("kernel", ["random", "few successors", "deterministic"])
def test_every_form_of_a_model_gives_the_same_episodes(kernel: str, noisy: bool):
    episodes = []
    for form in FORMS:
        # Made stationary, then handed over in every form: per-stage ones are H copies.
        stationary = sketch_of(11, form="dense stationary", kernel=kernel, signal="halves", first_state="random")
        sketch = Sketch(**{**stationary.__dict__, "form": form})
        table = policy_table(1, sketch)
        episodes.append(played(ModelSimulator(sketch.build(), seed=6, noisy=noisy), TabularPolicy(table), 200))
    for other in episodes[1:]:
        assert_same(episodes[0], other)


@given(sketches_with_policy())
def test_any_object_with_probabilities_plays_like_its_table(case: tuple[Sketch, Array]):
    sketch, table = case
    cmdp = sketch.build()
    wanted = played(ModelSimulator(cmdp, seed=1), TabularPolicy(table), 2)
    for policy in (table, table.tolist(), Table(table), PolicyOfLists(table)):
        assert_same(played(ModelSimulator(cmdp, seed=1), policy, 2), wanted)


# True to the model


@given(sketches_with_policy())
def test_nothing_of_probability_zero_ever_happens(case: tuple[Sketch, Array]):
    sketch, table = case
    cmdp = sketch.build()
    H, _, _, I = sketch.sizes
    simulator = ModelSimulator(cmdp, seed=8)
    for _ in range(5):
        episode = simulator.play(TabularPolicy(table))
        x, a, stages = episode.states, episode.actions, np.arange(H)
        assert x.shape == (H + 1,)
        assert a.shape == (H,)
        assert episode.signals.shape == (1 + I, H)
        assert sketch.initial[x[0]] > 0.0
        assert (table[stages, x[:-1], a] > 0.0).all()
        assert (sketch.P[stages, x[:-1], a, x[1:]] > 0.0).all()
        np.testing.assert_array_equal(episode.signals, sketch.signals[:, stages, x[:-1], a])


def test_visits_match_the_occupancy(cmdp: TabularCMDP, table: Array, sample: Episode):
    q = occupancy(cmdp, table)
    H, S, A = q.shape
    for h in range(H):
        counts = np.zeros((S, A))
        np.add.at(counts, (sample.states[:, h], sample.actions[:, h]), 1)
        assert_frequencies(counts, q[h])


def test_transitions_match_the_kernel_row_by_row(sketch: Sketch, sample: Episode):
    H, S, A, _ = sketch.sizes
    rows = 0
    for h, x, a in np.ndindex(H, S, A):
        here = (sample.states[:, h] == x) & (sample.actions[:, h] == a)
        if here.sum() >= 200:
            assert_frequencies(np.bincount(sample.states[here, h + 1], minlength=S), sketch.P[h, x, a])
            rows += 1
    assert rows > 10


@pytest.mark.parametrize("kind", ["sample", "noisy_sample"])
def test_episode_totals_match_the_values(cmdp: TabularCMDP, table: Array, kind: str, request: pytest.FixtureRequest):
    totals = request.getfixturevalue(kind).signals.sum(axis=2)
    error = np.abs(totals.mean(axis=0) - evaluate(cmdp, table).totals)
    margin = stats.norm.isf(SIGNIFICANCE / 2) * totals.std(axis=0) / np.sqrt(EPISODES)
    assert (error <= margin).all()
    assert (margin < 0.06).all()


def test_noisy_signals_are_zero_or_one_with_the_right_mean(sketch: Sketch, noisy_sample: Episode):
    H, S, A, I = sketch.sizes
    assert set(np.unique(noisy_sample.signals)) == {0.0, 1.0}
    checked = 0
    for h, x, a in np.ndindex(H, S, A):
        here = (noisy_sample.states[:, h] == x) & (noisy_sample.actions[:, h] == a)
        for j in range(1 + I):
            ones, mean = noisy_sample.signals[here, j, h], sketch.signals[j, h, x, a]
            if len(ones) >= 200:
                assert stats.binomtest(int(ones.sum()), len(ones), mean).pvalue > SIGNIFICANCE / 10
                checked += 1
    assert checked > 30


def test_noise_is_independent_of_states_actions_and_other_signals(sketch: Sketch, noisy_sample: Episode):
    # Conditional on state and action, reward noise must not be correlated with utility noise, nor with the next state.
    H, S, A, I = sketch.sizes
    checked = 0
    for h, x, a in np.ndindex(H, S, A):
        here = (noisy_sample.states[:, h] == x) & (noisy_sample.actions[:, h] == a)
        observed = [*noisy_sample.signals[here, :, h].T, (noisy_sample.states[here, h + 1] == 0).astype(float)]
        for one, two in [(0, 1), (1, 2), (0, 1 + I), (1, 1 + I)]:
            if here.sum() >= 1000 and np.std(observed[one]) > 0.1 and np.std(observed[two]) > 0.1:
                correlation = np.corrcoef(observed[one], observed[two])[0, 1]
                assert abs(correlation) * np.sqrt(here.sum()) < 5.0  # five standard deviations
                checked += 1
    assert checked > 20


def test_noise_does_not_change_where_the_episode_goes(cmdp: TabularCMDP, table: Array):
    quiet, noisy = (ModelSimulator(cmdp, seed=12, noisy=noisy).play(table) for noisy in (False, True))
    np.testing.assert_array_equal(quiet.states, noisy.states)
    np.testing.assert_array_equal(quiet.actions, noisy.actions)


@pytest.mark.parametrize("mean", [0.0, 1.0])
def test_a_noisy_signal_of_mean_zero_or_one_is_certain(mean: float):
    cmdp = TabularCMDP(np.ones((1, 1, 1)), [[mean]], [[mean]], 1, horizon=200)
    episode = ModelSimulator(cmdp, noisy=True).play(TabularPolicy.uniform(200, 1, 1))
    np.testing.assert_array_equal(episode.signals, mean)


# Mixtures


def test_a_mixture_plays_one_part_for_the_whole_episode(cmdp: TabularCMDP):
    H, S, A = cmdp.horizon, cmdp.num_states, cmdp.num_actions
    parts = [TabularPolicy.deterministic(np.full((H, S), a), A) for a in range(A)]
    weights = np.array([0.5, 0.0, 0.5])
    episodes = played(ModelSimulator(cmdp, seed=1), PolicyMixture(parts, weights), 4000)
    assert (episodes.actions == episodes.actions[:, :1]).all()
    assert_frequencies(np.bincount(episodes.actions[:, 0], minlength=A).astype(float), weights)


def test_mixtures_play_as_they_are_valued(sketch: Sketch, cmdp: TabularCMDP):
    mixture = PolicyMixture([policy_table(seed, sketch, "one action") for seed in range(3)], [0.2, 0.5, 0.3])
    totals = played(ModelSimulator(cmdp, seed=1), mixture, EPISODES).signals.sum(axis=2)
    margin = stats.norm.isf(SIGNIFICANCE / 2) * totals.std(axis=0) / np.sqrt(EPISODES)
    assert (np.abs(totals.mean(axis=0) - evaluate(cmdp, mixture).totals) <= margin).all()


# What cannot be played


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (np.full((4, 4, 2), 0.5), r"policy has shape \[4, 4, 2\]; expected \[H,S,A\] = \[4,4,3\]"),
        (Table(np.full((4, 4, 2), 0.5)), r"policy has shape \[4, 4, 2\]; expected \[H,S,A\] = \[4,4,3\]"),
        (Table(np.full((4, 4, 3), 0.5)), r"policy\[0, 0, :\] sums to 1.5"),
        (Table(np.full((4, 4, 3), np.nan)), r"policy\[0, 0, 0\] is nan"),
        (PolicyMixture([np.ones((4, 4, 1))]), r"policy has shape \[4, 4, 1\]"),
        ("left", "policy has 'left'"),
        (None, "policy has None"),
    ],
)
def test_what_is_no_policy_for_this_model_is_refused(policy: Any, message: str):
    with pytest.raises(InvalidModelError, match=message):
        ModelSimulator(sketch_of(0).build()).play(policy)


def test_a_policy_whose_rows_differ_in_length_is_refused():
    class Ragged:
        def probabilities(self, stage: int, state: int) -> list[float]:
            return [1.0] if stage else [0.5, 0.5]

    with pytest.raises(InvalidModelError, match="policy cannot be read as an array"):
        ModelSimulator(sketch_of(0).build()).play(Ragged())
