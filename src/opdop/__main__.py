"""The program `opdop`, also run by `python -m opdop`."""

import gc
import os
import signal
import sys

INTERRUPTED = 130  # exit status
GARBAGE = 100_000  # new objects after which Python looks for cycles: it does so every 700 otherwise, also in imports


def main() -> None:
    """Run the command line; Ctrl-C ends it quietly at any time, also while modules are being imported."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)
    gc.set_threshold(GARBAGE)
    from opdop.cli import app

    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # names may have letters that a terminal lacks
    app(prog_name="opdop")


def _leave(_signal: int, _frame: object) -> None:
    """End at once: an exception raised while Numba loads a kernel crashes the process."""
    if sys.stderr.isatty():
        sys.stderr.write("\x1b[?25h\n")  # show the cursor, which the busy sign hides
        sys.stderr.flush()
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()
