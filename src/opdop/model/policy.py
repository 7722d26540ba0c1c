"""Policies on finitely many states, and mixtures that choose one policy for a whole episode.

Both act on observations, and are saved and loaded without pickle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from opdop.model.errors import InvalidModelError, InvalidParameterError
from opdop.model.policy_files import load_policy, save_policy
from opdop.model.spaces import Space
from opdop.model.validation import (
    Floats,
    as_floats,
    as_index,
    as_size,
    call,
    check_distributions,
    check_memory,
    first_index,
    number,
    place,
    shown,
)


@runtime_checkable
class Policy(Protocol):
    """Anything that returns action probabilities."""

    def probabilities(self, stage: int, state: int) -> Floats:
        """Return the probabilities of the actions at a stage and a state, [A]."""
        ...


@dataclass(frozen=True, eq=False, repr=False, init=False)
class TabularPolicy:
    """A Markov policy as a table [H, S, A] of action probabilities.

    `space` says how observations and actions are numbered; without it, they are the numbers themselves.

    >>> policy = TabularPolicy([[[0.25, 0.75]]])
    >>> policy.probabilities(0, 0)
    array([0.25, 0.75])
    >>> policy.act(0, 0, np.random.default_rng(1))
    1
    """

    table: Floats  # [H, S, A]
    space: Space | None

    def __init__(self, table: Any, *, space: Space | None = None) -> None:
        values = as_floats("policy", table, "action probabilities [H,S,A]")
        if values.ndim != 3 or 0 in values.shape:
            raise InvalidModelError(f"policy has shape {list(values.shape)}; expected [H,S,A], none of them 0.")
        check_distributions("policy", values)
        self.__setstate__({"table": values, "space": _fitting_space(space, values.shape)})

    def __setstate__(self, fields: dict[str, Any]) -> None:
        """Take the table and freeze it; copies and pickles go through here too."""
        self.__dict__.update(fields)
        self.table.setflags(write=False)

    @classmethod
    def trusted(cls, table: Floats, space: Space | None = None) -> TabularPolicy:
        """Return the policy of a table [H, S, A] that is known to be valid, without checks or copies.

        `space` has the observations and actions of the problem, if they are not numbers 0, 1, ...
        """
        policy = object.__new__(cls)
        table.setflags(write=False)
        policy.__dict__.update(table=table, space=space)
        return policy

    @classmethod
    def uniform(cls, horizon: int, states: int, actions: int) -> TabularPolicy:
        """Return the policy [horizon, states, actions] that takes all actions with equal probability.

        Raises InvalidModelError if a size is not a whole number of at least 1, or the table would not fit into memory.
        """
        sizes = as_size("horizon", horizon), as_size("states", states), as_size("actions", actions)
        _check_size(*sizes)
        return cls(np.full(sizes, 1.0 / actions))

    @classmethod
    def deterministic(cls, actions: Any, num_actions: int) -> TabularPolicy:
        """Return the policy that takes actions[h, x], out of `num_actions`, for certain; actions [H, S].

        Raises InvalidModelError if an action is not a whole number below `num_actions`.
        """
        A = as_size("num_actions", num_actions)
        chosen = as_floats("actions", actions, "whole numbers [H,S]")
        if chosen.ndim != 2 or 0 in chosen.shape:
            raise InvalidModelError(f"actions have shape {list(chosen.shape)}; expected [H,S], none of them 0.")
        bad = (chosen < 0) | (chosen >= A) | (chosen != np.floor(chosen))
        if bad.any():
            index = first_index(bad)
            found = f"{place('actions', index)} is {number(chosen[index])}"
            raise InvalidModelError(f"{found}; expected a whole number in 0..{A - 1}.")
        H, S = chosen.shape
        _check_size(H, S, A)
        table = np.zeros((H, S, A))
        np.put_along_axis(table, chosen[..., None].astype(np.int64), 1.0, axis=2)
        return cls(table)

    def probabilities(self, stage: int, state: int) -> Floats:
        """Return the probabilities of the actions, [A].

        Raises InvalidParameterError if there is no such stage or state.
        """
        H, S, _ = self.table.shape
        row: Floats = self.table[as_index("stage", stage, H), as_index("state", state, S)]
        return row

    def act(self, observation: Any, stage: int, rng: np.random.Generator) -> Any:
        """Return the action for an observation at a stage, from 0 on; drawn with one number of `rng`.

        Raises InvalidParameterError if there is no such observation or stage.
        """
        state = observation if self.space is None else self.space.state(observation)
        chosen = draw_action(self.probabilities(stage, state), rng)
        return chosen if self.space is None else self.space.action(chosen)

    def sample(self, rng: np.random.Generator) -> TabularPolicy:
        """Return the policy that plays the next episode: this one; `rng` is not used. See `PolicyMixture.sample`."""
        return self

    def with_space(self, space: Space | None) -> TabularPolicy:
        """Return the same policy for observations and actions that are numbered by a space."""
        return TabularPolicy.trusted(self.table, _fitting_space(space, self.table.shape))

    def save(self, path: str | Path) -> Path:
        """Write the policy into a file in .npz or .json, without pickle, and return its path.

        Raises InvalidParameterError for another name, and OpdopError if the file cannot be written.
        """
        return save_policy(path, self.table[None], np.ones(1), self.space)

    @staticmethod
    def load(path: str | Path) -> TabularPolicy | PolicyMixture:
        """Return the policy saved at `path`; raise InvalidParameterError or InvalidModelError if there is none."""
        return load_policy(path)

    def __repr__(self) -> str:
        H, S, A = self.table.shape
        return f"TabularPolicy({S} states, {A} actions, {H} stages)"


@dataclass(frozen=True, eq=False, repr=False, init=False)
class PolicyMixture:
    """Several policies, one of which is drawn before each episode and used throughout it.

    Its values are the weighted means of the parts' values. `opdop.planning.to_markov` turns it into one Markov
    policy with the same occupancy.
    """

    parts: tuple[TabularPolicy, ...]
    weights: Floats  # [parts]

    def __init__(self, parts: Sequence[Any], weights: Any = None) -> None:
        try:
            given = tuple(parts)
        except Exception as error:  # a foreign object may raise anything while it is read
            found = type(parts).__name__
            raise InvalidModelError(f"the mixture's parts are {found}; expected a sequence of policies.") from error
        policies = tuple(as_policy(part) for part in given)
        if not policies:
            raise InvalidModelError("a mixture needs at least one policy.")
        shapes = {policy.table.shape for policy in policies}
        if len(shapes) > 1:
            raise InvalidModelError(f"the mixture's policies have shapes {sorted(shapes)}; expected all the same.")
        if weights is None:
            weights = np.full(len(policies), 1.0 / len(policies))
        values = as_floats("weights", weights, f"one weight for each of {len(policies)} policies")
        if values.shape != (len(policies),):
            raise InvalidModelError(f"weights have shape {list(values.shape)}; expected [{len(policies)}].")
        check_distributions("weights", values)
        self.__setstate__({"parts": policies, "weights": values})

    def __setstate__(self, fields: dict[str, Any]) -> None:
        """Take all fields and freeze the weights; copies and pickles go through here too."""
        self.__dict__.update(fields)
        self.weights.setflags(write=False)

    @property
    def space(self) -> Space | None:
        """How observations and actions are numbered; the same in all parts."""
        return self.parts[0].space

    def sample(self, rng: np.random.Generator) -> TabularPolicy:
        """Return the part that plays the next episode, drawn with one number of the generator `rng`."""
        return self.parts[draw_action(self.weights, rng)]

    def act(self, observation: Any, stage: int, rng: np.random.Generator) -> Any:
        """Return the action for an observation at a stage; stage 0 begins an episode and draws its part from `rng`.

        The mixture keeps that part until the next stage 0. Where several episodes are played at once, call `sample` at
        the beginning of each and let its part act. Raises InvalidParameterError if there is no such observation or
        stage.
        """
        if stage == 0 or "_playing" not in self.__dict__:
            self.__dict__["_playing"] = self.sample(rng)
        part: TabularPolicy = self.__dict__["_playing"]
        return part.act(observation, stage, rng)

    def with_space(self, space: Space | None) -> PolicyMixture:
        """Return the same mixture for observations and actions that are numbered by a space."""
        return PolicyMixture([part.with_space(space) for part in self.parts], self.weights)

    def save(self, path: str | Path) -> Path:
        """Write all parts and their weights into a file in .npz or .json, and return its path; see `TabularPolicy`."""
        return save_policy(path, np.array([part.table for part in self.parts]), self.weights, self.space)

    @staticmethod
    def load(path: str | Path) -> TabularPolicy | PolicyMixture:
        """Return the policy saved at `path`; raise InvalidParameterError or InvalidModelError if there is none."""
        return load_policy(path)

    def __repr__(self) -> str:
        return f"PolicyMixture({len(self.parts)} policies)"


def draw_action(probabilities: Floats, rng: np.random.Generator) -> int:
    """Draw an action from probabilities [A] with one number of a generator."""
    from opdop.kernels.transitions import draw  # late: a policy that only reports sizes compiles nothing

    if not isinstance(rng, np.random.Generator):
        raise InvalidParameterError(f"rng is {shown(rng)}; expected a numpy.random.Generator.")
    return int(draw(probabilities, rng.random()))


def _fitting_space(space: Any, shape: tuple[int, ...]) -> Space | None:
    """Return the space of a table [H, S, A]; raise InvalidModelError if it has more states or other actions."""
    if space is None:
        return None
    if not isinstance(space, Space):
        raise InvalidModelError(f"space is {shown(space)}; expected an opdop.model.Space.")
    if space.first + space.num_states > shape[1] or space.num_actions != shape[2]:
        raise InvalidModelError(
            f"the space has {space.first + space.num_states} states and {space.num_actions} actions; the policy is for "
            f"{shape[1]} and {shape[2]}."
        )
    return space


def as_policy(policy: Any) -> TabularPolicy:
    """Return a TabularPolicy as it is, or the policy of a table [H, S, A]; raise InvalidModelError if it is not one."""
    return policy if isinstance(policy, TabularPolicy) else TabularPolicy(policy)


def fitting_table(policy: Any, horizon: int, states: int, actions: int) -> Floats:
    """Return any policy as a table [H, S, A]; raise InvalidModelError if it has other sizes."""
    if not isinstance(policy, TabularPolicy) and isinstance(policy, Policy):
        ask = policy.probabilities
        policy = [[call("the policy", ask, h, x) for x in range(states)] for h in range(horizon)]
    table, sizes = as_policy(policy).table, [horizon, states, actions]
    if list(table.shape) != sizes:
        found, expected = list(table.shape), ",".join(map(str, sizes))
        raise InvalidModelError(f"policy has shape {found}; expected [H,S,A] = [{expected}].")
    return table


def _check_size(H: int, S: int, A: int) -> None:
    check_memory(8.0 * H * S * A, f"a policy for {H:,} stages, {S:,} states and {A:,} actions")
