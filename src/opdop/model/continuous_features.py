"""Features of linear kernels on [0, 1]^dim: functions of the state, integrated against value functions on nodes.

Two families with the same methods. `densities`: psi(x, a, y) = left(x, a) outer (q_1(y), ..., q_r(y)) with known
densities q, which is fast. `general`: any function psi(x, a, y), which is slower.

Value functions are stored at finitely many states, the carried ones: the nodes, then any others. The integral of V is
the quadrature's, sum_j w_j psi(x, a, y_j) V(y_j), and is not normalised: its only error is the rule's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opdop.kernels.features import Embedded, Form, Listed
from opdop.kernels.replay import Rows
from opdop.model.densities import Density, draw_from, is_density, values_of
from opdop.model.errors import InvalidModelError
from opdop.model.features import Features
from opdop.model.quadrature import Nodes
from opdop.model.validation import Floats, as_floats, as_number, call, check_memory, shown

# By how much the integral of a kernel may miss 1.
CELLS_TOLERANCE = 1e-2
_LARGEST_BOUND = 20_000.0  # on a density: drawing by rejection needs that many evaluations of psi
_PATIENCE = 50.0  # rejections in units of their mean; with probability exp(-50) there are more

Function = Callable[[Floats], Any]


@dataclass(frozen=True, eq=False, repr=False)
class _Family:
    """What both families have: sizes, bounds on the weights' norms, and the features of signals."""

    name: str
    nodes: Nodes
    num_actions: int
    kernel_dim: int  # d1
    signal_dim: int  # d2
    kernel_norm: float
    signal_norm: float
    folded: int  # components of right, for psi = left outer right; otherwise 0
    row_dim: int  # components of what changes with the state: left's, or psi's
    varphi: Function

    def signal_features(self, states: Floats) -> Floats:
        """Return varphi [n, A, d2] at states [n, dim]."""
        return _called("varphi", self.varphi, states, (self.num_actions, self.signal_dim))

    def __repr__(self) -> str:
        sizes = f"{self.num_actions} actions, d1 = {self.kernel_dim}, d2 = {self.signal_dim}"
        return f"{type(self).__name__}({sizes})"


@dataclass(frozen=True, eq=False, repr=False)
class SeparableFeatures(_Family):
    """psi(x, a, y) = left(x, a) outer (q_1(y), ..., q_r(y)); component l * r + r'."""

    left: Function
    densities: tuple[Density, ...]

    def rows(self, state: Floats) -> Rows:
        """Return the features of one state [dim]."""
        here = state[None]
        empty = np.empty((0, self.row_dim, self.num_actions))
        left = _called("left", self.left, here, (self.num_actions, self.row_dim))
        return Rows(_by_component(left), empty, _by_component(self.signal_features(here)))

    def form(self, states: Floats) -> Embedded:
        """Return psi at states [S, dim]: only nodes have a weight in the integral."""
        right, N = np.zeros((self.folded, len(states))), len(self.nodes)
        right[:, :N] = self.nodes.weights * np.array([values_of(q, self.nodes.points) for q in self.densities])
        return Embedded(_by_component(_called("left", self.left, states, (self.num_actions, self.row_dim))), right)

    def place(self, form: Form, index: int, rows: Rows) -> None:
        """Write the features of one state into a form."""
        assert isinstance(form, Embedded)
        form.left.reshape(self.row_dim, self.num_actions, -1)[:, :, index] = rows.left

    def kernel(self, weights: Floats, states: Floats, points: Floats) -> Floats:
        """Return the density [n, A, m] of the next state."""
        q = np.array([values_of(density, points) for density in self.densities])
        left = _called("left", self.left, states, (self.num_actions, self.row_dim))
        return np.asarray(left @ (weights.reshape(self.row_dim, self.folded) @ q))

    def integral_norms(self, states: Floats, rule: Nodes) -> Floats:
        """Return for each pair [n, A] the norm of the integral of psi: densities are nowhere negative."""
        most = np.array([rule.integrate(values_of(density, rule.points)) for density in self.densities])
        left = _called("left", self.left, states, (self.num_actions, self.row_dim))
        return np.asarray(np.linalg.norm(left, axis=-1) * np.linalg.norm(most))

    def draw(self, weights: Floats, state: Floats, action: int, random: np.random.Generator) -> Floats:
        """Return a next state [dim]: the density is a mixture of the q's, so draw one of them, then from it."""
        left = _called("left", self.left, state[None], (self.num_actions, self.row_dim))[0, action]
        shares = left @ weights.reshape(self.row_dim, self.folded)
        which, *uniforms = random.random(1 + self.nodes.dim)
        if shares.min() < -1e-9 or abs(shares.sum() - 1.0) > CELLS_TOLERANCE:
            raise InvalidModelError(
                f"at state {state}, action {action} the densities have weights {shares}; expected none below 0, and "
                "the sum 1: only then can a next state be drawn."
            )
        ends = np.cumsum(np.maximum(shares, 0.0))
        chosen = int(np.searchsorted(ends, which * ends[-1], side="right"))
        return draw_from(self.densities[min(chosen, self.folded - 1)], np.array(uniforms))


