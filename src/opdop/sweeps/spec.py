"""The specification of a sweep: problems x algorithms x constants x seeds, written in TOML and checked as a whole."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opdop.algorithms import find
from opdop.algorithms.constants import ALGORITHM_1, ZERO_VIOLATION
from opdop.envs import Parameter, environment_of, environments, make
from opdop.envs.own_problems import is_code, is_data_file, names_function
from opdop.model import InvalidParameterError, OpdopError, suggestion
from opdop.model.text_files import open_regular, parse_toml
from opdop.model.validation import printable, shown
from opdop.runs import RunConfig, settings
from opdop.runs.config import ADDED, LARGEST_SEED, exact_text, positive, whole
from opdop.runs.files import file_name

MOST_RUNS = 100_000
DEFAULT_SEEDS = 10
_LARGEST_SPEC = 2**20
_MOST_ERRORS = 50
_VARIED = ("problem", "problem_parameters", "algorithm", "preset", "parameters", "seed")
_DIGEST_DIGITS = 32  # 128 bits
_LONGEST_WORDS = 100

Check = Callable[[str, Any], Any]  # (place, value) -> the clean value; raises InvalidParameterError


class InvalidSpecError(InvalidParameterError):
    """A spec, named `origin`, that cannot be run; `errors` has a sentence for each mistake, with its place."""

    def __init__(self, origin: str, errors: Iterable[str]) -> None:
        self.origin, self.errors = printable(origin), tuple(" ".join(printable(each).split()) for each in errors)
        many = f"{len(self.errors)} errors" if len(self.errors) > 1 else "an error"
        super().__init__(f"{self.origin} has {many}: " + " ".join(self.errors))

    def __reduce__(self) -> tuple[type[InvalidSpecError], tuple[str, tuple[str, ...]]]:
        return type(self), (self.origin, self.errors)


def shared_settings() -> tuple[str, ...]:
    """Return the names of the settings that all runs of a sweep share; they are keys at the top of a spec."""
    return tuple(name for name in settings() if name not in _VARIED)


def key_of(job: RunConfig) -> str:
    """Return the name of the folder of a job's run: a few words, and a digest of its whole configuration.

    The digest has 128 bits and covers every setting exactly, so different runs have different keys. Settings that were
    added later count only where they are not at their defaults, so that the keys of earlier runs stay.
    """
    words = "-".join(map(str, (job.problem, job.algorithm, job.preset, job.seed)))
    usual = RunConfig()
    counted = {k: v for k, v in job.record().items() if k not in ADDED or v != getattr(usual, k)}
    canonical = json.dumps(counted, sort_keys=True)
    digest = hashlib.sha256(canonical.encode()).hexdigest()[:_DIGEST_DIGITS]
    return f"{file_name(words)[:_LONGEST_WORDS]}-{digest}"


def short_key(key: str) -> str:
    """Return a key for tables, with the first 8 digits of its digest; other names stay as they are.

    >>> short_key(key_of(RunConfig(problem="factored", seed=3)))
    'factored-opdop-practical-3-...'
    """
    return re.sub(r"(-[0-9a-f]{8})[0-9a-f]{24}$", r"\1", key)


def group_of(job: RunConfig) -> str:
    """Return the kind of a job, without its seed: problem, algorithm and preset, and the parameters that were set."""
    known = environments()[job.problem].parameters if job.problem in environments() else {}  # a model file has none
    unusual = {
        name: value
        for name, value in job.problem_parameters.items()
        if name not in known or known[name].default != value
    }
    return f"{_with(job.problem, unusual)}, {job.algorithm}, {_with(str(job.preset), job.parameters)}"


def _with(name: str, parameters: Mapping[str, Any]) -> str:
    listed = ", ".join(f"{key}={exact_text(value)}" for key, value in parameters.items())
    return f"{name} ({listed})" if listed else name


@dataclass(frozen=True, repr=False)
class Spec:
    """A checked specification of a sweep; made by `Spec.read`, `Spec.parse` or `Spec.of`.

    >>> spec = Spec.parse('seeds = 3\\n[[problem]]\\nname = "factored"\\nmoves = [2, 4]')
    >>> len(spec), group_of(next(iter(spec.jobs())))
    (6, 'factored (moves=2.0), opdop, practical')
    >>> Spec.parse('[[problem]]\\nname = "factorred"\\n[[algorithm]]\\npresett = "paper"')
    Traceback (most recent call last):
    opdop.sweeps.spec.InvalidSpecError: the spec has 2 errors: problem[0].name is 'factorred'; expected one of ...
    """

    text: str  # TOML
    seeds: tuple[int, ...]
    kinds: tuple[RunConfig, ...] = field(repr=False)  # every configuration once; its seed is the first

    @classmethod
    def read(cls, path: str | Path, *, allow_code: bool = False) -> Spec:
        """Return the spec in the TOML file at `path`.

        With `allow_code` a problem may be a function, FILE.py:FUNCTION, which runs when the sweep does; reading a spec
        never runs code. Raises InvalidParameterError if the file cannot be read, and InvalidSpecError if it is not a
        valid spec.
        """
        if not isinstance(path, (str, Path)):
            raise InvalidParameterError(f"the spec is {shown(path)}; expected a path, or data of the same form.")
        try:
            with open_regular(path) as file:
                text = file.read(_LARGEST_SPEC + 1).decode()
        except UnicodeDecodeError as error:
            raise InvalidSpecError(str(path), [f"It is not UTF-8 text ({error})."]) from error
        except (OSError, ValueError) as error:  # a ValueError if the path has a null character
            reason = getattr(error, "strerror", None) or error
            raise InvalidParameterError(f"the spec {shown(str(path))} cannot be read: {reason}.") from error
        return cls.parse(text, origin=str(path), allow_code=allow_code)

    @classmethod
    def parse(cls, text: str, *, origin: str = "the spec", allow_code: bool = False) -> Spec:
        """Return the spec in a TOML text; errors call it `origin`. With `allow_code` problems may be functions.

        Raises InvalidSpecError, with all mistakes at once.
        """
        if not isinstance(text, str) or len(text) > _LARGEST_SPEC:
            raise InvalidSpecError(origin, [f"It is not a text of at most {_LARGEST_SPEC} characters."])
        try:
            data = parse_toml(text)
        except (ValueError, RecursionError) as error:
            raise InvalidSpecError(origin, [f"It is not TOML: {error}."]) from error
        return _Reader(origin, allow_code).spec(text, data)

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Spec:
        """Return the spec that data of the same form as the TOML describe; problems may be functions.

        Raises InvalidSpecError, with all mistakes at once.
        """
        try:
            return cls.parse(_toml(data), allow_code=True)
        except (TypeError, ValueError, RecursionError) as error:
            if isinstance(error, InvalidParameterError):
                raise
            raise InvalidSpecError("the spec", [str(error)]) from error

    def __len__(self) -> int:
        return len(self.kinds) * len(self.seeds)

    def __repr__(self) -> str:
        return f"Spec({len(self.kinds)} kinds of runs, {len(self.seeds)} seeds, {self.kinds[0].episodes:,} episodes)"

    def jobs(self) -> Iterator[RunConfig]:
        """Return the configuration of every run; every kind comes once before the second seed begins."""
        return (kind.but(seed=seed) for seed in self.seeds for kind in self.kinds)

    def settings(self) -> dict[str, Any]:
        """Return the settings that all runs share."""
        return {name: getattr(self.kinds[0], name) for name in shared_settings()}

    def record(self) -> dict[str, Any]:
        """Return this as plain data of the same form as the TOML, with all shared settings filled in."""
        return {**parse_toml(self.text), **self.settings(), "seeds": list(self.seeds)}


# Reading ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Grid:
    """One [[problem]] or [[algorithm]] table: its name, and the values of each parameter that it sets."""

    name: str
    values: Mapping[str, list[Any]]

    def __len__(self) -> int:
        return math.prod(len(each) for each in self.values.values())

    def choices(self) -> Iterator[dict[str, Any]]:
        """Return every combination of the values."""
        return (dict(zip(self.values, chosen, strict=True)) for chosen in itertools.product(*self.values.values()))


class _Reader:
    """Reads a spec, and notes every mistake with its place before it raises."""

    def __init__(self, origin: str, allow_code: bool) -> None:
        self.origin, self.allow_code = origin, allow_code
        self.errors: list[str] = []

    def spec(self, text: str, data: Mapping[str, Any]) -> Spec:
        long = [place for place, number in _integers("", data) if abs(number) > LARGEST_SEED]
        self.errors += [f"{place} is an integer of more than 64 bits; expected what TOML can hold." for place in long]
        self._raise_errors()
        shared = shared_settings()
        self._refuse_unknown("", data, ["seeds", "problem", "algorithm", *shared])
        common = {name: self._checked(settings()[name].check, name, data[name]) for name in shared if name in data}
        seeds = self._seeds(data.get("seeds", DEFAULT_SEEDS))
        problems = self._grids("problem", data.get("problem", []), self._problem)
        algorithms = self._grids("algorithm", data.get("algorithm", [{}]), self._algorithm)
        if data.get("problem", []) == []:
            self.errors.append('problem is missing; expected at least one [[problem]] with name = "...".')
        self._raise_errors()
        runs = len(seeds) * sum(map(len, problems)) * sum(map(len, algorithms))
        if runs > MOST_RUNS:
            self.errors.append(f"It asks for {runs} runs; expected at most {MOST_RUNS}: use several sweeps.")
        self._raise_errors()
        common.setdefault("planned_episodes", common.get("episodes", RunConfig.episodes))
        kinds = tuple(
            RunConfig(**common, **problem, **algorithm, seed=seeds[0])
            for problem in itertools.chain.from_iterable(map(_problems, problems))
            for algorithm in itertools.chain.from_iterable(map(_algorithms, algorithms))
        )
        counts = Counter(map(key_of, kinds))
        repeated = dict.fromkeys(group_of(kind) for kind in kinds if counts[key_of(kind)] > 1)
        self.errors += [f"It asks more than once for {group}." for group in repeated]
        self._raise_errors()
        return Spec(text, tuple(seeds), kinds)

    def _raise_errors(self) -> None:
        if self.errors:
            more = len(self.errors) - _MOST_ERRORS
            raise InvalidSpecError(self.origin, self.errors[:_MOST_ERRORS] + [f"And {more} more."] * (more > 0))

    def _checked(self, check: Check, place: str, value: Any) -> Any:
        """Return the value that a check returns, or note its error."""
        try:
            return check(place, value)
        except InvalidParameterError as error:
            self.errors.append(str(error))
            return None

    def _refuse_unknown(self, where: str, table: Mapping[str, Any], known: Iterable[str]) -> None:
        known = list(known)
        self.errors += [f"{where}{name} is unknown.{suggestion(name, known)}" for name in table if name not in known]

    def _seeds(self, value: Any) -> range | list[int]:
        if not isinstance(value, list):
            return range(self._checked(whole(1, LARGEST_SEED), "seeds", value) or 1)
        seeds = [seed for seed in self._values("seeds", value, settings()["seed"].check) if seed is not None]
        self.errors += [f"seeds has {seed} more than once." for seed, n in Counter(seeds).items() if n > 1]
        return seeds

    def _grids(self, where: str, value: Any, read: Callable[[str, Mapping[str, Any]], _Grid | None]) -> list[_Grid]:
        if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
            self.errors.append(f"{where} is {shown(value)}; expected tables, each opened by [[{where}]].")
            return []
        return [found for i, entry in enumerate(value) if (found := read(f"{where}[{i}]", entry)) is not None]

    def _values(self, place: str, value: Any, check: Check, *, is_list: bool = False) -> list[Any]:
        """Return the clean values that a key asks for; a list is a grid, unless `is_list`: the value is itself one."""
        if not isinstance(value, list) or is_list:
            return [self._checked(check, place, value)]
        if not value:
            self.errors.append(f"{place} is []; expected a value, or a list of values.")
        return [self._checked(check, f"{place}[{i}]", each) for i, each in enumerate(value)]

    def _problem(self, where: str, entry: Mapping[str, Any]) -> _Grid | None:
        given = entry.get("name")
        if isinstance(given, str) and is_data_file(given):
            name = self._checked(_model_file, f"{where}.name", given)
        elif isinstance(given, str) and names_function(given):
            return self._function(where, given, entry)
        else:
            name = self._checked(_one_of(environments()), f"{where}.name", given)
        if name is None:
            return None
        known = environment_of(name).parameters
        self._refuse_unknown(f"{where}.", entry, ["name", *known])
        values = {}
        for key, parameter in known.items():
            if key in entry:
                value = entry[key]
                nested = isinstance(value, list) and bool(value) and isinstance(value[0], list)
                is_list = parameter.type is tuple and not nested
                values[key] = self._values(f"{where}.{key}", value, _parameter_check(parameter), is_list=is_list)
        return _Grid(name, values)

    def _function(self, where: str, name: str, entry: Mapping[str, Any]) -> _Grid | None:
        """Return the grid of a function of the user's; it is not run here, so its parameters are not checked."""
        if not self.allow_code:
            self.errors.append(
                f"{where}.name is {shown(name)}, a function or entry point; a spec runs no code unless that is "
                "allowed: --allow-code, or allow_code=True."
            )
            return None
        given = {key: value for key, value in entry.items() if key != "name"}
        values = {key: self._values(f"{where}.{key}", value, _plain_value) for key, value in given.items()}
        return _Grid(name, values)

    def _algorithm(self, where: str, entry: Mapping[str, Any]) -> _Grid | None:
        self._refuse_unknown(f"{where}.", entry, ["name", "preset", "parameters"])
        name = self._checked(_algorithm_check, f"{where}.name", entry.get("name", RunConfig.algorithm))
        known_presets = ALGORITHM_1 if name is None else find(name).presets
        check = _one_of(known_presets.makes)
        chosen = self._values(f"{where}.preset", entry.get("preset", RunConfig.preset), check)
        parameters = entry.get("parameters", {})
        if not isinstance(parameters, dict):
            found = shown(parameters)
            self.errors.append(f"{where}.parameters is {found}; expected a table, as {{radius_scale = 0.1}}.")
            return None
        for preset, key in itertools.product(filter(None, chosen), parameters):
            zero = known_presets is ALGORITHM_1 and preset == "certified"
            known = (*known_presets.parameters(preset), *((ZERO_VIOLATION,) if zero else ()))
            if key not in known:
                has = f"preset {preset!r} has {', '.join(known) or 'no parameters'}"
                self.errors.append(f"{where}.parameters.{key} is unknown; {has}.{suggestion(key, known)}")
        values = {key: self._values(f"{where}.parameters.{key}", value, positive) for key, value in parameters.items()}
        return None if name is None else _Grid(name, {"preset": chosen, **values})


