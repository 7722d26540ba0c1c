"""Models that are given to a sweep as objects: each is written into the sweep's folder, and named by its file."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opdop.model import InvalidParameterError, OpdopError, TabularCMDP
from opdop.model.model_files import save_model
from opdop.model.validation import shown
from opdop.runs.files import file_name

MODELS = "models"
_DIGITS = 16
_LONGEST_NAME = 60


def with_model_files(data: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the data of a spec in which each model is replaced by the name of its file in `folder`/models.

    A file's name has a digest of its content, so a second call with the same models finds the same files, and a
    changed model is another problem.

    Args:
        data: a spec as data; a problem, or the `name` in the table of one, may be a `TabularCMDP`.
        folder: of the sweep; made if there is a model to write.

    Raises InvalidParameterError for an object that no file can hold, and OpdopError if a file cannot be written.
    """
    if "problem" not in data:
        return dict(data)
    entries = data["problem"]
    listed = entries if isinstance(entries, (list, tuple)) else [entries]
    return {**data, "problem": [_entry(entry, folder) for entry in listed]}


def _entry(entry: Any, folder: Path) -> Any:
    """Return one entry of the list of problems with a file in the place of a model."""
    if isinstance(entry, Mapping):
        return {**entry, "name": _entry(entry["name"], folder)} if "name" in entry else entry
    if entry is None or isinstance(entry, (str, int, float, list, tuple)):
        return entry  # a name, or what the spec refuses with its place
    if type(entry) is not TabularCMDP:  # the features of a LinearCMDP are functions, which a data file cannot hold
        raise InvalidParameterError(
            f"problem has {shown(entry)}; expected a name or a TabularCMDP. Workers make a linear or continuous model, "
            'or a simulator, by a function of yours: name it "FILE.py:FUNCTION".'
        )
    return str(_file_of(entry, folder / MODELS))


def _file_of(cmdp: TabularCMDP, folder: Path) -> Path:
    """Write a model into a folder, under its name and a digest of its content, and return the file."""
    words = file_name(cmdp.display.name)[:_LONGEST_NAME] or "model"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        written = save_model(cmdp, folder / f".{words}.{os.getpid()}.npz")
        digest = hashlib.sha256(written.read_bytes()).hexdigest()[:_DIGITS]
        return written.replace(folder / f"{words}-{digest}.npz")
    except OSError as error:
        raise OpdopError(f"the model cannot be written to {str(folder)!r}: {error.strerror or error}.") from error
