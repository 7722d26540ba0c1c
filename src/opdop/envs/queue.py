"""Admission and service control of a queue (Altman, Constrained Markov Decision Processes, 1999, chapter 5)."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from opdop.envs.birth_death import chain
from opdop.envs.costs import Cost
from opdop.envs.registry import Parameter, environment
from opdop.model import Display, InvalidParameterError, Quantity, TabularCMDP


@environment("queue", summary="Keep a queue short while admitting enough customers with limited service effort.")
def queue(
    *,
    capacity: Annotated[int, Parameter("customers that the system holds", low=1, high=100_000)] = 6,
    stages: Annotated[int, Parameter("slots in one episode", low=1, high=10_000)] = 12,
    service: Annotated[
        tuple[float, ...], Parameter("probabilities that a service ends in a slot, one for each mode", low=0, high=1)
    ] = (0.2, 0.5, 0.8),
    effort: Annotated[tuple[float, ...], Parameter("effort of each service mode in a slot", low=0, high=1e6)] = (
        1.0,
        3.0,
        6.0,
    ),
    admission: Annotated[
        tuple[float, ...],
        Parameter("probabilities that a customer is admitted in a slot, one for each door", low=0, high=1),
    ] = (0.0, 0.3, 0.6),
    effort_budget: Annotated[float, Parameter("effort allowed in one episode, on average", above=0)] = 30.0,
    throughput: Annotated[float, Parameter("customers to admit in one episode, on average", above=0)] = 5.0,
) -> TabularCMDP:
    """A single server works in slots.

    In each slot the operator chooses a service mode and how far to open the door: the service of a customer in the
    system ends with probability s, and independently a customer comes in with probability f. The number in the system
    therefore grows by one with probability f (1 - s) and shrinks by one with probability s (1 - f); a customer who
    finds the system empty may be served within the slot, and a full system admits nobody. Each customer in the system
    at the beginning of a slot costs one customer-slot, the total of which is to be small. Two constraints
    conflict: the service effort has a budget, and enough customers must be admitted. The numbers are ours; both
    constraints bind.
    """
    if len(service) != len(effort):
        raise InvalidParameterError(
            f"service has {len(service)} modes and effort {len(effort)}; expected one effort for each mode."
        )
    if max(effort) == 0.0:
        raise InvalidParameterError("effort is 0 in every mode; expected one mode at least that costs effort.")
    if throughput > stages:
        raise InvalidParameterError(f"throughput is {throughput:g}; expected at most one customer a slot, {stages}.")
    S, A = capacity + 1, len(service) * len(admission)
    modes, doors = (index.ravel() for index in np.indices((len(service), len(admission))))  # [A] each
    waiting = np.broadcast_to(np.arange(S)[:, None], (S, A))
    ends = np.broadcast_to(np.asarray(service)[modes], (S, A))
    admitted = np.where(waiting < capacity, np.asarray(admission)[doors], 0.0)  # [S, A]
    held = Cost("customers in the system", "customer-slots", most=capacity, stages=stages)
    spent = Cost("service effort", "units of effort", most=max(effort), stages=stages)
    display = Display(
        "queue",
        quantities=(held.quantity, spent.quantity, Quantity("customers admitted", "customers")),
        state_names=tuple(f"{x} customer{'' if x == 1 else 's'}" for x in range(S)),
        action_names=tuple(
            f"serve at {service[i]:g}, admit at {admission[j]:g}" for i, j in zip(modes, doors, strict=True)
        ),
    )
    used = np.broadcast_to(np.asarray(effort)[modes], (S, A))
    return TabularCMDP(
        chain(up=admitted * (1 - ends), down=ends * (1 - admitted)),
        held.signal(waiting),
        np.stack([spent.signal(used), admitted]),
        [spent.threshold(effort_budget), throughput],
        horizon=stages,
        display=display,
    )
