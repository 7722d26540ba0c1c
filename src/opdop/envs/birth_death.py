"""Birth-death chains: in one stage the state changes by one at most."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from opdop.model.validation import Floats


def chain(up: Floats, down: Floats) -> Any:
    """Return the kernel of a chain as scipy.sparse [S*A, S], row x*A + a.

    From state x action a leads to x + 1 with probability up[x, a] and to x - 1 with probability down[x, a], both
    [S, A]; otherwise, and beyond either end, the state stays.
    """
    S, A = up.shape
    x = np.arange(S)[:, None].repeat(A, axis=1)
    probabilities = np.stack([up, down, 1.0 - up - down], axis=-1)  # [S, A, 3]
    successors = np.stack([np.minimum(x + 1, S - 1), np.maximum(x - 1, 0), x], axis=-1)
    rows = np.arange(S * A).repeat(3)
    return sparse.csr_array((probabilities.ravel(), (rows, successors.ravel())), shape=(S * A, S))
