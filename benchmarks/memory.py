"""How much memory a process has needed."""

from __future__ import annotations

from pathlib import Path


def peak_bytes() -> int:
    """Return the peak memory of this process (Linux).

    Not ru_maxrss: that one starts at the memory of the process by which this one was started.
    """
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    (peak,) = (line.split()[1] for line in lines if line.startswith("VmHWM:"))
    return int(peak) * 1024
