"""Quadrature on the unit interval, square, ...: nodes and weights against which value functions are integrated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from opdop.model.errors import InvalidModelError
from opdop.model.validation import Floats, as_floats, as_generator, as_size, as_text, check_memory

_MOST_NODES = 1_000_000
_MOST_AXES = 20  # of a grid, even of one node: two along each axis would already be too many


@dataclass(frozen=True, eq=False, repr=False)
class Nodes:
    """Points of [0, 1]^dim and weights that sum to 1: the integral of f is about sum_j weights[j] f(points[j])."""

    name: str
    points: Floats  # [N, dim]
    weights: Floats  # [N]

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", as_text("name", self.name))
        points = as_floats("points", self.points, "[N,dim]")
        weights = as_floats("weights", self.weights, "[N]")
        if points.ndim != 2 or 0 in points.shape or weights.shape != points.shape[:1]:
            shapes = f"{list(points.shape)} and {list(weights.shape)}"
            raise InvalidModelError(f"points and weights have shapes {shapes}; expected [N,dim] and [N].")
        if points.min() < 0.0 or points.max() > 1.0:
            raise InvalidModelError(f"nodes reach from {points.min():g} to {points.max():g}; expected [0, 1].")
        for name, array in (("points", points), ("weights", weights)):
            array.setflags(write=False)
            object.__setattr__(self, name, array)

    @property
    def dim(self) -> int:
        """The number of coordinates of a state."""
        return int(self.points.shape[1])

    def integrate(self, values: Any) -> Floats:
        """Return the integral of values [..., N] at the nodes."""
        given = as_floats("values", values, f"[...,N], N = {len(self)}")
        if given.shape[-1:] != (len(self),):
            raise InvalidModelError(f"values have shape {list(given.shape)}; expected [...,N], N = {len(self)}.")
        return np.asarray(given @ self.weights)

    def __len__(self) -> int:
        return len(self.weights)

    def __repr__(self) -> str:
        return f"Nodes({self.name}, {len(self)} in dimension {self.dim})"


def gauss_legendre(count: int, dim: int = 1) -> Nodes:
    """Return the rule that is exact for polynomials of degree 2 count - 1: accurate for smooth functions."""
    n = _bounded(as_size("count", count), dim)
    check_memory(24.0 * n * n, f"finding {n:,} Gauss-Legendre nodes")
    points, weights = np.polynomial.legendre.leggauss(n)
    return _product("Gauss-Legendre", 0.5 * (points + 1.0), 0.5 * weights, dim)


def midpoint(count: int, dim: int = 1) -> Nodes:
    """Return the centres of equal cells: error of order 2, and of order 1 where a function jumps."""
    n = _bounded(as_size("count", count), dim)
    return _product("midpoint", (np.arange(n) + 0.5) / n, np.full(n, 1.0 / n), dim)


def trapezoid(count: int, dim: int = 1) -> Nodes:
    """Return evenly spaced nodes with both ends: error of order 2."""
    n = _bounded(as_size("count", count), dim)
    if n < 2:
        raise InvalidModelError(f"count is {n}; the trapezoid rule needs at least 2 nodes.")
    weights = np.full(n, 1.0 / (n - 1))
    weights[[0, -1]] /= 2.0
    return _product("trapezoid", np.linspace(0.0, 1.0, n), weights, dim)


def simpson(count: int, dim: int = 1) -> Nodes:
    """Return evenly spaced nodes with Simpson's weights: error of order 4; the count is odd."""
    n = _bounded(as_size("count", count), dim)
    if n < 3 or n % 2 == 0:
        raise InvalidModelError(f"count is {n}; Simpson's rule needs an odd number of nodes, at least 3.")
    weights = np.where(np.arange(n) % 2, 4.0, 2.0) / (3.0 * (n - 1))
    weights[[0, -1]] /= 2.0
    return _product("Simpson", np.linspace(0.0, 1.0, n), weights, dim)


def monte_carlo(count: int, dim: int = 1, *, seed: int = 0) -> Nodes:
    """Return uniformly random nodes: error of order 1/2 in any dimension."""
    n = _bounded(as_size("count", count), 1)
    check_memory(24.0 * n * as_size("dim", dim), f"{n:,} nodes in dimension {dim:,}")
    points = as_generator(seed).random((n, dim))
    return Nodes("Monte-Carlo", points, np.full(n, 1.0 / n))


def _product(name: str, points: Floats, weights: Floats, dim: int) -> Nodes:
    """Return the product of a rule on [0, 1] with itself."""
    grid = np.stack(np.meshgrid(*[points] * dim, indexing="ij"), axis=-1).reshape(-1, dim)
    product = weights
    for _ in range(dim - 1):
        product = np.multiply.outer(product, weights)
    return Nodes(name, grid, product.ravel())


def _bounded(count: int, dim: int) -> int:
    """Return the count along an axis; raise if the grid is too large."""
    if as_size("dim", dim) > _MOST_AXES or count**dim > _MOST_NODES:
        expected = f"at most {_MOST_NODES:,}, in dimension {_MOST_AXES} at most"
        raise InvalidModelError(f"{count}^{dim} nodes are too many; expected {expected}.")
    return count
