"""Wrong arguments for public functions: each call works, or answers with one of opdop's own errors."""

from __future__ import annotations

import contextlib
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

import opdop
from attack.api_models import ODD_OBJECTS, Call, G, P, R, break_sparse, model_calls
from attack.mutations import NASTY
from opdop.runs import RunConfig

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
    2e9,
    2 * 10**9,  # as a size it needs more memory than most machines have; 10**8 would be valid and take long
    *ODD_OBJECTS,
)


def prepare(folder: Path) -> list[Call]:
    """Return the calls that are attacked; the folder becomes the current one, because some take any word for a path."""
    os.chdir(folder)
    calls = [*_calls(folder), *model_calls()]
    for call in calls:
        if call.name != "sweep":
            call.function(**call.arguments)  # the right arguments work
    return calls


def _calls(folder: Path) -> list[Call]:
    """Return the calls that learn, train, save and describe many runs."""
    cmdp = opdop.TabularCMDP(P, R, G, thresholds=5.0, initial=0, horizon=6)
    task = opdop.Task.of(cmdp, episodes=20)
    constants = {"step_size": 0.1, "dual_step_size": 0.1, "mixing": 0.01, "dual_bound": 4.0}
    policy = opdop.TabularPolicy(np.full((6, 2, 2), 0.5))
    episode = opdop.ModelSimulator(cmdp, seed=0).play(policy)
    small = {"episodes": 3, "seed": 0, "preset": "practical", "parameters": {}, "planned_episodes": None}
    settings = {"failure_probability": 0.05, "slater_gap": None, "dual_bound": None, "noisy": False, "measure_every": 1}
    sizes = {"horizon": 6, "num_states": 2, "num_actions": 2, "thresholds": [5.0], "initial": [1.0, 0.0], "episodes": 9}
    played = {"states": episode.states, "actions": episode.actions, "signals": episode.signals}
    steps = {"compiled": False, "piece": 2, "checkpoint": None, "checkpoint_seconds": 1.0, "start": None}
    saved = opdop.train(cmdp, episodes=3)
    saved.save(folder / "saved")
    return [
        Call("Task", opdop.Task, {**sizes, "failure_probability": 0.05, "slater_gap": 0.5, "noisy": False}),
        Call(
            "Task.of", opdop.Task.of, {"problem": cmdp, "episodes": 9, "failure_probability": 0.05, "slater_gap": 0.5}
        ),
        Call("Counts", opdop.Counts, {"task": task, "radius": 0.1, "ridge": 1.0}),
        Call("LSTD", opdop.LSTD, {"task": task, "features": None, "radius": 0.1, "ridge": 1.0}),
        Call("OPDOP", _learn, {"task": task, "evaluator": opdop.Counts(task), **constants}),
        Call("OPDOP.preset", opdop.OPDOP.preset, {"task": task, "evaluator": opdop.Counts, "preset": "practical"}),
        Call("Doubling", _double, {"task": task, "build": _build, "first": 2}),
        Call("learn", _learn_from, {"task": task, **played}),
        Call("train", opdop.train, {"problem": cmdp, "algorithm": "opdop", **small, **settings, "records": 10}),
        Call("train", opdop.train, {"problem": "factored", "algorithm": "opdop-lstd", **small, **steps}),
        Call("train", opdop.train, {"problem": cmdp.simulator(), "algorithm": "oppo", **small, "progress": None}),
        Call("RunConfig", RunConfig, {"problem": "factored", "algorithm": "opdop", **small, **settings, "records": 10}),
        Call("make", opdop.make, {"name": "factored", "moves": 2.0}),
        Call("make", opdop.make, {"name": "random-tabular", "states": 3, "actions": 2, "stages": 2, "seed": 0}),
        Call("Spec.of", opdop.Spec.of, {"data": {"seeds": 1, "episodes": 3, "problem": ["factored"]}}),
        Call("Run.load", opdop.Run.load, {"folder": folder / "saved"}),
        Call("Run.save", saved.save, {"folder": folder / "saved"}),
        Call("sweep", opdop.sweep, {"spec": {"seeds": 0}, "out": folder / "sweep", "workers": 1, "scheduler": None}),
    ]


def _build(task: opdop.Task) -> opdop.OPDOP:
    return opdop.OPDOP.preset(task, opdop.Counts, "practical")


def _double(task: Any, build: Any, first: Any) -> None:
    """Build a doubling learner, and train it through two phases."""
    cmdp = opdop.TabularCMDP(P, R, G, thresholds=5.0, initial=0, horizon=6)
    opdop.train(cmdp, opdop.Doubling(task, build, first=first), episodes=5)


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
    if sparse.issparse(value) and random.integers(4):
        with contextlib.suppress(ValueError):  # it is broken already, and cannot be copied
            return break_sparse(value, random)
    if isinstance(value, np.ndarray) and value.size < 1000 and value.dtype.kind in "biuf" and random.integers(2):
        changed = np.array(value, dtype=object if random.integers(8) == 0 else value.dtype)
        if changed.size:
            odd = (-1, 2, 10**6, np.nan, np.inf, -1e-3)[int(random.integers(6))]
            try:
                changed.ravel()[int(random.integers(changed.size))] = odd
            except (ValueError, OverflowError):
                changed = changed[..., :0]
        return changed if random.integers(2) else changed[..., None]
    return ODD[int(random.integers(len(ODD)))]
