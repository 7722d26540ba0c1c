"""Policies act on observations, and come back from their files as they were; broken files are refused in one line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import opdop
from opdop import InvalidModelError, InvalidParameterError, OpdopError, PolicyMixture, TabularPolicy, load_policy
from opdop.model import Axis, Space
from tests.support.bakery import make_bakery

DOC = Path(__file__).parents[2] / "docs" / "policies.md"
BINNED = Space((Axis.bins([-0.5, 0.5]), Axis(size=2, start=1)), (Axis(size=2), Axis(size=2, start=3)), 1, True)


class Parts(gymnasium.Env[Any, Any]):
    """Observations by name and in tuples, and actions of two parts."""

    observation_space = gymnasium.spaces.Dict(
        b=gymnasium.spaces.Discrete(3),
        a=gymnasium.spaces.Tuple((gymnasium.spaces.MultiBinary(2), gymnasium.spaces.Box(0.0, 1.0, (1,)))),
    )
    action_space = gymnasium.spaces.Tuple((gymnasium.spaces.Discrete(2), gymnasium.spaces.Discrete(3, start=5)))

    def observed(self) -> Any:
        on, level = self.np_random.integers(2, size=2).astype(np.int8), self.np_random.random(1).astype(np.float32)
        return {"b": int(self.np_random.integers(3)), "a": (on, level)}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self.observed(), {}

    def step(self, action: Any) -> Any:
        return self.observed(), float(action[1] == 7), False, False, {"cost": float(action[0])}


def random_table(seed: int, shape: tuple[int, int, int] = (4, 7, 4)) -> np.ndarray:
    table = np.random.default_rng(seed).dirichlet(np.ones(shape[2]), size=shape[:2])
    table[0, 0] = np.eye(shape[2])[-1]
    return table


def policies() -> list[TabularPolicy | PolicyMixture]:
    plain, mixed = TabularPolicy(random_table(0)), PolicyMixture([random_table(1), random_table(2)], [0.25, 0.75])
    return [plain, mixed, plain.with_space(BINNED), mixed.with_space(BINNED)]


def test_actions_have_the_probabilities_of_the_table() -> None:
    policy, rng, n = TabularPolicy(random_table(3)), np.random.default_rng(4), 4000
    drawn = np.bincount([policy.act(2, 1, rng) for _ in range(n)], minlength=4) / n
    assert np.abs(drawn - policy.table[1, 2]).max() < 5 * 0.5 / np.sqrt(n)


def test_mixture_plays_a_whole_episode_with_one_part() -> None:
    parts = [TabularPolicy.deterministic(np.full((4, 2), a), 2) for a in range(2)]
    mixture, rng = PolicyMixture(parts, [0.5, 0.5]), np.random.default_rng(5)
    episodes = [tuple(mixture.act(0, h, rng) for h in range(4)) for _ in range(100)]
    assert set(episodes) == {(0, 0, 0, 0), (1, 1, 1, 1)}
    assert mixture.sample(rng) in parts


@pytest.mark.parametrize("suffix", ["npz", "json"])
@pytest.mark.parametrize("number", range(4))
def test_saved_policy_acts_as_before(number: int, suffix: str, tmp_path: Path) -> None:
    policy = policies()[number]
    again = load_policy(policy.save(tmp_path / f"policy.{suffix}"))
    assert again.space == policy.space
    assert played(again) == played(policy)


def played(policy: Any) -> list[Any]:
    rng = np.random.default_rng(6)
    seen = [3] if policy.space is None else [(-0.5, 2), np.array([7.0, 1.0]), [0.0, 2]]
    return [np.asarray(policy.act(o, h, rng)).tolist() for _ in range(20) for h in range(4) for o in seen]


def documented_reader() -> Any:
    """Return the class of the docs, which is at most 30 lines long and imports NumPy beside the standard library."""
    source = re.findall(r"```python\n(import json.*?)```", DOC.read_text(), re.DOTALL)[0]
    assert len([line for line in source.splitlines() if line.strip()]) <= 30
    assert set(re.findall(r"^(?:import|from) (\w+)", source, re.MULTILINE)) == {"json", "numpy", "pathlib"}
    names: dict[str, Any] = {}
    exec(compile(source, "reader", "exec"), names)
    return names["Policy"]


def check_reader(policy: Any, observations: list[Any], folder: Path) -> None:
    """Check that the reader chooses the same actions as the policy, from files of both formats."""
    for suffix in ("npz", "json"):
        reader = documented_reader()(policy.save(folder / f"policy.{suffix}"), np.random.default_rng(7))
        rng, episodes = np.random.default_rng(7), 10
        for _ in range(episodes):
            reader.begin()
            for stage in range((policy.parts[0] if hasattr(policy, "parts") else policy).table.shape[0]):
                observation = observations[stage % len(observations)]
                ours = policy.act(observation, stage, rng)
                theirs = reader.act(observation, stage)
                if isinstance(ours, tuple):  # of parts, here of one number each
                    ours = np.array(ours)
                np.testing.assert_array_equal(ours, theirs)
                assert isinstance(theirs, int) == isinstance(ours, (int, np.integer))


@pytest.mark.parametrize("number", range(4))
def test_reader_in_the_docs_needs_numpy_only_and_chooses_the_same_actions(number: int, tmp_path: Path) -> None:
    policy = policies()[number]
    check_reader(policy, [3] if policy.space is None else [(0.2 * stage, 1) for stage in range(4)], tmp_path)


def read_run(kind: str) -> tuple[opdop.Run, list[Any]]:
    """Return a run of each kind of problem, and observations of it."""
    if kind == "tabular":
        return opdop.train("factored", episodes=300), [0, 1, 2]
    if kind == "continuous":
        return opdop.train("reservoir", episodes=3), [0.0, 0.37, [0.5], np.array([1.0])]
    if kind == "toy text":
        return opdop.train(
            opdop.from_gymnasium("FrozenLake-v1", horizon=8, budgets=2, cost=lambda step: step.action == 1),
            episodes=100,
        ), [0, 4, 8]
    if kind == "bins":
        pole = opdop.from_gymnasium(
            "CartPole-v1", horizon=10, budgets=5, cost=lambda step: abs(step.next_observation[0]) > 0.02,
            reward_range=(0, 1), bins=[[], [0.0], [-0.02, 0.02], []],
        )  # fmt: skip
        return opdop.train(pole, episodes=100), [np.array([0.0, 0.1, 0.02, -0.3]), np.array([0.0, -0.1, -0.5, 0.0])]
    if kind == "parts":
        parts = opdop.from_gymnasium(Parts(), horizon=4, budgets=2, bins=[2], reward_range=(0, 1))
        on, off = (np.array([1, 0]), np.array([0.4])), (np.array([0, 0]), np.array([0.6]))
        return opdop.train(parts, episodes=100), [{"b": 2, "a": on}, {"a": off, "b": 0}]
    return opdop.train(make_bakery(), episodes=100), [0, 1, 2]


@pytest.mark.parametrize("which", ["final", "average", "recommended"])
@pytest.mark.parametrize("kind", ["tabular", "continuous", "toy text", "bins", "parts", "functions"])
def test_reader_in_the_docs_plays_every_policy_of_every_kind_of_run(kind: str, which: str, tmp_path: Path) -> None:
    run, observations = read_run(kind)
    if (kind, which) == ("continuous", "recommended"):  # no data of a continuous run certify a policy
        with pytest.raises(OpdopError):
            run.policy_of(which)
        return
    policy = run.policy_of(which)
    is_mixture = which == "average" and kind in ("bins", "parts", "functions")
    assert isinstance(policy, PolicyMixture if is_mixture else TabularPolicy) or which == "recommended"
    assert policy.space == run.policy.space
    check_reader(policy, observations, tmp_path)


def test_policy_of_a_continuous_run_acts_at_any_state_as_its_cell(tmp_path: Path) -> None:
    problem = opdop.make("reservoir")
    run = opdop.train(problem, episodes=3)
    states = problem.tabular().num_states
    x = 0.37
    number = run.policy.space.state(x)
    points = problem.learner_features.carried.points  # type: ignore[union-attr]
    assert number < states
    assert abs(points[number, 0] - x) <= 0.5 / problem.cells + 1e-12  # type: ignore[attr-defined]
    saved = opdop.Run.load(run.save(tmp_path)).policy
    assert saved.act(x, 0, np.random.default_rng(0)) == run.policy.act(x, 0, np.random.default_rng(0))
    learner = opdop.algorithms()["opdop"].build(opdop.Task.of(problem, episodes=5))
    assert learner.propose().act([x], 1, np.random.default_rng(0)) in range(run.policy.table.shape[2])


def test_observations_out_of_the_space_are_refused() -> None:
    rng = np.random.default_rng(0)
    policy = TabularPolicy(random_table(0)).with_space(BINNED)
    for observation, words in (
        ((0.0, 3), r"a coordinate of the observation is 3; expected a whole number in 1..2"),
        ((np.nan, 1), "a coordinate of the observation is nan; expected a number"),
        ((0.0,), "the observation has 1 coordinate; expected 2 coordinates"),
        ("left", "the observation is 'left'; expected numbers"),
    ):
        with pytest.raises(InvalidParameterError, match=words):
            policy.act(observation, 0, rng)
    with pytest.raises(InvalidParameterError, match="stage 4 is not one of"):
        policy.act((0.0, 1), 4, rng)
    with pytest.raises(InvalidParameterError, match="rng is 0; expected a numpy"):
        policy.act((0.0, 1), 0, 0)  # type: ignore[arg-type]
    with pytest.raises(InvalidModelError, match="the space has 7 states and 4 actions; the policy is for 2 and 4"):
        TabularPolicy(random_table(0, (1, 2, 4)), space=BINNED)


def test_broken_files_are_refused_in_one_line(tmp_path: Path) -> None:
    good = policies()[3].save(tmp_path / "good.npz").read_bytes()
    random = np.random.default_rng(8)
    file = tmp_path / "bad.npz"
    for _ in range(60):
        data = bytearray(good[: random.integers(1, len(good))] if random.random() < 0.5 else good)
        for place in random.integers(len(data), size=3):
            data[place] = random.integers(256)
        file.write_bytes(bytes(data))
        message = ""
        try:
            load_policy(file)  # a change of a probability's last bits may pass
        except OpdopError as error:
            message = str(error)
        assert "\n" not in message
    record = {"format": "opdop.policy/1", "space": None, "weights": [1.0], "tables": [[[[0.5, 0.5]]]]}
    for change in (
        {"format": "other"},
        {"tables": [[[[0.5, 0.6]]]]},
        {"tables": "x"},
        {"weights": [1.0, 2.0]},
        {"space": {"first": 0}},
        {"space": {"observations": [{"size": 10**12, "start": 0}], "actions": [], "first": 0, "vector_actions": False}},
    ):
        (tmp_path / "bad.json").write_text(json.dumps({**record, **change}))
        with pytest.raises(InvalidModelError, match=r"bad\.json holds no policy"):
            load_policy(tmp_path / "bad.json")
    with pytest.raises(InvalidParameterError, match="there is no file"):
        load_policy(tmp_path / "none.npz")
    with pytest.raises(InvalidParameterError, match=r"expected a file in \.npz or \.json"):
        load_policy(tmp_path / "policy.pkl")
    np.savez(tmp_path / "objects.npz", header=np.array({}, dtype=object), weights=np.ones(1), tables=np.ones(1))
    with pytest.raises(InvalidModelError, match="holds no policy"):
        load_policy(tmp_path / "objects.npz")
