"""The media streaming problem from the DOPE experiments (Bura et al., 2022)."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from opdop.envs.birth_death import chain
from opdop.envs.costs import Cost
from opdop.envs.registry import Parameter, environment
from opdop.model import Display, InvalidParameterError, TabularCMDP


@environment("media-streaming", summary="Keep a playback buffer from running empty with few fast services.")
def media_streaming(
    *,
    capacity: Annotated[int, Parameter("packets that the buffer holds", low=1, high=100_000)] = 9,
    stages: Annotated[int, Parameter("stages in one episode", low=1, high=10_000)] = 10,
    fast: Annotated[float, Parameter("probability that fast service brings a packet", low=0, high=1)] = 0.9,
    slow: Annotated[float, Parameter("probability that slow service brings a packet", low=0, high=1)] = 0.1,
    playback: Annotated[
        float, Parameter("probability that a packet is played (published as the rate lambda)", low=0, high=1)
    ] = 0.8,
    fast_services: Annotated[float, Parameter("fast services allowed in one episode, on average", above=0)] = 5.0,
    start: Annotated[int, Parameter("packets in the buffer at first", low=0, high=100_000)] = 0,
) -> TabularCMDP:
    """A device plays packets from a buffer, and a base station fills it.

    In each stage the station serves fast or slowly and so brings a packet with probability mu; independently a packet
    is played with probability lambda. The buffer therefore grows by one with probability mu (1 - lambda), shrinks by
    one with probability (1 - mu) lambda, and stays within 0 and its capacity. The steps that begin with an empty
    buffer are to be few, and so are the fast services. Read this way, beginning empty, the published numbers give
    6.7467 empty steps at best, and 5.393 if fast service were free.
    """
    if slow >= fast:
        raise InvalidParameterError(
            f"slow is {slow:g} and fast is {fast:g}; expected slow below fast: fast service brings more packets."
        )
    if start > capacity:
        raise InvalidParameterError(f"start is {start}; expected at most the capacity, {capacity} packets.")
    S = capacity + 1
    service = np.broadcast_to([slow, fast], (S, 2))
    empty = Cost("steps with an empty buffer", "steps", most=1, stages=stages)
    served = Cost("fast services", "services", most=1, stages=stages)
    display = Display(
        "media-streaming",
        quantities=(empty.quantity, served.quantity),
        state_names=tuple(f"{x} packet{'' if x == 1 else 's'}" for x in range(S)),
        action_names=("slow", "fast"),
    )
    return TabularCMDP(
        chain(up=service * (1 - playback), down=(1 - service) * playback),
        empty.signal(np.broadcast_to(np.arange(S)[:, None] == 0, (S, 2))),
        served.signal(np.broadcast_to([0.0, 1.0], (S, 2))),
        served.threshold(fast_services),
        start,
        stages,
        display=display,
    )
