"""Random models for the tests, and plain NumPy truths that share no code with the package.

Hypothesis draws sizes, kinds and one seed; NumPy makes the numbers. So examples are fast, and shrink to small kinds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse

from opdop import PolicyMixture, TabularCMDP, TabularPolicy

Array = NDArray[np.float64]

DENSE = ("dense per stage", "dense stationary")
SPARSE = ("sparse per stage", "sparse stationary")
FORMS = DENSE + SPARSE
KERNELS = ("random", "few successors", "deterministic", "unreachable", "absorbing")
SIGNALS = ("continuous", "halves", "bits", "constant", "opposed", "aligned", "equal utilities")
FIRST_STATES = ("fixed", "random", "some states")
FEASIBLE = ("between", "attainable", "nearly all", "loose", "tiny")  # what share of the achievable is asked for
INFEASIBLE = ("a hair too much", "too much")


# Truths


def evaluate_plainly(P: Array, signals: Array, policy: Array) -> Array:
    """Return v [J, H+1, S] of signals [J, H, S, A] under P [H, S, A, S] and a policy [H, S, A]."""
    J, H, S, _ = signals.shape
    v = np.zeros((J, H + 1, S))
    for h in reversed(range(H)):
        q = signals[:, h] + np.einsum("xay,jy->jxa", P[h], v[:, h + 1])
        v[:, h] = np.einsum("xa,jxa->jx", policy[h], q)
    return v


def totals_plainly(sketch: Sketch, policy: Array) -> Array:
    """Return the expected episode totals [1+I] of a policy [H, S, A]."""
    return evaluate_plainly(sketch.P, sketch.signals, policy)[:, 0] @ sketch.initial


def best_plainly(P: Array, signal: Array) -> tuple[Array, Array]:
    """Return the largest value [S] of one signal [H, S, A] and the first deterministic policy [H, S, A] that has it."""
    H, _, A = signal.shape
    v, policy = np.zeros(P.shape[-1]), np.zeros_like(signal)
    for h in reversed(range(H)):
        q = signal[h] + P[h] @ v
        v, policy[h] = q.max(axis=1), np.eye(A)[q.argmax(axis=1)]
    return v, policy


def occupy_plainly(P: Array, policy: Array, initial: Array) -> Array:
    """Return the probability [H, S, A] of each state and action at each stage."""
    q = np.zeros_like(policy)
    d = initial
    for h in range(len(policy)):
        q[h] = d[:, None] * policy[h]
        d = np.einsum("xa,xay->y", q[h], P[h])
    return q


# Models


@dataclass(frozen=True, eq=False)
class Sketch:
    """Everything a model is made of, in full, and the form in which to hand it over."""

    P: Array  # [H, S, A, S]
    signals: Array  # [1+I, H, S, A]
    thresholds: Array  # [I]
    first_state: Any  # as handed over: a state or a distribution
    initial: Array  # [S]
    form: str

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """H, S, A and I."""
        return (*self.P.shape[:3], len(self.thresholds))

    @property
    def stationary(self) -> bool:
        """Whether the transitions are handed over for one stage only."""
        return self.form.endswith("stationary")

    def transitions(self) -> Any:
        """Return the transitions in their form."""
        H, S, A, _ = self.sizes
        if self.form in DENSE:
            return self.P[0] if self.stationary else self.P
        matrices = [sparse.csr_array(self.P[h].reshape(S * A, S)) for h in range(H)]
        return matrices[0] if self.stationary else matrices

    def arguments(self) -> dict[str, Any]:
        """Return fresh arguments for TabularCMDP, every array a copy."""
        transitions = self.transitions()
        return {
            "transitions": transitions.copy() if self.form != "sparse per stage" else transitions,
            "rewards": self.signals[0].copy(),
            "utilities": self.signals[1:].copy(),
            "thresholds": self.thresholds.copy(),
            "initial": self.first_state if isinstance(self.first_state, int) else self.first_state.copy(),
            "horizon": self.sizes[0] if self.stationary else None,
        }

    def build(self) -> TabularCMDP:
        """Return the model."""
        return TabularCMDP(**self.arguments())


def sketch_of(
    seed: int,
    *,
    states: int = 4,
    actions: int = 3,
    horizon: int = 4,
    constraints: int = 1,
    form: str = "dense per stage",
    kernel: str = "random",
    signal: str = "continuous",
    first_state: str = "fixed",
    tightness: Sequence[str] = ("between",),
) -> Sketch:
    """Make a model of the given kinds; thresholds are asked for relative to what some policy achieves.

    That policy maximises a random positive combination of the utilities, so nobody can have more of all of them:
    "attainable" leaves a Slater gap of exactly 0, and anything above it is infeasible.
    """
    rng = np.random.default_rng(seed)
    H, S, A, I = horizon, states, actions, constraints
    L = 1 if form.endswith("stationary") else H
    P = np.broadcast_to(_kernel(rng, kernel, L, S, A), (H, S, A, S)).copy()
    signals = np.broadcast_to(_signals(rng, signal, L if rng.random() < 0.5 else H, S, A, I), (1 + I, H, S, A)).copy()
    if set(tightness) & set(INFEASIBLE):
        signals[1:] /= 2.0  # so that more than the achievable is not more than H
    first, initial = _first_state(rng, first_state, S)

    combination = rng.integers(1, 4, I) / 4.0
    greedy_actions = best_plainly(P, signals[0])[1]
    for _ in range(2):
        front_actions = best_plainly(P, np.tensordot(combination, signals[1:], 1))[1]
        front = evaluate_plainly(P, signals, front_actions)[1:, 0] @ initial
        greedy = evaluate_plainly(P, signals, greedy_actions)[1:, 0] @ initial
        if front.min() > 0.01:
            break
        signals[1:] = np.maximum(signals[1:], 0.25)  # a threshold must be positive
    kinds = [tightness[i % len(tightness)] for i in range(I)]
    share = rng.choice([0.25, 0.5, 0.9])
    asked = {
        "tiny": np.full(I, 1e-6),
        "loose": 0.5 * np.minimum(front, greedy),
        "between": greedy + share * (front - greedy),
        "nearly all": front - 1e-6 * front,
        "attainable": front,
        "a hair too much": front + 1e-6 * H,
        "too much": front + 0.05 * H,
    }
    thresholds = np.array([asked[kind][i] for i, kind in enumerate(kinds)])
    if {"nearly all", "attainable"} & set(kinds):
        thresholds = np.minimum(thresholds, front)  # one policy achieves this for all constraints at once
    thresholds = np.where(thresholds > 1e-9, thresholds, np.minimum(1e-6, front)).clip(max=H)
    return Sketch(P, signals, thresholds, first, initial, form)


def _kernel(rng: np.random.Generator, kind: str, L: int, S: int, A: int) -> Array:
    if kind == "random":
        return rng.dirichlet(np.ones(S), (L, S, A))
    if kind == "few successors":
        weights = rng.random((L, S, A, S)) * (rng.random((L, S, A, S)) < 0.4)
        weights[..., 0] += weights.sum(axis=-1) == 0.0
        return weights / weights.sum(axis=-1, keepdims=True)
    targets = rng.integers(0, S, (L, S, A))
    if kind == "unreachable":
        targets = np.minimum(targets, S // 2)
    if kind == "absorbing":
        targets[:, -1] = S - 1
    return np.eye(S)[targets]


def _signals(rng: np.random.Generator, kind: str, L: int, S: int, A: int, I: int) -> Array:
    shape = (1 + I, L, S, A)
    if kind == "constant":
        return np.broadcast_to(rng.integers(1, 3, (1 + I, 1, 1, 1)) / 2.0, shape).copy()
    if kind in {"halves", "bits"}:
        steps = 2 if kind == "halves" else 1
        return rng.integers(0, steps + 1, shape) / steps
    signals = rng.random(shape) if rng.random() < 0.5 else rng.integers(0, 5, shape) / 4.0
    if kind == "opposed":
        signals[1:] = 1.0 - signals[:1]
    if kind == "aligned":
        signals[1] = signals[0]
    if kind == "equal utilities":
        signals[1:] = signals[1:2]
    return signals


def _first_state(rng: np.random.Generator, kind: str, S: int) -> tuple[Any, Array]:
    if kind == "fixed":
        state = int(rng.integers(S))
        return state, np.eye(S)[state]
    weights = rng.random(S) * ((rng.random(S) < 0.5) if kind == "some states" else 1.0)
    weights[0] += weights.sum() == 0.0
    distribution = weights / weights.sum()
    return distribution, distribution


SEEDS = st.integers(0, 2**32 - 1)


def sketches(
    *,
    states: tuple[int, int] = (1, 6),
    actions: tuple[int, int] = (1, 4),
    horizon: tuple[int, int] = (1, 5),
    constraints: tuple[int, int] = (1, 3),
    forms: Sequence[str] = FORMS,
    kernels: Sequence[str] = KERNELS,
    signals: Sequence[str] = SIGNALS,
    tightness: Sequence[str] = FEASIBLE,
) -> st.SearchStrategy[Sketch]:
    """Draw models of all kinds, or of those named; each constraint draws its own tightness."""
    return st.builds(
        sketch_of,
        SEEDS,
        states=st.integers(*states),
        actions=st.integers(*actions),
        horizon=st.integers(*horizon),
        constraints=st.integers(*constraints),
        form=st.sampled_from(forms),
        kernel=st.sampled_from(kernels),
        signal=st.sampled_from(signals),
        first_state=st.sampled_from(FIRST_STATES),
        tightness=st.lists(st.sampled_from(tightness), min_size=1, max_size=3),
    )


# Policies


def policy_table(seed: int, sketch: Sketch, kind: str = "random") -> Array:
    """Return a policy [H, S, A]: full support, some actions never taken, or one action for certain."""
    rng = np.random.default_rng(seed)
    H, S, A, _ = sketch.sizes
    weights = rng.random((H, S, A))
    if kind == "some actions":
        weights *= rng.random((H, S, A)) < 0.5
        weights[..., 0] += weights.sum(axis=-1) == 0.0
    if kind == "one action":
        weights = np.eye(A)[rng.integers(0, A, (H, S))]
    return weights / weights.sum(axis=-1, keepdims=True)


POLICY_KINDS = st.sampled_from(["random", "some actions", "one action"])


@st.composite
def sketches_with_policy(draw: st.DrawFn, **kinds: Any) -> tuple[Sketch, Array]:
    """Draw a model and a policy for it, as a table."""
    sketch = draw(sketches(**kinds))
    return sketch, policy_table(draw(SEEDS), sketch, draw(POLICY_KINDS))


@st.composite
def sketches_with_mixture(draw: st.DrawFn, **kinds: Any) -> tuple[Sketch, PolicyMixture]:
    """Draw a model and a mixture of 1 to 4 policies for it, some of weight 0."""
    sketch = draw(sketches(**kinds))
    parts = [
        TabularPolicy(policy_table(draw(SEEDS), sketch, draw(POLICY_KINDS))) for _ in range(draw(st.integers(1, 4)))
    ]
    weights = np.array(draw(st.lists(st.integers(0, 3), min_size=len(parts), max_size=len(parts))), dtype=float)
    weights[0] += weights.sum() == 0.0
    return sketch, PolicyMixture(parts, weights / weights.sum())
