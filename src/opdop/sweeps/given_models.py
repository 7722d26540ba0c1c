"""Problems that are given to a sweep as objects, and the names that its spec has for them.

A model that a file can hold is written into the sweep's folder, and named by its file, which all workers read. What has
functions of the user's, as a continuous model or a simulator does, cannot be sent to other processes without pickle. It
stays an object, and its runs are made in the process that called.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from opdop.envs.own_problems import GIVEN, with_name
from opdop.model import (
    DescribedSimulator,
    InvalidParameterError,
    LinearCMDP,
    OpdopError,
    Problem,
    ReseedableSimulator,
    TabularCMDP,
)
from opdop.model.model_files import save_model
from opdop.model.validation import call, shown
from opdop.runs.checkpoint import fingerprint, hash_of
from opdop.runs.files import file_name

MODELS = "models"
_DIGITS = 16
_LONGEST_NAME = 60
_FACTS = ("horizon", "num_states", "num_actions", "noisy", "stationary", "absorbing")  # of a simulator

Objects = dict[str, Problem | DescribedSimulator]


def with_names(data: Mapping[str, Any], folder: Path) -> tuple[dict[str, Any], Objects]:
    """Return the data of a spec in which each object is replaced by a name, and the objects that no file can hold.

    A name has a digest of the content, so a second call with the same problems finds the same names, and a changed
    model is another problem. Of a simulator the digest is of what the learner is told, as its functions have none.

    Args:
        data: a spec as data; a problem, or the `name` in the table of one, may be a model or a simulator.
        folder: of the sweep; made if there is a model to write.

    Raises InvalidParameterError for what is no problem, and OpdopError if a file cannot be written.
    """
    if "problem" not in data:
        return dict(data), {}
    entries = data["problem"]
    listed = entries if isinstance(entries, (list, tuple)) else [entries]
    objects: Objects = {}
    return {**data, "problem": [_entry(entry, folder, objects) for entry in listed]}, objects


def _entry(entry: Any, folder: Path, objects: Objects) -> Any:
    """Return an entry of the list of problems with a name in the place of an object; add what stays an object."""
    if isinstance(entry, Mapping):
        if "name" not in entry:
            return entry
        name = _entry(entry["name"], folder, objects)
        if name in objects and len(entry) > 1:
            raise InvalidParameterError(
                f"problem sets {', '.join(sorted(set(entry) - {'name'}))} of {shown(entry['name'])}; an object has no "
                "parameters: make it with them."
            )
        return {**entry, "name": name}
    if entry is None or isinstance(entry, (str, int, float, list, tuple)):
        return entry  # a name, or what the spec refuses with its place
    if type(entry) in (TabularCMDP, LinearCMDP):
        return str(_file_of(entry, folder / MODELS))
    if isinstance(entry, type) or not (
        isinstance(entry, Problem) or (isinstance(entry, DescribedSimulator) and isinstance(entry, ReseedableSimulator))
    ):
        raise InvalidParameterError(
            f"problem has {shown(entry)}; expected a name, a problem such as a TabularCMDP, or a simulator of "
            "opdop.from_gymnasium or opdop.from_functions."
        )
    name = f"{GIVEN}:{_words(entry)}-{_digest(entry)[:_DIGITS]}"
    objects[name] = with_name(call("copying a problem", copy.copy, entry), name, {})
    return name


def _words(problem: Problem | DescribedSimulator) -> str:
    return file_name(problem.display.name)[:_LONGEST_NAME] or "model"


def _digest(problem: Problem | DescribedSimulator) -> str:
    """Return a digest of what identifies a problem."""
    if isinstance(problem, Problem):
        return fingerprint(problem)
    units = [asdict(quantity) for quantity in problem.display.quantities]
    facts = [type(problem).__name__, [getattr(problem, name) for name in _FACTS], units]
    return hash_of(json.dumps(facts, default=str), [problem.thresholds, problem.initial], None)


def _file_of(cmdp: TabularCMDP, folder: Path) -> Path:
    """Write a model into a folder, under its name and a digest of its content, and return the file."""
    words = _words(cmdp)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        written = save_model(cmdp, folder / f".{words}.{os.getpid()}.npz")
        digest = hashlib.sha256(written.read_bytes()).hexdigest()[:_DIGITS]
        return written.replace(folder / f"{words}-{digest}.npz")
    except OSError as error:
        raise OpdopError(f"the model cannot be written to {str(folder)!r}: {error.strerror or error}.") from error
