"""The configuration of a run: every setting that decides its numbers, in one list.

`train`, checkpoints, sweep specifications, the command line, the grouping of runs in a report and the commands that a
report prints all read this list. A new setting is one new field of `RunConfig`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import numpy as np

from opdop.model import InvalidParameterError
from opdop.model.validation import MOST_EPISODES, as_flag, as_number, check_failure_probability, is_number, shown
from opdop.runs.goal import check_until

MOST_RECORDS = 10_000_000
LARGEST_SEED = 2**63 - 1  # the largest integer that JSON readers, Parquet and SQLite agree on
DEFAULT_EPISODES = 100_000
# Settings that runs of earlier versions do not have: they have the default.
BY_PROBLEM = ("algorithm", "episodes", "certificates")  # their defaults on the command line depend on the problem
ADDED = ("stationary", "until", "certificates", "evaluation_episodes")

Check = Callable[[str, Any], Any]  # (name, value) -> the clean value; raises InvalidParameterError


@dataclass(frozen=True)
class Setting:
    """What is known of one setting beside its value: how to check it, and what the command line and reports call it."""

    check: Check
    flag: str = ""  # of the command line; "" where it is not an option of its own
    metavar: str = ""
    help: str = ""
    label: str = "{}"  # how a report names a value that tells two groups of runs apart


def whole(least: int, most: int) -> Check:
    """Return a check for a whole number in [least, most]; a float such as 1e5 counts as one."""

    def check(name: str, value: Any) -> int:
        if is_number(value) and least <= value <= most and value == int(value):
            return int(value)
        raise InvalidParameterError(
            f"{name} is {shown(value)}; expected a whole number, at least {least}, at most {most}."
        )

    return check


def positive(name: str, value: Any) -> float:
    """Return a positive finite number."""
    if (number := as_number(name, value, "a positive number")) > 0.0:
        return number
    raise InvalidParameterError(f"{name} is {shown(value)}; expected a positive number.")


def text(name: str, value: Any) -> str:
    """Return a text of letters that a terminal can show."""
    if not isinstance(value, str) or not value or not value.isprintable():
        raise InvalidParameterError(f"{name} is {shown(value)}; expected a name.")
    return value


def optional(check: Check) -> Check:
    """Return a check that also accepts None."""
    return lambda name, value: None if value is None else check(name, value)


def positive_numbers(name: str, value: Any) -> dict[str, float]:
    """Return names with positive numbers."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidParameterError(f"{name} is {shown(value)}; expected names with numbers, {{'name': 1.0}}.")
    return {text(f"a name in {name}", key): positive(key, each) for key, each in value.items()}


def plain_values(name: str, value: Any) -> dict[str, Any]:
    """Return names with plain values: numbers, texts, truth values, None, or sequences of them."""
    if not isinstance(value, Mapping):
        raise InvalidParameterError(f"{name} is {shown(value)}; expected names with values, {{'name': 1}}.")
    return {text(f"a name in {name}", key): _plain(f"{name}[{key!r}]", each) for key, each in value.items()}


