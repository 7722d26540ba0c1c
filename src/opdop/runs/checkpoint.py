"""What a checkpoint says of its run: its file, its arguments, and what tells a problem from all others."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opdop.algorithms import Task
from opdop.model import Features, InvalidParameterError, ModelSimulator, Problem, Simulator
from opdop.runs.config import RunConfig
from opdop.runs.files import Arrays, damaged, read_arrays

CHECKPOINT = "checkpoint.npz"
KIND = "an opdop checkpoint of format 3"


def read_config(folder: str | Path) -> RunConfig:
    """Return the configuration of the run in a checkpoint folder; `episodes` is where it is to end.

    Raises DamagedFileError if the file is not a whole checkpoint.
    """
    path = Path(folder) / CHECKPOINT
    meta, _ = read_arrays(path, kind=KIND)
    try:
        return RunConfig.of(meta["config"])
    except (KeyError, InvalidParameterError) as error:
        raise damaged(path, KIND, error) from error


def fingerprint(problem: Problem) -> str:
    """Return a hash of everything a problem consists of."""
    cmdp = problem.tabular()
    arrays = (*cmdp.transitions, cmdp.signals, cmdp.thresholds, cmdp.initial)
    return hash_of(f"{cmdp.horizon} {cmdp.num_states} {cmdp.num_actions}", arrays, problem.learner_features)


def hash_of(sizes: str, arrays: Iterable[NDArray[Any]], features: Features | None) -> str:
    """Return a hash of arrays, and of features if there are any."""
    digest = hashlib.sha256(sizes.encode())
    if features is not None:
        digest.update(f"{features!r} {features.kernel_norm} {features.signal_norm}".encode())
        arrays = (*arrays, features.varphi, *(features.form or ()))
    for array in arrays:
        digest.update(str((array.dtype, array.shape)).encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def facts_of(simulator: Simulator, task: Task) -> dict[str, Any]:
    """Return what tells a simulator's task from others."""
    facts = {
        name: getattr(task, name) for name in ("horizon", "num_states", "num_actions", "failure_probability", "noisy")
    }
    facts |= {"thresholds": task.thresholds.tolist(), "initial": hash_of("", [task.initial], task.features)}
    return {"simulator": type(simulator).__name__, **facts}


def under(arrays: Mapping[str, NDArray[Any]], prefix: str) -> Arrays:
    """Return the arrays whose names begin with a prefix, without it."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def can_snapshot(simulator: Simulator) -> bool:
    """Whether a simulator can be saved and go on from there."""
    return isinstance(simulator, ModelSimulator) or (hasattr(simulator, "state") and hasattr(simulator, "restore"))


def simulator_state(simulator: Any) -> Any:
    """Return all that a simulator's next episodes depend on, as JSON data."""
    if isinstance(simulator, ModelSimulator):
        return simulator.generator.bit_generator.state
    if not can_snapshot(simulator):
        raise InvalidParameterError(
            f"{type(simulator).__name__} cannot be checkpointed: give it state() (JSON data) and restore(state)."
        )
    return simulator.state()


def restore_simulator(simulator: Any, state: Any) -> None:
    """Take a simulator back to a state."""
    if isinstance(simulator, ModelSimulator):
        simulator.generator.bit_generator.state = state
    else:
        simulator.restore(state)
