"""The registry that finds every problem, checks its parameters and builds it."""

from __future__ import annotations

import functools
import importlib
import inspect
import math
import pkgutil
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any, ParamSpec, TypeAlias, TypeVar

import numpy as np

from opdop.model import DescribedSimulator, InvalidModelError, InvalidParameterError, Problem, suggestion
from opdop.model.validation import call, shown

Value: TypeAlias = bool | int | float | str | tuple[float, ...] | None
Kind: TypeAlias = type[Any]
P = ParamSpec("P")
Built = TypeVar("Built", bound=Problem)

_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0"})
_NONE = frozenset({"none", "null"})
_MOST_ENTRIES = 10**6  # of a list that is given as an array
_WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text", tuple: "a list of numbers"}


@dataclass(frozen=True)
class Parameter:
    """The meaning and bounds of one of a problem's parameters; written as Annotated[int, Parameter("...", low=1)] = 6.

    `low` and `high` may be reached, `above` and `below` may not. Of a list, each entry lies within the bounds.
    The last three fields are read from the function's signature.
    """

    help: str
    low: float | None = None
    high: float | None = None
    above: float | None = None
    below: float | None = None
    choices: tuple[str, ...] = ()
    type: Kind = float
    optional: bool = False
    default: Value = None

    @property
    def expected(self) -> str:
        """What a value must be, in words.

        >>> Parameter("stages in one episode", low=1, high=50, type=int).expected
        'a whole number, at least 1, at most 50'
        """
        words = [f"one of {', '.join(self.choices)}" if self.choices else _WORDS[self.type]]
        bounds = (("at least", self.low), ("above", self.above), ("at most", self.high), ("below", self.below))
        limits = [f"{word} {bound:g}" for word, bound in bounds if bound is not None]
        if self.type is tuple and limits:
            words[0] += ", each"
            limits[0] = f"{words.pop()} {limits[0]}"
        return ", ".join(words + limits) + (", or none" if self.optional else "")

    def check(self, value: object, label: str) -> Value:
        """Return a value as its declared type, or raise InvalidParameterError, which names it by its label."""
        if value is None and self.optional:
            return None
        clean = self._convert(value)
        numbers = clean if isinstance(clean, tuple) else (clean,)
        if clean is None or not all(self._allows(number) for number in numbers):
            found = shown(value) + (f" ({type(value).__name__})" if clean is None else "")
            raise InvalidParameterError(f"{label} is {found}; expected {self.expected}: {self.help}.")
        return clean

    def read(self, text: str, label: str) -> Value:
        """Return the value of a command line's text, or raise InvalidParameterError, which names it by its label."""
        words = text.strip()
        if self.optional and words.lower() in _NONE:
            return None
        value: object = text
        if self.type is bool:
            value = {**dict.fromkeys(_TRUE, True), **dict.fromkeys(_FALSE, False)}.get(words.lower(), text)
        elif self.type is tuple:
            value = tuple(_read_number(part, float) for part in words.strip("()[]").split(",") if part.strip())
        elif self.type is not str:
            value = _read_number(words, self.type)
        try:
            return self.check(value, label)
        except InvalidParameterError:
            raise InvalidParameterError(f"{label} is {shown(text)}; expected {self.expected}: {self.help}.") from None

    def _convert(self, value: object) -> Value:
        """Return the value as the declared type, or None if it is of another type."""
        if isinstance(value, bool | np.bool_) or self.type is bool:
            return bool(value) if isinstance(value, bool | np.bool_) and self.type is bool else None
        if self.type is str:
            return value if isinstance(value, str) else None
        if self.type is int:
            return int(value) if isinstance(value, Integral) else None
        if self.type is float:
            return _as_float(value)
        if isinstance(value, np.ndarray):
            listed: object = value.tolist() if value.ndim == 1 and value.size <= _MOST_ENTRIES else None
        else:
            listed = value
        if not isinstance(listed, list | tuple) or not listed:
            return None
        entries = [_as_float(entry) for entry in listed]
        return None if None in entries else tuple(entry for entry in entries if entry is not None)

    def _allows(self, value: Value) -> bool:
        if isinstance(value, str):
            return not self.choices or value in self.choices
        if not isinstance(value, int | float) or isinstance(value, bool):
            return True
        return (
            (isinstance(value, int) or math.isfinite(value))
            and (self.low is None or value >= self.low)
            and (self.above is None or value > self.above)
            and (self.high is None or value <= self.high)
            and (self.below is None or value < self.below)
        )