def _setting(default: Any, check: Check, **about: str) -> Any:
    metadata = {"setting": Setting(check, **about)}
    if isinstance(default, dict):
        return field(default_factory=dict, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Every setting of a run, checked. Two runs with equal configurations have equal numbers, bit for bit.

    Raises InvalidParameterError for the first setting that is wrong, with what was found and what was expected.

    >>> " ".join(RunConfig(problem="factored", episodes=2000, slater_gap=0.5).command())
    'opdop run factored --algorithm opdop --episodes 2000 --slater-gap 0.5 --certificates 0'
    >>> RunConfig(problem="factored", failure_probability=0.95)
    Traceback (most recent call last):
    opdop.model.errors.InvalidParameterError: failure_probability is 0.95; expected ... give 0.05.
    """

    problem: str = _setting("model", text)
    problem_parameters: Mapping[str, Any] = _setting(
        {}, plain_values, flag="--set", metavar="KEY=VALUE", help="Set a parameter of the problem; may be repeated."
    )
    algorithm: str = _setting(
        "opdop", text, flag="--algorithm", metavar="NAME", help="Algorithm; doubling:NAME needs no planned K."
    )
    preset: str | None = _setting(
        "practical",
        optional(text),
        flag="--preset",
        metavar="NAME",
        help="Source of the constants: see `opdop algorithms`.",
    )
    parameters: Mapping[str, float] = _setting(
        {},
        positive_numbers,
        flag="--param",
        metavar="NAME=VALUE",
        help="Set a parameter of the preset; may be repeated.",
    )
    episodes: int = _setting(
        DEFAULT_EPISODES,
        whole(1, MOST_EPISODES),
        flag="--episodes",
        metavar="K",
        help="Episodes to play.",
        label="{} episodes",
    )
    seed: int = _setting(
        0,
        whole(0, LARGEST_SEED),
        flag="--seed",
        metavar="S",
        help="The same seed gives the same run, bit for bit.",
        label="seed {}",
    )
    planned_episodes: int | None = _setting(
        None,
        optional(whole(1, MOST_EPISODES)),
        flag="--planned-episodes",
        metavar="K",
        help="K in the constants, if it differs from --episodes.",
        label="planned for {}",
    )
    failure_probability: float = _setting(
        0.05,
        check_failure_probability,
        flag="--delta",
        metavar="P",
        help="Failure probability of the guarantee.",
        label="failure probability {}",
    )
    slater_gap: float | None = _setting(
        None,
        optional(positive),
        flag="--slater-gap",
        metavar="G",
        help="A lower bound on the Slater gap; computed from the model by default.",
        label="Slater gap {}",
    )
    dual_bound: float | None = _setting(
        None,
        optional(positive),
        flag="--dual-bound",
        metavar="C",
        help="Upper bound on the multipliers, instead of 2H / Slater gap.",
        label="dual bound {}",
    )
    noisy: bool = _setting(
        False, as_flag, flag="--noisy", help="Observe rewards and utilities as random 0 or 1.", label="noisy"
    )
    stationary: bool | None = _setting(
        None,
        optional(as_flag),
        flag="--stationary/--per-stage",
        help="Whether the kernel is the same at every stage; by default as the problem says.",
        label="stationary {}",
    )
    until: str | None = _setting(
        None,
        check_until,
        flag="--until",
        metavar="GAP",
        help="End once a policy is certified to keep every constraint and to be this near to the best: a share of the "
        "reward range, as 0.05, or own units, as '0.2 steps'.",
        label="until {}",
    )
    certificates: int = _setting(
        0,
        whole(0, 1000),
        flag="--certificates",
        metavar="N",
        help="Record the certificate at about N sizes of the data, for figures.",
        label="{} certificates",
    )
    measure_every: int = _setting(
        1,
        whole(1, MOST_EPISODES),
        flag="--measure-every",
        metavar="N",
        help="Measure one episode in N: faster, but sums are not exact.",
        label="one in {} measured",
    )
    records: int = _setting(
        1000,
        whole(2, MOST_RECORDS),
        flag="--records",
        metavar="N",
        help="Episodes that the history keeps.",
        label="{} records",
    )
    evaluation_episodes: int = _setting(
        0,
        whole(0, MOST_EPISODES),
        flag="--evaluation-episodes",
        metavar="N",
        help="Then play N fresh episodes with the final policy, for intervals.",
        label="{} evaluation episodes",
    )

    def __post_init__(self) -> None:
        for name, setting in settings().items():
            object.__setattr__(self, name, setting.check(name, getattr(self, name)))

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> RunConfig:
        """Return the configuration that `record()` described.

        Settings of `ADDED` may be missing. Raises InvalidParameterError if another one is, or if one is unknown or
        wrong.
        """
        if not isinstance(record, Mapping) or record.keys() | set(ADDED) != settings().keys():
            found = shown(sorted(map(str, record)) if isinstance(record, Mapping) else record)
            raise InvalidParameterError(f"a configuration has {found}; expected {', '.join(settings())}.")
        return cls(**record)

    def record(self) -> dict[str, Any]:
        """Return the settings as plain data that JSON can hold."""
        return asdict(self)

    def but(self, **changes: Any) -> RunConfig:
        """Return the configuration with `changes`, settings by name; raises InvalidParameterError if one is wrong."""
        return replace(self, **changes)

    def command(self) -> list[str]:
        """Return the words of the `opdop run` command that makes this run.

        Settings at their defaults are left out, except those whose default on the command line depends on the problem.
        """
        words = ["opdop", "run", self.problem]
        for each in fields(self):
            flag, value = each.metadata["setting"].flag, getattr(self, each.name)
            if not flag or value in (None, {}) or (value == each.default and each.name not in BY_PROBLEM):
                continue
            if isinstance(value, Mapping):
                words += [word for key, entry in value.items() for word in (flag, f"{key}={exact_text(entry)}")]
            elif isinstance(value, bool):
                words.append(flag.split("/")[0 if value else -1])
            elif not (each.name == "planned_episodes" and value == self.episodes):
                words += [flag, exact_text(value)]
        return words


def settings() -> dict[str, Setting]:
    """Return every setting of a run by name."""
    return {each.name: each.metadata["setting"] for each in fields(RunConfig)}


def exact_text(value: Any) -> str:
    """Return a value as the command line reads it, with every digit."""
    if isinstance(value, (list, tuple)):
        return ",".join(exact_text(entry) for entry in value)
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, float) else str(value)


def _plain(name: str, value: Any) -> Any:
    value = value.tolist() if isinstance(value, (np.generic, np.ndarray)) else value
    if isinstance(value, (list, tuple)):
        return tuple(_plain(name, each) for each in value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int) and abs(value) <= LARGEST_SEED:
        return int(value)
    if (isinstance(value, float) and not math.isnan(value)) or (isinstance(value, str) and value.isprintable()):
        return value
    raise InvalidParameterError(f"{name} is {shown(value)}; expected a number, a text, or a list of them.")
