"""The identity of a run in its checkpoint: the file, the configuration, and a fingerprint of the problem."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from opdop.algorithms import Task
from opdop.model import Features, Problem, Quantity, Simulator
from opdop.model.validation import shown
from opdop.runs.config import RunConfig
from opdop.runs.files import as_folder, damaged, read_arrays

CHECKPOINT = "checkpoint.npz"
KIND = "an opdop checkpoint of format 4"


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


def difference(name: str, theirs: Any, ours: Any, quantities: Sequence[Quantity]) -> str:
    """Return in words how a setting or a fact of a saved run differs from that of this one, with limits in own units.

    >>> difference("task", {"horizon": 8, "noisy": True}, {"horizon": 9, "noisy": True}, ())
    'its horizon is 8, and now it is 9'
    >>> work = Quantity("work", "hours", scale=-2.0, offset=20.0)
    >>> difference("thresholds", [5.0], [7.5], (Quantity("profit"), work))
    "its constraints are 'work <= 10 hours', and now they are 'work <= 5 hours'"
    """
    if name == "task" and isinstance(theirs, Mapping) and isinstance(ours, Mapping):
        key = next((key for key in ours if theirs.get(key) != ours[key]), None)
        if key is not None:
            return difference(key, theirs.get(key), ours[key], quantities)
    limited = quantities[1:]
    if name == "thresholds" and all(isinstance(each, list) and len(each) == len(limited) for each in (theirs, ours)):
        with contextlib.suppress(TypeError, ValueError):  # a damaged file may have anything there
            before, now = (
                ", ".join(repr(q.constraint(float(bound))) for q, bound in zip(limited, each, strict=True))
                for each in (theirs, ours)
            )
            return f"its constraints are {before}, and now they are {now}"
    return f"its {name} is {shown(theirs)}, and now it is {shown(ours)}"


def stream_seed(seed: int, episode: int) -> int:
    """Return the seed of a simulator's random stream from an episode on, for a run with this seed.

    >>> stream_seed(0, 0) == stream_seed(0, 0) != stream_seed(0, 1)
    True
    """
    return int(np.random.SeedSequence(seed, spawn_key=(episode,)).generate_state(1)[0])
