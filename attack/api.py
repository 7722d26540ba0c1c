"""Wrong arguments for public functions: each call works, or answers with one of opdop's own errors."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

import opdop
from attack.mutations import NASTY

P = np.array([[[0.7, 0.3], [1.0, 0.0]], [[0.0, 1.0], [1.0, 0.0]]])
R = np.array([[1.0, 0.0], [0.4, 0.0]])
G = np.array([[1.0, 0.0], [1.0, 0.0]])

# Beside the values of JSON: what only Python has.
ODD: tuple[Any, ...] = (
    *NASTY,
    b"bytes",
    object(),
    int,
    len,
    Ellipsis,
    range(3),
    {1, 2},
    1j,
    np.float64(0.5),
    np.int32(3),
    np.bool_(True),
    np.array(2.0),
    np.zeros(0),
    np.zeros((0, 2)),
    np.full((2, 2), np.nan),
    np.ones((2, 2, 2)),
    np.ones((3, 2, 2, 2)) / 2,
    np.array([["a", "b"]]),
    np.array([None, 1], dtype=object),
    np.ones((2, 2), dtype=np.complex128),
    sparse.csr_array(np.eye(4)),
    sparse.lil_array(np.eye(2)),
    Path("/nonexistent/folder"),
    np.random.default_rng(0),
    1e8,
    10**8,
)


@dataclass(frozen=True)
class Call:
    """A public function with arguments that are right."""

    name: str
    function: Callable[..., Any]
    arguments: dict[str, Any]


def prepare(folder: Path) -> list[Call]:
    """Return the calls that are attacked."""
    cmdp = opdop.TabularCMDP(P, R, G, thresholds=5.0, initial=0, horizon=6)
    task = opdop.Task.of(cmdp, episodes=20)
    constants = {"step_size": 0.1, "dual_step_size": 0.1, "mixing": 0.01, "dual_bound": 4.0}
    policy = opdop.TabularPolicy(np.full((6, 2, 2), 0.5))
    episode = opdop.ModelSimulator(cmdp, seed=0).play(policy)
    small = {"episodes": 3, "seed": 0, "preset": "practical", "parameters": {}, "planned_episodes": None}
    settings = {"failure_probability": 0.05, "slater_gap": None, "dual_bound": None, "noisy": False, "measure_every": 1}
    model = {"transitions": P, "rewards": R, "utilities": G, "thresholds": 5.0, "initial": 0, "horizon": 6}
    sizes = {"horizon": 6, "num_states": 2, "num_actions": 2, "thresholds": [5.0], "initial": [1.0, 0.0], "episodes": 9}
    mixture = opdop.model.features.mixture if hasattr(opdop.model, "features") else None
    calls = [
        Call("TabularCMDP", opdop.TabularCMDP, model),
        Call("TabularCMDP", opdop.TabularCMDP, {**model, "transitions": sparse.csr_array(P.reshape(4, 2))}),
        Call("solve", opdop.solve, {"cmdp": cmdp}),
        Call("evaluate", opdop.evaluate, {"cmdp": cmdp, "policy": policy}),
        Call("Task", opdop.Task, {**sizes, "failure_probability": 0.05, "slater_gap": 0.5, "noisy": False}),
        Call("Task.of", opdop.Task.of, {"cmdp": cmdp, "episodes": 9, "failure_probability": 0.05, "slater_gap": 0.5}),
        Call("Counts", opdop.Counts, {"task": task, "radius": 0.1, "ridge": 1.0}),
        Call("LSTD", opdop.LSTD, {"task": task, "radius": 0.1, "ridge": 1.0}),
        Call("OPDOP", _learn, {"task": task, "evaluator": opdop.Counts(task), **constants}),
        Call("OPDOP.preset", opdop.OPDOP.preset, {"task": task, "evaluator": opdop.Counts, "name": "practical"}),
        Call(
            "learn",
            _learn_from,
            {"task": task, "states": episode.states, "actions": episode.actions, "signals": episode.signals},
        ),
        Call("train", opdop.train, {"problem": cmdp, "algorithm": "opdop", **small, **settings, "records": 10}),
        Call(
            "train",
            opdop.train,
            {"problem": "factored", "algorithm": "opdop-lstd", **small, "compiled": True, "piece": 2},
        ),
        Call("make", opdop.make, {"name": "factored", "moves": 2.0}),
        Call("make", opdop.make, {"name": "random-tabular", "states": 3, "actions": 2, "stages": 2, "seed": 0}),
        Call("TabularPolicy", opdop.TabularPolicy, {"table": np.full((6, 2, 2), 0.5)}),
        Call("PolicyMixture", opdop.PolicyMixture, {"parts": [policy, policy], "weights": [0.5, 0.5]}),
        Call("ModelSimulator", opdop.ModelSimulator, {"cmdp": cmdp, "seed": 0, "noisy": False}),
        Call("play", opdop.ModelSimulator(cmdp, seed=0).play, {"policy": policy}),
        Call("probabilities", policy.probabilities, {"stage": 0, "state": 1}),
        Call("Spec.of", opdop.Spec.of, {"data": {"seeds": 1, "episodes": 3, "problem": ["factored"]}}),
        Call("Run.load", opdop.Run.load, {"folder": folder}),
        Call("sweep", opdop.sweep, {"spec": {"seeds": 0}, "out": folder / "sweep"}),
        Call("Quantity", opdop.Quantity, {"name": "cost", "unit": "EUR", "scale": 1.0, "offset": 0.0}),
    ]
    del mixture
    for call in calls:
        if call.name not in ("Run.load", "sweep"):
            call.function(**call.arguments)  # the right arguments work
    return calls


def _learn(**arguments: Any) -> None:
    """Build a learner and let it learn from a few episodes of the task's size."""
    learner = opdop.OPDOP(**arguments)
    cmdp = opdop.TabularCMDP(P, R, G, thresholds=5.0, initial=0, horizon=6)
    simulator = opdop.ModelSimulator(cmdp, seed=0)
    for _ in range(2):
        learner.learn(simulator.play(learner.propose()))
    opdop.train(cmdp, opdop.OPDOP(**arguments), episodes=3)


