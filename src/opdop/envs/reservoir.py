"""A water reservoir that sells electricity and must not run low: continuous states, of our own design."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from opdop.envs.registry import Parameter, environment
from opdop.model import ContinuousCMDP, Display, InvalidParameterError, Quantity
from opdop.model.continuous_features import densities
from opdop.model.densities import TruncatedNormal
from opdop.model.quadrature import Nodes, gauss_legendre, midpoint, monte_carlo, simpson
from opdop.model.validation import Floats

_LARGEST = 60_000_000  # numbers in the discretised kernels


@environment("reservoir", summary="Sell water power, and keep enough water: the level is a continuous state.")
def reservoir(
    *,
    stages: Annotated[int, Parameter("months in one episode", low=1, high=1000)] = 6,
    capacity: Annotated[float, Parameter("water that the reservoir holds, in hm³", above=0, high=1e6)] = 100.0,
    start: Annotated[float, Parameter("water at the beginning, in hm³", low=0, high=1e6)] = 60.0,
    releases: Annotated[
        tuple[float, ...], Parameter("water that can be released in a month, in hm³", low=0, high=1e6)
    ] = (5.0, 20.0, 40.0),
    inflow: Annotated[float, Parameter("water that flows in during an average month, in hm³", low=0, high=1e6)] = 15.0,
    reserve: Annotated[float, Parameter("water to have on average, in hm³", above=0, high=1e6)] = 52.0,
    energy: Annotated[float, Parameter("electricity from 1 hm³ at full head, in GWh", above=0, high=100)] = 0.25,
    price: Annotated[
        float, Parameter("price of electricity in the month with the highest price, in EUR/MWh", above=0, high=1e5)
    ] = 80.0,
    zones: Annotated[int, Parameter("known zones of the level after a release", low=2, high=30)] = 3,
    shapes: Annotated[int, Parameter("known densities of the next level", low=2, high=30)] = 4,
    spread: Annotated[
        float, Parameter("standard deviation of each density, as a share of capacity", low=0.01, high=10)
    ] = 0.15,
    rule: Annotated[
        str,
        Parameter(
            "how the learner integrates its value functions",
            choices=("gauss-legendre", "midpoint", "simpson", "monte-carlo"),
        ),
    ] = "gauss-legendre",
    nodes: Annotated[int, Parameter("nodes of the learner's integrals", low=1, high=10_000)] = 16,
    cells: Annotated[int, Parameter("cells of the level on which policies are measured", low=4, high=10_000)] = 64,
    seed: Annotated[int, Parameter("which Monte-Carlo nodes", low=0, high=2**63 - 1)] = 0,
) -> ContinuousCMDP:
    """Each month an operator chooses how much water of a reservoir goes through the turbines.

    A hm³ at full head gives .25 GWh, at an empty reservoir half of that, and the price has a season, so it pays to
    release a lot at a high level in a month with a high price. The constraint is to have at least 52 hm³ at the
    beginning of the month, on average. The level is any number from 0 to 100 hm³. After a release it lies between known
    zones; from each zone the next month's level has one of a few known densities, with odds that the operator does not
    know and that depend on the season's inflow. So the kernel is linear in zones * shapes known features. Optimum and
    regret are of a discretisation, whose error is estimated by refining it; the level itself is never rounded.
    """
    most = max(releases)
    if start > capacity or reserve >= capacity:
        raise InvalidParameterError(
            f"start is {start:g} and reserve {reserve:g} hm³; expected no more than the capacity, {capacity:g} hm³."
        )
    if most <= 0.0 or len(releases) < 2:
        raise InvalidParameterError(f"releases are {releases}; expected at least two, not all 0.")
    states = nodes + cells + 1
    if states**2 * len(releases) * stages > _LARGEST or states * len(releases) * zones * shapes > _LARGEST:
        raise InvalidParameterError(
            f"{states:,} states in {stages} months are too many; expected at most {_LARGEST:,} probabilities."
        )
    features = densities(
        _Zones(zones, tuple(release / capacity for release in releases)),
        [TruncatedNormal((r + 0.5) / shapes, spread) for r in range(shapes)],
        _PowerAndWater(tuple(release / capacity for release in releases)),
        _rule(rule, nodes, seed),
    )
    season = 2.0 * np.pi * np.arange(stages) / 12.0
    months = np.outer(inflow / capacity * (1.0 + 0.5 * np.sin(season)), np.ones(zones))  # more water in spring
    after = np.linspace(0.0, 1.0, zones) + months  # [H, zones]
    means = (np.arange(shapes) + 0.5) / shapes
    odds = np.exp(-0.5 * ((np.minimum(after, 1.0)[..., None] - means) * shapes) ** 2)
    theta = (odds / odds.sum(axis=-1, keepdims=True)).reshape(stages, zones * shapes)
    prices = 0.8 + 0.2 * np.cos(season)  # as shares of the highest
    display = Display(
        "reservoir",
        quantities=(
            Quantity("revenue", "thousand EUR", scale=most * energy * price),
            Quantity("mean level", "hm³", scale=capacity / stages),
        ),
        action_names=tuple(f"release {i}: {release:g} hm³" for i, release in enumerate(releases)),
    )
    return ContinuousCMDP(
        features,
        theta,
        np.outer(prices, [1.0, 0.0]),
        np.tile([0.0, 1.0], (stages, 1)),
        stages * reserve / capacity,
        start / capacity,
        cells=cells,
        display=display,
    )


@dataclass(frozen=True)
class _Zones:
    """Weights of the zones for the level after a release: straight lines between the zones' levels."""

    zones: int
    releases: tuple[float, ...]

    def __call__(self, states: Floats) -> Floats:
        """Return the weights [n, A, zones] at levels [n, 1]."""
        after = np.maximum(states - np.array(self.releases), 0.0)  # [n, A]
        return np.asarray(np.maximum(1.0 - np.abs(after[..., None] * (self.zones - 1) - np.arange(self.zones)), 0.0))


@dataclass(frozen=True)
class _PowerAndWater:
    """Power of the water that is really there to be released, with the head of the level, and the level itself."""

    releases: tuple[float, ...]

    def __call__(self, states: Floats) -> Floats:
        """Return both as shares of the largest, [n, A, 2], at levels [n, 1]."""
        released = np.minimum(states, np.array(self.releases)) / max(self.releases)
        power = released * (0.5 + 0.5 * states)
        return np.stack([power, np.broadcast_to(states, power.shape)], axis=-1)


def _rule(name: str, count: int, seed: int) -> Nodes:
    rules: dict[str, Any] = {"gauss-legendre": gauss_legendre, "midpoint": midpoint, "simpson": simpson}
    chosen: Nodes = monte_carlo(count, seed=seed) if name == "monte-carlo" else rules[name](count)
    return chosen
