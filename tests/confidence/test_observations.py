"""Data sets are counted, pooled, merged, stored and refused as they should be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opdop import Counts, InvalidModelError, Task
from opdop.confidence import Observations, count_transitions
from tests.support.data_sets import KINDS, observe
from tests.support.strategies import SEEDS, Sketch, policy_table, sketch_of, sketches


def equal(one: Observations, two: Observations) -> bool:
    first, second = one.arrays(), two.arrays()
    return first.keys() == second.keys() and all(np.allclose(first[name], second[name], atol=1e-9) for name in first)


@given(sketches(), SEEDS, KINDS)
def test_a_data_set_survives_its_file(sketch: Sketch, seed: int, kinds: dict[str, Any]):
    data = observe(sketch, seed, **kinds)
    again = Observations.from_arrays(data.arrays())
    assert equal(data, again)
    assert again.noisy is data.noisy


@given(sketches(), SEEDS, SEEDS, st.booleans())
def test_merging_adds_up_and_commutes_with_pooling(sketch: Sketch, one: int, two: int, noisy: bool):
    first, second = observe(sketch, one, noisy=noisy), observe(sketch, two, noisy=noisy)
    both = first.merged(second)
    np.testing.assert_array_equal(both.number, first.number + second.number)
    assert equal(both, second.merged(first))
    assert equal(both.pooled(), first.pooled().merged(second.pooled()))
    assert both.pooled().kernel_stages == 1


@given(st.integers(0, 50), st.booleans())
def test_steps_and_a_learners_counts_give_the_same_data(seed: int, noisy: bool):
    sketch = sketch_of(seed, states=3, actions=2, horizon=3, constraints=2)
    cmdp = sketch.build()
    simulator = cmdp.simulator(seed=seed, noisy=noisy)
    counts = Counts(Task.of(cmdp, episodes=20, slater_gap=0.1, noisy=noisy))
    episodes = [simulator.play(policy_table(seed, sketch)) for _ in range(20)]
    for episode in episodes:
        counts.observe(episode)
    row, successor, seen = counts.transitions()
    visits = counts.arrays.visits
    known = {"thresholds": cmdp.thresholds, "initial": cmdp.initial, "noisy": noisy}
    learnt = Observations.from_rows(
        3, 3, 2, row=row, successor=successor, seen=seen, signal_number=visits.number, signal_sums=visits.sums,
        by_action=True, **known,
    )  # fmt: skip
    logged = count_transitions(
        3,
        3,
        2,
        stages=np.tile(np.arange(3), 20),
        states=np.concatenate([episode.states[:-1] for episode in episodes]),
        actions=np.concatenate([episode.actions for episode in episodes]),
        next_states=np.concatenate([episode.states[1:] for episode in episodes]),
        signals=np.concatenate([episode.signals for episode in episodes], axis=1),
        **known,
    )
    assert equal(learnt, logged)


def test_a_signal_that_is_not_deterministic_is_refused():
    steps = {"stages": [0, 0], "states": [1, 1], "actions": [0, 0], "next_states": [0, 1]}
    given_ = {"thresholds": [0.5], "initial": [1.0, 0.0], **steps}
    with pytest.raises(InvalidModelError, match=r"two different values at one place \(state 1, action 0, stage 0\)"):
        count_transitions(2, 2, 1, signals=[[0.0, 0.5], [1.0, 1.0]], **given_)
    assert count_transitions(2, 2, 1, signals=[[0.0, 0.5], [1.0, 1.0]], noisy=True, **given_).noisy
    other = given_ | {"stages": [0, 1]}
    apart = count_transitions(2, 2, 1, signals=[[0.0, 0.5], [1.0, 1.0]], **other)
    with pytest.raises(InvalidModelError, match="two different values at two stages"):
        apart.pooled(signals=True)
    once = {name: value[:1] if name in steps else value for name, value in given_.items()}
    first = count_transitions(2, 2, 1, signals=[[0.0], [1.0]], **once)
    second = count_transitions(2, 2, 1, signals=[[0.5], [1.0]], **once)
    with pytest.raises(InvalidModelError, match="two different values at one place"):
        first.merged(second)


def test_stationary_signals_are_pooled_on_their_own():
    sketch = sketch_of(1, form="dense stationary", signal="constant")
    data = observe(sketch, 3)
    pooled = data.pooled(kernel=False, signals=True)
    assert (pooled.kernel_stages, pooled.signal_stages) == (4, 1)
    seen = pooled.signal_number > 0
    np.testing.assert_allclose(pooled.signal_means()[:, seen], sketch.signals[:, 0].reshape(2, -1)[:, seen], rtol=1e-12)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"thresholds": [[1.0]]}, "expected \\[I\\] and \\[S\\]"),
        ({"initial": [0.5, 0.4]}, "sums to 0.9"),
        ({"starts": [0, 1]}, "there are 1 rows of transitions; expected H\\*S\\*A = 2"),
        ({"successors": [5]}, "expected states in 0..1"),
        ({"seen": [0]}, "at least 1"),
        ({"signal_sums": [[0.0, 2.0], [0.0, 0.0]]}, "not sums of signal_number signals"),
        ({"signal_number": [0]}, "expected"),
        ({"possible_starts": [0, 1, 2], "possible": [0, 0]}, "state 1 was observed after state 1 and action 0"),
        ({"possible_starts": [0, 0, 1], "possible": [1]}, "at least one possible successor"),
        ({"horizon": 0}, "expected at least 1"),
    ],
)
def test_what_does_not_fit_is_refused(changed: dict[str, Any], message: str):
    known: dict[str, Any] = {
        "horizon": 1, "num_states": 2, "num_actions": 1, "thresholds": [0.5], "initial": [0.5, 0.5],
        "starts": [0, 0, 1], "successors": [1], "seen": [1], "signal_number": [0, 1],
        "signal_sums": [[0.0, 1.0], [0.0, 0.5]],
    }  # fmt: skip
    data = Observations(**known)
    assert data.number.tolist() == [0, 1]
    with pytest.raises(InvalidModelError, match=message):
        replace(data, **changed)


def test_data_sets_of_other_sizes_are_not_merged():
    small, large = observe(sketch_of(0, states=2), 0), observe(sketch_of(0, states=3), 0)
    with pytest.raises(InvalidModelError, match="num_states is 2 in one and 3 in the other"):
        small.merged(large)
    with pytest.raises(InvalidModelError, match="no 'starts'"):
        Observations.from_arrays({name: value for name, value in small.arrays().items() if name != "starts"})
