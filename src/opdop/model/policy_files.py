"""Policies as files, .npz or .json, that hold data only; docs/policies.md describes both formats."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from opdop.model.array_files import read_npz, reading, write_npz, write_text
from opdop.model.errors import InvalidModelError, InvalidParameterError
from opdop.model.spaces import Space
from opdop.model.text_files import parse_json, read_text
from opdop.model.validation import Floats, shown

if TYPE_CHECKING:
    from opdop.model.policy import PolicyMixture, TabularPolicy

FORMAT = "opdop.policy/1"


def save_policy(path: str | Path, tables: Floats, weights: Floats, space: Space | None) -> Path:
    """Write policies [M, H, S, A] with their weights [M]; the name ends in .npz or .json. Return the path.

    Raises InvalidParameterError for another name, and OpdopError if the file cannot be written.
    """
    target = _path(path)
    header = {"format": FORMAT, "space": None if space is None else space.record()}
    if target.suffix == ".json":
        write_text(target, json.dumps({**header, "weights": weights.tolist(), "tables": tables.tolist()}))
    else:
        write_npz(target, {"header": np.array(json.dumps(header)), "weights": weights, "tables": tables})
    return target


def load_policy(path: str | Path) -> TabularPolicy | PolicyMixture:
    """Return the policy that `save` wrote to `path`: a TabularPolicy, or a PolicyMixture if there are several.

    Nothing in the file is executed. Raises InvalidParameterError if there is no such file, and InvalidModelError if it
    holds no policy.

    >>> import tempfile
    >>> from opdop.model import TabularPolicy
    >>> file = TabularPolicy([[[0.25, 0.75]]]).save(f"{tempfile.mkdtemp()}/policy.json")
    >>> load_policy(file).probabilities(0, 0)
    array([0.25, 0.75])
    """
    from opdop.model.policy import PolicyMixture, TabularPolicy  # late: they use this module

    source = _path(path)
    with reading(source, "policy"):
        header, weights, tables = (_read_json if source.suffix == ".json" else _read_npz)(source)
        if not isinstance(header, Mapping) or header.get("format") != FORMAT:
            raise InvalidModelError(f"its format is not {FORMAT}")
        if tables.ndim != 4 or weights.shape != tables.shape[:1]:
            raise InvalidModelError(f"tables have shape {list(tables.shape)}, weights {list(weights.shape)}")
        space = None if header.get("space") is None else Space.of(header["space"])
        policies = [TabularPolicy(table, space=space) for table in tables]
        return policies[0] if len(policies) == 1 else PolicyMixture(policies, weights)


def _path(path: Any) -> Path:
    if not isinstance(path, (str, os.PathLike)) or Path(os.fspath(path)).suffix not in (".npz", ".json"):
        raise InvalidParameterError(f"{shown(path)} is no name for a policy; expected a file in .npz or .json.")
    return Path(path)


def _read_json(path: Path) -> tuple[Any, Floats, Floats]:
    data = parse_json(read_text(path))
    if not isinstance(data, dict):
        raise InvalidModelError("it is no JSON object")
    weights, tables = (np.array(data[name], dtype=np.float64) for name in ("weights", "tables"))
    return data, weights, tables


def _read_npz(path: Path) -> tuple[Any, Floats, Floats]:
    arrays = read_npz(path, allowed={"header", "weights", "tables"})
    header, weights, tables = (arrays[name] for name in ("header", "weights", "tables"))
    if weights.dtype != np.float64 or tables.dtype != np.float64:
        raise InvalidModelError(f"weights are {weights.dtype} and tables {tables.dtype}; expected float64")
    return parse_json(str(header)), weights, tables
