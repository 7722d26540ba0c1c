"""Explicit models of PRISM and Storm: transitions in .tra, labels in .lab, rewards of states in .srew."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from opdop.model.errors import InvalidModelError
from opdop.model.text_files import read_text
from opdop.model.validation import Floats, shown


def read_prism(folder: Path, files: Any) -> dict[str, Any]:
    """Return the arguments of TabularCMDP that the files of a model give.

    Args:
        folder: where the files are.
        files: `transitions` (.tra), and if there are any `labels` (.lab), `reward` (.srew), and `costs` and `utilities`
            (.srew by name). The first states have the label `init`; without labels, state 0 is the first.

    A state with fewer choices than others repeats its first choice. Raises InvalidModelError, with the line, if a file
    cannot be understood, and OSError if it cannot be read.
    """
    known = ("transitions", "labels", "reward", "costs", "utilities")
    if not isinstance(files, Mapping) or not set(files) <= set(known) or "transitions" not in files:
        raise InvalidModelError(f"prism is {shown(files)}; expected transitions, and some of {', '.join(known[1:])}")
    kernel, S, A = _transitions(_file(folder, files["transitions"]))
    arguments: dict[str, Any] = {"transitions": kernel, "rewards": np.zeros((S, A)), "initial": 0}
    if "reward" in files:
        arguments["rewards"] = _state_rewards(_file(folder, files["reward"]), S, A)
    for kind in ("costs", "utilities"):
        if kind in files:
            named = files[kind]
            if not isinstance(named, Mapping):
                raise InvalidModelError(f"prism.{kind} is {shown(named)}; expected files by name")
            arguments[kind] = {name: _state_rewards(_file(folder, file), S, A) for name, file in named.items()}
    if "labels" in files:
        arguments["initial"] = _initial(_file(folder, files["labels"]), S)
    return arguments


def _file(folder: Path, name: Any) -> Path:
    """Return a file of the model's own folder: a name from a file must not lead elsewhere."""
    if not isinstance(name, str) or not name or Path(name).is_absolute() or ".." in Path(name).parts:
        raise InvalidModelError(f"a file is named {shown(name)}; expected one in the folder of the model")
    return folder / name


def _lines(path: Path) -> list[tuple[int, list[str]]]:
    """Return the words of each line that is not empty and no comment, with its number."""
    text = read_text(path)
    lines = ((n, line.split()) for n, line in enumerate(text.splitlines(), 1) if not line.startswith(("#", "//")))
    return [(n, words) for n, words in lines if words and words not in (["mdp"], ["dtmc"])]


def _transitions(path: Path) -> tuple[Any, int, int]:
    """Return the kernel [S*A, S], S and A."""
    lines = _lines(path)
    if not lines or len(lines[0][1]) not in (2, 3):
        raise InvalidModelError(f"{path.name} has no header; expected the numbers of states, choices and transitions")
    has_choices = len(lines[0][1]) == 3
    S, T = (_whole(path, *lines[0], place) for place in (0, -1))
    body = lines[1:]
    if T != len(body) or not 1 <= S <= T:  # so that a header that lies takes no memory
        raise InvalidModelError(f"{path.name} says {S} states and {T} transitions, and has {len(body)} lines")
    width = 3 if has_choices else 2
    entries = []
    for n, words in body:
        if len(words) < width + 1:
            raise InvalidModelError(f"{path.name}, line {n} has {len(words)} words; expected {width + 1}")
        numbers = [_whole(path, n, words, i) for i in range(width)]
        entries.append((numbers[0], numbers[1] if has_choices else 0, numbers[-1], _number(path, n, words[width])))
    sources, choices, targets = (np.array([entry[i] for entry in entries]) for i in range(3))
    chances = np.array([entry[3] for entry in entries])
    if max(sources.max(), targets.max()) >= S or choices.max() >= len(body):
        raise InvalidModelError(f"{path.name} has a state or a choice beyond those of its header")
    A = 1 + int(choices.max())
    if S * A > 1000 * len(body):
        raise InvalidModelError(f"{path.name} has up to {A} choices in {S} states, and only {len(body)} lines")
    kernel = sparse.csr_array(sparse.coo_array((chances, (sources * A + choices, targets)), shape=(S * A, S)))
    empty = np.flatnonzero(np.diff(kernel.indptr) == 0)
    rows = np.arange(S * A)
    rows[empty] = empty // A * A
    return kernel[rows], S, A


def _state_rewards(path: Path, S: int, A: int) -> Floats:
    """Return the rewards of states as a table [S, A]: each action earns that of its state."""
    lines = _lines(path)
    if not lines or _whole(path, *lines[0], 0) != S:
        raise InvalidModelError(f"{path.name} does not begin with the number of states, {S}")
    rewards = np.zeros(S)
    for n, words in lines[1:]:
        x = _whole(path, n, words, 0)
        if len(words) != 2 or x >= S:
            raise InvalidModelError(f"{path.name}, line {n} is {shown(' '.join(words))}; expected a state and a reward")
        rewards[x] = _number(path, n, words[1])
    return np.repeat(rewards[:, None], A, axis=1)


def _initial(path: Path, S: int) -> Floats:
    """Return the distribution of the first state: uniform on those with the label `init`."""
    lines = _lines(path)
    names = dict(word.split("=", 1) for word in lines[0][1] if "=" in word) if lines else {}
    found = [number for number, name in names.items() if name.strip('"') == "init"]
    if not found:
        raise InvalidModelError(f'{path.name} declares no label "init" in its first line')
    initial = np.zeros(S)
    for n, words in lines[1:]:
        x = _whole(path, n, [words[0].rstrip(":")], 0)
        if x >= S:
            raise InvalidModelError(f"{path.name}, line {n} is of state {x}; expected 0 to {S - 1}")
        initial[x] = float(found[0] in words[1:])
    if not initial.any():
        raise InvalidModelError(f'{path.name} gives no state the label "init"')
    return np.asarray(initial / initial.sum())


def _whole(path: Path, line: int, words: list[str], place: int) -> int:
    word = words[place]
    if not word.isascii() or not word.isdigit() or len(word) > 15:
        raise InvalidModelError(f"{path.name}, line {line} has {shown(word)}; expected a whole number")
    return int(word)


def _number(path: Path, line: int, word: str) -> float:
    try:
        return float(word)
    except ValueError:
        raise InvalidModelError(f"{path.name}, line {line} has {shown(word)}; expected a number") from None
