"""Facts about certificates along a run, and about runs that end once a policy is certified."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import opdop
from opdop.model import InvalidParameterError, OpdopError, Quantity
from opdop.runs import RunConfig
from opdop.runs.files import read_arrays, write_arrays
from opdop.runs.goal import check_until, goal_of
from opdop.runs.saved_run import KIND
from opdop.runs.trail import FIRST, Trail

GOAL = 0.02


@pytest.fixture(scope="module")
def ended() -> opdop.Run:
    return opdop.train("factored", episodes=5000, until=GOAL, seed=1)


def test_run_ends_at_the_first_check_at_which_the_goal_is_met(ended: opdop.Run) -> None:
    table = ended.certificates
    assert table is not None
    goal = GOAL * ended.policy.table.shape[0]
    met = table["keeps_constraints"] & (table["optimum_upper"] - table["reward_lower"] <= goal)
    assert met.to_list() == [False] * (len(table) - 1) + [True]
    assert ended.certified_at == table["episode"][-1] == ended.episodes[-1] < 5000
    assert ended.config.episodes == 5000


def test_certificates_along_a_run_are_true_and_close_on_the_optimum(ended: opdop.Run) -> None:
    table, best = ended.certificates, ended.optimum
    assert table is not None
    assert best is not None
    assert (table["reward_lower"] <= table["reward"]).all()
    assert (table["utility_lower_0"] <= table["utility_0"]).all()
    assert (table["optimum_upper"] >= best.value).all()
    gaps = (table["optimum_upper"] - table["reward_lower"]).to_numpy()
    scaled = gaps * table["episode"].to_numpy()
    assert scaled.max() < 1.5 * scaled.min()  # each pair of this problem has one successor: sets shrink as 1/visits
    last = ended.certificate("recommended")
    assert last.gap == pytest.approx(gaps[-1], abs=1e-9)


def test_checks_are_made_when_episodes_have_grown_by_a_tenth(ended: opdop.Run) -> None:
    assert ended.certificates is not None
    episodes = ended.certificates["episode"].to_numpy()
    assert episodes[0] == FIRST
    np.testing.assert_array_equal(episodes[1:], np.ceil(1.1 * episodes[:-1]))


@pytest.mark.parametrize("options", [{"piece": 37}, {"compiled": False}])
def test_pieces_do_not_change_where_a_run_ends(ended: opdop.Run, options: dict[str, Any]) -> None:
    other = opdop.train("factored", episodes=5000, until=GOAL, seed=1, **options)
    assert other.certificates is not None
    assert other.certificates.equals(ended.certificates)
    assert other.history.equals(ended.history)


class _Stopped(Exception):
    pass


def test_resumed_run_ends_with_the_same_bits(ended: opdop.Run, tmp_path: Path, quick_disk: None) -> None:
    def stop(progress: opdop.runs.Progress) -> None:
        if progress.episode >= 150:
            raise _Stopped

    given: dict[str, Any] = {"episodes": 5000, "until": GOAL, "seed": 1, "checkpoint": tmp_path}
    with pytest.raises(_Stopped):
        opdop.train("factored", **given, checkpoint_seconds=0.0, progress=stop, piece=50)
    resumed = opdop.train("factored", **given)
    assert resumed.certificates is not None
    assert resumed.certificates.equals(ended.certificates)
    assert resumed.history.equals(ended.history)
    assert opdop.train("factored", **given).certified_at == ended.certified_at  # it is complete


def test_goal_that_is_not_reached_plays_every_episode() -> None:
    run = opdop.train("factored", episodes=150, until=0.001)
    assert run.episodes[-1] == 150
    assert run.certified_at is None
    assert run.certificates is not None
    assert run.certificates["episode"].to_list() == [100, 111, 123, 136, 150]


def test_certificates_are_recorded_at_about_as_many_sizes_as_asked(tmp_path: Path) -> None:
    run = opdop.train("factored", episodes=2000, certificates=8)
    assert run.certificates is not None
    assert len(run.certificates) in (8, 9)
    assert run.certificates["episode"][-1] == 2000
    run.save(tmp_path)
    loaded = opdop.Run.load(tmp_path)
    assert loaded.certificates is not None
    assert loaded.certificates.equals(run.certificates)
    assert opdop.train("factored", episodes=10).certificates is None


def test_learning_is_the_same_with_certificates() -> None:
    plain, certified = (opdop.train("factored", episodes=300, certificates=n) for n in (0, 5))
    assert plain.history.equals(certified.history)
    np.testing.assert_array_equal(plain.policy.table, certified.policy.table)


class Silent:
    """A learner that keeps no data."""

    def __init__(self) -> None:
        self.policy = opdop.TabularPolicy.uniform(6, 3, 2)

    def propose(self) -> opdop.TabularPolicy:
        return self.policy

    def learn(self, episode: opdop.Episode) -> None:
        pass

    def diagnostics(self) -> dict[str, float]:
        return {}

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: Any) -> None:
        pass


def test_learner_without_data_cannot_have_a_goal() -> None:
    with pytest.raises(InvalidParameterError, match="Silent keeps no data from which a certificate can be made"):
        opdop.train("factored", Silent(), episodes=5, until=0.1)


def test_goals_are_shares_or_have_the_unit_of_the_reward() -> None:
    steps = Quantity("empty", "steps", scale=-2.0)
    for until, gap in ((0.05, 0.5), ("5%", 0.5), ("0.2 steps", 0.1), ("1step", 0.5), ("1e-1", 1.0)):
        assert goal_of(check_until("until", until), 10, steps) == pytest.approx(gap)
    for wrong in ("1.5", "3 euros", "120%"):
        with pytest.raises(InvalidParameterError, match=r"expected a share.*The unit of empty is steps"):
            goal_of(check_until("until", wrong), 10, steps)
    for wrong in (0.0, -1, "soon", "", True, float("nan"), "1..2", [0.1], "1 \x1b"):
        with pytest.raises(InvalidParameterError, match=r"until is .*; expected a share"):
            RunConfig(until=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "damage",
    [
        lambda rows: rows[:-1],
        lambda rows: rows[:, :-1],
        lambda rows: rows + 1.0,
        lambda rows: rows.astype(np.float32),
    ],
)
def test_saved_certificates_must_be_those_of_the_episodes_played(damage: Any) -> None:
    trail = Trail(1.5, 0.0, 1)
    trail.rows = [np.array([k, 0.0, 1.0, 1.0, 0.5, np.nan, np.nan]) for k in (100.0, 150.0)]
    other = Trail(1.5, 0.0, 1)
    other.restore(trail.state(), 160)
    assert other.next == 225
    assert len(other.rows) == 2
    with pytest.raises(OpdopError, match="the saved certificates"):
        Trail(1.5, 0.0, 1).restore({"certificates": damage(np.array(trail.rows))}, 160)


def test_damaged_certificates_of_a_saved_run_are_noticed(tmp_path: Path) -> None:
    opdop.train("factored", episodes=200, certificates=3).save(tmp_path)
    meta, arrays = read_arrays(tmp_path / "run.npz", kind=KIND)
    write_arrays(tmp_path / "run.npz", meta, arrays | {"certificates.reward_lower": np.zeros(1)})
    with pytest.raises(OpdopError, match="list of certificates"):
        opdop.Run.load(tmp_path)


def test_simulator_without_a_model_can_have_a_goal() -> None:
    model = opdop.make("factored").tabular()
    simulator = model.simulator(seed=3)

    class Unknown:
        def play(self, policy: Any) -> opdop.Episode:
            return simulator.play(policy)

    task = opdop.Task.of(model, episodes=300)
    run = opdop.train(Unknown(), task=task, episodes=300, until=0.9)
    assert run.certificates is not None
    assert run.certified_at is not None
    assert isinstance(run.certificates, pl.DataFrame)
    assert run.certificates["reward"].is_nan().all()