@dataclass(frozen=True)
class Environment:
    """A problem that ships: its name, summary and description, its parameters, and the function that builds it."""

    name: str
    summary: str
    description: str
    parameters: Mapping[str, Parameter]
    build: Callable[..., Any]  # -> a Problem; one of your own may also return a DescribedSimulator

    def check(self, given: Mapping[str, object]) -> dict[str, Value]:
        """Return the value of every parameter, given or default, or raise InvalidParameterError."""
        for key in given:
            self._find(key)
        return {
            key: parameter.check(given.get(key, parameter.default), f"{key} of {self.name!r}")
            for key, parameter in self.parameters.items()
        }

    def parse(self, settings: Iterable[str]) -> dict[str, Value]:
        """Return the parameters that `settings`, texts "key=value", set, each value of its parameter's type.

        Raises InvalidParameterError if a text is not of this form, a key is unknown or set twice, or a value is wrong.
        """
        values: dict[str, Value] = {}
        for setting in call("reading the settings", list, settings):
            if not isinstance(setting, str):
                raise InvalidParameterError(f"{shown(setting)} is not a setting of {self.name!r}; expected key=value.")
            key, equals, text = setting.partition("=")
            key = key.strip().replace("-", "_")
            if not equals or not key:
                raise InvalidParameterError(f"{shown(setting)} is not a setting of {self.name!r}; expected key=value.")
            if key in values:
                raise InvalidParameterError(f"{key} of {self.name!r} is set twice; expected one value.")
            values[key] = self._find(key).read(text, f"{key} of {self.name!r}")
        return values

    def _find(self, key: str) -> Parameter:
        if key not in self.parameters:
            known = ", ".join(self.parameters) or "none"
            near = suggestion(key, self.parameters)
            raise InvalidParameterError(f"{self.name!r} has no parameter {shown(key)}.{near} Its parameters: {known}.")
        return self.parameters[key]


_found: dict[str, Environment] = {}


def environment(name: str, *, summary: str) -> Callable[[Callable[P, Built]], Callable[P, Built]]:
    """Register the function below as the problem `name`; its docstring is the description.

    Every parameter is keyword-only, has a default, and is annotated Annotated[type, Parameter(...)], the type
    being int, float, bool, str or tuple[float, ...], or one of these or None. The function is then called with
    checked values of exactly these types, by `make` or directly, and its model shows the values it was built from.

    Args:
        name: by which `make` and the command line find the problem.
        summary: one sentence for lists of problems.

    Returns:
        The decorator. It raises InvalidParameterError if the name is taken, or if the description, the annotation of a
        parameter or its default is missing.
    """

    def register(function: Callable[P, Built]) -> Callable[P, Built]:
        if name in _found:
            raise InvalidParameterError(
                f"there are two environments named {name!r}: {_found[name].build.__module__} and {function.__module__}."
            )
        description = " ".join((inspect.getdoc(function) or "").split())
        if not description or not summary:
            raise InvalidParameterError(f"environment {name!r} has no description; expected a summary and a docstring.")

        @functools.wraps(function)
        def build(*args: P.args, **given: P.kwargs) -> Built:
            values = entry.check(given)
            chosen: Any = values
            try:
                model = function(*args, **chosen)
            except InvalidModelError as error:
                raise InvalidParameterError(f"these parameters of {name!r} do not make a problem: {error}") from error
            return model.with_display(replace(model.display, name=name, summary=summary, parameters=values))

        entry = Environment(name, summary, description, MappingProxyType(_read_signature(name, function)), build)
        entry.check({})
        _found[name] = entry
        return build

    return register


def environments() -> Mapping[str, Environment]:
    """Return every problem by its name, in alphabetical order; numbers in names count as numbers."""
    _import_all()
    return MappingProxyType(dict(sorted(_found.items(), key=lambda item: _natural(item[0]))))


