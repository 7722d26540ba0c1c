"""Constrained MDPs with a linear kernel on [0, 1]^dim, and the discretisations on which policies are measured."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from opdop.kernels.transitions import draw
from opdop.model.cmdp import TabularCMDP
from opdop.model.continuous_features import CELLS_TOLERANCE, ContinuousFeatures, carry
from opdop.model.densities import Density, draw_from, is_density, values_of
from opdop.model.display import Display
from opdop.model.errors import InvalidModelError
from opdop.model.features import Features
from opdop.model.html_tables import html_table, problem_rows
from opdop.model.linear import NO_MODEL, check_integrals, read_weights, signal_tables
from opdop.model.policy import Policy, TabularPolicy
from opdop.model.problem import Problem
from opdop.model.quadrature import Nodes, midpoint
from opdop.model.simulator import Episode, Seed
from opdop.model.spaces import Axis, Space
from opdop.model.validation import (
    ROW_SUM_TOLERANCE,
    Floats,
    as_flag,
    as_floats,
    as_generator,
    as_index,
    as_size,
    as_vector,
    call,
    check_distributions,
    check_memory,
    first_index,
    restore_generator,
    shown,
)

_SLACK = 1e-9


@dataclass(frozen=True, eq=False, repr=False, init=False)
class ContinuousCMDP:
    """A constrained MDP with states in [0, 1]^dim whose kernel and signals are linear in known features.

    Args:
        features: from `opdop.model.continuous_features`: `densities` or `general`.
        kernel_weights, reward_weights, utility_weights, thresholds: as for `LinearCMDP`.
        initial: the first state, a number or [dim]; or (states [n, dim], probabilities [n]); or a density.
        horizon: the number of stages, where kernel_weights are the same at all of them.
        cells: cells along each axis of the discretisation on which policies are measured and the optimum is found.
        display: the problem's own words and units.

    The simulator draws from the exact density. Only measuring is discretised: `tabular()` is the same problem with the
    next state at the centre of a cell, with the kernel's density there; its error is of order 2 in the cells' width
    where densities are smooth, and `opdop.planning.refine` estimates it. Raises InvalidModelError if features and
    weights do not make a model.
    """

    features: ContinuousFeatures
    kernel_weights: Floats  # [H, d1], or [1, d1] if stationary
    signal_weights: Floats  # [1+I, H or 1, d2]
    thresholds: Floats  # [I]
    horizon: int
    initial: Density | tuple[Floats, Floats]  # states [n, dim] and probabilities [n]
    cells: int
    learner_features: Features  # on the nodes and the states of the discretisation
    model: TabularCMDP  # the discretisation
    usual_episodes: ClassVar[int] = 5_000  # the time of an episode grows with their number

    def __init__(
        self,
        features: ContinuousFeatures,
        kernel_weights: Any,
        reward_weights: Any,
        utility_weights: Any,
        thresholds: Any,
        initial: Any = 0.0,
        horizon: int | None = None,
        *,
        cells: int = 100,
        display: Display | None = None,
    ) -> None:
        if not isinstance(features, ContinuousFeatures):
            raise InvalidModelError(
                f"features is {type(features).__name__}; expected opdop.model.continuous_features features."
            )
        features, theta, signals, H = read_weights(
            features, kernel_weights, reward_weights, utility_weights, thresholds, horizon
        )
        vars(self).update(
            features=features,
            kernel_weights=theta,
            signal_weights=signals,
            thresholds=np.atleast_1d(as_floats("thresholds", thresholds, "a number or [I]")),
            horizon=H,
            initial=_read_initial(initial, features.nodes.dim),
            cells=as_size("cells", cells),
        )
        rule = midpoint(self.cells, features.nodes.dim)
        states = np.concatenate([features.nodes.points, rule.points])
        check_integrals(features.integral_norms(states, rule), list(states), features.kernel_dim, CELLS_TOLERANCE)
        learner_features, model = self._discretise(self.cells, display)
        vars(self).update(learner_features=learner_features, model=model)

    def tabular(self, cells: int | None = None) -> TabularCMDP:
        """Return the discretisation on which policies are measured, with `cells` along each axis or the problem's own.

        Its states are the learner's nodes, then the centres of the cells, then given first states. Nodes have
        probability zero; they are included because the learner stores its value functions there. Raises
        InvalidModelError if `cells` is not a whole number of at least 1, or if the kernels would not fit into memory.
        """
        cells = self.cells if cells is None else as_size("cells", cells)
        if cells == self.cells:
            return self.model
        return self._discretise(cells, self.display, tolerance=np.inf)[1]

    def refinements(self) -> Iterator[tuple[int, TabularCMDP]]:
        """Return discretisations with a quarter of the cells along an axis, with half of them, and with all."""
        for share in (4, 2, 1):
            cells = max(self.cells // share, 1)
            yield cells, self.tabular(cells)

    def simulator(self, *, seed: Seed = 0, noisy: bool = False) -> ContinuousSimulator:
        """Return a simulator that draws states from the exact density; see `ContinuousSimulator` for the arguments."""
        return ContinuousSimulator(self, seed=seed, noisy=noisy)

    def with_display(self, display: Display) -> ContinuousCMDP:
        """Return the same problem with the words and units of another display.

        Raises InvalidModelError if these do not fit its sizes.
        """
        problem = copy.copy(self)
        vars(problem).update(model=self.model.with_display(display))
        return problem

    @property
    def display(self) -> Display:
        """The problem's own words and units."""
        return self.model.display

    @property
    def space(self) -> Space:
        """How the states of the discretisation are numbered: a state in [0, 1]^dim belongs to the cell around it."""
        edges = np.arange(1, self.cells) / self.cells
        axis = Axis.bins(edges.tolist())
        return Space(
            (axis,) * self.features.nodes.dim, (Axis(self.features.num_actions),), first=len(self.features.nodes)
        )

    @property
    def num_states(self) -> float:
        """Infinity: states are continuous."""
        return math.inf

    @property
    def discretisation(self) -> str:
        """How the learner integrates, and on how many cells values are measured."""
        nodes = self.features.nodes
        axes = "" if nodes.dim == 1 else f" along each of {nodes.dim} axes"
        return f"{len(nodes)} {nodes.name} nodes, measured on {self.cells} cells{axes}"

    def signals_at(self, stage: int, state: Floats, action: int) -> Floats:
        """Return the mean of every signal [1+I] at a stage, a state [dim] and an action.

        Raises InvalidParameterError if there is no such stage or action, and InvalidModelError if the state has another
        shape or a mean is not in [0, 1].
        """
        stage, action = as_index("stage", stage, self.horizon), as_index("action", action, self.features.num_actions)
        state = as_vector("state", state, self.features.nodes.dim, "dim")
        varphi = self.features.signal_features(state[None])[0, action]
        means: Floats = self.signal_weights[:, stage % self.signal_weights.shape[1]] @ varphi
        if means.min() < -_SLACK or means.max() > 1.0 + _SLACK:
            raise InvalidModelError(
                f"at stage {stage}, state {state}, action {action} the signals are {means}; expected them in [0, 1]."
            )
        return np.clip(means, 0.0, 1.0)

    def _discretise(
        self, cells: int, display: Display | None, tolerance: float = CELLS_TOLERANCE
    ) -> tuple[Features, TabularCMDP]:
        rule = midpoint(cells, self.features.nodes.dim)
        starts = np.empty((0, rule.dim)) if isinstance(self.initial, Density) else self.initial[0]
        features = carry(self.features, np.concatenate([rule.points, starts]))
        assert features.carried is not None
        points, N, M = features.carried.points, len(self.features.nodes), len(rule)
        S, A = features.num_states, features.num_actions
        check_memory(16.0 * len(self.kernel_weights) * S * A * S, f"the discretised kernels of {S:,} states")
        kernels = np.zeros((len(self.kernel_weights), S, A, S))
        for h, weights in enumerate(self.kernel_weights):
            density = self.features.kernel(weights, points, rule.points)
            kernels[h, :, :, N : N + M] = _masses(h, density, points, rule, tolerance)
        initial = np.zeros(S)
        if isinstance(self.initial, Density):
            initial[N : N + M] = rule.weights * values_of(self.initial, rule.points)
            initial /= initial.sum()
        else:
            initial[N + M :] = self.initial[1]
        transitions = kernels[0] if len(kernels) == 1 else kernels
        rewards, utilities = signal_tables(features, self.signal_weights)
        try:
            return features, TabularCMDP(
                transitions, rewards, utilities, self.thresholds, initial, self.horizon, display=display
            )
        except InvalidModelError as error:
            raise InvalidModelError(f"{NO_MODEL}: {error}") from error

    def _repr_html_(self) -> str:
        """Return the sizes, and each constraint in own units, as notebooks show it."""
        return html_table(repr(self), problem_rows(self.display, self.thresholds), self.display.summary)

    def __repr__(self) -> str:
        dim = self.features.nodes.dim
        space = "[0, 1]" if dim == 1 else f"[0, 1]^{dim}"
        return f"ContinuousCMDP({self.display.name!r}: states in {space}, {self.features!r}, {self.horizon} stages)"


