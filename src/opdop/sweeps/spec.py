"""What a sweep is to run: problems x algorithms x constants x seeds, written in TOML and checked as a whole."""

from __future__ import annotations

import difflib
import hashlib
import itertools
import json
import math
import re
import reprlib
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from opdop.algorithms import algorithms, presets
from opdop.envs import Environment, Parameter, environments
from opdop.model import InvalidParameterError

MOST_RUNS = 100_000
_LARGEST_SEED = 2**63 - 1  # what JSON, Parquet and SQLite hold alike
_LARGEST_SPEC = 2**20
_MOST_ERRORS = 50
_PLAIN = (bool, int, float, str)


class InvalidSpecError(InvalidParameterError):
    """A spec that cannot be run; `errors` has a sentence for each mistake, with its place."""

    def __init__(self, origin: str, errors: Iterable[str]) -> None:
        self.origin, self.errors = origin, tuple(errors)
        many = f"{len(self.errors)} errors" if len(self.errors) > 1 else "an error"
        super().__init__(f"{origin} has {many}: " + "; ".join(self.errors))

    def __reduce__(self) -> tuple[type[InvalidSpecError], tuple[str, tuple[str, ...]]]:
        return type(self), (self.origin, self.errors)


@dataclass(frozen=True)
class Settings:
    """What all runs of a sweep share; the arguments of `opdop.train` with these names."""

    episodes: int = 100_000
    planned_episodes: int | None = None
    failure_probability: float = 0.05
    slater_gap: float | None = None
    dual_bound: float | None = None
    noisy: bool = False
    measure_every: int = 1
    records: int = 1000


