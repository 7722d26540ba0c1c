"""Compiled arithmetic on plain arrays and pre-drawn uniforms; it imports no other room.

Every kernel states its `fastmath`. Numba would otherwise give it that of the caller that is compiled first, so that the
last bits of a result would depend on which function was called first when the cache was empty.
"""
