"""The progress of a run: what is reported, and whether a bar shows it.

The bars are faces of runs and belong to `opdop.report`, which is above this package. They are imported only when one is
shown; the contract of imports in pyproject.toml names this exception.
"""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from opdop.model import InvalidParameterError
from opdop.model.validation import Floats, shown


@dataclass(frozen=True)
class Progress:
    """How far a run is; given to the `progress` callback about ten times a second.

    Regret and violations are NaN where the model is not known.
    """

    episode: int
    episodes: int
    regret: float
    violation: float
    hard_violation: float
    dual: Floats  # [I]
    certified_gap: float = math.nan  # of the recommended policy, in model units; NaN where none was certified yet
    keeps_constraints: bool = False  # whether that policy is certified to keep every constraint
    violations: Floats | None = None  # [I], of each constraint, in model units; None where the model is not known
    hard_violations: Floats | None = None  # [I]


def check_progress(progress: Any) -> None:
    """Raise InvalidParameterError unless `progress` is a function, a truth value or None."""
    if progress is not None and not isinstance(progress, bool) and not callable(progress):
        raise InvalidParameterError(f"progress is {shown(progress)}; expected True, False, a function, or None.")


@contextlib.contextmanager
def shown_progress(progress: Any, kind: str, *details: Any) -> Iterator[Callable[[Any], None] | None]:
    """Yield what a run or a sweep reports its progress to; None if to nothing.

    Args:
        progress: a function, which is used as it is; False for nothing; True for a bar in any case; None for a bar if a
            person watches: standard error is a terminal, or a notebook runs this.
        kind: "run" or "sweep".
        details: what the bar needs to know; for a run its quantities.

    Raises InvalidParameterError if `progress` is something else.
    """
    check_progress(progress)
    if callable(progress):
        yield progress
    elif progress is False or (progress is None and not is_watched()):
        yield None
    else:
        from opdop.report.terminal import bars  # upwards, and named in the contract of imports

        with bars.bar(kind, *details, always=progress is True) as watch:
            yield watch


def is_watched() -> bool:
    """Return whether a person sees a bar: standard error is a terminal, or a notebook's kernel runs this process."""
    with contextlib.suppress(Exception):  # standard error may be closed, or replaced by anything
        if sys.stderr.isatty():
            return True
    return in_notebook()


def in_notebook() -> bool:
    """Return whether a notebook's kernel runs this process."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None
