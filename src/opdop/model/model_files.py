"""Models as files: .npz for arrays, .toml and .json for small models that are written by hand; data only, no code."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from opdop.kernels.transitions import Dense
from opdop.model.array_files import read_npz, reading, write_npz
from opdop.model.cmdp import TabularCMDP
from opdop.model.display import Display, Quantity
from opdop.model.errors import InvalidModelError, InvalidParameterError, suggestion
from opdop.model.linear import LinearCMDP
from opdop.model.linear_files import ARRAYS as LINEAR_ARRAYS
from opdop.model.linear_files import linear_model, linear_record
from opdop.model.prism_files import read_prism
from opdop.model.text_files import parse_json, parse_toml, read_text
from opdop.model.validation import as_number, as_size, read_sparse, shown

FORMAT = "opdop.model/1"
SUFFIXES = (".npz", ".toml", ".json")
_ARRAYS = ("transitions", "rewards", "utilities", "thresholds", "costs", "budgets", "initial", "horizon")
_SPARSE = ("transitions_data", "transitions_indices", "transitions_indptr")
_OPTIONS = ("reward_range", "utility_range", "cost_range", "units")
_WORDS = ("format", "name", "summary", "horizon", "initial", "budgets", "thresholds", *_OPTIONS)


def save_model(cmdp: TabularCMDP, path: str | Path) -> Path:
    """Write the model `cmdp` into an .npz file with its names and units, and return the path; a map is not stored.

    Of a `LinearCMDP`, features and weights are stored, so that it comes back as one.

    Raises InvalidParameterError for another name, and OpdopError if the file cannot be written.
    """
    target = _path(path)
    if target.suffix != ".npz":
        raise InvalidParameterError(f"{shown(path)} is no name for a model; expected a file in .npz.")
    S, A, L = cmdp.num_states, cmdp.num_actions, cmdp.stored_stages
    header = {
        "format": FORMAT,
        **{name: getattr(cmdp.display, name) for name in ("name", "summary", "state_names", "action_names")},
        "quantities": [asdict(quantity) for quantity in cmdp.display.quantities],
        "absorbing": cmdp.absorbing,
    }
    arrays: dict[str, Any] = {
        "thresholds": cmdp.thresholds,
        "initial": cmdp.initial,
        "horizon": np.array(cmdp.horizon),
    }
    if isinstance(cmdp, LinearCMDP):
        header["features"], linear = linear_record(cmdp)
        write_npz(target, {"header": np.array(json.dumps(header)), **arrays, **linear})
        return target
    arrays |= {"rewards": cmdp.signals[0], "utilities": cmdp.signals[1:]}
    if isinstance(cmdp.transitions, Dense):
        shape = (S, A, S) if L == 1 else (L, S, A, S)
        arrays["transitions"] = cmdp.transitions.rows.reshape(shape)
    else:
        starts, successors, probabilities = cmdp.transitions
        arrays |= dict(zip(_SPARSE, (probabilities, successors, starts), strict=True))
    write_npz(target, {"header": np.array(json.dumps(header)), **arrays})
    return target


def load_model(path: str | Path) -> TabularCMDP:
    """Return the model in the file `path`, in .npz, .toml or .json; docs/models.md describes the formats.

    Nothing in a file is executed. Raises InvalidParameterError if there is no such file, and InvalidModelError, in one
    line, if it holds no model.

    >>> import tempfile
    >>> from opdop.envs import make
    >>> load_model(save_model(make("factored"), f"{tempfile.mkdtemp()}/factored.npz"))
    TabularCMDP('factored': 3 states, 2 actions, 6 stages, 1 constraint, dense, stationary)
    """
    source = _path(path)
    readers: dict[str, Callable[[Path], TabularCMDP]] = {".npz": _from_npz, ".toml": _from_text, ".json": _from_text}
    with reading(source, "model"):
        return readers[source.suffix](source)


def _path(path: Any) -> Path:
    if not isinstance(path, (str, os.PathLike)) or Path(os.fspath(path)).suffix not in SUFFIXES:
        raise InvalidParameterError(f"{shown(path)} is no model file; expected one in {', '.join(SUFFIXES)}.")
    return Path(path)


# Arrays ----------------------------------------------------------------------------------------------------------


def _from_npz(path: Path) -> TabularCMDP:
    arrays = read_npz(path, allowed={"header", *_ARRAYS, *_SPARSE, *LINEAR_ARRAYS})
    header = parse_json(str(arrays.pop("header"))) if "header" in arrays else {"format": FORMAT}
    if not isinstance(header, dict) or header.pop("format", None) != FORMAT:
        raise InvalidModelError(f"its format is not {FORMAT}")
    quantities = tuple(Quantity(**each) for each in header.pop("quantities", ()))
    names = {key: header.pop(key, "" if key == "summary" else ()) for key in ("summary", "state_names", "action_names")}
    display = Display(header.pop("name", path.stem), quantities=quantities, **names)
    absorbing = header.pop("absorbing", None)
    features = header.pop("features", None)
    _check_keys("header", header, _OPTIONS if features is None else ())
    arguments: dict[str, Any] = {key: value for key, value in arrays.items() if key in _ARRAYS}
    if "horizon" in arguments:
        arguments["horizon"] = arguments["horizon"][()]
    if arguments.get("initial") is not None and arguments["initial"].ndim == 0:
        arguments["initial"] = arguments["initial"][()]
    model: TabularCMDP
    if features is not None:
        model = linear_model(features, arrays, arguments, display)
    else:
        _check_keys("the file", arrays, (*_ARRAYS, *_SPARSE))
        if "transitions" not in arguments:
            arguments["transitions"] = _sparse(arrays, arguments)
        model = TabularCMDP(**arguments, **header, display=display)
    return model if absorbing is None else model.with_absorbing(absorbing)


def _sparse(arrays: Mapping[str, Any], arguments: Mapping[str, Any]) -> Any:
    """Return kernels of one stage or of all, in compressed rows, as TabularCMDP takes them."""
    missing = [name for name in _SPARSE if name not in arrays]
    if missing:
        raise InvalidModelError("there are no transitions, and no " + ", ".join(missing))
    data, indices, starts = (arrays[name] for name in _SPARSE)
    S, A = np.shape(arguments["rewards"])[-2:]
    rows, H = starts.size - 1, as_size("horizon", arguments.get("horizon", 1))
    if rows not in (S * A, H * S * A):
        raise InvalidModelError(f"there are {rows} rows of transitions; expected {S * A}, or that for each stage")
    kernel = read_sparse("transitions", sparse.csr_array((data, indices, starts), shape=(rows, S)))
    return kernel if rows == S * A else [kernel[h * S * A : (h + 1) * S * A] for h in range(H)]


# Text ------------------------------------------------------------------------------------------------------------


def _from_text(path: Path) -> TabularCMDP:
    text = read_text(path)
    data = parse_json(text) if path.suffix == ".json" else parse_toml(text)
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise InvalidModelError(f"it does not say format = {FORMAT!r}")
    given = {key: data[key] for key in _WORDS if key in data and key not in ("format", "name", "summary")}
    display = Display(data.get("name", path.stem), summary=data.get("summary", ""))
    if "prism" in data:
        _check_keys("the model", data, (*_WORDS, "prism"))
        arguments = read_prism(path.parent, data["prism"])
        return TabularCMDP(**{**arguments, **given}, display=display)
    _check_keys("the model", data, (*_WORDS, "states", "actions", "rows"))
    return _from_rows(data, given, display)


def _from_rows(data: Mapping[str, Any], given: dict[str, Any], display: Display) -> TabularCMDP:
    """Return the model of one row for each state and action."""
    S, A = (_number_of(kind, data.get(kind)) for kind in ("states", "actions"))
    rows = data.get("rows")
    if not isinstance(rows, list) or len(rows) != S * A:  # before names are made, of which there may be any number
        found = len(rows) if isinstance(rows, list) else shown(rows)
        raise InvalidModelError(f"rows are {found}; expected {S * A}, one for each state and action")
    states, actions = (_Names(kind, data[kind]) for kind in ("states", "actions"))
    signals: dict[str, dict[str, Any]] = {kind: {} for kind in ("costs", "utilities")}
    for kind, bounds in (("costs", "budgets"), ("utilities", "thresholds")):
        signals[kind] = {name: np.zeros((S, A)) for name in given.get(bounds, {})}
    entries: list[tuple[int, int, float]] = []  # row, next state, probability
    rewards, seen = np.zeros((S, A)), np.zeros((S, A), dtype=bool)
    for n, row in enumerate(rows):
        where = f"rows[{n}]"
        _check_keys(where, row, ("state", "action", "next", "reward", "costs", "utilities"))
        x, a = states.place(f"{where}.state", row.get("state")), actions.place(f"{where}.action", row.get("action"))
        if seen[x, a]:
            raise InvalidModelError(
                f"{where} is the second for state {shown(states.names[x])} and action {shown(actions.names[a])}"
            )
        seen[x, a] = True
        entries += [(x * A + a, y, p) for y, p in _successors(f"{where}.next", row.get("next"), states).items()]
        rewards[x, a] = as_number(f"{where}.reward", row.get("reward", 0.0), "a number", error=InvalidModelError)
        for kind, tables in signals.items():
            paid = row.get(kind, {})
            _check_keys(f"{where}.{kind}", paid, tuple(tables))
            for name, value in paid.items():
                label = f"{where}.{kind}.{name}"
                tables[name][x, a] = as_number(label, value, "a number", error=InvalidModelError)
    if isinstance(given.get("initial"), str):
        given["initial"] = states.place("initial", given["initial"])
    elif isinstance(given.get("initial"), dict):
        chances = np.zeros(S)
        for y, chance in _successors("initial", given["initial"], states).items():
            chances[y] = chance
        given["initial"] = chances
    named = Display(display.name, summary=display.summary, state_names=states.names, action_names=actions.names)
    sources, targets, values = zip(*entries, strict=True)
    kernel = sparse.coo_array((np.array(values), (sources, targets)), shape=(S * A, S))
    table = kernel.toarray().reshape(S, A, S) if S <= 64 else kernel.tocsr()
    arguments: dict[str, Any] = {**given, **{kind: tables for kind, tables in signals.items() if tables}}
    return TabularCMDP(table, rewards, **arguments, display=named)


def _number_of(what: str, value: Any) -> int:
    """Return how many states or actions there are, given a list of names or a number."""
    if isinstance(value, list) and value:
        return len(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return as_size(what, value)
    raise InvalidModelError(f"{what} are {shown(value)}; expected a list of names, or a number")


class _Names:
    """The names of states or actions, given as a list of texts or as a number of them, and their places."""

    def __init__(self, what: str, value: Any) -> None:
        listed = list(map(str, range(value))) if isinstance(value, int) else value
        if not all(isinstance(name, str) and name for name in listed):
            raise InvalidModelError(f"{what} are {shown(listed)}; expected a list of names, or a number")
        self.names: tuple[str, ...] = tuple(listed)
        self._places = {name: i for i, name in enumerate(self.names)}
        if len(self._places) < len(self.names):
            raise InvalidModelError(f"{what} have a name twice")

    def place(self, what: str, value: Any) -> int:
        """Return the place of a name, or of a number that is one; raises InvalidModelError if there is no such name."""
        name = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
        if not isinstance(name, str) or name not in self._places:
            near = suggestion(name, self.names)
            raise InvalidModelError(f"{what} is {shown(value)}; expected one of the names.{near}")
        return self._places[name]


def _successors(what: str, value: Any, states: _Names) -> dict[int, float]:
    """Return probabilities by state, from one state or from names with probabilities."""
    if not isinstance(value, dict):
        return {states.place(what, value): 1.0}
    if not value:
        raise InvalidModelError(f"{what} is empty; expected a state, or states with probabilities")
    return {
        states.place(what, name): as_number(f"{what}.{name}", chance, "a probability", error=InvalidModelError)
        for name, chance in value.items()
    }


def _check_keys(where: str, data: Any, known: tuple[str, ...]) -> None:
    if not isinstance(data, Mapping):
        raise InvalidModelError(f"{where} is {shown(data)}; expected names with values")
    for key in data:
        if key not in known:
            near = suggestion(key, known)
            raise InvalidModelError(f"{where} has {shown(key)}; expected {', '.join(known) or 'nothing'}.{near}")
