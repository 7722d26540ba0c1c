"""Small continuous problems, and Algorithms 1 and 2 once more: from their definitions, at any state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from opdop.algorithms import LSTD
from opdop.algorithms.continuous import ContinuousOPDOP, with_visitors
from opdop.algorithms.task import Task
from opdop.model import ContinuousCMDP, Episode
from opdop.model.continuous_features import GeneralFeatures, SeparableFeatures, densities, general
from opdop.model.densities import Product, TruncatedNormal
from opdop.model.quadrature import Nodes, gauss_legendre

NUMBERS = {"step_size": 0.4, "dual_step_size": 0.3, "mixing": 0.05, "dual_bound": 6.0}


def left(states: np.ndarray) -> np.ndarray:
    """Weights [n, 2, 2] that depend on the mean coordinate and the action."""
    x = states.mean(axis=1)
    up = np.stack([0.2 + 0.6 * x, 0.9 - 0.5 * x], axis=1)
    return np.stack([up, 1.0 - up], axis=-1)


def varphi(states: np.ndarray) -> np.ndarray:
    """Signal features [n, 2, 3]."""
    x = states.mean(axis=1)
    rows = [np.stack([x, np.ones_like(x), 0.0 * x], axis=1), np.stack([0.0 * x, 0.0 * x, np.sqrt(x)], axis=1)]
    return np.stack(rows, axis=1)


def kernels(states: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Two known conditional densities [n, 2, m, 2]: normal about the state moved down or up."""
    moved = 0.6 * states.mean(axis=1)[:, None] + np.array([0.0, 0.2])  # [n, A]
    means = (moved[..., None] + np.array([-0.2, 0.3]))[:, :, None, :, None]  # [n, A, 1, 2, 1]
    mass = special.ndtr((1.0 - means) / 0.3) - special.ndtr(-means / 0.3)
    bells = np.exp(-0.5 * ((points[:, None, :] - means) / 0.3) ** 2) / (0.3 * np.sqrt(2.0 * np.pi) * mass)
    return bells.prod(axis=-1)


def separable_features(nodes: Nodes) -> SeparableFeatures:
    """Return the features of two densities, in the dimension of the nodes."""
    one, two = TruncatedNormal(0.2, 0.25), TruncatedNormal(0.8, 0.2)
    return densities(left, [one, two] if nodes.dim == 1 else [Product(one, two), Product(two, two)], varphi, nodes)


def general_features(nodes: Nodes) -> GeneralFeatures:
    """Return the features of two known conditional densities."""
    return general(kernels, varphi, nodes, highest=10.0, kernel_norm=1.0)


def separable_problem(
    *, nodes: Nodes | None = None, horizon: int = 3, constraints: int = 1, initial: Any = None, cells: int = 40
) -> ContinuousCMDP:
    """Return a problem with two densities, in the dimension of the nodes."""
    nodes = nodes or gauss_legendre(6)
    theta = np.array([[0.9, 0.1, 0.3, 0.7], [0.6, 0.4, 0.2, 0.8]])[np.arange(horizon) % 2]
    return ContinuousCMDP(
        separable_features(nodes),
        theta,
        [0.1, 0.2, 0.9],
        [[[0.4, 0.5, 0.1]], [[0.0, 0.3, 0.3]]][:constraints],
        [0.5 * horizon, 0.2 * horizon][:constraints],
        np.full(nodes.dim, 0.3) if initial is None else initial,
        cells=cells,
    )


def general_problem(*, nodes: Nodes | None = None, horizon: int = 3, cells: int = 40) -> ContinuousCMDP:
    """Return a problem whose kernel mixes two known conditional densities."""
    nodes = nodes or gauss_legendre(6)
    features = general_features(nodes)
    start = np.full(nodes.dim, 0.3)
    return ContinuousCMDP(
        features, [0.3, 0.7], [0.1, 0.2, 0.9], [0.4, 0.5, 0.1], 0.5 * horizon, start, horizon, cells=cells
    )


def learner_of(
    problem: ContinuousCMDP,
    *,
    radius: float = 0.2,
    growth: float | None = None,
    noisy: bool = False,
    episodes: int = 100,
) -> ContinuousOPDOP:
    """Return a learner with round numbers."""
    task = with_visitors(Task.of(problem, episodes=episodes, noisy=noisy))
    return ContinuousOPDOP(task, LSTD(task, radius=radius), reevaluate_at_growth=growth, **NUMBERS)


