"""A learner of your own: it plans on the means of what it has seen, and `train` measures it.

    python examples/own_learner.py [EPISODES]

docs/howto/own-learner.md explains the methods.
"""

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

import opdop


class PlanOnMeans:
    """Plans on the means after each tenth more of episodes; a pair tried less than 5 times looks best."""

    def __init__(self, task: opdop.Task) -> None:
        self.task, self.episodes, self.next_plan = task, 0, 1
        S, A = task.num_states, task.num_actions
        self.counts, self.sums = np.zeros((S, A, S)), np.zeros((1 + task.num_constraints, S, A))
        self.policy = opdop.TabularPolicy.uniform(task.horizon, S, A)

    def propose(self) -> opdop.TabularPolicy:
        """Return the policy for the next episode."""
        return self.policy

    def learn(self, episode: opdop.Episode) -> None:
        """Count what was observed, and plan again if the data have grown enough."""
        before, after = episode.states[:-1], episode.states[1:]
        np.add.at(self.counts, (before, episode.actions, after), 1)
        np.add.at(self.sums, (slice(None), before, episode.actions), episode.signals)
        self.episodes += 1
        if self.episodes >= self.next_plan:
            self.next_plan = 1 + self.episodes * 11 // 10
            self.plan()

    def plan(self) -> None:
        """Solve the model of the means exactly."""
        visits = self.counts.sum(axis=2)
        stay = np.broadcast_to(np.eye(len(visits))[:, None, :], self.counts.shape)
        P = np.where(visits[..., None] >= 5, self.counts / np.maximum(visits, 1)[..., None], stay)
        means = np.where(visits >= 5, self.sums / np.maximum(visits, 1), 1.0)
        task = self.task
        try:
            model = opdop.TabularCMDP(P, means[0], means[1:], task.thresholds, task.initial, task.horizon)
            self.policy = opdop.solve(model).policy
        except opdop.InfeasibleError:
            pass  # the means are still wrong: keep the policy, and learn more

    def diagnostics(self) -> dict[str, float]:
        """Return nothing to be recorded."""
        return {}

    def state(self) -> dict[str, Any]:
        """Return everything that later proposals depend on."""
        played = np.array([self.episodes, self.next_plan])
        return {"counts": self.counts, "sums": self.sums, "policy": self.policy.table, "episodes": played}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Return to a saved state."""
        self.counts, self.sums = state["counts"].copy(), state["sums"].copy()
        self.policy = opdop.TabularPolicy(state["policy"])
        self.episodes, self.next_plan = map(int, state["episodes"])


def main(episodes: int = 5000) -> None:
    """Compare the learner with the one that ships, in units."""
    cmdp = opdop.make("media-streaming")
    task = opdop.Task.of(cmdp, episodes=episodes)
    for name, learner in (("plan on means", PlanOnMeans(task)), ("opdop", "opdop")):
        run = opdop.train(cmdp, learner, episodes=episodes)
        steps, services = run.display.quantities
        average = f"{steps.text(run.average.reward, 2)} with {services.text(run.average.utilities[0], 2)}"
        hard = abs(services.shown_difference(run.hard_violation[-1])) / episodes
        print(f"{name}: {average} an episode on average, hard violation {hard:.2f} {services.unit} an episode")
    print("optimum:", steps.text(run.optimum.value, 2), "with", services.text(run.optimum.utility_values[0], 2))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