class ContinuousSimulator:
    """Plays episodes with states in [0, 1]^dim, drawn from the exact density; the same seed gives the same episodes.

    An episode's states are [H+1, dim]. With `noisy` the observed signals are 0 or 1 with the model's means. Raises
    InvalidModelError if `problem` is not a ContinuousCMDP, and InvalidParameterError if `seed` or `noisy` is wrong.
    """

    def __init__(self, problem: ContinuousCMDP, *, seed: Seed = 0, noisy: bool = False) -> None:
        if not isinstance(problem, ContinuousCMDP):
            raise InvalidModelError(f"problem is {shown(problem)}; expected a ContinuousCMDP.")
        self.continuous = problem
        self.problem: Problem = problem
        self.noisy = as_flag("noisy", noisy)
        self.generator = as_generator(seed)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.continuous!r}{', noisy' if self.noisy else ''})"

    def play(self, policy: Policy) -> Episode:
        """Play one episode of a policy and return it.

        The policy has probabilities at every state, as continuous learners do, or is a table of cells, as that of a
        run.

        Raises InvalidModelError if the policy returns no probabilities at a state.
        """
        problem, random = self.continuous, self.generator
        H, J, features = problem.horizon, len(problem.signal_weights), problem.features
        states, actions = np.empty((H + 1, features.nodes.dim)), np.empty(H, dtype=np.int64)
        signals = np.empty((J, H))
        states[0] = self.first()
        for h in range(H):
            chances = _chances(policy, h, states[h], features.num_actions)
            a = int(draw(chances, random.random()))
            actions[h] = a
            signals[:, h] = problem.signals_at(h, states[h], a)
            if self.noisy:
                signals[:, h] = random.random(J) < signals[:, h]
            weights = problem.kernel_weights[h % len(problem.kernel_weights)]
            states[h + 1] = features.draw(weights, states[h], a, random)
        return Episode(states, actions, signals)

    def first(self) -> Floats:
        """Draw the first state of an episode; return it as [dim]."""
        initial = self.continuous.initial
        if isinstance(initial, Density):
            return draw_from(initial, self.generator.random(initial.dim))
        points, chances = initial
        return np.asarray(points[int(draw(chances, self.generator.random()))])

    def state(self) -> dict[str, Any]:
        """Return all that the next episodes depend on, as JSON data."""
        return dict(self.generator.bit_generator.state)

    def restore(self, state: Any) -> None:
        """Return to a state that `state` returned; raises OpdopError if it is not one."""
        restore_generator(self.generator, state)


