"""The three-state cycle with costly moves from the DOPE experiments (Bura et al., 2022)."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from opdop.envs.costs import Cost
from opdop.envs.registry import Parameter, environment
from opdop.model import Display, Quantity, TabularCMDP


@environment("factored", summary="A cycle of states in which moving pays, but only so many moves are allowed.")
def factored(
    *,
    states: Annotated[int, Parameter("states on the cycle", low=2, high=1000)] = 3,
    stages: Annotated[int, Parameter("stages in one episode", low=1, high=10_000)] = 6,
    moves: Annotated[float, Parameter("moves allowed in one episode, on average", above=0)] = 3.0,
) -> TabularCMDP:
    """States 0..n-1 lie on a cycle.

    In each stage one may stay, which is free and earns nothing, or move on to the next state, which earns (x + 1) / n
    in state x and uses up one move. The smallest of the problems: with the published numbers the best value is 2, one
    more move is worth 2/3, and without the limit the value would be 4.
    """
    x = np.arange(states)
    transitions = np.zeros((states, 2, states))
    transitions[x, 0, x] = 1.0
    transitions[x, 1, (x + 1) % states] = 1.0
    rewards = np.stack([np.zeros(states), (x + 1) / states], axis=1)
    used = Cost("moves", "moves", most=1, stages=stages)
    display = Display(
        "factored",
        quantities=(Quantity("reward from moves", "points"), used.quantity),
        state_names=tuple(f"state {i}" for i in x),
        action_names=("stay", "move on"),
    )
    utilities = used.signal(np.broadcast_to([0.0, 1.0], (states, 2)))
    return TabularCMDP(transitions, rewards, utilities, used.threshold(moves), horizon=stages, display=display)
