"""`opdop.from_gymnasium`: an environment of Gymnasium as a problem that `opdop.train` takes."""

from __future__ import annotations

from typing import Any

import numpy as np

from opdop.interop.gymnasium_costs import cost_reader, signal_maps
from opdop.interop.gymnasium_simulator import GymnasiumSimulator
from opdop.interop.gymnasium_spaces import read_space, state_names
from opdop.interop.toy_text import exact_model, has_table
from opdop.model import Display, InvalidModelError, InvalidParameterError, TabularCMDP
from opdop.model.signals import read_ranges, read_units
from opdop.model.validation import Floats, as_floats, as_size, as_whole, check_distributions, printable, shown


def from_gymnasium(
    env: Any,
    *,
    budgets: Any,
    horizon: int | None = None,
    cost: Any = "cost",
    reward_range: Any = None,
    cost_range: Any = (0.0, 1.0),
    bins: Any = None,
    features: Any = None,
    units: Any = None,
    initial: Any = None,
    resets: int = 1000,
    seed: int = 0,
    exact: bool | None = None,
) -> TabularCMDP | GymnasiumSimulator:
    """Return an environment as a problem: an exact model where it has a table, otherwise a simulator.

    Args:
        env: an environment, or the id of a registered one. Observations are Discrete, MultiDiscrete, MultiBinary, a
            Box with `bins`, or a Tuple or Dict of them, or anything with `features`; actions are Discrete,
            MultiDiscrete, MultiBinary, or a Tuple or Dict of them.
        budgets: what the total cost of an episode must not exceed in expectation: a number, one for each cost in
            order, or by name.
        horizon: the number of stages H; by default the environment's time limit. An episode that terminates earlier
            earns and costs nothing afterwards.
        cost: a key of `info`, several keys, or a function of a `Transition` that returns a cost, several, or costs by
            name. A step of six entries has its cost as the third.
        reward_range: the (low, high) of a step's reward; needed unless the model is exact, or the environment has an
            attribute of this name.
        cost_range: the (low, high) of a step's cost: for all, one for each in order, or by name. A reward or a cost
            outside its range stops a run with an error. Ranges are widened to contain 0.
        bins: for each coordinate of a Box: increasing edges, or a number of equal bins where it is bounded. With
            `features`, for each of them: increasing edges, or n if it is one of 0, 1, ..., n - 1.
        features: a function of an observation that returns a few numbers. States are then the bins of these numbers,
            and the process is treated as if it were Markov in them.
        units: a unit, or units by name, as for `TabularCMDP`.
        initial: the first state, or the distribution [S] of the first state, if it is known; by default that of an
            exact model, or else its shares over `resets` resets of the environment, which certificates do not take as
            known.
        resets: the number of resets from which the distribution of the first state is estimated.
        seed: of the environment and of the actions that are drawn.
        exact: True insists on the exact model of a toy-text table `env.unwrapped.P`, False on a simulator. By default
            the model is exact where there is a table and `cost` is a function, since tables hold no costs.

    Raises InvalidModelError if spaces, bins, ranges or budgets do not fit, and InvalidParameterError for other
    arguments.

    >>> lake = from_gymnasium("FrozenLake-v1", horizon=20, budgets=2.0, cost=lambda step: step.action == 2)
    >>> lake
    TabularCMDP('FrozenLake-v1': 17 states, 4 actions, 20 stages, 1 constraint, dense, stationary)
    """
    made, name = _environment(env)
    space = read_space(made.observation_space, made.action_space, bins, features)
    H = _horizon(made, horizon)
    reader, limits = cost_reader(cost, budgets)
    display = Display(name, summary="An environment of Gymnasium.")
    table = has_table(made) and features is None and len(space.observations) == 1 and not space.vector_actions
    if exact and not (table and reader.function is not None):
        reason = "cost is no function of a step" if table else "it has no table of transitions that holds for its steps"
        raise InvalidParameterError(f"{name} has no exact model: {reason}.")
    if exact is not False and table and reader.function is not None:
        return exact_model(
            made,
            space=space,
            horizon=H,
            costs=reader,
            budgets=limits,
            reward_range=None if reward_range is None else with_zero("reward_range", reward_range),
            cost_range={key: _zero(pair) for key, pair in read_ranges("cost_range", cost_range, reader.names).items()},
            units=units,
            display=display,
        )
    if reward_range is None:
        reward_range = getattr(made.unwrapped, "reward_range", None)
    if reward_range is None:
        raise InvalidParameterError(
            f"{name} has no exact model, so opdop cannot know how large a reward is; expected reward_range=(low, high)."
        )
    pairs = read_ranges("cost_range", cost_range, reader.names)
    ranges = [with_zero("reward_range", reward_range), *(_zero(pairs[each]) for each in reader.names)]
    words = read_units(units, reader.names)
    maps = signal_maps(reader.names, limits, ranges, words, H)
    return GymnasiumSimulator(
        made,
        space=space,
        horizon=H,
        costs=reader,
        maps=maps,
        initial=None if initial is None else first_states(initial, space.num_states),
        display=Display(name, display.summary, maps.quantities, state_names=state_names(space)),
        seed=as_whole("seed", seed),
        resets=as_size("resets", resets),
    )


def _environment(env: Any) -> tuple[Any, str]:
    """Return an environment and its name."""
    import gymnasium

    try:
        made = gymnasium.make(env) if isinstance(env, str) else env
    except gymnasium.error.Error as error:  # its own words, such as the nearest name
        raise InvalidParameterError(f"env is {shown(env)}: {printable(' '.join(str(error).split()))}") from error
    if not isinstance(made, gymnasium.Env):
        raise InvalidParameterError(f"env is {shown(env)}; expected a gymnasium.Env, or the id of a registered one.")
    return made, made.spec.id if made.spec is not None else type(made.unwrapped).__name__


def _horizon(env: Any, horizon: int | None) -> int:
    """Return the number of stages; it must not exceed the environment's time limit."""
    limit = None if env.spec is None else env.spec.max_episode_steps
    if horizon is None and limit is None:
        raise InvalidParameterError("the environment has no time limit; expected horizon=H, the number of stages.")
    H = as_size("horizon", limit if horizon is None else horizon)
    if limit is not None and limit < H:
        raise InvalidParameterError(
            f"horizon is {H}, but the environment truncates episodes after {limit} steps; expected at most {limit}."
        )
    return H


def _zero(pair: tuple[float, float] | None) -> tuple[float, float]:
    """Return a range widened to contain 0, which is what follows the end of an episode."""
    low, high = pair or (0.0, 1.0)
    return min(low, 0.0), max(high, 0.0)


def with_zero(name: str, value: Any) -> tuple[float, float]:
    """Return the range of a step's reward, widened to contain 0; raises InvalidModelError if it is no range."""
    return _zero(read_ranges(name, value, ("reward",))["reward"])


def first_states(initial: Any, S: int) -> Floats:
    """Return the distribution of the first state, [S]."""
    if np.ndim(initial) == 0:
        initial = np.eye(1, S, as_whole("initial", initial))[0]
    chances = as_floats("initial", initial, f"a state, or probabilities [S] = [{S}]")
    if chances.shape != (S,):
        raise InvalidModelError(f"initial has shape {list(chances.shape)}; expected [S] = [{S}].")
    check_distributions("initial", chances)
    return chances
