"""Compiled arithmetic on plain arrays and pre-drawn uniforms; it imports no other room.

Numba's on-disk cache looks only at the file of the outermost function, not at the files of what it calls. The kernels
call each other across files, so here, before any of them is loaded, a change in any kernel file drops all caches.
"""

from __future__ import annotations

import contextlib
from pathlib import Path


def drop_stale_caches(folder: Path) -> bool:
    """Remove the compiled caches of a folder if a source in it has changed since then; return whether it did."""
    stamp = folder / "__pycache__" / "kernels.stamp"
    sources = [(path.name, path.stat()) for path in sorted(folder.glob("*.py"))]
    now = "\n".join(f"{name} {stat.st_size} {stat.st_mtime_ns}" for name, stat in sources)
    with contextlib.suppress(OSError):  # in a read-only folder nothing changes, and Numba caches elsewhere
        if stamp.exists() and stamp.read_text() == now:
            return False
        for cache in [*stamp.parent.glob("*.nbi"), *stamp.parent.glob("*.nbc")]:
            cache.unlink(missing_ok=True)
        stamp.parent.mkdir(exist_ok=True)
        stamp.write_text(now)
        return True
    return False


drop_stale_caches(Path(__file__).parent)