@dataclass(frozen=True, eq=False, repr=False)
class GeneralFeatures(_Family):
    """psi(x, a, y) as any function; next states are drawn by rejection under a bound on the density."""

    psi: Callable[[Floats, Floats], Any]
    highest: float

    def rows(self, state: Floats) -> Rows:
        """Return the features of one state [dim]."""
        here = state[None]
        psi = self._table(here, self.nodes.points)[0]  # [A, N, d1]
        weighted = np.ascontiguousarray((psi * self.nodes.weights[:, None]).transpose(1, 2, 0))
        return Rows(np.empty((0, self.num_actions)), weighted, _by_component(self.signal_features(here)))

    def form(self, states: Floats) -> Listed:
        """Return psi at states [S, dim]: N successors for each pair, the nodes."""
        S, A, N, d = len(states), self.num_actions, len(self.nodes), self.kernel_dim
        psi = self._table(states, self.nodes.points) * self.nodes.weights[:, None]  # [S, A, N, d]
        begins = np.arange(d, dtype=np.int64)[:, None] * (S * A * N)
        return Listed(
            begins + np.arange(S * A + 1, dtype=np.int64) * N,
            np.tile(np.arange(N, dtype=np.int32), d * S * A),
            np.ascontiguousarray(psi.transpose(3, 1, 0, 2)).ravel(),
        )

    def place(self, form: Form, index: int, rows: Rows) -> None:
        """Write the features of one state into a form."""
        assert isinstance(form, Listed)
        A, N, d = self.num_actions, len(self.nodes), self.kernel_dim
        table = form.psi.reshape(d, A, -1, N)
        table[:, :, index] = rows.psi.transpose(1, 2, 0)

    def kernel(self, weights: Floats, states: Floats, points: Floats) -> Floats:
        """Return the density [n, A, m] of the next state."""
        return np.asarray(self._table(states, points) @ weights)

    def integral_norms(self, states: Floats, rule: Nodes) -> Floats:
        """Return for each pair [n, A] the bound that picks the positive, or the negative, parts of psi."""
        psi = self._table(states, rule.points)
        up, down = (np.einsum("namd,m->nad", np.maximum(sign * psi, 0.0), rule.weights) for sign in (1.0, -1.0))
        return np.asarray(np.linalg.norm(np.maximum(up, down), axis=-1))

    def draw(self, weights: Floats, state: Floats, action: int, random: np.random.Generator) -> Floats:
        """Return a next state [dim], by rejection; raise InvalidModelError if psi makes no density at this state."""
        attempts = int(_PATIENCE * (20.0 + self.highest))
        for _ in range(attempts):
            *point, level = random.random(self.nodes.dim + 1)
            y = np.array(point)
            density = float(self._table(state[None], y[None])[0, action, 0] @ weights)
            if not -1e-9 <= density <= self.highest:
                raise InvalidModelError(
                    f"from state {state}, action {action} the density at {y} is {density:g}; highest={self.highest:g} "
                    "is not a bound on it, or it is negative."
                )
            if level * self.highest < density:
                return y
        raise InvalidModelError(
            f"from state {state}, action {action} none of {attempts:,} draws was accepted; expected a density that "
            f"integrates to 1, of which highest={self.highest:g} accepts one draw in {self.highest:g}."
        )

    def _table(self, states: Floats, points: Floats) -> Floats:
        """Return psi as [n, A, m, d1]."""
        expected = len(states), self.num_actions, len(points), self.kernel_dim
        check_memory(16.0 * math.prod(expected), f"psi of shape {list(expected)}")
        psi = as_floats("psi", call("psi", self.psi, states, points), "[n,A,m,d1]")
        if psi.shape != expected:
            raise InvalidModelError(f"psi returns shape {list(psi.shape)}; expected [n,A,m,d1] = {list(expected)}.")
        return psi


ContinuousFeatures = SeparableFeatures | GeneralFeatures


@dataclass(frozen=True, eq=False)
class Carried:
    """The states at which value functions are stored: the nodes first, then others."""

    source: ContinuousFeatures
    points: Floats  # [S, dim]

    @property
    def others(self) -> Floats:
        """The states that are not nodes, [S - N, dim]."""
        return self.points[len(self.source.nodes) :]


def carry(source: ContinuousFeatures, others: Floats) -> Features:
    """Return continuous features on the nodes and some other states [n, dim], as those of finitely many states."""
    points = np.concatenate([source.nodes.points, others])
    table = source.signal_features(points)
    S, A, d2 = table.shape
    return Features(
        source.name,
        S,
        A,
        source.kernel_dim,
        d2,
        source.kernel_norm,
        source.signal_norm,
        source.form(points),
        np.ascontiguousarray(table.transpose(2, 1, 0).reshape(d2, A * S)),
        Carried(source, points),
    )