def _masses(stage: int, density: Floats, points: Floats, rule: Nodes, tolerance: float) -> Floats:
    """Return the probability of each cell [S, A, M]; raise where the density is negative or does not integrate to 1."""
    if (density < -_SLACK).any():
        x, a, y = first_index(density == density.min())
        raise InvalidModelError(
            f"at stage {stage}, state {points[x]}, action {a} the kernel's density at {rule.points[y]} is "
            f"{density[x, a, y]:.6g}; expected at least 0."
        )
    masses = np.maximum(density, 0.0) * rule.weights
    sums = masses.sum(axis=-1)
    off = np.abs(sums - 1.0)
    if (off > tolerance).any():
        x, a = first_index(off == off.max())
        raise InvalidModelError(
            f"at stage {stage}, state {points[x]}, action {a} the kernel's density integrates to {sums[x, a]:.6g} over "
            f"{len(rule)} cells; expected 1. Use more cells, or weights that make it a distribution."
        )
    return np.asarray(masses / sums[..., None])


def _read_initial(initial: Any, dim: int) -> Density | tuple[Floats, Floats]:
    if isinstance(initial, Density):
        if not is_density(initial, dim):
            raise InvalidModelError(f"initial is {shown(initial)}; expected a density in dimension {dim}.")
        return initial
    states, chances = initial if isinstance(initial, tuple) and len(initial) == 2 else (initial, [1.0])
    points = as_floats("initial", states, "a state, or (states [n,dim], probabilities [n])")
    points = points.reshape(-1, dim) if points.size % dim == 0 else points
    probabilities = as_floats("initial", chances, "probabilities [n]")
    if points.ndim != 2 or probabilities.shape != (len(points),) or not len(points):
        found = f"{list(points.shape)} states with {list(probabilities.shape)} probabilities"
        raise InvalidModelError(f"initial has {found}; expected a state [{dim}], or (states, probabilities).")
    if points.min() < 0.0 or points.max() > 1.0:
        raise InvalidModelError(f"initial reaches from {points.min():g} to {points.max():g}; expected [0, 1].")
    check_distributions("initial", probabilities)
    return points, probabilities


def _chances(policy: Any, stage: int, state: Floats, A: int) -> Floats:
    """Return a policy's action probabilities [A] at a state; raise InvalidModelError if they are not probabilities."""
    if not isinstance(policy, Policy):
        raise InvalidModelError(f"policy is {shown(policy)}; expected one with probabilities(stage, state).")
    # The policy of a run, or of a file, is a table of cells.
    asked = policy.space.state(state) if isinstance(policy, TabularPolicy) and policy.space is not None else state
    chances = as_vector("the policy", call("the policy", policy.probabilities, stage, asked), A, "A")
    if chances.min() < 0.0 or abs(chances.sum() - 1.0) > ROW_SUM_TOLERANCE:
        raise InvalidModelError(
            f"at stage {stage}, state {state} the policy is {shown(chances)}; expected probabilities."
        )
    return chances
