"""Environments of Gymnasium as problems, against the environments themselves; and the shipped problems as its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import opdop
from opdop import InvalidModelError, InvalidParameterError, TabularCMDP, TabularPolicy, from_gymnasium, solve, train
from opdop.envs import environments
from opdop.interop import GymnasiumSimulator, ProblemEnv, Transition
from opdop.interop.gymnasium_envs import problem_names, register_envs

gym = pytest.importorskip("gymnasium")


def newest(name: str) -> str:
    """Return the id of the newest registered version of an environment."""
    versions = [each.version for each in gym.registry.values() if each.name == name and each.namespace is None]
    return f"{name}-v{max(versions)}"


def played(env: Any, policy: TabularPolicy, episodes: int, cost: Any, seed: int = 0) -> np.ndarray:
    """Return the mean total reward and cost of a policy in the environment itself, then their standard errors."""
    rng, totals = np.random.default_rng(seed), np.zeros((episodes, 2))
    observation, _ = env.reset(seed=seed)
    for k in range(episodes):
        observation, _ = env.reset()
        for h in range(len(policy.table)):
            action = policy.act(observation, h, rng)
            after, reward, terminated, truncated, info = env.step(action)
            step = Transition(observation, action, float(reward), after, terminated, info)
            totals[k] += reward, float(cost(step))
            observation = after
            if terminated or truncated:
                break
    return np.array([totals.mean(axis=0), totals.std(axis=0) / np.sqrt(episodes)])


# Exact models ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "horizon", "budget", "cost"),
    [
        ("FrozenLake-v1", 30, 5.0, lambda step: float(step.action == 1)),
        (newest("CliffWalking"), 25, 0.1, lambda step: float(step.reward == -100)),
        (newest("Taxi"), 15, 0.5, lambda step: float(step.reward == -10)),
    ],
)
def test_exact_model_has_the_values_that_the_environment_pays(
    name: str, horizon: int, budget: float, cost: Any
) -> None:
    problem = from_gymnasium(name, horizon=horizon, budgets=budget, cost=cost, cost_range=(0, 1))
    assert isinstance(problem, TabularCMDP)
    optimum = solve(problem)
    policy = TabularPolicy(0.5 * optimum.policy.table + 0.5 / problem.num_actions)
    values = opdop.evaluate(problem, policy).totals
    own = [quantity.shown(value) for quantity, value in zip(problem.display.quantities, values, strict=True)]
    mean, error = played(gym.make(name), policy, 300, cost)
    assert np.abs(own - mean).max() <= 4.5 * error.max() + 1e-9
    assert problem.absorbing == problem.num_states - 1


def test_optimum_without_a_binding_budget_is_that_of_the_table_itself() -> None:
    env = gym.make("FrozenLake-v1").unwrapped
    value = np.zeros(env.observation_space.n)
    for _ in range(30):
        value = np.array([max(sum(p * (r + (not end) * value[y]) for p, y, r, end in env.P[x][a]) for a in env.P[x])
                          for x in range(len(value))])  # fmt: skip
    problem = from_gymnasium("FrozenLake-v1", horizon=30, budgets=29.9, cost=lambda step: float(step.action == 1))
    assert solve(problem).value == pytest.approx(value @ env.initial_state_distrib, rel=1e-12)
    run = train(problem, episodes=50)
    assert run.regret[-1] == pytest.approx(50 * (solve(problem).value - run.average.reward), rel=1e-9)


def test_what_is_known_of_the_end_is_not_counted_as_observed(tmp_path: Path) -> None:
    def cost(step: Transition) -> float:
        return float(step.action == 1)

    problem = from_gymnasium("FrozenLake-v1", horizon=8, budgets=3.0, cost=cost, cost_range=(0, 1))
    for algorithm in ("opdop", "replan"):
        folder = tmp_path / algorithm
        train(problem, algorithm, episodes=20, planned_episodes=40, checkpoint=folder)
        resumed = train(problem, algorithm, episodes=40, checkpoint=folder)
        assert resumed.history.equals(train(problem, algorithm, episodes=40).history)
        assert resumed.observations is not None
        assert resumed.observations.observed == 40 * 8
        assert "counts of 320 transitions" in resumed.certificate().basis


def test_learner_is_told_of_the_end_and_does_not_overestimate_it() -> None:
    problem = from_gymnasium(
        newest("CliffWalking"), horizon=14, budgets=0.5, cost=lambda step: float(step.reward == -100)
    )
    task = opdop.Task.of(problem, episodes=100)
    counts = opdop.Counts(task)
    estimates = counts.evaluate(TabularPolicy.uniform(14, 49, 4))
    assert task.rest is not None
    left = np.arange(14, 0, -1)
    np.testing.assert_allclose(estimates.v[:, :14, 48], task.rest[:, None] * left, rtol=1e-3, atol=1e-2)


def test_padding_does_not_raise_what_the_learner_estimates() -> None:
    class Lottery(gym.Env[Any, Any]):
        """Pays 1 and ends at once."""

        observation_space, action_space = gym.spaces.Discrete(2), gym.spaces.Discrete(2)

        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            super().reset(seed=seed)
            return 0, {}

        def step(self, action: int) -> Any:
            return 1, 1.0, True, False, {"cost": 0.0}

    simulator = from_gymnasium(Lottery(), horizon=60, budgets=30.0, reward_range=(0, 1))
    # Without the doubts that raise the estimates of actions seldom tried.
    known = {"doubt_scale": 1e-9, "trust_growth": 1e-9, "noise_doubt": 1e-9}
    run = train(simulator, episodes=50, parameters=known)
    assert run.history["estimated_reward"][-1] <= 1.05  # 1 is possible; about 60 without knowledge of the end


def test_taxi_that_changes_outside_its_table_is_simulated() -> None:
    if newest("Taxi") < "Taxi-v4":
        pytest.skip("Gymnasium before 1.2 has no such taxi")
    env = gym.make("Taxi-v4", fickle_passenger=True)
    arguments = {"horizon": 5, "budgets": 1.0, "cost": lambda step: float(step.reward == -10)}
    assert isinstance(from_gymnasium(env, **arguments, reward_range=(-10, 20)), GymnasiumSimulator)
    with pytest.raises(InvalidParameterError, match="Taxi-v4 has no exact model: it has no table"):
        from_gymnasium(env, **arguments, exact=True)


# Simulators ------------------------------------------------------------------------------------------------------


def test_blackjack_is_played_through_its_tuple_of_numbers() -> None:
    simulator = from_gymnasium(
        "Blackjack-v1", horizon=6, budgets=1.0, cost=lambda step: float(step.action), reward_range=(-1, 1.5), resets=200
    )
    assert simulator.num_states == 32 * 11 * 2 + 1
    run = train(simulator, episodes=60)
    assert run.policy.act((14, 10, 0), 0, np.random.default_rng(0)) in (0, 1)
    episode = simulator.play(run.policy)
    ended = int(np.argmax(episode.states == simulator.absorbing))
    assert ended >= 1
    assert (episode.states[ended:] == simulator.absorbing).all()
    np.testing.assert_array_equal(episode.signals[:, ended:], np.repeat(simulator.rest[:, None], 6 - ended, axis=1))


def test_cartpole_through_bins_is_learnt_and_resumed(tmp_path: Path) -> None:
    def make() -> GymnasiumSimulator:
        return from_gymnasium(
            "CartPole-v1",
            horizon=40,
            budgets=10.0,
            cost=lambda step: abs(float(step.next_observation[0])) > 0.05,
            reward_range=(0, 1),
            bins=[[], [], [-0.05, 0.0, 0.05], [-0.5, 0.5]],
            units={"reward": ("balance", "steps")},
            resets=50,
        )

    whole = train(make(), episodes=40, seed=3, planned_episodes=40)
    train(make(), episodes=15, seed=3, planned_episodes=40, checkpoint=tmp_path)
    again = train(make(), episodes=40, seed=3, planned_episodes=40, checkpoint=tmp_path)
    np.testing.assert_array_equal(whole.policy.table, again.policy.table)
    assert whole.history.equals(again.history)
    assert whole.display.quantities[0].name == "balance"
    assert 1.0 <= whole.average.reward <= 40.0
    loaded = opdop.Run.load(whole.save(tmp_path / "saved"))
    observation = np.array([0.0, 0.1, 0.02, -0.7], dtype=np.float32)
    actions = [each.policy.act(observation, 7, np.random.default_rng(1)) for each in (whole, loaded)]
    assert actions[0] == actions[1]


class Vault(gym.Env[Any, Any]):
    """Three coordinates of actions, costs in several places; a reward out of range after some episodes."""

    observation_space = gym.spaces.MultiDiscrete([2, 3])
    action_space = gym.spaces.MultiDiscrete([2, 2, 2])

    def __init__(self, *, six: bool = False, odd_from: int = 10**9, truncates: int = 10**9) -> None:
        self.six, self.odd_from, self.truncates, self.episode = six, odd_from, truncates, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.steps, self.episode = 0, self.episode + 1
        return np.array([0, 0]), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(np.asarray(action))
        self.steps += 1
        reward = 7.5 if self.episode > self.odd_from else float(action[0])
        info = {"heat": float(action[0]), "noise": 2.0 * float(action[1])}
        after, truncated = self.np_random.integers(0, [2, 3]), self.steps >= self.truncates
        if self.six:
            return after, reward, float(action[0]), False, truncated, {"noise": info["noise"]}
        return after, reward, False, truncated, info


def test_costs_come_from_keys_functions_and_six_entries() -> None:
    uniform = TabularPolicy.uniform(5, 7, 8)
    keys = from_gymnasium(
        Vault(), horizon=5, budgets={"noise": 4, "heat": 1}, cost=("heat", "noise"), reward_range=(0, 1),
        cost_range={"heat": (0, 1), "noise": (0, 2)}, resets=1,
    )  # fmt: skip
    function = from_gymnasium(
        Vault(), horizon=5, budgets={"heat": 1, "noise": 4}, reward_range=(0, 1), cost_range=[(0, 1), (0, 2)],
        cost=lambda step: {"heat": step.info["heat"], "noise": step.info["noise"]}, resets=1,
    )  # fmt: skip
    six = from_gymnasium(Vault(six=True), horizon=5, budgets=1, reward_range=(0, 1), resets=1)
    one, two, three = keys.play(uniform), function.play(uniform), six.play(uniform)
    np.testing.assert_array_equal(one.signals, two.signals)
    np.testing.assert_array_equal(one.signals[:2], three.signals)
    other = from_gymnasium(
        Vault(six=True), horizon=5, budgets=4, cost="noise", reward_range=(0, 1), cost_range=(0, 2), resets=1
    )  # one of several costs of an environment such as those of safety-gymnasium, by its name
    np.testing.assert_array_equal(one.signals[[0, 2]], other.play(uniform).signals)
    np.testing.assert_array_equal(one.signals[1], 1.0 - one.signals[0])  # heat is the first coordinate, as the reward
    assert [quantity.name for quantity in keys.display.quantities] == ["reward", "heat", "noise"]


def test_reward_out_of_its_range_stops_the_run_after_a_checkpoint(tmp_path: Path) -> None:
    arguments = {"horizon": 4, "budgets": 2.0, "cost": "heat", "reward_range": (0, 1), "resets": 1}
    simulator = from_gymnasium(Vault(odd_from=9), **arguments)
    with pytest.raises(InvalidModelError, match=r"at stage 0 the reward is 7.5; expected .* stated range, \[0, 1\]"):
        train(simulator, episodes=30, checkpoint=tmp_path, checkpoint_seconds=1e6)
    run = train(from_gymnasium(Vault(), **arguments), episodes=30, checkpoint=tmp_path)
    whole = train(from_gymnasium(Vault(), **arguments), episodes=30)
    assert run.episodes[-1] == 30
    assert run.history[:6].equals(whole.history[:6])  # those before the error were kept


def test_truncation_before_the_horizon_is_an_error() -> None:
    simulator = from_gymnasium(Vault(truncates=3), horizon=4, budgets=2, cost="heat", reward_range=(0, 1), resets=1)
    with pytest.raises(InvalidModelError, match="truncated an episode after 3 of 4 stages"):
        simulator.play(TabularPolicy.uniform(4, 7, 8))
    with pytest.raises(InvalidParameterError, match="truncates episodes after 500 steps; expected at most 500"):
        from_gymnasium("CartPole-v1", horizon=501, budgets=1, reward_range=(0, 1), bins=[2, [], 2, []])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"reward_range": None}, r"opdop cannot know how large a reward is; expected reward_range=\(low, high\)"),
        ({"horizon": None}, "the environment has no time limit; expected horizon=H"),
        ({"cost": 3}, "cost is 3; expected a key of info, several, or a function"),
        ({"budgets": [1, 2]}, "there are 2 budgets; expected 1, one for each cost"),
        ({"budgets": 99}, "the budget of 'heat' is 99; no policy can exceed it, as a total is 0 to 4"),
        ({"env": 3}, "env is 3; expected a gymnasium.Env"),
        ({"bins": [[1.0]]}, "bins has 1 entries too many"),
        ({"cost_range": (1, 0)}, r"cost_range is \(1, 0\); expected two finite numbers"),
        ({"env": "CartPole-v1"}, "with 4 coordinates; expected bins="),
        ({"env": "CartPole-v1", "bins": [2, 2, 2, 2]}, r"bins\[1\] is 2, but the coordinate is not bounded"),
    ],
)
def test_wrong_arguments_are_refused(changes: dict[str, Any], message: str) -> None:
    arguments = {"horizon": 4, "budgets": 2.0, "cost": "heat", "reward_range": (0, 1), "resets": 1, **changes}
    with pytest.raises(ValueError, match=message):
        from_gymnasium(arguments.pop("env", Vault()), **arguments)


def test_missing_key_names_those_that_are_there() -> None:
    simulator = from_gymnasium(Vault(), horizon=4, budgets=2, reward_range=(0, 1), resets=1)
    with pytest.raises(InvalidModelError, match="a step's info has no 'cost'; it has heat, noise"):
        simulator.play(TabularPolicy.uniform(4, 7, 8))


# Shipped problems as environments --------------------------------------------------------------------------------


def test_every_shipped_problem_is_registered() -> None:
    assert problem_names() == sorted(environments())
    assert set(register_envs()) == {f"opdop/{name}-v0" for name in environments()}


@pytest.mark.filterwarnings("ignore:.*render:UserWarning")
@pytest.mark.parametrize("name", problem_names())
def test_shipped_problem_passes_the_check_of_gymnasium(name: str) -> None:
    from gymnasium.utils.env_checker import check_env

    env = gym.make(f"opdop/{name}-v0").unwrapped
    check_env(env, skip_render_check=True)


def test_environment_pays_what_its_problem_says() -> None:
    env = gym.make("opdop/queue-v0").unwrapped
    problem = env.problem.tabular()
    policy = solve(problem).policy
    quantities, values = problem.display.quantities, opdop.evaluate(problem, policy).totals
    own = [
        quantities[0].shown(values[0]),
        sum(_as_cost(q, v, env.horizon) for q, v in zip(quantities[1:], values[1:], strict=True)),
    ]
    mean, error = played(env, policy, 400, lambda step: step.info["cost"])
    assert np.abs(own - mean).max() <= 4.5 * error.max()


def _as_cost(quantity: opdop.Quantity, value: float, horizon: int) -> float:
    return quantity.shown(value) if quantity.scale < 0 else quantity.scale * (horizon - value)


def test_problem_comes_back_through_gymnasium() -> None:
    env = ProblemEnv("media-streaming")
    simulator = from_gymnasium(
        env, horizon=env.horizon, budgets=env.budgets[0], cost_range=env.cost_ranges[0], resets=10
    )
    original = env.problem.tabular()
    np.testing.assert_allclose(simulator.thresholds, original.thresholds, rtol=1e-12)
    assert simulator.display.quantities[1].scale == pytest.approx(-abs(original.display.quantities[1].scale))


def test_run_without_a_known_model_has_a_certificate_in_own_units() -> None:
    simulator = from_gymnasium(
        "FrozenLake-v1", horizon=6, budgets=2.0, cost=lambda step: float(step.action == 1), exact=False,
        reward_range=(0, 1), units={"cost": ("moves down", "moves")}, resets=5,
    )  # fmt: skip
    run = train(simulator, episodes=300)
    certificate = opdop.certify(run, "final")
    exact = from_gymnasium("FrozenLake-v1", horizon=6, budgets=2.0, cost=lambda step: float(step.action == 1))
    true = opdop.evaluate(exact, run.policy.table)
    assert certificate.reward_lower <= true.reward
    assert (certificate.utility_lower <= true.utilities).all()
    assert "moves down <= " in str(certificate)


# Spaces of parts, and feature maps ---------------------------------------------------------------------------------


class Plant(gym.Env[Any, Any]):
    """Observations and actions of parts; pays 1 if the action has the coordinates that were observed."""

    observation_space = gym.spaces.Dict(
        valve=gym.spaces.Discrete(2, start=3),
        alarms=gym.spaces.MultiBinary(2),
        where=gym.spaces.Tuple([gym.spaces.Discrete(2), gym.spaces.Box(0.0, 1.0, (1,))]),
    )
    action_space = gym.spaces.Dict(
        switch=gym.spaces.MultiBinary([2, 1]), go=gym.spaces.Tuple([gym.spaces.Discrete(2), gym.spaces.Discrete(3)])
    )

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self._look(), {}

    def _look(self) -> dict[str, Any]:
        random = self.np_random
        self.seen = {
            "where": (int(random.integers(2)), random.random(1, dtype=np.float32)),
            "valve": 3 + int(random.integers(2)),
            "alarms": random.integers(0, 2, 2, dtype=np.int8),
        }
        return self.seen

    def step(self, action: Any) -> Any:
        assert self.action_space.contains({**action, "switch": action["switch"].astype(np.int8)})
        reward = float(action["go"][0] == self.seen["where"][0])
        return self._look(), reward, False, False, {"cost": float(action["switch"].sum() / 2)}


def test_dictionaries_and_tuples_of_discrete_parts_are_numbered_one_after_the_other() -> None:
    env = Plant()
    simulator = from_gymnasium(env, horizon=2, budgets=1.5, reward_range=(0, 1), bins=[[0.25, 0.5]], resets=50)
    assert simulator.num_states == 2 * 2 * 2 * 2 * 3 + 1  # alarms, valve, where; the names in alphabetical order
    assert simulator.num_actions == 2 * 3 * 4  # go, then switch
    space = simulator.space
    observation = {"valve": 4, "where": (1, np.array([0.3])), "alarms": np.array([1, 0])}
    assert space.state(observation) == np.ravel_multi_index((1, 0, 1, 1, 1), (2, 2, 2, 2, 3))
    chosen = space.action(int(np.ravel_multi_index((1, 2, 0, 1), (2, 3, 2, 2))))
    assert chosen["go"] == (1, 2)
    np.testing.assert_array_equal(chosen["switch"], [[0], [1]])
    episode = simulator.play(TabularPolicy.uniform(2, simulator.num_states, simulator.num_actions))
    assert episode.signals.shape == (2, 2)
    for wrong, words in (
        ({"valve": 4, "alarms": [1, 0]}, "has 3 coordinates; expected 5"),
        ({**observation, "valve": 9}, r"is 9; expected a whole number in 3..4"),
        ({**observation, "alarms": ["a", "b"]}, "expected numbers"),
    ):
        with pytest.raises(InvalidParameterError, match=words):
            space.state(wrong)


def test_policy_of_parts_is_saved_with_their_layout(tmp_path: Path) -> None:
    simulator = from_gymnasium(Plant(), horizon=2, budgets=1.5, reward_range=(0, 1), bins=[[]], resets=1)
    run = train(simulator, episodes=5)
    loaded = opdop.load_policy(run.policy.save(tmp_path / "policy.json"))
    observation = simulator.env.reset(seed=1)[0]
    one, two = (each.act(observation, 1, np.random.default_rng(2)) for each in (run.policy, loaded))
    assert one["go"] == two["go"]
    np.testing.assert_array_equal(one["switch"], two["switch"])
    assert opdop.Run.load(run.save(tmp_path / "run")).policy.space == run.policy.space
    for layout in ({"shape": [2]}, {"tuple": []}, {"dict": {"a": 3}}, {"tuple": None, "dict": None}, "x"):
        with pytest.raises(InvalidModelError, match="layout"):
            opdop.model.Space(simulator.space.observations, simulator.space.actions, action_layout=layout)


def test_feature_map_numbers_the_bins_of_what_it_returns(tmp_path: Path) -> None:
    def leaning(observation: Any) -> tuple[float, int]:
        return float(observation[2] + 0.5 * observation[3]), int(observation[0] > 0.0)

    simulator = from_gymnasium(
        "CartPole-v1", horizon=30, budgets=15.0, cost=lambda step: abs(float(step.next_observation[0])) > 0.05,
        reward_range=(0, 1), features=leaning, bins=[[-0.1, 0.0, 0.1], 2], resets=50,
    )  # fmt: skip
    assert simulator.num_states == 4 * 2 + 1
    run = train(simulator, episodes=200)
    assert run.average.reward > 22.0  # about 22 with random actions, of which an episode of 30 can have 30
    observation = np.array([0.1, 0.0, 0.2, 0.1])
    assert run.policy.space is not None
    assert run.policy.space.state(observation) == 3 * 2 + 1
    loaded = opdop.load_policy(run.policy.save(tmp_path / "policy.npz"))
    with pytest.raises(InvalidParameterError, match=r"files do not hold the function .* with_feature_map"):
        loaded.act(observation, 0, np.random.default_rng(0))
    ready = loaded.with_space(loaded.space.with_feature_map(leaning))
    actions = [each.act(observation, 7, np.random.default_rng(1)) for each in (run.policy, ready)]
    assert actions[0] == actions[1]
    agent = opdop.Agent(simulator)
    assert agent.act(observation) in (0, 1)
    fresh = opdop.certify(simulator, run.policy, episodes=30)
    assert fresh.reward_lower <= run.average.reward
    assert fresh.optimum_upper == np.inf


@pytest.mark.parametrize(
    ("features", "bins", "message"),
    [
        (lambda o: 0, None, "expected a function of an observation, and bins for each number"),
        (3, [2], "features is 3"),
        (lambda o: 0, [0], r"bins\[0\] is 0; expected a whole number, at least 1, or edges"),
        (lambda o: 5, [2], r"is 5; expected a whole number in 0\.\.1"),
        (lambda o: [0, 1], [2], "what the feature map returns has 2 coordinates; expected 1"),
        (lambda o: o["x"], [2], "the feature map failed: IndexError"),
        (lambda o: "a", [2], "what the feature map returns is 'a'; expected numbers"),
    ],
)
def test_feature_maps_that_do_not_fit_are_refused(features: Any, bins: Any, message: str) -> None:
    with pytest.raises(opdop.OpdopError, match=message):
        from_gymnasium(
            "CartPole-v1", horizon=5, budgets=3.0, reward_range=(0, 1), features=features, bins=bins, resets=1
        )


def test_first_state_of_a_simulator_is_bounded_by_its_resets_and_episodes() -> None:
    arguments = {"horizon": 4, "budgets": 2, "cost": "heat", "reward_range": (0, 1)}
    simulator = from_gymnasium(Vault(), **arguments, resets=30)
    assert simulator.first_visits.sum() == 30
    run = train(simulator, episodes=20)
    assert "first state from 50 observed" in run.certificate().basis
    stated = train(from_gymnasium(Vault(), **arguments, initial=0), episodes=20)
    assert "first state" not in stated.certificate().basis


def test_names_of_states_say_what_was_observed() -> None:
    pole = opdop.from_gymnasium(
        "CartPole-v1", horizon=5, budgets=2, cost=lambda step: step.action, reward_range=(0, 1),
        bins=[[], [0.5], [], []],
    )  # fmt: skip
    assert pole.display.state_names == ("(any, < 0.5, any, any)", "(any, >= 0.5, any, any)", "the end")
    run = opdop.train(pole, episodes=20)
    assert "state (any, " in str(run.certificate("final").statements())
    lake: dict[str, Any] = {"horizon": 5, "budgets": 2, "cost": lambda step: step.action == 1, "reward_range": (0, 1)}
    numbers = opdop.from_gymnasium("FrozenLake-v1", **lake, exact=False)
    assert numbers.display.state_names == ()


def test_unknown_ids_are_refused_with_the_words_of_gymnasium() -> None:
    with pytest.raises(
        opdop.InvalidParameterError, match=r"env is 'FrozenLak-v1': .*Did you mean: `FrozenLake`"
    ) as said:
        opdop.from_gymnasium("FrozenLak-v1", horizon=5, budgets=1)
    assert "\n" not in str(said.value)


@pytest.mark.parametrize("preset", ["certified", "paper"])
def test_checks_of_the_paper_hold_where_episodes_end_early(preset: str) -> None:
    lake = opdop.from_gymnasium("FrozenLake-v1", horizon=8, budgets=1, cost=lambda step: step.action == 1)
    assert opdop.verify(lake, seeds=1, episodes=25, preset=preset).failed == 0
    with pytest.raises(opdop.InvalidParameterError, match="is a simulator, whose model is not known"):
        opdop.verify(opdop.from_gymnasium(
            "FrozenLake-v1", horizon=8, budgets=1, cost=lambda step: step.action == 1, exact=False, reward_range=(0, 1)
        ))  # fmt: skip


def test_agent_takes_costs_by_name() -> None:
    names = {"wood": "wood burnt", "coal": "coal burnt"}
    task = opdop.from_functions(
        lambda rng: 0, lambda state, action, rng: (1.0, {"wood": 1.0, "coal": 2.0}, 0), states=1, actions=2, horizon=2,
        budgets={"wood": 1.5, "coal": 3.0}, reward_range=(0, 1), cost_range=(0, 2),
        units={key: (words, "kg") for key, words in names.items()},
    )  # fmt: skip
    totals = []
    for costs in ([1.0, 2.0], {"coal": 2.0, "wood": 1.0}, {"wood burnt": 1.0, "coal burnt": 2.0}):
        agent = opdop.Agent(task)
        for _ in range(2):
            agent.act(0)
            agent.observe(1.0, costs, 0)
        totals.append(agent.totals.tolist())
    assert totals[0] == totals[1] == totals[2]
    agent.act(0)
    with pytest.raises(opdop.InvalidModelError, match=r"costs are for \['wood'\]; expected \['coal', 'wood'\]"):
        agent.observe(1.0, {"wood": 1.0}, 0)
