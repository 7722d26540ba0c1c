"""RiverSwim (Strehl and Littman, 2008) with a budget of strokes: the hard-exploration problem."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from opdop.envs.birth_death import chain
from opdop.envs.costs import Cost
from opdop.envs.registry import Parameter, environment
from opdop.model import Display, Geometry, InvalidParameterError, Quantity, TabularCMDP


@environment("river-crossing", summary="Swim against the current to a distant reward with limited energy.")
def river_crossing(
    *,
    states: Annotated[int, Parameter("places in the river, both banks included", low=2, high=100_000)] = 6,
    stages: Annotated[int, Parameter("stages in one episode", low=1, high=10_000)] = 20,
    forward: Annotated[float, Parameter("probability that a stroke leads a place upstream", above=0, high=1)] = 0.3,
    back: Annotated[float, Parameter("probability that the current wins over a stroke", low=0, high=1)] = 0.1,
    hold: Annotated[
        float, Parameter("probability that a stroke holds the swimmer at the far bank", low=0, high=1)
    ] = 0.3,
    near_reward: Annotated[float, Parameter("points for resting at the near bank", low=0, high=1e9)] = 5.0,
    far_reward: Annotated[float, Parameter("points for a stroke at the far bank", above=0, high=1e9)] = 10_000.0,
    strokes: Annotated[float, Parameter("strokes allowed in one episode, on average", above=0)] = 10.0,
) -> TabularCMDP:
    """A swimmer begins at the near bank of a river, at the downstream end of a chain of places.

    Drifting leads one place downstream for sure and costs no energy. A stroke leads one place upstream with probability
    .3 and is undone by the current with probability .1; at the far bank it holds the swimmer there with probability .3
    only. Resting at the near bank earns 5 points, a stroke at the far bank 10,000, so that all that counts is far away
    and chance alone hardly ever leads there. Chain and rewards are as published; the energy is ours: each stroke costs
    one unit, and half as many strokes as stages are allowed.
    """
    if forward + back > 1.0:
        raise InvalidParameterError(
            f"forward + back is {forward + back:g}; expected at most 1: both are chances of one stroke."
        )
    x = np.arange(states)
    up = np.stack([np.zeros(states), np.full(states, forward)], axis=1)  # [S, A]
    down = np.stack([np.ones(states), np.full(states, back)], axis=1)
    down[0, 1] = 0.0
    up[-1, 1], down[-1, 1] = 0.0, 1.0 - hold
    points = np.zeros((states, 2))
    points[0, 0], points[-1, 1] = near_reward, far_reward
    used = Cost("strokes", "strokes", most=1, stages=stages)
    display = Display(
        "river-crossing",
        quantities=(Quantity("reward", "points", scale=float(points.max())), used.quantity),
        state_names=("near bank", *(f"place {i}" for i in x[1:-1]), "far bank"),
        action_names=("drift", "swim"),
        geometry=Geometry(
            cells=tuple((0, int(i)) for i in x),
            marks={0: "start", states - 1: "goal"},
            arrows=((0, -1), (0, 1)),
            column_label="places upstream",
        ),
    )
    return TabularCMDP(
        chain(up, down),
        points / points.max(),
        used.signal(np.broadcast_to([0.0, 1.0], (states, 2))),
        used.threshold(strokes),
        horizon=stages,
        display=display,
    )