def _integers(place: str, value: Any) -> Iterator[tuple[str, int]]:
    """Return every integer in the data of a spec, with its place."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _integers(f"{place}.{key}" if place else key, each)
    elif isinstance(value, list):
        for i, each in enumerate(value):
            yield from _integers(f"{place}[{i}]", each)
    elif isinstance(value, int):
        yield place, value


def _model_file(place: str, value: Any) -> str:
    """Return the name of a model file; raise if it cannot be read."""
    try:
        make(value)
    except OpdopError as error:
        raise InvalidParameterError(f"{place}: {error}") from error
    return str(value)


def _plain_value(place: str, value: Any) -> Any:
    """Return a parameter's value as it is; the function checks it when it runs."""
    if isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, list) and all(isinstance(each, (int, float)) for each in value):
        return tuple(value)
    raise InvalidParameterError(f"{place} is {shown(value)}; expected a number, a text, a truth value, or numbers.")


def _one_of(known: Iterable[str]) -> Check:
    """Return a check for a known name; its error names the nearest one."""
    names = list(known)

    def check(place: str, value: Any) -> str:
        if isinstance(value, str) and value in names:
            return value
        found = "missing" if value is None else shown(value)
        near = suggestion(value, names) if isinstance(value, str) else ""
        raise InvalidParameterError(f"{place} is {found}; expected one of {', '.join(names)}.{near}")

    return check