def _learn_from(task: opdop.Task, states: Any, actions: Any, signals: Any) -> None:
    """Let a learner learn from an episode."""
    learner = opdop.OPDOP.preset(task, opdop.Counts, "practical")
    learner.propose()
    learner.learn(opdop.Episode(states, actions, signals))


def probe(calls: list[Call], case: int) -> str:
    """Call a function with one or two wrong arguments."""
    random = np.random.default_rng([2, case])
    call = calls[case % len(calls)]
    arguments = dict(call.arguments)
    for _ in range(1 + int(random.integers(4) == 0)):
        name = list(arguments)[int(random.integers(len(arguments)))]
        arguments[name] = _wrong(arguments[name], random)
    if call.name == "train" and _is_long(arguments):
        return "right"
    call.function(**arguments)
    return "right"


def _is_long(arguments: dict[str, Any]) -> bool:
    """Return whether a run was asked for that is valid but takes long."""
    episodes = arguments.get("episodes")
    return isinstance(episodes, (int, float)) and not isinstance(episodes, bool) and 1e4 < episodes < math.inf


def _wrong(value: Any, random: np.random.Generator) -> Any:
    """Return something else than a value: often of another kind, sometimes nearly right."""
    if isinstance(value, np.ndarray) and random.integers(2):
        changed = np.array(value, dtype=object if random.integers(8) == 0 else value.dtype)
        if changed.size:
            odd = (-1, 2, 10**6, np.nan, np.inf, -1e-3)[int(random.integers(6))]
            try:
                changed.ravel()[int(random.integers(changed.size))] = odd
            except (ValueError, OverflowError):
                changed = changed[..., :0]
        return changed if random.integers(2) else changed[..., None]
    return ODD[int(random.integers(len(ODD)))]
