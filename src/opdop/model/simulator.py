"""Episodes, and simulators that play them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from opdop.kernels import dynamic_programming
from opdop.kernels.transitions import draw
from opdop.model.display import Display
from opdop.model.errors import InvalidModelError
from opdop.model.overriding import has_originals, originals
from opdop.model.policy import Policy, PolicyMixture, fitting_table
from opdop.model.validation import Floats, as_flag, as_generator, restore_generator

if TYPE_CHECKING:
    from opdop.model.cmdp import TabularCMDP
    from opdop.model.problem import Problem

Seed = int | np.random.SeedSequence | np.random.Generator | None


@dataclass(frozen=True, eq=False, repr=False)
class Episode:
    """The states, actions and signals of one episode."""

    states: NDArray[Any]  # [H+1]; or [H+1, dim] where they are continuous
    actions: NDArray[np.int64]  # [H]
    signals: Floats  # [1+I, H], 0 the reward

    def __post_init__(self) -> None:
        """Convert all fields to arrays; `Task.checked` checks whether they fit a task."""
        for name in ("states", "actions", "signals"):
            value = getattr(self, name)
            if not isinstance(value, np.ndarray):
                try:
                    object.__setattr__(self, name, np.asarray(value))
                except Exception as error:  # a foreign object may raise anything while it is read
                    raise InvalidModelError(f"the episode's {name} cannot be read as an array.") from error

    def __repr__(self) -> str:
        shapes = (f"{name} {list(np.shape(getattr(self, name)))}" for name in ("states", "actions", "signals"))
        return f"Episode({', '.join(shapes)})"


class Simulator(Protocol):
    """Anything that plays one episode with a policy."""

    def play(self, policy: Policy) -> Episode:
        """Play one episode of a policy and return it."""
        ...


@runtime_checkable
class DescribedSimulator(Simulator, Protocol):
    """A simulator whose model is not known, but which says what a learner is told, and in which units."""

    horizon: int
    num_states: int
    num_actions: int
    thresholds: Floats  # [I]
    initial: Floats  # [S]
    noisy: bool
    stationary: bool  # kernel and signals are the same at every stage
    absorbing: int | None
    rest: Floats | None  # [1+I]
    display: Display


@runtime_checkable
class ReseedableSimulator(Simulator, Protocol):
    """A simulator whose random stream can be begun anew, so that a run depends on its own seed alone."""

    def reseed(self, seed: int) -> None:
        """Begin the random stream that belongs to a seed."""
        ...


@runtime_checkable
class KnownSimulator(Simulator, Protocol):
    """A simulator that says which problem it plays, so that policies can be measured exactly."""

    problem: Problem
    noisy: bool


@runtime_checkable
class CompiledSimulator(KnownSimulator, Protocol):
    """A simulator of a finite model whose episodes a compiled loop can play instead, from the same random numbers."""

    @property
    def compiles(self) -> bool:
        """Whether the loop plays exactly as `play` does: False if a subclass overrides it."""
        ...

    def draw(self, episodes: int) -> Floats:
        """Draw and return the uniforms of the next episodes, one row for each."""
        ...


class ModelSimulator:
    """Plays episodes in a known model; the same seed gives the same episodes.

    With `noisy` the observed signals are 0 or 1 with the means of `cmdp`, otherwise the means themselves. Raises
    InvalidModelError if `cmdp` is not a TabularCMDP, and InvalidParameterError if `seed` or `noisy` is wrong.
    Each episode takes `uniforms_per_episode` uniforms from one stream in a fixed order; the compiled loop takes them in
    the same order, and so plays the same episodes.
    """

    def __init__(self, cmdp: TabularCMDP, *, seed: Seed = 0, noisy: bool = False) -> None:
        from opdop.model.cmdp import TabularCMDP  # late: it imports this module

        if not isinstance(cmdp, TabularCMDP):
            raise InvalidModelError(
                f"cmdp is {type(cmdp).__name__}; expected a TabularCMDP. Other problems have `simulator()`."
            )
        self.cmdp = cmdp
        self.problem: Problem = cmdp
        self.noisy = as_flag("noisy", noisy)
        self.generator = as_generator(seed)
        self.uniforms_per_episode = int(
            dynamic_programming.count_uniforms(cmdp.horizon, 1 + cmdp.num_constraints, self.noisy)
        )

    def play(self, policy: Policy | PolicyMixture | Floats) -> Episode:
        """Play one episode of a policy and return it; of a mixture, first draw the part that plays it.

        Raises InvalidModelError if the policy does not fit the model.
        """
        cmdp = self.cmdp
        if isinstance(policy, PolicyMixture):
            policy = policy.parts[draw(policy.weights, self.generator.random())]
        table = fitting_table(policy, cmdp.horizon, cmdp.num_states, cmdp.num_actions)
        states = np.empty(cmdp.horizon + 1, dtype=np.int64)
        actions = np.empty(cmdp.horizon, dtype=np.int64)
        signals = np.empty((1 + cmdp.num_constraints, cmdp.horizon))
        (uniforms,) = self.draw(1)
        by_action = table.transpose(0, 2, 1)
        dynamic_programming.play(
            cmdp.transitions, cmdp.signals, by_action, cmdp.initial, self.noisy, uniforms, states, actions, signals
        )
        return Episode(states, actions, signals)

    def draw(self, episodes: int) -> Floats:
        """Draw and return the uniforms of the next episodes, [episodes, uniforms_per_episode]."""
        return self.generator.random((episodes, self.uniforms_per_episode))

    @property
    def compiles(self) -> bool:
        """Whether a compiled loop plays exactly as `play` does: False if a subclass overrides it."""
        return has_originals(self, _REPLACED)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.cmdp!r}{', noisy' if self.noisy else ''})"

    def state(self) -> dict[str, Any]:
        """Return what the next episodes depend on, as JSON data."""
        return dict(self.generator.bit_generator.state)

    def restore(self, state: Any) -> None:
        """Return to a saved state; raises OpdopError if it is not one."""
        restore_generator(self.generator, state)


# The methods of ModelSimulator that a compiled loop replaces.
_REPLACED = originals(ModelSimulator, "play")