def densities(left: Function, bases: Sequence[Density], varphi: Function, nodes: Nodes) -> SeparableFeatures:
    """Return the features of a kernel that mixes known densities: P(y | x, a) = left(x, a) theta (q_1(y), ..., q_r(y)).

    left: a function of states [n, dim] that returns [n, A, dl]. varphi: one that returns [n, A, d2]. If left(x, a) is a
    distribution and so is each row of theta [dl, dr], then this is a kernel, and theta's norm is at most sqrt(dl). If
    left(x, a) is a distribution at the nodes, sqrt(dl) is stated as `kernel_norm`; other rows can make a kernel too,
    and `ContinuousCMDP` states sqrt(d1) where theta is longer.
    """
    _check_nodes(nodes)
    given = call("reading bases", tuple, bases)
    for i, density in enumerate(given):
        if not is_density(density, nodes.dim):
            raise InvalidModelError(f"bases[{i}] is {shown(density)}; expected a density in dimension {nodes.dim}.")
    if not given:
        raise InvalidModelError("bases is empty; expected at least one density.")
    A, dl = _sizes("left", left, nodes)
    actions, d2 = _sizes("varphi", varphi, nodes)
    if actions != A:
        raise InvalidModelError(f"left is for {A} actions, varphi for {actions}; expected the same.")
    d1 = dl * len(given)
    table = _called("left", left, nodes.points, (A, dl))
    is_mixture = bool((table >= 0.0).all() and (np.abs(table.sum(axis=-1) - 1.0) <= 1e-9).all())
    norm = np.sqrt(dl) if is_mixture else np.sqrt(d1)
    return SeparableFeatures(
        "densities", nodes, A, d1, d2, float(norm), float(np.sqrt(d2)), len(given), dl, varphi, left, given
    )


def general(
    psi: Callable[[Floats, Floats], Any],
    varphi: Function,
    nodes: Nodes,
    *,
    highest: float,
    kernel_norm: float | None = None,
) -> GeneralFeatures:
    """Return features given as a function psi(states [n, dim], points [m, dim]) that returns [n, A, m, d1].

    varphi: a function of states that returns [n, A, d2]. highest: a bound on the density of the next state, for drawing
    from it. kernel_norm: a bound on the weights' norm, sqrt(d1) if left out; 1 for a mixture of d1 known kernels. Where
    weights are longer, `ContinuousCMDP` states sqrt(d1).
    """
    _check_nodes(nodes)
    probe = as_floats("psi", call("psi", psi, nodes.points[:1], nodes.points), "[n,A,m,d1]")
    if probe.ndim != 4 or probe.shape[0] != 1 or probe.shape[2] != len(nodes) or 0 in probe.shape:
        raise InvalidModelError(f"psi returns shape {list(probe.shape)}; expected [1,A,{len(nodes)},d1].")
    A, d1 = probe.shape[1], probe.shape[3]
    actions, d2 = _sizes("varphi", varphi, nodes)
    if actions != A:
        raise InvalidModelError(f"psi is for {A} actions, varphi for {actions}; expected the same.")
    bounds = f"a bound on a density on [0, 1], so at least 1, and at most {_LARGEST_BOUND:g}"
    highest = as_number("highest", highest, bounds, error=InvalidModelError)
    if not 1.0 <= highest <= _LARGEST_BOUND:
        raise InvalidModelError(f"highest is {highest:g}; expected {bounds}: draws are accepted once in {highest:g}.")
    wanted = "a bound on a norm, so a number above 0"
    norm = (
        np.sqrt(d1) if kernel_norm is None else as_number("kernel_norm", kernel_norm, wanted, error=InvalidModelError)
    )
    if not norm > 0.0:
        raise InvalidModelError(f"kernel_norm is {kernel_norm}; expected {wanted}.")
    return GeneralFeatures(
        "general", nodes, A, d1, d2, float(norm), float(np.sqrt(d2)), 0, d1, varphi, psi, float(highest)
    )


def _check_nodes(nodes: Any) -> None:
    if not isinstance(nodes, Nodes):
        raise InvalidModelError(f"nodes is {shown(nodes)}; expected nodes from opdop.model.quadrature.")


def _by_component(table: Any) -> Floats:
    """Return [n, A, d] as [d, A*n]."""
    values = np.asarray(table, dtype=np.float64)
    return np.ascontiguousarray(values.transpose(2, 1, 0).reshape(values.shape[-1], -1))


def _sizes(name: str, function: Function, nodes: Nodes) -> tuple[int, int]:
    """Return the number of actions and of components of a function's values."""
    if not callable(function):
        raise InvalidModelError(f"{name} is {type(function).__name__}; expected a function of states [n,dim].")
    values = as_floats(name, call(name, function, nodes.points), "[n,A,d]")
    if values.ndim != 3 or len(values) != len(nodes) or 0 in values.shape:
        raise InvalidModelError(f"{name} returns shape {list(values.shape)}; expected [n,A,d], n = {len(nodes)}.")
    return int(values.shape[1]), int(values.shape[2])


def _called(name: str, function: Function, states: Floats, sizes: tuple[int, int]) -> Floats:
    """Return a function's values [n, A, d], checked."""
    values = as_floats(name, call(name, function, states), "[n,A,d]")
    expected = (len(states), *sizes)
    if values.shape != expected:
        raise InvalidModelError(f"{name} returns shape {list(values.shape)}; expected [n,A,d] = {list(expected)}.")
    return values
