"""Locks of files, which the system ends together with the process that holds them."""

from __future__ import annotations


def try_lock(file: int, *, shared: bool = False) -> bool:
    """Lock a file until it is closed or its process ends; return False if another process holds a lock.

    Where there are no locks, an exclusive one is always granted and a shared one never.
    """
    try:
        import fcntl

        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        return not shared
    return True
