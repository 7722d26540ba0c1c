"""Every finished run of counts has a certificate; so have logs, whoever collected them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import opdop
from opdop import Episode, InvalidModelError, InvalidParameterError, TabularCMDP, Task
from opdop.confidence import Observations
from opdop.runs import DamagedFileError, Run
from opdop.runs.files import read_arrays, write_arrays
from opdop.runs.saved_run import KIND

PROBLEM = "factored"


@pytest.fixture(scope="module")
def run() -> Run:
    return opdop.train(PROBLEM, episodes=3000, seed=1)


def test_a_run_is_certified_and_so_is_its_copy_on_disk(run: Run, tmp_path: Path):
    truth = opdop.make(PROBLEM)
    optimum = opdop.solve(PROBLEM).value
    run.save(tmp_path)
    loaded = Run.load(tmp_path)
    for name in ("final", "average", "recommended"):
        certificate = run.certificate(name)
        totals = opdop.evaluate(truth, certificate.policy).totals
        assert certificate.reward_lower <= totals[0] <= certificate.reward_upper
        assert (totals[1:] >= certificate.utility_lower).all()
        assert optimum <= certificate.optimum_upper
        assert loaded.certificate(name).record() == certificate.record()
        assert opdop.certify(tmp_path, name).record() == certificate.record()
        assert opdop.certify(str(tmp_path), name).record() == certificate.record()
    assert opdop.certify(run).record() == run.certificate().record()
    assert "all stages pooled" in certificate.basis


def test_stages_are_pooled_only_if_the_kernel_is_declared_stationary(run: Run):
    with pytest.raises(opdop.InvalidModelError, match="train with stationary=False"):
        run.certificate("final", stationary=False)
    by_stage = opdop.train(PROBLEM, episodes=3000, seed=1, stationary=False)
    pooled, apart = by_stage.certificate("final", stationary=True), by_stage.certificate("final")
    assert "stage by stage" in apart.basis
    assert apart.reward_lower < pooled.reward_lower
    assert apart.optimum_upper >= pooled.optimum_upper


def test_a_smaller_failure_probability_and_other_thresholds_change_the_certificate(run: Run):
    usual = run.certificate("final")
    assert run.certificate("final", failure_probability=1e-6).reward_lower < usual.reward_lower
    easier = opdop.certify(run, "final", thresholds=[0.5])
    assert easier.keeps_constraints
    assert easier.optimum_upper >= usual.optimum_upper


def test_a_doubling_run_has_the_data_of_all_its_phases():
    run = opdop.train(PROBLEM, "doubling:opdop", episodes=3500, seed=0)  # 1024 + 2048 + 428
    H = opdop.make(PROBLEM).horizon
    assert run.observations is not None
    assert run.observations.number.sum() == 3500 * H
    again = opdop.train(PROBLEM, "doubling:opdop", episodes=1500, seed=0, planned_episodes=3500)
    more = opdop.train(PROBLEM, "doubling:opdop", episodes=2000, seed=0, planned_episodes=3500, start=again)
    assert more.observations is not None
    np.testing.assert_array_equal(more.observations.seen, run.observations.seen)


def test_random_signals_of_several_phases_count_as_random():
    model = opdop.make(PROBLEM).tabular()
    task = Task.of(model, episodes=8)
    learner = opdop.Doubling(task, lambda phase: opdop.OPDOP.preset(phase, opdop.Counts, "practical"), first=8)
    simulator = model.simulator(seed=0, noisy=True)  # the task says that signals are not random
    for _ in range(60):
        learner.learn(simulator.play(learner.propose()))
    data = learner.observations()
    assert isinstance(data, Observations)
    assert data.noisy
    assert data.number.sum() == 60 * model.horizon
    state = learner.state()
    again = opdop.Doubling(task, lambda phase: opdop.OPDOP.preset(phase, opdop.Counts, "practical"), first=8)
    again.restore(state)
    other = again.observations()
    assert isinstance(other, Observations)
    np.testing.assert_array_equal(other.seen, data.seen)


def test_a_run_without_data_says_so(run: Run):
    with pytest.raises(InvalidParameterError, match="the run has no data from which a certificate can be made"):
        replace(run, observations=None).certificate()
    with pytest.raises(InvalidParameterError, match="policy is 'best'; expected recommended, final, average"):
        run.certificate("best")
    with pytest.raises(InvalidModelError, match="policy has shape"):
        run.certificate(np.ones((1, 1, 1)))


def test_observations_in_a_file_are_checked(run: Run, tmp_path: Path):
    run.save(tmp_path)
    meta, arrays = read_arrays(tmp_path / "run.npz", kind=KIND)
    write_arrays(tmp_path / "run.npz", meta, arrays | {"observed.seen": -arrays["observed.seen"]})
    with pytest.raises(DamagedFileError, match="at least 1"):
        Run.load(tmp_path)


class RandomRewards:
    """A simulator whose model is not known and whose rewards are random, though nobody has said so."""

    def __init__(self, model: TabularCMDP) -> None:
        self.model = model.simulator(seed=0, noisy=True)

    def play(self, policy: Any) -> Episode:
        return self.model.play(policy)


def test_signals_of_an_unknown_simulator_count_as_random():
    model = opdop.make(PROBLEM).tabular()
    task = Task.of(model, episodes=200)
    run = opdop.train(RandomRewards(model), episodes=200, task=task)
    assert run.observations is not None
    assert run.observations.noisy
    certificate = run.certificate("final")
    assert certificate.reward_lower <= opdop.evaluate(model, run.policy).reward <= certificate.reward_upper


# Logs


def log(episodes: int = 300, seed: int = 0) -> tuple[TabularCMDP, Task, dict[str, Any]]:
    model = opdop.make(PROBLEM).tabular()
    H, S, A = model.horizon, model.num_states, model.num_actions
    simulator = model.simulator(seed=seed)
    played = [simulator.play(np.full((H, S, A), 1.0 / A)) for _ in range(episodes)]
    columns = {
        "episode": np.repeat(np.arange(episodes), H),
        "stage": np.tile(np.arange(H), episodes),
        "state": np.concatenate([episode.states[:-1] for episode in played]),
        "action": np.concatenate([episode.actions for episode in played]),
        "reward": np.concatenate([episode.signals[0] for episode in played]),
        "utility": np.concatenate([episode.signals[1] for episode in played]),
        "next_state": np.concatenate([episode.states[1:] for episode in played]),
    }
    return model, Task.of(model, episodes=1, slater_gap=0.1), columns


def test_logs_in_any_form_and_order_give_the_same_certificate(tmp_path: Path):
    model, task, columns = log()
    table = pl.DataFrame(columns)
    table.write_parquet(tmp_path / "log.parquet")
    table.sample(fraction=1.0, shuffle=True, seed=0).write_csv(tmp_path / "log.csv")
    forms = [table, table.to_dict(as_series=False), tmp_path / "log.parquet", str(tmp_path / "log.csv")]
    certificates = [opdop.certify(form, task=task) for form in forms]
    for certificate in certificates:
        assert certificate.record() == certificates[0].record()
    totals = opdop.evaluate(model, certificates[0].policy).totals
    assert (totals[1:] >= certificates[0].utility_lower).all()
    assert certificates[0].optimum_upper >= opdop.solve(model).value


def test_logs_are_read_in_the_users_units_and_names():
    model, task, columns = log()
    reward, cost = model.display.quantities
    H = model.horizon
    shown = {
        "reward": reward.offset / H + reward.scale * columns["reward"],
        "cost": cost.offset / H + cost.scale * columns.pop("utility"),
    }
    display = replace(model.display, state_names=tuple(f"s{x}" for x in range(model.num_states)))
    names = {name: [f"s{x}" for x in columns[name]] for name in ("state", "next_state")}
    plain = opdop.certify(columns | {"utility": 1.0 - (shown["cost"] / -cost.scale)}, task=task)
    certificate = opdop.certify(columns | shown | names, task=task, display=display)
    assert certificate.optimum_upper == pytest.approx(plain.optimum_upper)
    assert certificate.utility_lower == pytest.approx(plain.utility_lower)
    assert cost.name in str(certificate)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.pop("reward"), "the log has no column 'reward'; it has episode, stage"),
        (
            lambda c: c.pop("utility"),
            "has no column for constraint 0; expected one of cost_0, utility_0, cost, utility",
        ),
        (lambda c: c.update(cost=c["utility"]), "has the columns cost, utility, all for constraint 0"),
        (lambda c: c["stage"].__setitem__(3, 99), r"row 3 of the log: stage is 99; expected a whole number, 0 to 5"),
        (lambda c: c["state"].__setitem__(2, -1), "row 2 of the log: state is -1"),
        (lambda c: c["reward"].__setitem__(4, 7.0), "row 4 of the log: reward is 7; expected 0 to 1 a stage"),
        (lambda c: c["reward"].__setitem__(4, np.nan), "row 4 of the log: reward is missing or not finite"),
        (lambda c: c["stage"].__setitem__(1, 0), "episode 0 of the log has no stage 1, or has a stage twice"),
        (lambda c: c["episode"].__setitem__(0, 77), "episode 0 of the log has 5 rows; expected H = 6"),
        (lambda c: c["next_state"].__setitem__(0, (c["next_state"][0] + 1) % 3), "episode 0 of the log: stage 0 leads"),
        (lambda c: c.update(action=["left"] * len(c["action"])), "column 'action' of the log holds"),
        (
            lambda c: c.update(episode=pl.Series([[1, 2], [1]] * (len(c["episode"]) // 2)).to_numpy()),
            "row 0 of the log: episode is a list; expected one value",
        ),
    ],
)
def test_a_log_that_cannot_be_used_says_where_and_why(change: Any, message: str):
    _, task, columns = log(episodes=20)
    columns = {name: np.array(values, dtype=float) for name, values in columns.items()}
    change(columns)
    with pytest.raises(InvalidModelError, match=message) as raised:
        opdop.certify(columns, task=task)
    assert "\n" not in str(raised.value)


def test_random_signals_in_a_log_must_be_declared():
    model, task, columns = log(episodes=50)
    columns["reward"] = np.random.default_rng(0).random(len(columns["reward"]))
    with pytest.raises(InvalidModelError, match="two different values at one place"):
        opdop.certify(columns, task=task)
    assert opdop.certify(columns, task=replace(task, noisy=True)).policy is not None
    assert model.num_states > 1


def test_other_data_are_refused(tmp_path: Path):
    _, task, _ = log(episodes=5)
    (tmp_path / "log.csv").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "log.txt").write_text("x")
    for data, message in (
        (3, "the log is 3"),
        (tmp_path / "log.txt", "no .parquet and no .csv"),
        (tmp_path / "log.csv", "cannot be read|no column"),
    ):
        with pytest.raises((InvalidModelError, InvalidParameterError), match=message):
            opdop.certify(data, task=task)
    with pytest.raises(InvalidParameterError, match="expected a Run, its folder, or logged transitions with task="):
        opdop.certify({"episode": [0]})


def test_data_counted_by_hand_are_certified(run: Run):
    assert isinstance(run.observations, Observations)
    certificate = opdop.certify(run.observations, run.policy)
    assert certificate.reward_lower == run.certificate("final").reward_lower
