"""Known densities on the unit interval, square, ...: each can be evaluated, and drawn from exactly."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from opdop.model.errors import InvalidModelError
from opdop.model.validation import Floats, as_floats, as_number, as_vector, call, shown


@runtime_checkable
class Density(Protocol):
    """A density on [0, 1]^dim."""

    @property
    def dim(self) -> int:
        """The number of coordinates."""
        ...

    def pdf(self, points: Floats) -> Floats:
        """Return the density [n] at points [n, dim]."""
        ...

    def draw(self, uniforms: Floats) -> Floats:
        """Return the point [dim] of uniforms [dim], by the inverse of the distribution function."""
        ...


@dataclass(frozen=True)
class TruncatedNormal:
    """A normal density on [0, 1], cut off at both ends.

    >>> float(TruncatedNormal(0.5, 0.1).draw(np.array([0.5]))[0])
    0.5
    """

    dim: ClassVar[int] = 1
    mean: float
    deviation: float

    def __post_init__(self) -> None:
        for name in ("mean", "deviation"):
            value = as_number(name, getattr(self, name), "a finite number", error=InvalidModelError)
            object.__setattr__(self, name, value)
        if not self.deviation > 0.0:
            raise InvalidModelError(f"{self} is not a density; expected a finite mean and a positive deviation.")
        low, high = self._ends
        if not high - low > 1e-12:
            raise InvalidModelError(f"{self} has no mass in [0, 1]; expected a mean nearer to it.")

    @property
    def _ends(self) -> tuple[float, float]:
        from scipy import special  # late: every run imports this file; loading it takes 0.04 s

        low, high = (special.ndtr((end - self.mean) / self.deviation) for end in (0.0, 1.0))
        return float(low), float(high)

    def pdf(self, points: Floats) -> Floats:
        """Return the density [n] at points [n, 1]."""
        low, high = self._ends
        z = (_points(points, 1)[:, 0] - self.mean) / self.deviation
        return np.asarray(np.exp(-0.5 * z**2) / (self.deviation * math.sqrt(2.0 * math.pi) * (high - low)))

    def draw(self, uniforms: Floats) -> Floats:
        """Return the point [1] of one uniform."""
        uniforms = as_vector("uniforms", uniforms, 1, "dim")
        low, high = self._ends
        from scipy import special

        x = self.mean + self.deviation * float(special.ndtri(low + float(uniforms[0]) * (high - low)))
        return np.array([min(max(x, 0.0), 1.0)])


@dataclass(frozen=True, init=False)
class Steps:
    """A density on [0, 1] that is constant on equal cells, with the given mass in each."""

    dim: ClassVar[int] = 1
    masses: tuple[float, ...]

    def __init__(self, masses: Any) -> None:
        values = as_floats("masses", masses, "one probability for each cell")
        if values.ndim != 1 or not values.size or values.min() < 0.0 or abs(values.sum() - 1.0) > 1e-9:
            raise InvalidModelError(f"masses are {values.tolist()}; expected probabilities that sum to 1.")
        object.__setattr__(self, "masses", tuple((values / values.sum()).tolist()))

    def pdf(self, points: Floats) -> Floats:
        """Return the density [n] at points [n, 1]."""
        n = len(self.masses)
        cells = np.minimum((_points(points, 1)[:, 0] * n).astype(np.int64), n - 1)
        return np.asarray(np.array(self.masses)[cells] * n)

    def draw(self, uniforms: Floats) -> Floats:
        """Return the point [1] of one uniform."""
        uniforms = as_vector("uniforms", uniforms, 1, "dim")
        masses = np.array(self.masses)
        ends = np.cumsum(masses)
        u = float(uniforms[0]) * ends[-1]
        cell = int(np.argmax((ends > u) & (masses > 0.0)))
        within = (u - (ends[cell] - masses[cell])) / masses[cell]
        return np.array([(cell + min(max(within, 0.0), 1.0 - 1e-12)) / len(masses)])


@dataclass(frozen=True, init=False)
class Product:
    """The density of independent coordinates."""

    parts: tuple[Density, ...]

    def __init__(self, *parts: Density) -> None:
        if not parts or any(not is_density(part, 1) for part in parts):
            raise InvalidModelError(f"the product's parts are {shown(parts)}; expected densities on [0, 1].")
        object.__setattr__(self, "parts", parts)

    @property
    def dim(self) -> int:
        """One coordinate for each part."""
        return len(self.parts)

    def pdf(self, points: Floats) -> Floats:
        """Return the density [n] at points [n, dim]."""
        points = _points(points, self.dim)
        return np.asarray(np.prod([values_of(part, points[:, i : i + 1]) for i, part in enumerate(self.parts)], axis=0))

    def draw(self, uniforms: Floats) -> Floats:
        """Return the point [dim] of uniforms [dim]."""
        uniforms = as_vector("uniforms", uniforms, self.dim, "dim")
        return np.concatenate([draw_from(part, uniforms[i : i + 1]) for i, part in enumerate(self.parts)])


def is_density(value: Any, dim: int) -> bool:
    """Return whether a value, not a class, is a density in dimension `dim`."""
    return isinstance(value, Density) and not isinstance(value, type) and value.dim == dim


def values_of(density: Density, points: Floats) -> Floats:
    """Return a density's values [n] at points [n, dim], checked, because users write densities of their own."""
    values = as_vector("the density", call("the density", density.pdf, points), len(points), "n")
    if values.min() < 0.0:
        at = points[int(np.argmin(values))]
        raise InvalidModelError(f"the density at {shown(at)} is {values.min():g}; expected at least 0.")
    return values


def draw_from(density: Density, uniforms: Floats) -> Floats:
    """Return the point [dim] that a density draws from uniforms [dim], checked."""
    point = as_vector("the drawn state", call("the density", density.draw, uniforms), len(uniforms), "dim")
    if point.min() < 0.0 or point.max() > 1.0:
        raise InvalidModelError(f"the drawn state is {shown(point)}; expected numbers in [0, 1].")
    return point


def _points(points: Any, dim: int) -> Floats:
    """Return points as an array [n, dim]."""
    array = as_floats("points", points, f"[n,{dim}]")
    if array.ndim != 2 or array.shape[1] != dim:
        raise InvalidModelError(f"points have shape {list(array.shape)}; expected [n,{dim}].")
    return array
