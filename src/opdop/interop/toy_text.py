"""The exact model of an environment that has a table of transitions `P`, as Gymnasium's toy-text environments do."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from opdop.interop.gymnasium_costs import CostReader, Transition
from opdop.model import Display, InvalidModelError, Space, TabularCMDP
from opdop.model.validation import Floats, is_number, shown

# Wrappers that change neither observations nor rewards; with any other, the table is not what a step does.
_HARMLESS = {"TimeLimit", "OrderEnforcing", "PassiveEnvChecker", "RecordEpisodeStatistics", "Autoreset"}


def has_table(env: Any) -> bool:
    """Return whether an environment's table of transitions says exactly what its steps do."""
    layer = env
    while layer is not env.unwrapped:
        if type(layer).__name__ not in _HARMLESS:
            return False
        layer = layer.env
    table = getattr(env.unwrapped, "P", None)
    initial = getattr(env.unwrapped, "initial_state_distrib", None)
    fickle = getattr(env.unwrapped, "fickle_passenger", False)  # Taxi draws this one outside its table
    return isinstance(table, dict) and initial is not None and not fickle


def exact_model(
    env: Any,
    *,
    space: Space,
    horizon: int,
    costs: CostReader,
    budgets: list[float],
    reward_range: Any,
    cost_range: Any,
    units: Any,
    display: Display,
) -> TabularCMDP:
    """Return the model of an environment's table, with one more state in which terminated episodes stay.

    Rewards and costs are those of a transition, averaged over the next state. Raises InvalidModelError if the table is
    not one of probabilities.
    """
    S, A = space.num_states, space.num_actions
    table = env.unwrapped.P
    entries: list[tuple[int, int, float]] = [(S * A + a, S, 1.0) for a in range(A)]  # row, next state, probability
    means = np.zeros((1 + len(costs.names), S + 1, A))  # 0 after the end
    for x in range(S):
        for a in range(A):
            for chance, after, reward, terminated in _entries(table, x, a):
                entries.append((x * A + a, S if terminated else after, chance))
                step = Transition(x, a, reward, after, terminated, {"prob": chance})
                means[:, x, a] += chance * np.concatenate([[reward], costs.read(step)])
    rows, after_all, chances = zip(*entries, strict=True)
    kernel = sparse.csr_array(sparse.coo_array((chances, (rows, after_all)), shape=((S + 1) * A, S + 1)))
    model = TabularCMDP(
        kernel if S > 32 else kernel.toarray().reshape(S + 1, A, S + 1),
        rewards=_unrounded(means[0]),
        costs=dict(zip(costs.names, map(_unrounded, means[1:]), strict=True)),
        budgets=dict(zip(costs.names, budgets, strict=True)),
        initial=_initial(env, S),
        horizon=horizon,
        reward_range=reward_range,
        cost_range=cost_range,
        units=units,
        display=display,
    )
    return model.with_absorbing(S)


def _entries(table: Any, x: int, a: int) -> list[tuple[float, int, float, bool]]:
    try:
        return [(float(p), int(y), float(r), bool(done)) for p, y, r, done in table[x][a]]
    except (TypeError, ValueError, KeyError, IndexError) as error:
        raise InvalidModelError(
            f"P[{x}][{a}] of the environment cannot be read; expected (probability, next state, reward, terminated)."
        ) from error


def _unrounded(means: Floats) -> Floats:
    """Return means without the rounding of their sums, so that 3 * (1/3) of a cost of 1 stays within its range."""
    return np.round(means, 12) + 0.0


def _initial(env: Any, S: int) -> Floats:
    found = np.asarray(env.unwrapped.initial_state_distrib, dtype=np.float64)
    if found.shape != (S,) or not is_number(float(found.sum())):
        raise InvalidModelError(f"initial_state_distrib is {shown(found)}; expected probabilities [S] = [{S}].")
    return np.append(found, 0.0)