class Definitions:
    """Algorithms 1 and 2 as written, for one problem: every Q^tau is a function of any state, and nothing is stored.

    psi(states, points) -> [n, A, m, d1].
    """

    def __init__(
        self,
        problem: ContinuousCMDP,
        psi: Callable[[np.ndarray, np.ndarray], np.ndarray],
        radius: float,
        growth: float | None,
    ) -> None:
        self.problem, self.psi, self.radius, self.growth = problem, psi, radius, growth
        self.nodes, self.varphi = problem.features.nodes, problem.features.varphi
        J, H = len(problem.signal_weights), problem.horizon
        self.phis: list[list[list[np.ndarray]]] = [[[] for _ in range(H)] for _ in range(J)]
        self.targets: list[list[list[float]]] = [[[] for _ in range(H)] for _ in range(J)]
        self.rows: list[list[np.ndarray]] = [[] for _ in range(H)]
        self.seen: list[list[np.ndarray]] = [[] for _ in range(H)]
        self.steps: list[tuple[Any, np.ndarray]] = []  # Q^tau and Y^tau
        self.dual = np.zeros(J - 1)
        self.estimates = problem.thresholds.copy()
        self.evaluation: Any = None
        self.logs: np.ndarray | None = None

    def policy(self, h: int, x: np.ndarray, steps: int | None = None) -> np.ndarray:
        """Return pi^k(. | x), k = steps + 1."""
        A = self.problem.features.num_actions
        p = np.full(A, 1.0 / A)
        for q, dual in self.steps[:steps]:
            values = q(h, x)
            p = (1.0 - NUMBERS["mixing"]) * p + NUMBERS["mixing"] / A
            p = p * np.exp(NUMBERS["step_size"] * (values[0] + dual @ values[1:]))
            p /= p.sum()
        return p

    def learn(self, episode: Episode) -> None:
        """Take one episode, as Algorithm 1 does."""
        move = NUMBERS["dual_step_size"] * (self.problem.thresholds - self.estimates)
        self.dual = np.clip(self.dual + move, 0.0, NUMBERS["dual_bound"])
        logs = self._logs()
        due = self.growth is None or self.logs is None or (logs - self.logs).max() > np.log(self.growth)
        if due:
            self.evaluation, self.logs = self._evaluate(len(self.steps)), logs
        q, v = self.evaluation
        for h in range(self.problem.horizon):
            x, a = episode.states[h], episode.actions[h]
            self.rows[h].append(np.asarray(self.varphi(x[None]))[0, a])
            self.seen[h].append(episode.signals[:, h])
            if h + 1 < self.problem.horizon:
                ahead = v(h + 1, episode.states[h + 1])
                for j in range(len(ahead)):
                    self.phis[j][h].append(self._phi(x, self.on_nodes[h + 1][:, j])[a])
                    self.targets[j][h].append(ahead[j])
        self.steps.append((q, self.dual.copy()))
        points, chances = self.problem.initial  # type: ignore[misc]
        self.estimates = sum(c * v(0, x)[1:] for x, c in zip(points, chances, strict=True))

    def _phi(self, x: np.ndarray, values: np.ndarray) -> np.ndarray:
        return np.einsum("amd,m,m->ad", self.psi(x[None], self.nodes.points)[0], self.nodes.weights, values)

    def _logs(self) -> np.ndarray:
        J, H = len(self.phis), self.problem.horizon
        grams = [
            np.eye(self.problem.features.kernel_dim) + sum(np.outer(f, f) for f in self.phis[j][h])
            for j in range(J)
            for h in range(H)
        ]
        grams += [
            np.eye(self.problem.features.signal_dim) + sum(np.outer(f, f) for f in self.rows[h]) for h in range(H)
        ]
        return np.array([np.linalg.slogdet(gram)[1] for gram in grams])

    def _evaluate(self, steps: int) -> tuple[Any, Any]:
        H, J = self.problem.horizon, len(self.phis)
        on_nodes: dict[int, np.ndarray] = {}

        def regression(rows: list[np.ndarray], targets: Any, d: int) -> tuple[np.ndarray, np.ndarray]:
            gram = np.eye(d) + sum(np.outer(f, f) for f in rows)
            return np.linalg.solve(gram, sum((f * t for f, t in zip(rows, targets, strict=True)), np.zeros(d))), gram

        d1, d2 = self.problem.features.kernel_dim, self.problem.features.signal_dim
        kernel = {
            (j, h): regression(list(self.phis[j][h]), list(self.targets[j][h]), d1) for j in range(J) for h in range(H)
        }
        signal = {
            (j, h): regression(list(self.rows[h]), [s[j] for s in self.seen[h]], d2) for j in range(J) for h in range(H)
        }

        def q(h: int, x: np.ndarray) -> np.ndarray:
            f = np.asarray(self.varphi(x[None]))[0]
            out = np.empty((J, len(f)))
            for j in range(J):
                u, gram = signal[j, h]
                out[j] = f @ u + self.radius * np.sqrt(np.einsum("ad,da->a", f, np.linalg.solve(gram, f.T)))
                if h + 1 < H:
                    phi = self._phi(x, on_nodes[h + 1][:, j])
                    w, gram = kernel[j, h]
                    out[j] += phi @ w + self.radius * np.sqrt(np.einsum("ad,da->a", phi, np.linalg.solve(gram, phi.T)))
            return np.clip(out, 0.0, H - h)

        def v(h: int, x: np.ndarray) -> np.ndarray:
            return q(h, x) @ self.policy(h, x, steps)

        for h in range(H - 1, 0, -1):
            on_nodes[h] = np.array([v(h, y) for y in self.nodes.points])
        self.on_nodes = on_nodes
        return q, v
