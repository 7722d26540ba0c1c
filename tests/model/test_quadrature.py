"""Quadrature rules converge at their orders, and densities are what is drawn from them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import integrate, stats

from opdop.model import InvalidModelError
from opdop.model.densities import Product, Steps, TruncatedNormal
from opdop.model.quadrature import Nodes, gauss_legendre, midpoint, monte_carlo, simpson, trapezoid

COUNTS = np.array([9, 17, 33, 65, 129])


def smooth(points: np.ndarray) -> np.ndarray:
    """Return a function that is no polynomial; for several coordinates their product."""
    return np.prod(np.exp(points) / (1.0 + points), axis=1)


EXACT = integrate.quad(lambda x: np.exp(x) / (1.0 + x), 0.0, 1.0, epsabs=1e-14)[0]


def slope(sizes: np.ndarray, errors: np.ndarray) -> float:
    return float(np.polyfit(np.log(sizes), np.log(errors), 1)[0])


@pytest.mark.parametrize(
    ("rule", "order", "width"),
    [(midpoint, 2, lambda n: n), (trapezoid, 2, lambda n: n - 1), (simpson, 4, lambda n: n - 1)],
)
@pytest.mark.parametrize("dim", [1, 2])
def test_rules_converge_at_their_order(
    rule: Callable[..., Nodes], order: int, width: Callable[[np.ndarray], np.ndarray], dim: int
) -> None:
    errors = [abs(rule(n, dim).integrate(smooth(rule(n, dim).points)) - EXACT**dim) for n in COUNTS]
    assert slope(width(COUNTS), np.array(errors)) == pytest.approx(-order, abs=0.05)


def test_gauss_legendre_gains_digits_with_every_node() -> None:
    errors = np.array([abs(gauss_legendre(n).integrate(smooth(gauss_legendre(n).points)) - EXACT) for n in range(1, 8)])
    assert (errors[1:] < errors[:-1] / 20.0).all()  # geometric, faster than any order
    assert abs(gauss_legendre(10).integrate(smooth(gauss_legendre(10).points)) - EXACT) < 1e-14


@pytest.mark.parametrize("degree", range(10))
def test_gauss_legendre_of_5_nodes_is_exact_up_to_degree_9(degree: int) -> None:
    rule = gauss_legendre(5)
    assert rule.integrate(rule.points[:, 0] ** degree) == pytest.approx(1.0 / (degree + 1), abs=1e-14)


@pytest.mark.parametrize("dim", [1, 2])
def test_monte_carlo_converges_at_one_half_in_any_dimension(dim: int) -> None:
    # The root mean square over 400 seeds, with a spread of 1/sqrt(800): over a factor of 64 the slope is within .04.
    counts = np.array([16, 64, 256, 1024])
    errors = [
        [
            monte_carlo(n, dim, seed=s).integrate(smooth(monte_carlo(n, dim, seed=s).points)) - EXACT**dim
            for s in range(400)
        ]
        for n in counts
    ]
    assert slope(counts, np.sqrt(np.mean(np.square(errors), axis=1))) == pytest.approx(-0.5, abs=0.04)


def test_monte_carlo_nodes_are_fixed_by_their_seed() -> None:
    assert np.array_equal(monte_carlo(5, 2, seed=3).points, monte_carlo(5, 2, seed=3).points)
    assert not np.array_equal(monte_carlo(5, 2, seed=3).points, monte_carlo(5, 2, seed=4).points)


@pytest.mark.parametrize(
    "rule", [gauss_legendre(7, 2), midpoint(6, 3), trapezoid(5, 2), simpson(5, 2), monte_carlo(9, 2)]
)
def test_weights_sum_to_the_volume(rule: Nodes) -> None:
    assert rule.weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert rule.points.shape == (len(rule), rule.dim)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: simpson(4), "odd"),
        (lambda: trapezoid(1), "at least 2"),
        (lambda: gauss_legendre(0), "at least 1"),
        (lambda: midpoint(1000, 3), "too many"),
        (lambda: Nodes("mine", np.array([[1.5]]), np.array([1.0])), "expected \\[0, 1\\]"),
        (lambda: Nodes("mine", np.array([0.5]), np.array([1.0])), "expected \\[N,dim\\]"),
    ],
)
def test_rules_that_make_no_sense_say_why(make: Callable[[], Nodes], words: str) -> None:
    with pytest.raises(InvalidModelError, match=words):
        make()


# Densities

DENSITIES = [
    TruncatedNormal(0.3, 0.2),
    TruncatedNormal(-0.2, 0.4),
    TruncatedNormal(0.99, 0.05),
    Steps([0.1, 0.0, 0.6, 0.3]),
]


@pytest.mark.parametrize("density", DENSITIES, ids=str)
def test_what_is_drawn_has_the_density(density: TruncatedNormal | Steps) -> None:
    def cdf(x: float) -> float:
        return float(integrate.quad(lambda y: density.pdf(np.array([[y]]))[0], 0.0, x, points=[0.25, 0.5, 0.75])[0])

    assert cdf(1.0) == pytest.approx(1.0, abs=1e-6)
    for u in np.linspace(0.01, 0.99, 15):
        x = density.draw(np.array([u]))
        assert x.shape == (1,)
        assert cdf(float(x[0])) == pytest.approx(u, abs=1e-6)


def test_a_product_has_independent_coordinates() -> None:
    one, two = TruncatedNormal(0.3, 0.2), Steps([0.25, 0.75])
    product = Product(one, two)
    points = np.random.default_rng(0).random((7, 2))
    assert product.pdf(points) == pytest.approx(one.pdf(points[:, :1]) * two.pdf(points[:, 1:]))
    assert product.draw(np.array([0.2, 0.9])) == pytest.approx(
        [one.draw(np.array([0.2]))[0], two.draw(np.array([0.9]))[0]]
    )


def test_truncated_normal_is_scipys() -> None:
    theirs = stats.truncnorm((0 - 0.3) / 0.2, (1 - 0.3) / 0.2, 0.3, 0.2)
    x = np.linspace(0.0, 1.0, 11)
    assert TruncatedNormal(0.3, 0.2).pdf(x[:, None]) == pytest.approx(theirs.pdf(x))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: TruncatedNormal(0.5, 0.0), "positive deviation"),
        (lambda: TruncatedNormal(40.0, 0.1), "no mass"),
        (lambda: Steps([0.5, 0.6]), "sum to 1"),
        (lambda: Steps([]), "sum to 1"),
        (Product, "densities on"),
    ],
)
def test_densities_that_make_no_sense_say_why(make: Callable[[], object], words: str) -> None:
    with pytest.raises(InvalidModelError, match=words):
        make()
