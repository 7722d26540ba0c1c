"""Learning step by step with any simulator: stages per second beyond the simulator's own time (S50 A4 H20)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import opdop
from benchmarks.bench_learn import sparse_model
from opdop.model import Episode, TabularCMDP
from opdop.runs import train

S, A, H = 50, 4, 20
EPISODES = 1000
AIM = 20_000


class Table:
    """The tables of a model as plain lists, from which the simulators below draw."""

    def __init__(self, cmdp: TabularCMDP) -> None:
        cumulative = np.cumsum(np.asarray(cmdp.dense().transition_matrix(0)), axis=1)
        self.cumulative = cumulative.reshape(S, A, S)
        self.signals = cmdp.signals[:, 0].transpose(1, 2, 0).tolist()  # [S, A, J]

    def step(self, x: int, a: int, rng: np.random.Generator) -> tuple[int, list[float]]:
        """Return the next state and the signals."""
        return min(int(self.cumulative[x, a].searchsorted(rng.random())), S - 1), self.signals[x][a]


class OwnSimulator:
    """An application's own simulator, in plain Python: it asks the policy for an action at each stage."""

    def __init__(self, table: Table) -> None:
        self.table, self.rng = table, np.random.default_rng(0)

    def play(self, policy: Any) -> Episode:
        """Play one episode; without a policy, with the first action always."""
        states, actions, signals = [0], [], []
        for h in range(H):
            action = 0 if policy is None else policy.act(states[-1], h, self.rng)
            following, observed = self.table.step(states[-1], action, self.rng)
            states.append(following)
            actions.append(action)
            signals.append(observed)
        return Episode(np.array(states), np.array(actions), np.array(signals).T)


def seconds(action: Callable[[], object], repeats: int = 3) -> float:
    """Return the time of the fastest of several calls, without the time of other processes."""
    times = []
    for _ in range(repeats):
        began = time.process_time()
        action()
        times.append(time.process_time() - began)
    return min(times)


def report(name: str, whole: float, own: float, stages: int = EPISODES * H) -> None:
    """Print stages per second, and beyond the simulator's own time."""
    print(
        f"  {name:34} {stages / (whole - own):9,.0f} stages/s beyond the simulator's own {own / stages * 1e6:.1f} us "
        f"(aim: at least {AIM:,})",
        flush=True,
    )


def model_simulator(cmdp: TabularCMDP) -> None:
    """`train(compiled=False)` on a known model, every episode measured."""

    def learn(episodes: int = EPISODES) -> None:
        train(cmdp, episodes=episodes, planned_episodes=EPISODES, records=10, compiled=False)

    simulator, policy = opdop.ModelSimulator(cmdp, seed=0), opdop.TabularPolicy.uniform(H, S, A)

    def play() -> None:
        for _ in range(EPISODES):
            simulator.play(policy)

    learn(10)
    report("train(compiled=False)", seconds(learn), seconds(play))


def own_simulator(cmdp: TabularCMDP, task: opdop.Task) -> None:
    """`train` with an application's own simulator."""
    table = Table(cmdp)

    def learn(episodes: int = EPISODES) -> None:
        train(OwnSimulator(table), episodes=episodes, planned_episodes=EPISODES, records=10, task=task)

    def play() -> None:
        simulator = OwnSimulator(table)
        for _ in range(EPISODES):
            simulator.play(None)

    learn(10)
    report("train with a Python simulator", seconds(learn), seconds(play))


def gymnasium(cmdp: TabularCMDP) -> None:
    """`train` with an environment of Gymnasium."""
    import gymnasium as gym

    table = Table(cmdp)

    class Environment(gym.Env):  # type: ignore[type-arg,misc]
        observation_space, action_space = gym.spaces.Discrete(S), gym.spaces.Discrete(A)

        def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
            super().reset(seed=seed)
            self.at = 0
            return 0, {}

        def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
            self.at, (reward, utility) = table.step(self.at, action, self.np_random)
            return self.at, reward, False, False, {"cost": 1.0 - utility}

    def learn(episodes: int = EPISODES) -> None:
        problem = opdop.from_gymnasium(
            Environment(), horizon=H, budgets=0.6 * H, reward_range=(0.0, 1.0), initial=np.eye(S)[0]
        )
        train(problem, episodes=episodes, planned_episodes=EPISODES, records=10)

    def play() -> None:
        environment = Environment()
        for _ in range(EPISODES):
            environment.reset()
            for _ in range(H):
                environment.step(0)

    learn(10)
    report("train with Gymnasium", seconds(learn), seconds(play))


def agent(cmdp: TabularCMDP, task: opdop.Task) -> None:
    """`Agent.act` and `Agent.observe` in an application's own loop."""
    table = Table(cmdp)

    def loop(episodes: int = EPISODES, learning: bool = True) -> None:
        rng, made = np.random.default_rng(0), opdop.Agent(task)
        for _ in range(episodes):
            x = 0
            for _ in range(H):
                action = made.act(x) if learning else 0
                x, (reward, utility) = table.step(x, action, rng)
                if learning:
                    made.observe(reward, [utility], x)

    loop(10)
    report("Agent.act and Agent.observe", seconds(loop), seconds(lambda: loop(learning=False)))


def main() -> None:
    """Run the benchmarks."""
    cmdp = sparse_model(S, A, H)
    task = opdop.Task.of(cmdp, episodes=EPISODES)
    print(f"\nstep by step, S{S} A{A} H{H}, {EPISODES:,} episodes, updates included (one core)")
    model_simulator(cmdp)
    own_simulator(cmdp, task)
    gymnasium(cmdp)
    agent(cmdp, task)


if __name__ == "__main__":
    main()
