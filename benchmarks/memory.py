"""Peak memory of a process, and how to measure it for one task alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def peak_bytes() -> int:
    """Return the peak memory of this process (Linux).

    Not ru_maxrss: Linux passes that figure on from the parent process, so it can be too large.
    """
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    (peak,) = (line.split()[1] for line in lines if line.startswith("VmHWM:"))
    return int(peak) * 1024


def run_in_own_process(module: str, *arguments: str) -> None:
    """Run `python -m module arguments` in a new process, so that its peak memory is its own; it prints for itself."""
    subprocess.run([sys.executable, "-m", module, *arguments], cwd=ROOT, check=True)
