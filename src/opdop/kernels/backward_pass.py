"""The backward pass over the stages, from V_H = 0: Q_h follows from V_{h+1}, and V_h from Q_h.

It is the only one: known kernels, confidence sets, counts, least squares and peers give it two compiled functions.

- `look_ahead(data, h, first, last, q, v)` writes Q of the states from first to last at stage h, from the values that
  follow. It returns False if nothing is known of these states: they keep the Q and V that they have. What all states
  of a stage share is computed when first is 0. Parts that take all states together count them from 0 to S: if first
  may be negative for all that the compiler knows, it tests every index.
- `choose(chosen, h, first, last, q, v)` writes V of these states from their Q: under a given policy, or under one that
  is chosen here, such as the best one or a soft-max.

What data, chosen and q are is between these two. Both are compiled into the pass, so it is written once, and exists in
machine code once for each pair of them.
"""

from __future__ import annotations

from numba import types

from opdop.kernels.caching import njit
from opdop.kernels.parts import overload


@njit(allocates=False, forceinline=True, fastmath=False)
def walk_back(look_ahead, choose, data, chosen, q, v, H, S, together):
    """Write Q and V of all H stages, the last one first, for so many of the S states together; v as in `end_with_0`."""
    end_with_0(v, H)
    for h in range(H - 1, -1, -1):
        first = 0
        while first < S:
            last = min(first + together, S)
            if look_ahead(data, h, first, last, q, v):
                choose(chosen, h, first, last, q, v)
            first = last


def end_with_0(v, H):
    """Write V_H = 0: values are kept for D stages, v [J, D, S], stage h at h % D; or for two, a pair of [J, S]."""
    (_end_pair if isinstance(v, tuple) else _end_array)(v, H)


def _end_array(v, H):
    J, D, S = v.shape
    d = H if H < D else H % D
    for j in range(J):
        for x in range(S):
            v[j, d, x] = 0.0


def _end_pair(v, H):
    J, S = v[0].shape
    for j in range(J):
        for x in range(S):
            v[H % 2][j, x] = 0.0


@overload(end_with_0, allocates=False, forceinline=True)
def _overload_end_with_0(v, H):
    return _end_pair if isinstance(v, types.BaseTuple) else _end_array