def _algorithm_check(place: str, value: Any) -> str:
    name: str = settings()["algorithm"].check(place, value)
    try:
        return find(name).name
    except InvalidParameterError as error:
        raise InvalidParameterError(f"{place}: {error}") from error


def _parameter_check(parameter: Parameter) -> Check:
    """Return the check of a problem's parameter for values from TOML, which has no null and writes 1e5 as a float."""

    def check(place: str, value: Any) -> Any:
        if parameter.optional and value == "none":
            return None
        if parameter.type is int and isinstance(value, float) and value.is_integer():
            value = int(value)
        return parameter.check(value, place)

    return check


def _problems(grid: _Grid) -> Iterator[dict[str, Any]]:
    """Return the settings of every problem of a grid, with all its parameters."""
    if is_code(grid.name):  # it is not run before the sweep is
        return ({"problem": grid.name, "problem_parameters": choice} for choice in grid.choices())
    entry = environment_of(grid.name)
    return ({"problem": grid.name, "problem_parameters": entry.check(choice)} for choice in grid.choices())


def _algorithms(grid: _Grid) -> Iterator[dict[str, Any]]:
    """Return the settings of every algorithm of a grid; a parameter at the preset's default is left out."""
    for choice in grid.choices():
        preset = choice.pop("preset")
        usual = find(grid.name).presets.parameters(preset)
        unusual = {key: value for key, value in choice.items() if value != usual.get(key)}
        yield {"algorithm": grid.name, "preset": preset, "parameters": unusual}


