"""Random linear models, and the paper's Algorithm 2 in plain NumPy: dense, from all rows, sharing no code with it.

Line numbers are the paper's. Nothing is incremental but the list of episodes, each kept with the values of its own
evaluation: every Gram matrix is made and solved anew.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from opdop import Episode, TabularCMDP
from opdop.model.features import Features, array, embedding, mixture, one_hot
from tests.support.strategies import Array, evaluate_plainly

FAMILIES = ("one-hot", "mixture", "embedding", "array")


@dataclass(frozen=True, eq=False)
class LinearSketch:
    """A linear model in full: dense features and weights, what they make, and the package's features."""

    family: str
    psi: Array  # [S, A, S, d1]
    varphi: Array  # [S, A, d2]
    kernel_weights: Array  # [H, d1]
    signal_weights: Array  # [1+I, H, d2]
    P: Array  # [H, S, A, S]
    signals: Array  # [1+I, H, S, A]
    thresholds: Array  # [I]
    initial: Array  # [S]
    features: Features

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """H, S, A and I."""
        return (*self.P.shape[:3], len(self.thresholds))

    def build(self, *, features: bool = True) -> TabularCMDP:
        """Return the finite model, with its features or without."""
        model = TabularCMDP(self.P, self.signals[0], self.signals[1:], self.thresholds, self.initial)
        return model.with_features(self.features) if features else model


def linear_sketch(
    seed: int,
    family: str,
    *,
    states: int = 5,
    actions: int = 3,
    horizon: int = 4,
    constraints: int = 1,
    dimension: int = 3,
    first_state: str = "random",
) -> LinearSketch:
    """Make a model; each threshold is a little more than the uniform policy has, as far as H allows.

    "array" is a mixture whose features are turned by an orthogonal matrix, so psi and varphi have either sign.
    """
    rng = np.random.default_rng(seed)
    H, S, A, J = horizon, states, actions, 1 + constraints
    d2 = S * A if family == "one-hot" else dimension + 1
    varphi = np.eye(S * A).reshape(S, A, d2) if family == "one-hot" else rng.dirichlet(np.full(d2, 0.5), (S, A))
    signal_weights = rng.random((J, H, d2))
    if family == "one-hot":
        psi = np.eye(S * A * S).reshape(S, A, S, -1)
        theta = rng.dirichlet(np.full(S, 0.7), (H, S, A)).reshape(H, -1)
        features = one_hot(S, A)
    elif family == "embedding":
        left, right = rng.dirichlet(np.ones(2), (S, A)), rng.dirichlet(np.full(S, 0.7), dimension).T
        psi = np.einsum("xal,yr->xaylr", left, right).reshape(S, A, S, -1)
        theta = rng.dirichlet(np.ones(dimension), (H, 2)).reshape(H, -1)
        features = embedding(left, right, varphi)
    else:
        bases = random_bases(rng, dimension, S, A)
        psi, theta = np.moveaxis(bases, 0, -1), rng.dirichlet(np.ones(dimension), H)
        features = mixture(list(bases), varphi)
    P = np.einsum("xayd,hd->hxay", psi, theta)
    P /= P.sum(axis=-1, keepdims=True)
    signals = np.clip(np.einsum("xad,jhd->jhxa", varphi, signal_weights), 0.0, 1.0)
    if family == "array":
        turn, other = (np.linalg.qr(rng.normal(size=(d, d)))[0] for d in (dimension, d2))
        psi, theta = psi @ turn, theta @ turn
        varphi, signal_weights = varphi @ other, signal_weights @ other
        features = array(psi, varphi)
    first = int(rng.integers(S))
    initial = np.eye(S)[first] if first_state == "fixed" else rng.dirichlet(np.ones(S))
    reached = evaluate_plainly(P, signals, np.full((H, S, A), 1.0 / A))[1:, 0] @ initial
    thresholds = np.minimum(1.02 * reached, H)
    return LinearSketch(family, psi, varphi, theta, signal_weights, P, signals, thresholds, initial, features)


def random_bases(rng: np.random.Generator, count: int, S: int, A: int) -> Array:
    """Return kernels [count, S, A, S]; about half of the successors are impossible."""
    weights = rng.random((count, S, A, S)) * (rng.random((count, S, A, S)) < 0.5)
    weights[..., 0] += weights.sum(axis=-1) == 0.0
    return weights / weights.sum(axis=-1, keepdims=True)


Radius = Callable[[int, Array], "float | Array"]  # of the stage, from 0, and the Gram matrix: a number or [S, A]


@dataclass(frozen=True, eq=False)
class Seen:
    """One episode and the values [J, H+1, S] of its own evaluation."""

    episode: Episode
    v: Array


