"""What a family of random problems is, how its thresholds are set, and the list of all families."""

from __future__ import annotations

import functools
import importlib
import pkgutil
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from opdop.envs.binding_constraint import ATTEMPTS, CLEARLY, SLACK
from opdop.model import Display, InvalidParameterError, TabularCMDP, suggestion
from opdop.model.validation import Floats, as_index, shown
from opdop.planning import solve

HALVES = ("training", "validation")

Draw = Callable[[np.random.Generator], TabularCMDP]


@dataclass(frozen=True)
class Family:
    """Problems with random parameters.

    `draw` returns a problem with the thresholds SLACK, which every policy satisfies; `problem` sets thresholds that
    bind. The Slater gap is a share of the range of the utility, drawn between the two numbers of `gap`; see
    `constrained`. With `noisy` learners observe random signals. `linear` families have features to learn with.
    """

    name: str
    half: str
    summary: str
    gap: tuple[float, float]
    noisy: bool
    linear: bool
    draw: Draw

    def problem(self, seed: int) -> TabularCMDP:
        """Return the problem of a seed; raises InvalidParameterError if in none of many draws the constraint binds.

        Each attempt has a random stream of its own, so the same seed gives the same problem whatever came before.
        """
        seed = as_index("seed", seed, 2**63)
        for stream in np.random.SeedSequence([zlib.crc32(self.name.encode()), seed]).spawn(ATTEMPTS):
            random = np.random.default_rng(stream)
            share = float(np.exp(random.uniform(*np.log(self.gap))))
            cmdp = constrained(self.draw(random), share)
            if cmdp is not None:
                parameters = {"seed": seed, "gap": round(share, 4)}
                return cmdp.with_display(
                    replace(cmdp.display, name=self.name, summary=self.summary, parameters=parameters)
                )
        raise InvalidParameterError(
            f"in none of {ATTEMPTS} draws of {self.name!r} from seed {seed} the constraint clearly binds."
        )


_found: dict[str, Family] = {}


def family(
    name: str,
    half: str,
    *,
    gap: tuple[float, float] = (0.1, 0.6),
    noisy: bool = False,
    linear: bool = False,
    **sizes: Any,
) -> Callable[[Callable[..., TabularCMDP]], Callable[..., TabularCMDP]]:
    """Register the function below as a family; its docstring's first line is the summary.

    `sizes` are given to the function at every draw, so that one function makes several families.
    """

    def register(function: Callable[..., TabularCMDP]) -> Callable[..., TabularCMDP]:
        if half not in HALVES or name in _found:
            raise InvalidParameterError(f"family {name!r} of the {half!r} half is known already, or has no such half.")
        summary = (function.__doc__ or "").strip().splitlines()[0]
        drawn = functools.partial(function, **sizes)
        _found[name] = Family(name, half, summary, gap, noisy, linear, drawn)
        return function

    return register


def families(half: str | None = None) -> Mapping[str, Family]:
    """Return the families of one half, or of both, by name in alphabetical order.

    >>> sorted({family.half for family in families().values()})
    ['training', 'validation']
    """
    package = importlib.import_module("opdop.envs.families")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"opdop.envs.families.{module.name}")
    return MappingProxyType({name: each for name, each in sorted(_found.items()) if half in (None, each.half)})


def draw(name: str, seed: int) -> TabularCMDP:
    """Return the problem of the family `name` and a seed; raises InvalidParameterError if there is no such family.

    >>> draw("chain", 0).num_constraints
    1
    """
    known = families()
    if name not in known:
        raise InvalidParameterError(f"there is no family {shown(name)}.{suggestion(name, known)}")
    return known[name].problem(seed)


def free(transitions: Any, rewards: Any, utilities: Any, initial: Any = 0, horizon: int | None = None) -> TabularCMDP:
    """Return a problem whose thresholds every policy satisfies; utilities are [I, S, A] or [I, H, S, A]."""
    utilities = np.asarray(utilities, dtype=np.float64)
    I = len(utilities)
    return TabularCMDP(transitions, rewards, utilities, np.full(I, SLACK), initial, horizon, display=Display.plain(I))


def constrained(cmdp: TabularCMDP, share: float) -> TabularCMDP | None:
    """Return a problem with thresholds that bind, or None if they hardly do.

    The range of a utility lies between its value under the best policy without constraints and its largest value (for
    several constraints: under the policy that has the largest smallest utility). The threshold lies below the largest
    value by `share` of this range, or by `share` of the value itself if reward and utility do not conflict.
    """
    extremes = solve(cmdp)
    best, greedy = extremes.slater.utilities, extremes.unconstrained.utilities
    span = np.where(best > greedy, best - greedy, best)
    thresholds: Floats = best - share * span
    if (thresholds <= 0.0).any() or (span <= 1e-6 * cmdp.horizon).any():
        return None
    bound = cmdp.with_thresholds(thresholds)
    optimum = solve(bound)
    clearly = optimum.price >= CLEARLY * extremes.unconstrained.reward > 0.0
    return bound if clearly and optimum.slater_gap > 0.0 else None


def whole(random: np.random.Generator, low: int, high: int) -> int:
    """Return a whole number between two, both possible, uniform on the logarithmic scale: small sizes are as usual."""
    return min(int(np.exp(random.uniform(np.log(low), np.log(high + 1)))), high)
