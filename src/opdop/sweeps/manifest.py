"""What a sweep was run with: versions, commit and machine, so that others can do it again."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

import opdop
from opdop.runs.recorder import describe_columns

_PACKAGES = ("numpy", "scipy", "numba", "llvmlite", "polars")


def surroundings(engine: str) -> dict[str, Any]:
    """Return versions, the commit of opdop's own checkout if it is one, and the machine."""
    packages = {name: metadata.version(name) for name in _PACKAGES}
    return {
        "versions": {"opdop": opdop.__version__, "python": platform.python_version(), **packages},
        "commit": commit(Path(opdop.__file__).parent),
        "machine": {
            "host": platform.node(),
            "system": platform.platform(),
            "processor": _processor(),
            "cores": os.cpu_count(),
        },
        "engine": engine,
    }


def history_columns() -> dict[str, dict[str, str]]:
    """Return the columns of a history with one promise; others have one of each kind for each promise."""
    return describe_columns(1)


def commit(folder: Path) -> str | None:
    """Return the commit of a checkout, with "+" if files were changed since; None where there is none.

    A package that is merely installed somewhere below a checkout is no part of it.
    """
    git = shutil.which("git")
    if git is None or not _git(git, folder, "ls-files", "--error-unmatch", "__init__.py"):
        return None
    head = _git(git, folder, "rev-parse", "HEAD")
    return head and head + ("+" if _git(git, folder, "status", "--porcelain", "--untracked-files=no") else "")


def _git(git: str, folder: Path, *arguments: str) -> str | None:
    command = [git, "-C", str(folder), "-c", f"safe.directory={folder.resolve()}", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            models = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    except OSError:
        models = []
    return models[0] if models else platform.processor() or platform.machine()