class PlainLSTD:
    """Algorithm 2."""

    def __init__(self, sketch: LinearSketch, ridge: float, kernel_radius: Radius, signal_radius: Radius) -> None:
        self.psi, self.varphi, self.ridge = sketch.psi, sketch.varphi, ridge
        self.kernel_radius, self.signal_radius = kernel_radius, signal_radius
        self.H, self.J = sketch.sizes[0], len(sketch.signals)
        self.past: list[Seen] = []
        self.v = np.zeros((self.J, self.H + 1, sketch.sizes[1]))
        self.q = self.bonus = np.zeros((self.J, self.H, *sketch.sizes[1:3]))

    def value_of(self, seen: Seen) -> Array:
        """Return the values with which an episode enters the regressions: those of its own time."""
        return seen.v

    def regression(self, j: int, h: int) -> tuple[Array, Array]:
        """Return Gram matrix and right-hand side of signal j's kernel regression."""
        values = [self.value_of(seen)[j, h + 1] for seen in self.past]
        x, a, y = self.steps(h)
        # A row is phi^tau at the visited pair, the integral of psi against V^tau.
        rows = np.einsum("nyd,ny->nd", self.psi[x, a], np.array(values).reshape(len(x), self.psi.shape[2]))
        targets = np.array([v[successor] for v, successor in zip(values, y, strict=True)])
        return self.ridge * np.eye(rows.shape[1]) + rows.T @ rows, rows.T @ targets  # line 4; line 5's sum

    def steps(self, h: int) -> tuple[Array, Array, Array]:
        """Return states, actions and successors of all episodes at a stage."""
        steps = [(s.episode.states[h], s.episode.actions[h], s.episode.states[h + 1]) for s in self.past]
        x, a, y = np.array(steps, dtype=int).reshape(-1, 3).T
        return x, a, y

    def evaluate(self, policy: Array) -> None:
        """Compute q [J, H, S, A], v and the sum of both bonuses."""
        J, H, S = self.J, self.H, self.psi.shape[0]
        q, bonus, v = np.zeros((J, *policy.shape)), np.zeros((J, *policy.shape)), np.zeros((J, H + 1, S))
        for h in reversed(range(H)):  # line 3
            x, a, _ = self.steps(h)
            rows = self.varphi[x, a]
            signal_gram = self.ridge * np.eye(rows.shape[1]) + rows.T @ rows  # line 8
            signal_bonus = self.signal_radius(h, signal_gram) * widths(signal_gram, self.varphi)  # line 10
            for j in range(J):
                gram, right = self.regression(j, h)
                w = np.linalg.solve(gram, right)  # line 5
                phi = np.einsum("xayd,y->xad", self.psi, v[j, h + 1])  # line 6
                kernel_bonus = self.kernel_radius(h, gram) * widths(gram, phi)  # line 7
                observed = np.array([s.episode.signals[j, h] for s in self.past])
                u = np.linalg.solve(signal_gram, rows.T @ observed)  # line 9
                bonus[j, h] = signal_bonus + kernel_bonus
                q[j, h] = np.clip(self.varphi @ u + phi @ w + bonus[j, h], 0.0, H - h)  # line 11; h from 0
                v[j, h] = (q[j, h] * policy[h]).sum(axis=1)  # line 12
        self.q, self.v, self.bonus = q, v, bonus

    def observe(self, episode: Episode) -> None:
        """Add an episode, with the values of the last evaluation."""
        self.past.append(Seen(episode, self.v))


def widths(gram: Array, features: Array) -> Array:
    """Return sqrt(f^T gram^-1 f) of features [S, A, d]."""
    flat = features.reshape(-1, features.shape[-1])
    squares = (flat * np.linalg.solve(gram, flat.T).T).sum(axis=1)
    return np.sqrt(np.maximum(squares, 0.0)).reshape(features.shape[:2])


def log_det(gram: Array) -> float:
    """Return log det of a positive definite matrix."""
    sign, value = np.linalg.slogdet(gram)
    assert sign > 0
    return float(value)


def certified_radii(sketch: LinearSketch, ridge: float, p: float, noisy: bool) -> tuple[Radius, Radius]:
    """Return the certified radii of kernel and signals, from the text of docs/algorithm.md."""
    H, S, A, I = sketch.sizes
    pairs = S * A if sketch.family == "one-hot" else 1
    delta = (p / 4 if noisy else p / 2) / ((1 + I) * H * pairs)
    d1, d2 = sketch.psi.shape[-1], sketch.varphi.shape[-1]
    B = {"one-hot": 1.0, "mixture": 1.0}.get(sketch.family, math.sqrt(d1))
    B2 = 1.0 if sketch.family == "one-hot" else math.sqrt(d2)

    def information(gram: Array) -> float | Array:
        if sketch.family != "one-hot":
            return log_det(gram / ridge)
        size = len(gram) // (S * A)  # each pair has a regression of its own: its block
        blocks = [gram[n * size : (n + 1) * size, n * size : (n + 1) * size] for n in range(S * A)]
        return np.array([log_det(block / ridge) for block in blocks]).reshape(S, A)

    def radius(sigma: float, bias: float, gram: Array) -> float | Array:
        noise = sigma * np.sqrt(2 * math.log(1 / delta) + information(gram)) if sigma else 0.0
        return noise + math.sqrt(ridge) * bias

    return (
        lambda h, gram: radius((H - 1 - h) / 2, B, gram),
        lambda h, gram: radius(0.5 if noisy else 0.0, B2, gram),
    )
