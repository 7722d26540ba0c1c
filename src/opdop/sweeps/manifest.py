"""The software and the machines that a sweep used, recorded so that others can repeat it."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from llvmlite import binding

from opdop import version
from opdop.sweeps.store import Store

_PACKAGES = ("numpy", "scipy", "numba", "llvmlite", "polars")
_ARITHMETIC = ("avx", "avx2", "avx512f", "fma", "fma4", "neon", "sve")

Processor = Mapping[str, Any]  # "architecture" and "instructions", as `processor` returns them


def surroundings(backend: str) -> dict[str, Any]:
    """Return the versions, the commit of opdop's own checkout if it is one, the machine and the kind of workers."""
    packages = {name: metadata.version(name) for name in _PACKAGES}
    return {
        "versions": {"opdop": version.__version__, "python": platform.python_version(), **packages},
        "commit": commit(Path(version.__file__).parent),
        "machine": {
            "host": platform.node(),
            "system": platform.platform(),
            "processor": _processor_name(),
            **processor(),
            "cores": os.cpu_count(),
        },
        "backend": backend,
    }


def processor() -> dict[str, Any]:
    """Return this processor's architecture, and those of its instructions that decide how numbers are rounded.

    Compiled kernels fuse products with sums where the processor can, so two processors give the same bits only if
    these are the same.
    """
    features = binding.get_host_cpu_features()
    return {"architecture": platform.machine(), "instructions": [name for name in _ARITHMETIC if features.get(name)]}


def processor_text(found: Processor) -> str:
    """Return a processor in words.

    >>> processor_text({"architecture": "x86_64", "instructions": ["avx", "fma"]})
    'x86_64 with avx, fma'
    """
    return f"{found['architecture']} with {', '.join(found['instructions']) or 'none of ' + ', '.join(_ARITHMETIC)}"


def add_processor(store: Store, found: Processor) -> list[Processor]:
    """Record in a sweep's manifest that a processor makes runs; return the unlike ones that were recorded before."""
    before: list[Processor] = []

    def add(manifest: dict[str, Any]) -> dict[str, Any]:
        before.extend(manifest.get("processors", []))
        return manifest if found in before else {**manifest, "processors": [*before, found]}

    store.change_manifest(add)
    return [each for each in before if each != found]


def commit(folder: Path) -> str | None:
    """Return the commit of a checkout, with "+" if files were changed since; None if the folder is not part of one.

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


def _processor_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            models = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    except OSError:
        models = []
    return models[0] if models else platform.processor() or platform.machine()