def make(name: str, **parameters: object) -> Problem:
    """Build and return the problem `name`; parameters not given have their defaults.

    Raises InvalidParameterError, with the nearest name, if there is no such problem or parameter, and if a value is
    wrong.

    >>> make("factored", stages=9)
    TabularCMDP('factored': 3 states, 2 actions, 9 stages, 1 constraint, dense, stationary)
    >>> make("factored", stages=0)
    Traceback (most recent call last):
    opdop.model.errors.InvalidParameterError: stages of 'factored' is 0; expected a whole number, at least 1, ...
    """
    made = make_trainable(name, **parameters)
    if not isinstance(made, Problem):
        raise InvalidParameterError(
            f"{shown(name)} is a simulator, whose model is not known; expected a model. `opdop run`, `opdop check`, "
            "`opdop.train`, sweeps and comparisons take simulators too."
        )
    return made


def make_trainable(name: str, **parameters: object) -> Problem | DescribedSimulator:
    """Build and return the problem `name`, or the simulator that a function of your own returns.

    The `parameters` and the errors are those of `make`.
    """
    made: Problem | DescribedSimulator = environment_of(name).build(**parameters)
    return made


def parse(name: str, settings: Iterable[str]) -> dict[str, Value]:
    """Return `settings`, texts "key=value" from a command line, as the typed parameters of the problem `name`.

    Raises InvalidParameterError if there is no such problem or parameter, or if a value is wrong.

    >>> parse("factored", ["stages=9", "moves=4.5"])
    {'stages': 9, 'moves': 4.5}
    """
    return environment_of(name).parse(settings)


def environment_of(name: object) -> Environment:
    """Return a problem by its name: a shipped one, or one of `opdop.envs.own_problems`.

    Raises InvalidParameterError, with the nearest name, if there is none.
    """
    known = environments()
    if isinstance(name, str) and name in known:
        return known[name]
    from opdop.envs.own_problems import find_own, installed_names  # late: it imports this module

    own = find_own(name) if isinstance(name, str) else None
    if own is None:
        names = [*known, *installed_names()]
        near = suggestion(name, names)
        raise InvalidParameterError(f"there is no environment {shown(name)}.{near} Environments: {', '.join(names)}.")
    return own


@functools.cache
def _import_all() -> None:
    package = importlib.import_module("opdop.envs")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"opdop.envs.{module.name}")


def _read_signature(name: str, function: Callable[..., Problem]) -> dict[str, Parameter]:
    """Return the parameters that a function's signature declares."""
    hints = typing.get_type_hints(function, include_extras=True)
    parameters = {}
    for key, found in inspect.signature(function).parameters.items():
        where = f"parameter {key!r} of environment {name!r}"
        _, *notes = typing.get_args(hints.get(key)) or (None,)
        if found.kind is not found.KEYWORD_ONLY or found.default is found.empty or key == "name":
            raise InvalidParameterError(f"{where} must be keyword-only, have a default, and not be called 'name'.")
        if len(notes) != 1 or not isinstance(notes[0], Parameter) or not notes[0].help:
            raise InvalidParameterError(
                f"{where} is not documented; expected Annotated[type, Parameter('what it is')]."
            )
        kind, optional = _read_type(typing.get_args(hints[key])[0], where)
        parameters[key] = replace(notes[0], type=kind, optional=optional, default=found.default)
    return parameters


def _read_type(hint: Any, where: str) -> tuple[Kind, bool]:
    """Return the plain type of an annotation, and whether it may be None."""
    options = [hint]
    if isinstance(hint, types.UnionType):
        options = [option for option in typing.get_args(hint) if option is not types.NoneType]
    kind = typing.get_origin(options[0]) or options[0]
    if len(options) != 1 or kind not in _WORDS or (kind is tuple and typing.get_args(options[0]) != (float, ...)):
        raise InvalidParameterError(
            f"{where} is declared {hint}; expected int, float, bool, str or tuple[float, ...], or one of these or None."
        )
    return kind, isinstance(hint, types.UnionType)


def _as_float(value: object) -> float | None:
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _read_number(text: str, kind: Kind) -> object:
    try:
        return kind(text)
    except ValueError:
        return text


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]
