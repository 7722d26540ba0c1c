"""`opdop.from_functions`: a simulator of your own, given as two plain functions, as a problem that `train` takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from opdop.interop.gymnasium_costs import cost_reader, signal_maps
from opdop.interop.gymnasium_problems import first_states, with_zero
from opdop.interop.gymnasium_simulator import GymnasiumSimulator
from opdop.model import Axis, Display, InvalidModelError, InvalidParameterError, Space
from opdop.model.signals import read_ranges, read_units
from opdop.model.validation import as_size, as_text, as_whole, call, shown


class FunctionSimulator(GymnasiumSimulator):
    """Plays episodes with two functions of your own; `opdop.from_functions` makes it."""


def from_functions(
    reset: Callable[[np.random.Generator], int],
    step: Callable[[int, int, np.random.Generator], Any],
    *,
    states: int,
    actions: int,
    horizon: int,
    budgets: Any,
    reward_range: Any,
    cost_range: Any = (0.0, 1.0),
    units: Any = None,
    initial: Any = None,
    resets: int = 1000,
    seed: int = 0,
    name: str = "simulator",
) -> FunctionSimulator:
    """Return a simulator whose first states and steps are two functions; no library of environments is needed.

    Args:
        reset: `reset(rng)` returns the first state of an episode, a number from 0 on.
        step: `step(state, action, rng)` returns (reward, cost, next state), or a fourth entry: whether the episode
            ends here. With several constraints the cost is a list in the order of `budgets`, or costs by name. All
            random numbers come from `rng`, a `numpy.random.Generator`, so that a run can be resumed bit for bit.
        states: the number of states.
        actions: the number of actions.
        horizon: the number of stages H. An episode that ends earlier earns and costs nothing afterwards.
        budgets: what the total cost of an episode must not exceed in expectation: a number, or numbers by name.
        reward_range: the (low, high) of a step's reward.
        cost_range: the (low, high) of a step's cost: for all, or by name. A reward or a cost outside its range stops a
            run with an error, after a checkpoint. Ranges are widened to contain 0.
        units: a unit, or units by name, as for `TabularCMDP`: {"reward": ("profit", "dollars"), "cost": "hours"}.
        initial: the first state, or the distribution [S] of the first state; by default its shares over `resets` calls
            of `reset`.
        resets: the number of these calls.
        seed: of these calls; `train` seeds the simulator again with the seed of the run.
        name: what reports call the problem.

    Raises InvalidModelError if sizes, ranges or budgets do not fit, and InvalidParameterError for other arguments.

    >>> def step(stock, order, rng):  # a shop: sell what is asked for, pay for orders
    ...     stock, wanted = min(stock + order, 4), rng.integers(3)
    ...     return 5.0 * min(stock, wanted), 2.0 * order, max(stock - wanted, 0)
    >>> shop = from_functions(
    ...     lambda rng: 2, step, states=5, actions=3, horizon=7, budgets=12.0, reward_range=(0, 20), cost_range=(0, 4),
    ...     units={"reward": ("sales", "dollars"), "cost": ("orders", "dollars")}, name="shop",
    ... )
    >>> shop
    FunctionSimulator('shop': 6 states, 3 actions, 7 stages, 1 constraint)
    """
    H, S, A = as_size("horizon", horizon), as_size("states", states), as_size("actions", actions)
    for what, function in (("reset", reset), ("step", step)):
        if not callable(function):
            raise InvalidParameterError(f"{what} is {shown(function)}; expected a function.")
    reader, limits = cost_reader(lambda transition: transition.info["cost"], budgets)
    pairs = read_ranges("cost_range", cost_range, reader.names)
    ranges = [with_zero("reward_range", reward_range), *(pairs[each] or (0.0, 1.0) for each in reader.names)]
    maps = signal_maps(reader.names, limits, ranges, read_units(units, reader.names), H)
    return FunctionSimulator(
        _Steps(reset, step, S),
        space=Space((Axis(size=S),), (Axis(size=A),)),
        horizon=H,
        costs=reader,
        maps=maps,
        initial=None if initial is None else first_states(initial, S),
        display=Display(as_text("name", name), quantities=maps.quantities),
        seed=as_whole("seed", seed),
        resets=as_size("resets", resets),
    )


class _Steps:
    """Two functions in the form of an environment."""

    def __init__(self, reset: Callable[..., Any], step: Callable[..., Any], states: int) -> None:
        self._reset, self._step, self._states = reset, step, states
        self.np_random = np.random.default_rng(0)
        self._state = 0

    @property
    def unwrapped(self) -> _Steps:
        """The environment itself."""
        return self

    def reset(self, *, seed: int | None = None) -> tuple[int, dict[str, Any]]:
        """Begin an episode; with a seed, begin the random stream that belongs to it."""
        if seed is not None:
            self.np_random = np.random.default_rng(seed)
        self._state = self._checked("reset()", call("reset()", self._reset, self.np_random))
        return self._state, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Take an action."""
        found = call("step()", self._step, self._state, action, self.np_random)
        if not isinstance(found, tuple) or len(found) not in (3, 4):
            raise InvalidModelError(
                f"step() has returned {shown(found)}; expected (reward, cost, next state), or a fourth entry that says "
                "whether the episode ends."
            )
        reward, cost, after, ends = (*found, False)[:4]
        self._state = self._state if ends else self._checked("the next state of step()", after)
        return self._state, reward, bool(ends), False, {"cost": cost}

    def _checked(self, what: str, state: Any) -> int:
        if not isinstance(state, (int, np.integer)) or not 0 <= state < self._states:
            raise InvalidModelError(f"{what} is {shown(state)}; expected a whole number in 0..{self._states - 1}.")
        return int(state)
