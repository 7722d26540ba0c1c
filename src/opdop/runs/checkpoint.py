"""The identity of a run in its checkpoint: the file, the configuration, and a fingerprint of the problem."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from opdop.algorithms import Task
from opdop.model import Features, Problem, Simulator
from opdop.runs.config import RunConfig
from opdop.runs.files import as_folder, damaged, read_arrays

CHECKPOINT = "checkpoint.npz"
KIND = "an opdop checkpoint of format 3"


@runtime_checkable
class ResumableSimulator(Simulator, Protocol):
    """A simulator that can be saved and continued."""

    def state(self) -> Any:
        """Return what the next episodes depend on, as JSON data."""
        ...

    def restore(self, state: Any) -> None:
        """Return to a saved state."""
        ...


def read_config(folder: str | Path) -> RunConfig:
    """Return the configuration of the run in a checkpoint folder; `episodes` is the episode at which it ends.

    Raises DamagedFileError if the file is not a whole checkpoint.
    """
    path = as_folder("folder", folder) / CHECKPOINT
    meta, _ = read_arrays(path, kind=KIND)
    try:
        return RunConfig.of(meta["config"])
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise damaged(path, KIND, error) from error


def fingerprint(problem: Problem) -> str:
    """Return a hash of everything a problem consists of."""
    cmdp = problem.tabular()
    arrays = (*cmdp.transitions, cmdp.signals, cmdp.thresholds, cmdp.initial)
    told = "" if cmdp.absorbing is None else f" absorbing {cmdp.absorbing}"
    return hash_of(f"{cmdp.horizon} {cmdp.num_states} {cmdp.num_actions}{told}", arrays, problem.learner_features)


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
    """Return what identifies a simulator whose model is not known: its class and what the learner is told."""
    names = "horizon", "num_states", "num_actions", "failure_probability", "noisy", "stationary", "stationary_signals"
    facts = {name: getattr(task, name) for name in names}
    facts |= {"thresholds": task.thresholds.tolist(), "initial": hash_of("", [task.initial], task.features)}
    if task.absorbing is not None and task.rest is not None:
        facts |= {"absorbing": task.absorbing, "rest": task.rest.tolist()}
    if task.first_visits is not None:
        facts |= {"first_visits": hash_of("", [task.first_visits], None)}
    if task.baseline is not None:
        facts["baseline"] = hash_of("", [task.baseline.policy.table, task.baseline.slack], None)
    return {"simulator": type(simulator).__name__, **facts}


def stream_seed(seed: int, episode: int) -> int:
    """Return the seed of a simulator's random stream from an episode on, for a run with this seed.

    >>> stream_seed(0, 0) == stream_seed(0, 0) != stream_seed(0, 1)
    True
    """
    return int(np.random.SeedSequence(seed, spawn_key=(episode,)).generate_state(1)[0])
