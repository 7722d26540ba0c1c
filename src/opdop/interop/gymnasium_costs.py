"""Where the costs of an environment are: in a key of `info`, in a function of the transition, or in the step itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from opdop.model import InvalidModelError, Quantity
from opdop.model.signals import Scale, read_bound
from opdop.model.validation import Floats, as_floats, as_number, as_text, call, number, shown


class Transition(NamedTuple):
    """One step of an environment, as a function of costs sees it."""

    observation: Any
    action: Any
    reward: float
    next_observation: Any
    terminated: bool
    info: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class CostReader:
    """Reads the costs of a step: by key from `info`, from a step of six entries, or by a function."""

    names: tuple[str, ...]
    keys: tuple[str, ...]  # of info; empty if a function returns the costs
    function: Callable[[Transition], Any] | None

    def read(self, transition: Transition, own: float | None = None) -> Floats:
        """Return the costs [I] of a step; `own` is the cost in a step of six entries.

        Raises InvalidModelError if they are missing, or not numbers.
        """
        if self.function is not None:
            found = call("the cost function", self.function, transition)
            values: Any = [found.get(name) for name in self.names] if isinstance(found, Mapping) else found
        elif own is not None and self.keys == ("cost",):
            values = own
        else:
            missing = [key for key in self.keys if key not in transition.info]
            if missing:
                there = ", ".join(map(str, transition.info)) or "nothing"
                raise InvalidModelError(
                    f"a step's info has no {missing[0]!r}; it has {there}. Expected cost=KEY, or a function of a step."
                )
            values = [transition.info[key] for key in self.keys]
        costs = np.atleast_1d(as_floats("the cost of a step", values, f"{len(self.names)} numbers"))
        if costs.shape != (len(self.names),):
            raise InvalidModelError(f"a step has the costs {shown(values)}; expected {len(self.names)} numbers.")
        return costs


def cost_reader(cost: Any, budgets: Any) -> tuple[CostReader, list[float]]:
    """Return the reader of the costs, and their budgets in the same order.

    Args:
        cost: a key of `info`, several keys, or a function of a `Transition`.
        budgets: a number, one for each cost in order, or budgets by key. A function's costs have the names of its
            budgets.
    """
    if callable(cost):
        if isinstance(budgets, Mapping):
            names = tuple(as_text("a name in budgets", name) for name in budgets)
        else:
            count = np.size(as_floats("budgets", budgets, "a number, or one for each cost"))
            names = ("cost",) if count == 1 else tuple(f"cost {i}" for i in range(count))
        reader = CostReader(names, (), cost)
    else:
        keys = (cost,) if isinstance(cost, str) else tuple(cost) if isinstance(cost, (list, tuple)) else ()
        if not keys or not all(isinstance(key, str) and key for key in keys) or len(set(keys)) < len(keys):
            raise InvalidModelError(f"cost is {shown(cost)}; expected a key of info, several, or a function of a step.")
        reader = CostReader(tuple(as_text("cost", key) for key in keys), keys, None)
    if isinstance(budgets, Mapping):
        if set(budgets) != set(reader.names):
            raise InvalidModelError(f"budgets are for {shown(sorted(budgets))}; expected {sorted(reader.names)}.")
        listed = [budgets[name] for name in reader.names]
    else:
        listed = list(np.atleast_1d(as_floats("budgets", budgets, "a number, or one for each cost")))
    if not listed or len(listed) != len(reader.names):
        raise InvalidModelError(f"there are {len(listed)} budgets; expected {len(reader.names)}, one for each cost.")
    return reader, [
        as_number(f"the budget of {name!r}", each, "a number", error=InvalidModelError)
        for name, each in zip(reader.names, listed, strict=True)
    ]


@dataclass(frozen=True, eq=False)
class SignalMaps:
    """The maps of rewards and costs in stated ranges to signals in [0, 1], and the thresholds and units that follow."""

    names: tuple[str, ...]  # the reward first
    scales: tuple[Scale, ...]
    thresholds: Floats  # [I]
    quantities: tuple[Quantity, ...]

    @property
    def rest(self) -> Floats:
        """The signals [1+I] of a stage after the end: no reward and no cost."""
        return np.array([float(scale.signal(0.0)) for scale in self.scales])

    def signals(self, stage: int, values: Floats) -> Floats:
        """Return the reward and the costs [1+I] of a step as signals.

        Raises InvalidModelError, in own units, if one of them is outside its stated range.
        """
        for name, scale, value in zip(self.names, self.scales, values, strict=True):
            if not scale.low <= value <= scale.high:
                raise InvalidModelError(
                    f"at stage {stage} the {name} is {number(float(value))}; expected a number in its stated range, "
                    f"[{number(scale.low)}, {number(scale.high)}]. State a wider range."
                )
        return np.array([float(scale.signal(value)) for scale, value in zip(self.scales, values, strict=True)])


def signal_maps(
    names: tuple[str, ...],
    budgets: list[float],
    ranges: list[tuple[float, float]],
    units: dict[str, tuple[str, str]],
    horizon: int,
) -> SignalMaps:
    """Return the maps of the reward and of costs; `ranges` [1+I] are widened to contain 0, the signal after the end."""
    scales, thresholds, quantities = [], [], []
    for j, (name, (low, high)) in enumerate(zip(("reward", *names), ranges, strict=True)):
        scale = Scale(min(low, 0.0), max(high, 0.0), falls=j > 0)
        scales.append(scale)
        quantities.append(scale.quantity(*units[name], horizon))
        if j > 0:
            thresholds.append(read_bound("cost", name, budgets[j - 1], scale, horizon, units[name][1]))
    return SignalMaps(("reward", *names), tuple(scales), np.array(thresholds), tuple(quantities))
