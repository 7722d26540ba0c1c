"""The errors that opdop raises on purpose; each says what was found, where, and what to do."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

_LONGEST, _MOST = 100, 1000  # letters of a name, and names, that a wrong name is compared with


class OpdopError(Exception):
    """Base class of all errors that opdop raises on purpose."""


class InvalidModelError(OpdopError, ValueError):
    """A model, policy or feature map that is not valid."""


class InvalidParameterError(OpdopError, ValueError):
    """A name or a parameter that does not exist or is out of range."""


class InfeasibleError(OpdopError, ValueError):
    """No policy satisfies all constraints; `message` says by how much.

    `best_utilities` [I] are those of the policy whose largest shortfall is smallest; `slater_gap` is minus that
    shortfall.
    """

    def __init__(self, message: str, best_utilities: np.ndarray, slater_gap: float) -> None:
        super().__init__(message)
        self.best_utilities = best_utilities
        self.slater_gap = slater_gap

    def __reduce__(self) -> tuple[type[InfeasibleError], tuple[str, np.ndarray, float]]:
        """Pickle all three arguments, so that a worker process can send the error back."""
        return type(self), (str(self), self.best_utilities, self.slater_gap)


def suggestion(wrong: object, known: Iterable[str], *, lead: str = " Did you mean") -> str:
    """Return `lead` and the known name nearest to a wrong one, " Did you mean 'x'?", or nothing if none is near."""
    if not isinstance(wrong, str) or len(wrong) > _LONGEST:  # difflib takes quadratic time
        return ""
    short = [name for name in itertools.islice(known, _MOST) if len(name) <= _LONGEST]
    near = difflib.get_close_matches(wrong, short, n=1, cutoff=0.5)
    return f"{lead} {near[0]!r}?" if near else ""