# Writing ---------------------------------------------------------------------------------------------------------


def _toml(data: Mapping[str, Any]) -> str:
    """Return data as TOML text: plain values first, without those that are None, then lists of tables."""
    if not isinstance(data, Mapping):
        raise TypeError(f"It is {shown(data)}; expected names with values.")
    tables = {name: value for name, value in data.items() if name in ("problem", "algorithm")}
    plain = {name: value for name, value in data.items() if name not in tables and value is not None}
    lines = [f"{_toml_key(name)} = {_toml_value(value)}" for name, value in plain.items()]
    for name, entries in tables.items():
        for entry in entries if isinstance(entries, (list, tuple)) else [entries]:
            table = {"name": entry} if isinstance(entry, str) else entry
            if not isinstance(table, Mapping):
                raise TypeError(f"{name} has {shown(entry)}; expected a name, or a table with one.")
            lines += ["", f"[[{name}]]", *(f"{_toml_key(key)} = {_toml_value(each)}" for key, each in table.items())]
    return "\n".join(lines) + "\n"


def _toml_key(name: object) -> str:
    text = str(name)
    return text if re.fullmatch(r"[A-Za-z0-9_-]+", text) else json.dumps(text)


def _toml_value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_toml_key(key)} = {_toml_value(each)}" for key, each in value.items()) + "}"
    if isinstance(value, (list, tuple, range)):
        return "[" + ", ".join(_toml_value(each) for each in value) + "]"
    value = value.item() if hasattr(value, "item") else value
    if value is None:
        return '"none"'
    if not isinstance(value, (bool, int, float, str)):
        raise TypeError(f"{shown(value)} is of type {type(value).__name__}; expected what TOML can hold.")
    if isinstance(value, str):
        return json.dumps(value)
    return str(value).lower() if isinstance(value, (bool, float)) else str(value)
