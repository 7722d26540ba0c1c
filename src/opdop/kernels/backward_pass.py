"""The backward pass over the stages, from V_H = 0: Q_h follows from V_{h+1}, and V_h from Q_h.

It is the only one: known kernels, confidence sets, counts, least squares and peers give it two compiled functions.

- `look_ahead(data, h, first, last, q, v)` writes Q of the states from first to last at stage h, from the values that
  follow. It returns False if nothing is known of these states: they keep the Q and V that they have. What all states
  of a stage share is computed when first is 0.
- `choose(chosen, h, first, last, q, v)` writes V of these states from their Q: under a given policy, or under one that
  is chosen here, such as the best one or a soft-max.

What data, chosen, q and v are is between these two. Both are compiled into the pass, and the pass into its caller: so
it is written once, and exists in machine code once for each pair of them.
"""

from __future__ import annotations

import numpy as np

from opdop.kernels.caching import njit


@njit(allocates=False, forceinline=True, fastmath=False)
def walk_back(look_ahead, choose, data, chosen, q, v, end, H, together):
    """Write Q and V of all H stages, the last one first; end [J, S] is where V_H is kept.

    So many states are taken together, all states of a stage if that is None. Numba compiles only the branch that is
    used: with one branch for both, a small stage takes a sixth longer.
    """
    J, S = end.shape
    for j in range(J):
        for x in range(S):
            end[j, x] = 0.0
    for h in range(H - 1, -1, -1):
        if together is None:
            if look_ahead(data, h, 0, S, q, v):
                choose(chosen, h, 0, S, q, v)
        else:
            first = np.int64(0)  # not 0, a type of its own: Numba would compile the parts for both types
            while first < S:
                last = min(first + together, S)
                if look_ahead(data, h, first, last, q, v):
                    choose(chosen, h, first, last, q, v)
                first = last
