"""Names of groups of runs: the settings in which their configurations differ."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from opdop.report.summary.solution import setting_text
from opdop.runs import RunConfig, settings


def labels(configs: list[RunConfig]) -> list[str]:
    """Return a name for each group: the algorithm, and the settings in which the groups differ."""
    labels = [" ".join([config.algorithm, *words]) for config, words in zip(configs, differences(configs), strict=True)]
    used: set[str] = set()
    return [unused(printable(label), used) for label in labels]


def without_seed(config: RunConfig) -> str:
    """Return a text that is the same for configurations that differ only in their seed."""
    return key_of({**config.record(), "seed": None})


def differences(configs: Sequence[RunConfig]) -> list[list[str]]:
    """Return for each configuration its settings, in words, in which these configurations differ.

    The algorithm is left out.
    """
    varying = [name for name in settings() if len({key_of({"": getattr(each, name)}) for each in configs}) > 1]
    if all(config.planned_episodes == config.episodes for config in configs):
        varying = [name for name in varying if name != "planned_episodes"]
    found = []
    for config in configs:
        words = []
        for name in varying:
            value = getattr(config, name)
            if isinstance(value, Mapping):
                value = " ".join(f"{parameter}={setting_text(each)}" for parameter, each in value.items())
            if value and name != "algorithm":
                shown = f"{value:,}" if isinstance(value, int) else setting_text(value)
                words.append(settings()[name].label.format(shown))
        found.append(words)
    return found


def unused(name: str, used: set[str]) -> str:
    """Return the name, with a number if it is used already, and add it to `used`."""
    free, count = name, 1
    while free in used:
        count += 1
        free = f"{name}-{count}"
    used.add(free)
    return free


def key_of(data: Mapping[str, Any]) -> str:
    """Return settings as a text that is the same for equal settings."""
    return json.dumps(data, sort_keys=True, default=str)


def printable(text: object) -> str:
    """Return a text without control characters, except line ends and tabs."""
    return "".join(letter for letter in str(text) if letter in "\n\t" or letter.isprintable())
