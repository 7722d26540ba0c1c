"""The calls of the attack on models, features, policies, simulators, planning and shipped problems."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

import opdop
from attack.mutations import HOSTILE_TEXT
from opdop import envs, planning
from opdop.model import Features, Geometry, continuous_features, features, quadrature
from opdop.model import densities as density

P = np.array([[[0.7, 0.3], [1.0, 0.0]], [[0.0, 1.0], [1.0, 0.0]]])
R = np.array([[1.0, 0.0], [0.4, 0.0]])
G = np.array([[1.0, 0.0], [1.0, 0.0]])
FORMATS = ("bsr", "coo", "csc", "csr", "dia", "dok", "lil")


@dataclass(frozen=True)
class Call:
    """A public function with arguments that are right."""

    name: str
    function: Callable[..., Any]
    arguments: dict[str, Any]


class Broken:
    """An object with all the methods that a policy, a density or a problem has, none of which works."""

    dim = 1
    display = learner_features = None
    num_states = usual_episodes = 2
    discretisation = ""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def _fail(self, *_: Any, **__: Any) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    probabilities = pdf = draw = tabular = refinements = with_display = simulator = __call__ = _fail

    def __repr__(self) -> str:
        return HOSTILE_TEXT


class Unreadable:
    """An object that raises whatever is done with it."""

    def __repr__(self) -> str:
        raise RuntimeError(HOSTILE_TEXT)

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError(HOSTILE_TEXT)

    def __len__(self) -> int:
        raise RuntimeError(HOSTILE_TEXT)

    def __iter__(self) -> Any:
        raise RuntimeError(HOSTILE_TEXT)


# Beside the values that any argument may get: what only models, policies and features may be given.
ODD_OBJECTS: tuple[Any, ...] = (
    Unreadable(),
    *(Broken(answer) for answer in (None, np.nan, "x", np.zeros(2), np.full(2, np.nan), np.ones((1, 2, 1)), [[1], 2])),
    Broken(RuntimeError(HOSTILE_TEXT)),
    opdop.TabularPolicy,
    opdop.TabularCMDP,
    density.TruncatedNormal,
    np.ma.masked_array([1.0, 2.0], [True, False]),
    np.broadcast_to(0.5, (10**6, 10**6)),
    np.datetime64("2020-01-01"),
    np.zeros(2, dtype="V8"),
    10**5000,
    float,
    lambda *_: np.ones((1, 2, 1)),
    lambda *_: None,
)


def model_calls() -> list[Call]:
    """Return the calls, with arguments that are right."""
    cmdp = opdop.TabularCMDP(P, R, G, thresholds=5.0, initial=0, horizon=6)
    policy = opdop.TabularPolicy(np.full((6, 2, 2), 0.5))
    mixture = opdop.PolicyMixture([policy, policy], [0.5, 0.5])
    model = {"transitions": P, "rewards": R, "utilities": G, "thresholds": 5.0, "initial": 0, "horizon": 6}
    varphi = np.full((2, 2, 2), 0.5)
    mixed = features.mixture([P, P], varphi)
    linear = {
        "features": mixed,
        "kernel_weights": np.array([0.5, 0.5]),
        "reward_weights": np.array([0.5, 0.5]),
        "utility_weights": np.array([0.9, 0.5]),
        "thresholds": 2.0,
        "initial": 0,
        "horizon": 6,
    }
    nodes = quadrature.gauss_legendre(4)
    separable = {
        "left": _left,
        "bases": [density.TruncatedNormal(0.5, 0.3), density.Steps([0.5, 0.5])],
        "varphi": _left,
        "nodes": nodes,
    }
    general = {"psi": _psi, "varphi": _left, "nodes": nodes, "highest": 1.5, "kernel_norm": None}
    smooth = {**linear, "kernel_weights": np.full(4, 0.5), "thresholds": 0.5, "horizon": 3, "initial": 0.5}
    separable_features = continuous_features.densities(**separable)
    general_features = continuous_features.general(**general)
    continuous = opdop.ContinuousCMDP(**{**smooth, "features": separable_features, "cells": 4})
    rejecting = {**smooth, "features": general_features, "kernel_weights": np.array([1.0]), "cells": 8}
    quantities = (opdop.Quantity("reward"), opdop.Quantity("cost", "EUR"))
    geometry = {"cells": ((0, 0), (0, 1)), "marks": {0: "start"}, "walls": ((1, 1),), "arrows": ((0, 1), (0, -1))}
    display = {
        "name": "shop",
        "summary": "Sell.",
        "quantities": quantities,
        "state_names": ("low", "high"),
        "action_names": ("wait", "sell"),
        "geometry": Geometry(**geometry),
        "parameters": {"price": 3.0},
    }
    one_hot = {name: getattr(features.one_hot(2, 2), name) for name in Features.__dataclass_fields__}
    stored = {name: getattr(mixed, name) for name in Features.__dataclass_fields__}
    calls = [
        Call("TabularCMDP", opdop.TabularCMDP, {**model, "display": opdop.Display(**display)}),
        *(
            Call("TabularCMDP", _broken_sparse, {**model, "transitions": sparse.coo_array(P.reshape(4, 2)).asformat(f)})
            for f in FORMATS
        ),
        Call("TabularCMDP", opdop.TabularCMDP, {**model, "transitions": [sparse.csr_array(P.reshape(4, 2))] * 6}),
        Call("with_thresholds", cmdp.with_thresholds, {"thresholds": 5.0}),
        Call("with_display", cmdp.with_display, {"display": opdop.Display(**display)}),
        Call("with_features", cmdp.with_features, {"features": features.one_hot(2, 2)}),
        Call("transition_matrix", cmdp.transition_matrix, {"stage": 0}),
        Call("simulator", cmdp.simulator, {"seed": 0, "noisy": False}),
        Call("LinearCMDP", opdop.LinearCMDP, linear),
        Call("one_hot", features.one_hot, {"num_states": 2, "num_actions": 2}),
        Call("mixture", features.mixture, {"bases": [P, sparse.csr_array(P.reshape(4, 2))], "varphi": varphi}),
        Call("embedding", features.embedding, {"left": varphi, "right": np.eye(2), "varphi": varphi}),
        Call("array", features.array, {"psi": np.full((2, 2, 2, 1), 0.5), "varphi": varphi}),
        Call("Features", _learn_with, one_hot),
        Call("Features", _learn_with, stored),
        Call("integrate", mixed.integrate, {"v": np.ones(2)}),
        Call("integrate", features.one_hot(2, 2).integrate, {"v": np.ones(2)}),
        Call("kernel", mixed.kernel, {"weights": np.array([0.5, 0.5])}),
        Call("signals", mixed.signals, {"weights": np.array([0.5, 0.5])}),
        *(
            Call(rule, getattr(quadrature, rule), {"count": 5, "dim": 1})
            for rule in ("gauss_legendre", "midpoint", "trapezoid", "simpson")
        ),
        Call("monte_carlo", quadrature.monte_carlo, {"count": 5, "dim": 1, "seed": 0}),
        Call("Nodes", quadrature.Nodes, {"name": "own", "points": np.full((2, 1), 0.5), "weights": np.full(2, 0.5)}),
        Call("Nodes.integrate", nodes.integrate, {"values": np.ones(4)}),
        Call("TruncatedNormal", density.TruncatedNormal, {"mean": 0.5, "deviation": 0.1}),
        Call("Steps", density.Steps, {"masses": np.array([0.5, 0.5])}),
        Call("Product", _product, {"one": density.TruncatedNormal(0.5, 0.1), "two": density.Steps([1.0])}),
        Call("pdf", density.TruncatedNormal(0.5, 0.1).pdf, {"points": np.full((3, 1), 0.5)}),
        Call("draw", density.Steps([0.5, 0.5]).draw, {"uniforms": np.array([0.5])}),
        Call("densities", continuous_features.densities, separable),
        Call("general", continuous_features.general, general),
        Call("general", _draw_from, {**general, "state": np.array([0.5])}),
        Call("ContinuousCMDP", _play, {**smooth, "features": separable_features, "cells": 4}),
        Call("ContinuousCMDP", _play, rejecting),
        Call("tabular", continuous.tabular, {"cells": 4}),
        Call("signals_at", continuous.signals_at, {"stage": 0, "state": np.array([0.5]), "action": 0}),
        Call("ContinuousSimulator", opdop.ContinuousSimulator, {"problem": continuous, "seed": 0, "noisy": False}),
        Call("play", continuous.simulator().play, {"policy": _Uniform()}),
        Call("TabularPolicy", opdop.TabularPolicy, {"table": np.full((6, 2, 2), 0.5)}),
        Call("uniform", opdop.TabularPolicy.uniform, {"horizon": 6, "states": 2, "actions": 2}),
        Call("deterministic", opdop.TabularPolicy.deterministic, {"actions": np.zeros((6, 2)), "num_actions": 2}),
        Call("probabilities", policy.probabilities, {"stage": 0, "state": 1}),
        Call("PolicyMixture", opdop.PolicyMixture, {"parts": [policy, policy], "weights": [0.5, 0.5]}),
        Call("ModelSimulator", opdop.ModelSimulator, {"cmdp": cmdp, "seed": 0, "noisy": False}),
        Call("play", opdop.ModelSimulator(cmdp, seed=0).play, {"policy": policy}),
        Call("play", opdop.ModelSimulator(cmdp, seed=0, noisy=True).play, {"policy": mixture}),
        Call("restore", opdop.ModelSimulator(cmdp).restore, {"state": opdop.ModelSimulator(cmdp).state()}),
        Call("Quantity", _show, {"name": "cost", "unit": "EUR", "scale": 1.0, "offset": 0.0}),
        Call("Geometry", Geometry, geometry),
        Call("Display", opdop.Display, display),
        Call("Episode", opdop.Episode, {"states": [0, 1], "actions": [0], "signals": [[0.5], [0.5]]}),
        Call("solve", opdop.solve, {"problem": cmdp}),
        Call("solve", opdop.solve, {"problem": "factored"}),
        Call("solve_lp", planning.solve_lp, {"problem": cmdp}),
        Call("solve_by_dual_walk", planning.solve_by_dual_walk, {"problem": cmdp}),
        Call("solve_by_column_generation", planning.solve_by_column_generation, {"problem": cmdp}),
        Call("refine", planning.refine, {"problem": continuous}),
        Call("evaluate", opdop.evaluate, {"problem": cmdp, "policy": policy}),
        Call("value_functions", planning.value_functions, {"problem": cmdp, "policy": policy}),
        Call("occupancy", planning.occupancy, {"problem": cmdp, "policy": mixture}),
        Call("to_markov", planning.to_markov, {"problem": cmdp, "mixture": mixture}),
        Call("parse", envs.parse, {"name": "factored", "settings": ["stages=9"]}),
    ]
    for name, entry in opdop.environments().items():
        defaults = {key: parameter.default for key, parameter in entry.parameters.items()}
        calls.append(Call("make", opdop.make, {"name": name, **defaults}))
    return calls


def break_sparse(matrix: Any, random: np.random.Generator) -> Any:
    """Return a sparse matrix of which one of the arrays inside was changed, whatever its format."""
    broken = matrix.copy()
    names = [
        name for name in ("data", "indices", "indptr", "offsets", "rows", "coords", "_dict") if name in vars(broken)
    ]
    name = names[int(random.integers(len(names)))]
    value = vars(broken)[name]
    if name == "coords" and random.integers(2):
        value = value[int(random.integers(len(value)))]
        value[int(random.integers(len(value)))] = _ODD_INDICES[int(random.integers(len(_ODD_INDICES)))]
    elif isinstance(value, dict):
        odd = _ODD_INDICES[int(random.integers(len(_ODD_INDICES)))]
        value[(odd, 0) if random.integers(2) else (0, odd)] = 0.5
    elif isinstance(value, np.ndarray) and value.dtype == object:  # lists of lil
        row = value[int(random.integers(len(value)))]
        row.append(_ODD_INDICES[int(random.integers(len(_ODD_INDICES)))])
    elif isinstance(value, np.ndarray) and random.integers(2):
        value.ravel()[int(random.integers(value.size))] = _ODD_INDICES[int(random.integers(len(_ODD_INDICES)))]
    else:
        odd = (value[:-1], value[:0], None, np.array([0.5]), [0, 1], np.zeros((1, 1)), np.array([10**6] * 9))
        setattr(broken, name, odd[int(random.integers(len(odd)))])
    return broken


_ODD_INDICES = (-1, -(2**30), 2, 4, 5, 10**6, 2**31 - 1)


def _broken_sparse(**arguments: Any) -> None:
    opdop.solve(opdop.TabularCMDP(**arguments))


def _learn_with(**arguments: Any) -> None:
    """Make features, and let a learner use them."""
    made = Features(**arguments)
    made.integrate(np.ones(2))
    cmdp = opdop.TabularCMDP(P, R, G, thresholds=5.0, initial=0, horizon=6).with_features(made)
    opdop.train(cmdp, "opdop-lstd", episodes=2)


def _product(one: Any, two: Any) -> None:
    density.Product(one, two).draw(np.full(2, 0.5))


def _draw_from(state: Any, **arguments: Any) -> None:
    made = continuous_features.general(**arguments)
    made.draw(np.ones(made.kernel_dim), np.array([0.5]), 0, np.random.default_rng(0))
    opdop.ContinuousCMDP(made, np.ones(made.kernel_dim), np.ones(2), np.ones(2), 0.5, state, 3, cells=4)


def _play(**arguments: Any) -> None:
    opdop.ContinuousCMDP(**arguments).simulator().play(_Uniform())


def _show(**arguments: Any) -> None:
    quantity = opdop.Quantity(**arguments)
    for text in (quantity.name, quantity.unit, quantity.constraint(1.0), quantity.text(1.0)):
        if not text.isprintable():
            raise AssertionError(f"{text!r} is not printable")


class _Uniform:
    def probabilities(self, stage: int, state: Any) -> Any:
        return np.full(2, 0.5)


def _left(states: Any) -> Any:
    """Two actions with the weights (x, 1 - x) and (1 - x, x)."""
    x = np.asarray(states)[:, :1]
    one = np.concatenate([x, 1.0 - x], axis=1)
    return np.stack([one, one[:, ::-1]], axis=1)


def _psi(states: Any, points: Any) -> Any:
    """The density 0.5 + y, whatever the state and the action."""
    return np.broadcast_to((0.5 + points[:, 0])[None, None, :, None], (len(states), 2, len(points), 1))
