"""The inventory control problem as described in the DOPE paper (Bura et al., 2022); its public code pays more."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from opdop.envs.costs import Cost
from opdop.envs.registry import Parameter, environment
from opdop.model import Display, InvalidParameterError, Quantity, TabularCMDP


@environment("inventory", summary="Order stock to earn as much as possible within a budget for orders and storage.")
def inventory(
    *,
    capacity: Annotated[int, Parameter("units that the store holds", low=1, high=200)] = 5,
    stages: Annotated[int, Parameter("days in one episode", low=1, high=10_000)] = 7,
    demand: Annotated[
        tuple[float, ...], Parameter("probabilities of a demand of 0, 1, 2, ... units a day", low=0, high=1)
    ] = (0.3, 0.2, 0.2, 0.2, 0.05, 0.05),
    price: Annotated[float, Parameter("dollars earned by a unit sold", above=0, high=1e6)] = 8.0,
    order_cost: Annotated[float, Parameter("dollars for placing an order", low=0, high=1e6)] = 4.0,
    unit_cost: Annotated[float, Parameter("dollars for each unit ordered", low=0, high=1e6)] = 2.0,
    holding_cost: Annotated[float, Parameter("dollars for each unit in store, a day", low=0, high=1e6)] = 1.0,
    budget: Annotated[
        float, Parameter("dollars allowed for orders and storage in one episode, on average", above=0)
    ] = 66.5,
    start: Annotated[int, Parameter("units in store at first", low=0, high=200)] = 0,
) -> TabularCMDP:
    """Each day a shop orders a units, which arrive at once, and then meets a random demand d.

    With x units in store before the order, the day costs the order (a fixed sum, and a sum for each unit) and the
    storage of x + a units. A demand of at most x + a is met and paid for; a larger one empties the store but earns
    nothing. That is how the paper describes it; the paper's public code pays for the x + a units sold. In units of the
    largest expected revenue of a day, 13.2 dollars, the optimum is 6.13552 as described, and would be 6.66532 with the
    code's revenue. An order that does not fit is cut to the largest that does, x + a = capacity, so every action is
    available everywhere. Revenue enters as its expectation over the demand, divided by the largest expected revenue of
    a day; cost is divided by the largest cost of a day, 19 dollars as published, of which the budget allows half: 66.5
    dollars over 7 days.
    """
    if abs(sum(demand) - 1.0) > 1e-9:
        raise InvalidParameterError(f"demand sums to {sum(demand):.9g}; expected probabilities that sum to 1.")
    if start > capacity:
        raise InvalidParameterError(f"start is {start}; expected at most the capacity, {capacity} units.")
    S = A = capacity + 1
    x, a = np.indices((S, A))
    filled = np.minimum(x + a, capacity)  # [S, A], after the order
    ordered = filled - x
    level, units = np.indices((S, len(demand)))
    after = np.zeros((S, S))  # [filled, y], the kernel of a day's demand
    np.add.at(after, (level, np.maximum(level - units, 0)), np.broadcast_to(demand, level.shape))
    revenue = price * np.where(units <= level, units * np.asarray(demand), 0.0).sum(axis=1)  # [filled]
    cost = np.where(ordered > 0, order_cost + unit_cost * ordered, 0.0) + holding_cost * filled
    smallest = np.finfo(np.float64).tiny  # a quotient of smaller numbers may overflow
    if revenue.max() < smallest or cost.max() < smallest:
        raise InvalidParameterError(
            f"the largest revenue of a day is {revenue.max():g} dollars and the largest cost {cost.max():g}; "
            f"expected both above 0: a demand that can be met, and orders or storage that cost something."
        )
    spent = Cost("orders and storage", "dollars", most=float(cost.max()), stages=stages)
    display = Display(
        "inventory",
        quantities=(Quantity("revenue", "dollars", scale=float(revenue.max())), spent.quantity),
        state_names=tuple(f"{i} in store" for i in range(S)),
        action_names=tuple(f"order {i}" for i in range(A)),
    )
    return TabularCMDP(
        after[filled],
        revenue[filled] / revenue.max(),
        spent.signal(cost),
        spent.threshold(budget),
        start,
        stages,
        display=display,
    )