@dataclass(frozen=True)
class Job:
    """One run: all arguments of `opdop.train` as plain data."""

    problem: str
    problem_parameters: Mapping[str, Any]  # those that the spec names
    algorithm: str
    preset: str
    parameters: Mapping[str, float]
    seed: int
    settings: Settings = field(default_factory=Settings)

    @property
    def key(self) -> str:
        """The name of its folder: the same for the same run of a sweep, however the spec is written."""
        shipped = environments().get(self.problem)
        known = {} if shipped is None else shipped.parameters
        unusual = {
            name: value
            for name, value in self.problem_parameters.items()
            if name not in known or known[name].default != _unlisted(value)
        }
        parts = [self.problem, _digest(unusual), self.algorithm, self.preset, _digest(self.parameters), str(self.seed)]
        return "-".join(part for part in parts if part)

    @property
    def group(self) -> str:
        """What it is in words, without the seed."""
        problem = f"{self.problem} ({_listed(self.problem_parameters)})" if self.problem_parameters else self.problem
        preset = f"{self.preset} ({_listed(self.parameters)})" if self.parameters else self.preset
        return f"{problem}, {self.algorithm}, {preset}"

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of `opdop.train`, but for the problem."""
        chosen = {
            "algorithm": self.algorithm,
            "preset": self.preset,
            "parameters": dict(self.parameters),
            "seed": self.seed,
        }
        return chosen | asdict(self.settings)

    def record(self) -> dict[str, Any]:
        """Return this as plain data."""
        return asdict(self)


@dataclass(frozen=True)
class _Grid:
    """One [[problem]] or [[algorithm]] of a spec, spread out: every choice of its values."""

    name: str
    choices: tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class Spec:
    """A sweep that was checked; made by `Spec.read`, `Spec.parse` or `Spec.of`.

    >>> spec = Spec.parse('seeds = 3\\n[[problem]]\\nname = "factored"\\nmoves = [2, 3]')
    >>> len(spec), next(iter(spec.jobs())).group
    (6, 'factored (moves=2), opdop, practical')
    >>> Spec.parse('[[problem]]\\nname = "factorred"\\n[[algorithm]]\\npresett = "paper"')
    Traceback (most recent call last):
    opdop.sweeps.spec.InvalidSpecError: the spec has 2 errors: problem[0].name: there is no problem 'factorred'; ...
    """

    text: str
    settings: Settings
    seeds: tuple[int, ...]
    problems: tuple[_Grid, ...] = field(repr=False)
    algorithms: tuple[_Grid, ...] = field(repr=False)

    @classmethod
    def read(cls, path: str | Path) -> Spec:
        """Read a spec from a file."""
        path = Path(path)
        try:
            with open(path, "rb") as file:
                text = file.read(_LARGEST_SPEC + 1).decode()
        except OSError as error:
            raise InvalidParameterError(f"the spec {str(path)!r} cannot be read: {error.strerror or error}.") from error
        except UnicodeDecodeError as error:
            raise InvalidSpecError(str(path), [f"it is not UTF-8 text ({error})"]) from error
        return cls.parse(text, origin=str(path))

    @classmethod
    def parse(cls, text: str, *, origin: str = "the spec") -> Spec:
        """Read a spec from a text in TOML."""
        if len(text) > _LARGEST_SPEC:
            raise InvalidSpecError(origin, [f"it is longer than {_LARGEST_SPEC} characters"])
        try:
            data = tomllib.loads(text)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise InvalidSpecError(origin, [f"it is not TOML: {error}"]) from error
        return _Reader(origin).spec(text, data)

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Spec:
        """Return the spec that data of the same form as the TOML describe."""
        try:
            return cls.parse(_toml(data), origin="the spec")
        except TypeError as error:
            raise InvalidSpecError("the spec", [str(error)]) from error

    def __len__(self) -> int:
        chosen = [sum(len(grid.choices) for grid in grids) for grids in (self.problems, self.algorithms)]
        return math.prod(chosen) * len(self.seeds)

    def jobs(self) -> Iterator[Job]:
        """Return every run, those of the first seed first: so all kinds of runs are seen early."""
        kinds = [
            (problem.name, parameters, algorithm.name, choice)
            for problem, algorithm in itertools.product(self.problems, self.algorithms)
            for parameters, choice in itertools.product(problem.choices, algorithm.choices)
        ]
        for seed in self.seeds:
            for problem_name, parameters, algorithm_name, choice in kinds:
                yield Job(
                    problem_name,
                    parameters,
                    algorithm_name,
                    choice["preset"],
                    choice["parameters"],
                    seed,
                    self.settings,
                )

    def record(self) -> dict[str, Any]:
        """Return this as plain data."""
        grids = {"problems": self.problems, "algorithms": self.algorithms}
        return {
            "settings": asdict(self.settings),
            "seeds": list(self.seeds),
            **{name: [asdict(grid) for grid in found] for name, found in grids.items()},
        }


def job_of(data: Mapping[str, Any]) -> Job:
    """Return the job that a record is of."""
    return Job(**{**data, "settings": Settings(**data["settings"])})


# Reading ---------------------------------------------------------------------------------------------------------


class _Reader:
    """Reads a spec and collects every mistake on the way."""

    def __init__(self, origin: str) -> None:
        self.origin = origin
        self.errors: list[str] = []

    def spec(self, text: str, data: Mapping[str, Any]) -> Spec:
        self._names("", data, ["seeds", "problem", "algorithm", *(each.name for each in fields(Settings))])
        settings = self._settings(data)
        seeds = self._seeds(data.get("seeds", 10))
        problems = self._entries("problem", data.get("problem", []), self._problem)
        algorithms = self._entries("algorithm", data.get("algorithm", [{}]), self._algorithm)
        if not problems and not any(error.startswith("problem") for error in self.errors):
            self.errors.append('problem: none is named; expected at least one [[problem]] with name = "..."')
        self._stop()
        counts = [sum(_count(values) for _, values in entries) for entries in (problems, algorithms)]
        runs = len(seeds) * math.prod(counts)
        if runs > MOST_RUNS:
            self.errors.append(f"it asks for {runs} runs; at most {MOST_RUNS} fit one sweep: use several")
        self._stop()
        spec = Spec(text, settings, tuple(seeds), _grids(problems, dict), _grids(algorithms, _constants))
        self._find_twins(spec)
        self._stop()
        return spec

    def _stop(self) -> None:
        if self.errors:
            more = len(self.errors) - _MOST_ERRORS
            raise InvalidSpecError(self.origin, self.errors[:_MOST_ERRORS] + [f"and {more} more"] * (more > 0))

    def _say(self, where: str, found: Any, expected: str) -> None:
        self.errors.append(f"{where}: found {reprlib.repr(found)}; expected {expected}")

    def _names(self, where: str, table: Mapping[str, Any], known: Iterable[str]) -> None:
        """Note every key that is not known."""
        known = list(known)
        self.errors += [f"{where}{name}: unknown{_near(name, known)}" for name in table if name not in known]

    def _number(self, where: str, value: Any, expected: str, fine: Callable[[float], bool]) -> Any:
        if _is_number(value) and math.isfinite(value) and fine(value):
            return value
        self._say(where, value, expected)
        return None

    def _whole(self, where: str, value: Any, least: int) -> int:
        """Return a whole number; 1e5 is one too."""
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _LARGEST_SEED:
            self._say(where, value, f"a whole number, at least {least}")
            return least
        return value

    def _settings(self, data: Mapping[str, Any]) -> Settings:
        values: dict[str, Any] = {}
        for name, least in (("episodes", 1), ("planned_episodes", 1), ("measure_every", 1), ("records", 2)):
            if name in data:
                values[name] = self._whole(name, data[name], least)
        for name in ("noisy",):
            if name in data:
                values[name] = data[name]
                if not isinstance(data[name], bool):
                    self._say(name, data[name], "true or false")
        for name in ("slater_gap", "dual_bound"):
            if name in data:
                values[name] = self._number(name, data[name], "a positive number", lambda value: value > 0)
        if "failure_probability" in data:
            expected = "a number between 0 and 1"
            values["failure_probability"] = self._number(
                "failure_probability", data["failure_probability"], expected, lambda p: 0 < p < 1
            )
        return Settings(**values)

    def _seeds(self, value: Any) -> range | list[int]:
        if not isinstance(value, list):
            return range(self._whole("seeds", value, 1))
        if not value:
            self._say("seeds", value, "a number of seeds, or a list of them")
        before = len(self.errors)
        seeds = [self._whole(f"seeds[{i}]", seed, 0) for i, seed in enumerate(value)]
        if len(self.errors) == before:  # a wrong entry has a stand-in that may look like a twin
            self.errors += [f"seeds: {seed} is there more than once" for seed, n in Counter(seeds).items() if n > 1]
        return seeds

    def _entries(self, where: str, value: Any, read: Callable[[str, Mapping[str, Any]], Any]) -> list[Any]:
        if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
            self.errors.append(f"{where}: expected tables, each opened by [[{where}]]")
            return []
        return [found for i, entry in enumerate(value) if (found := read(f"{where}[{i}]", entry)) is not None]

    def _name(self, where: str, what: str, name: Any, known: Iterable[str]) -> bool:
        known = list(known)
        if isinstance(name, str) and name in known:
            return True
        if name is None:
            self.errors.append(f"{where}.name: missing; expected one of {', '.join(known)}")
        else:
            there = (_near(name, known) if isinstance(name, str) else "") or f"; there are {', '.join(known)}"
            self.errors.append(f"{where}.name: there is no {what} {reprlib.repr(name)}{there}")
        return False

    def _problem(self, where: str, entry: Mapping[str, Any]) -> tuple[str, dict[str, list[Any]]] | None:
        """Return a problem's name and the values of each parameter that is named."""
        if not self._name(where, "problem", entry.get("name"), environments()):
            return None
        known: Environment = environments()[entry["name"]]
        given = {name: value for name, value in entry.items() if name != "name"}
        self._names(f"{where}.", given, known.parameters)
        values = {
            name: self._parameter(f"{where}.{name}", parameter, given[name])
            for name, parameter in known.parameters.items()
            if name in given
        }
        return known.name, values

    def _parameter(self, where: str, parameter: Parameter, value: Any) -> list[Any]:
        """Return the values that a parameter is to have; a list is a grid, unless the parameter is itself a list."""
        deep = isinstance(value, list) and bool(value) and isinstance(value[0], list)
        grid = value if isinstance(value, list) and (parameter.type is not tuple or deep) else [value]
        if not grid:
            self._say(where, grid, parameter.expected)
        clean: list[Any] = []
        for i, choice in enumerate(grid):
            place = f"{where}[{i}]" if grid is value else where
            if parameter.optional and choice == "none":
                clean.append(None)
                continue
            if parameter.type is int and isinstance(choice, float) and choice.is_integer():
                choice = int(choice)  # noqa: PLW2901 - TOML writes 1e5 as a float
            try:
                clean.append(parameter.check(choice, place))
            except InvalidParameterError:
                self._say(place, choice, parameter.expected)
        return clean

    def _algorithm(self, where: str, entry: Mapping[str, Any]) -> tuple[str, dict[str, list[Any]]] | None:
        """Return an algorithm's name, its presets, and the values of each parameter."""
        self._names(f"{where}.", entry, ["name", "preset", "parameters"])
        known = self._name(where, "algorithm", entry.get("name", "opdop"), algorithms())
        chosen = entry.get("preset", "practical")
        chosen = chosen if isinstance(chosen, list) else [chosen]
        if not chosen:
            self._say(f"{where}.preset", chosen, f"one of {', '.join(presets())}")
        for preset in chosen:
            if not isinstance(preset, str) or preset not in presets():
                there = (_near(preset, presets()) if isinstance(preset, str) else "") or (
                    f"; there are {', '.join(presets())}"
                )
                self.errors.append(f"{where}.preset: there is no preset {reprlib.repr(preset)}{there}")
        parameters = entry.get("parameters", {})
        if not isinstance(parameters, dict):
            self._say(f"{where}.parameters", parameters, "a table, as {radius_scale = 0.1}")
            return None
        valid = [preset for preset in chosen if isinstance(preset, str) and preset in presets()]
        values = {
            name: self._algorithm_parameter(f"{where}.parameters.{name}", name, value, valid)
            for name, value in parameters.items()
        }
        return (entry.get("name", "opdop"), {"preset": valid, **values}) if known else None

    def _algorithm_parameter(self, where: str, name: str, value: Any, chosen: Iterable[str]) -> list[Any]:
        for preset in chosen:
            own = presets()[preset]
            if name not in own:
                there = _near(name, own) or (f"; it has {', '.join(own)}" if own else "; it has none")
                self.errors.append(f"{where}: preset {preset!r} has no such parameter{there}")
        grid = value if isinstance(value, list) else [value]
        if not grid:
            self._say(where, value, "a positive number, or a list of them")
        return [
            self._number(
                f"{where}[{i}]" if grid is value else where, choice, "a positive number", lambda each: each > 0
            )
            for i, choice in enumerate(grid)
        ]

    def _find_twins(self, spec: Spec) -> None:
        """Note kinds of runs that are asked for more than once."""
        seen: dict[str, str] = {}
        for job in itertools.islice(spec.jobs(), len(spec) // len(spec.seeds)):
            if job.key in seen:
                self.errors.append(f"asked for twice: {job.group}")
            seen[job.key] = job.group


def _count(values: Mapping[str, list[Any]]) -> int:
    return math.prod(len(each) for each in values.values())


def _grids(
    entries: Iterable[tuple[str, dict[str, list[Any]]]], form: Callable[[dict[str, Any]], dict[str, Any]]
) -> tuple[_Grid, ...]:
    return tuple(
        _Grid(
            name, tuple(form(dict(zip(values, chosen, strict=True))) for chosen in itertools.product(*values.values()))
        )
        for name, values in entries
    )


def _constants(choice: dict[str, Any]) -> dict[str, Any]:
    return {"preset": choice.pop("preset"), "parameters": choice}


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _near(wrong: str, known: Iterable[str]) -> str:
    found = difflib.get_close_matches(wrong, list(known), n=1, cutoff=0.5)
    return f"; did you mean {found[0]}?" if found else ""


def _digest(values: Mapping[str, Any]) -> str:
    """Return a few letters that stand for the values, or nothing for none."""
    if not values:
        return ""
    numbers = {name: float(value) if _is_number(value) else value for name, value in values.items()}
    return hashlib.sha256(json.dumps(numbers, sort_keys=True).encode()).hexdigest()[:8]


def _unlisted(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _listed(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={_text(value)}" for name, value in values.items())


def _text(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_text(entry) for entry in value) + "]"
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def _toml(data: Mapping[str, Any]) -> str:
    """Return data as TOML text: plain values first, then lists of tables."""
    tables = {name: value for name, value in data.items() if name in ("problem", "algorithm")}
    lines = [f"{_toml_key(name)} = {_toml_value(value)}" for name, value in data.items() if name not in tables]
    for name, entries in tables.items():
        for entry in entries if isinstance(entries, (list, tuple)) else [entries]:
            table = {"name": entry} if isinstance(entry, str) else entry
            if not isinstance(table, Mapping):
                raise TypeError(f"{name}: found {reprlib.repr(entry)}; expected a name, or a table with one")
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
    if not isinstance(value, _PLAIN):
        raise TypeError(f"{reprlib.repr(value)} is of type {type(value).__name__}; expected what TOML can hold")
    if isinstance(value, str):
        return json.dumps(value)
    return str(value).lower() if isinstance(value, (bool, float)) else str(value)
