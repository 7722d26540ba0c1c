"""A production loop in a process of its own, which a test kills: `python -m tests.support.agent_child FOLDER`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import opdop


def play_episodes(agent: opdop.Agent, last: int, tell: Callable[[str], Any] = lambda _: None) -> None:
    """Play until the agent has finished `last` episodes; the environment draws the same numbers in the same episode."""
    cmdp = opdop.make("factored").tabular().dense()
    while agent.episodes < last:
        random = np.random.default_rng([agent.episodes, 7])
        state = int(random.choice(cmdp.num_states, p=cmdp.initial))
        for h in range(cmdp.horizon):
            action = agent.act(state)
            tell("acted")
            reward, utility = cmdp.rewards[h, state, action], cmdp.utilities[0, h, state, action]
            shown = [
                q.offset / cmdp.horizon + q.scale * v
                for q, v in zip(cmdp.display.quantities, (reward, utility), strict=True)
            ]
            row = cmdp.transition_matrix(h)[state * cmdp.num_actions + action]
            state = int(random.choice(cmdp.num_states, p=row))
            agent.observe(shown[0], shown[1:], state)
            tell(f"observed {agent.episodes}")


if __name__ == "__main__":
    play_episodes(opdop.Agent(opdop.make("factored"), sys.argv[1]), 10**9, lambda word: print(word, flush=True))
