"""Wrong command lines: each ends with a documented exit status and never with a traceback."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import opdop
from attack.mutations import HOSTILE_TEXT
from opdop.__main__ import main

LINES = (
    "envs",
    "envs inventory",
    "envs --json",
    "solve factored",
    "solve factored --set moves=2 --json",
    "solve gridworld --set seed=3 --figure map.svg",
    "algorithms",
    "algorithms --json",
    "run factored --episodes 20",
    "run factored -k 20 --seed 3 --preset certified --delta 0.1 --slater-gap 0.5",
    "run factored -k 20 --param step_scale=10 --dual-bound 3 --noisy --measure-every 2 --records 5",
    "run factored -k 20 --out kept",
    "run --resume kept",
    "run factored -k 20 --figure run.svg --json",
    "sweep spec.toml --out sweep --check",
    "sweep spec.toml --out sweep --workers 1",
    "runs sweep",
    "runs sweep --json",
    "report sweep",
    "compare factored --algorithms opdop,oppo --seeds 2 --episodes 5 --check",
    "verify factored -k 2 --seeds 1",
    "--help",
    "run --help",
    "--version",
)
SPEC = 'episodes = 5\nseeds = 1\n[[problem]]\nname = "factored"\n'
WORDS = (
    "",
    "-1",
    "0",
    "1e400",
    "nan",
    "inf",
    "0.95",
    "9" * 400,
    "a=b=c",
    "=",
    "moves=",
    "moves=nan",
    "step_scale=-1",
    "--set",
    "--nope",
    "--json",
    "/",
    "/dev/null",
    "/proc/self/mem",
    "missing.toml",
    "é\u202e",
    "--é\u202e",
    "--seed=é\u202e",
    HOSTILE_TEXT.replace("\x00", ""),
    "x" * 3000,
    "--",
    "-k",
)
STATUSES = (0, 1, 2, 130, 141)
# Some lines are valid and slow: they are shown here only with few episodes.
_SLOW = ("--episodes", "-k", "--seeds", "--workers", "--records", "verify", "compare")


@dataclass(frozen=True)
class State:
    """Where commands are run."""

    folder: Path


def prepare(folder: Path) -> State:
    """Make a folder with a spec, a run and a sweep."""
    os.chdir(folder)
    Path("spec.toml").write_text(SPEC)
    os.environ["COLUMNS"] = "100"
    line = "run factored -k 20 --out kept"
    status, _ = call(line.split())
    if status:
        raise RuntimeError(f"{line} ends with {status}")
    with ThreadPoolExecutor(1) as executor:
        opdop.sweep("spec.toml", "sweep", executor=executor, workers=1)
    return State(folder)


def call(words: list[str]) -> tuple[object, str]:
    """Run a command line in this process; return its exit status and all that it printed."""
    printed = io.StringIO()
    before = sys.argv
    sys.argv = ["opdop", *words]
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            main()
        status: object = 0
    except SystemExit as error:
        status = error.code or 0
    finally:
        sys.argv = before
    return status, printed.getvalue()


def probe(state: State, case: int) -> str:
    """Change a word or two of a command line, and run it."""
    random = np.random.default_rng([3, case])
    os.chdir(state.folder)
    words = LINES[case % len(LINES)].split()
    for _ in range(1 + int(random.integers(3) == 0)):
        at = int(random.integers(len(words) + 1))
        word = WORDS[int(random.integers(len(WORDS)))]
        what = random.integers(4)
        if what == 0 and words and at < len(words) and words[at - 1] not in _SLOW and words[at] not in _SLOW:
            words.pop(at)
        elif what == 1 and at < len(words) and words[at] not in _SLOW and words[at] not in ("run", "sweep"):
            words[at] = word
        else:
            words.insert(at, word)
    if _takes_long(words):
        return "right"
    status, printed = call(words)
    if "Traceback (most recent call last)" in printed:
        raise AssertionError(f"opdop {words!r} prints a traceback:\n{printed[-2000:]}")
    if status not in STATUSES:
        raise AssertionError(f"opdop {words!r} ends with {status!r}:\n{printed[-2000:]}")
    if any(not letter.isprintable() and letter not in "\n\t" for letter in printed):
        raise AssertionError(f"opdop {words!r} prints control characters: {printed[-500:]!r}")
    return "right" if status == 0 else "refused"


def _takes_long(words: list[str]) -> bool:
    """Return whether a line is valid and plays very many episodes, because its number of episodes was taken away."""
    for command in ("run", "compare", "verify"):
        if command in words and "--resume" not in words and "--check" not in words and "--help" not in words:
            after = [words[i + 1] for i, word in enumerate(words[:-1]) if word in ("-k", "--episodes")]
            return not after or not all(each in ("2", "5", "20") for each in after)
    return "sweep" in words and "spec.toml" not in words
