"""Vector instructions for the innermost loops of measuring, which LLVM does not vectorise by itself.

Each function is written twice: as plain Python, which says what it does, and as vector instructions. Every lane makes
the same operations in the same order as it would alone, so that no bit depends on the other lanes.

An intrinsic stays only where the plain loop makes its use 1.3 times as slow: `make bench BENCH=intrinsics`.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from opdop.kernels.parts import overload

LANES = 8  # one cache line of numbers

_INDEX = ir.IntType(64)
_FUSED = ("contract",)  # a product may be fused with a sum, as in the kernels' fastmath={"contract"}


def add_scaled(source, i, scale, target, k):
    """Add scale times row i of source [n, LANES] to row k of target [m, LANES]."""
    i, k = np.uint64(i), np.uint64(k)
    for lane in range(np.uint64(LANES)):
        target[k, lane] += scale * source[i, lane]


# Plain Numba takes 1.59 times as long to measure policies at S20 A4 H10 with 5 successors, and 1.82 at S100 A10 H20.
@intrinsic
def _add_scaled(typing_context, source, i, scale, target, k):
    def generate(context, builder, signature, arguments):
        source, i, scale, target, k = arguments
        taken = builder.load(_row(context, builder, signature.args[0], source, i, LANES), align=8)
        place = _row(context, builder, signature.args[3], target, k, LANES)
        grown = _multiply_add(builder, taken, repeat(builder, scale, LANES), builder.load(place, align=8))
        builder.store(grown, place, align=8)
        return context.get_dummy_value()

    if _is_solid(source, types.float64, 2) and _is_solid(target, types.float64, 2):
        return types.void(source, types.uint64, types.float64, target, types.uint64), generate
    return None


def add_four_scaled(source, i, s0, s1, s2, s3, target, k):
    """Add rows i to i+3 of source [n, LANES], times a number each, to row k of target [m, LANES]."""
    i0, k = np.uint64(i), np.uint64(k)
    i1, i2, i3 = i0 + np.uint64(1), i0 + np.uint64(2), i0 + np.uint64(3)
    for lane in range(np.uint64(LANES)):
        first, second = s0 * source[i0, lane], s1 * source[i1, lane]
        target[k, lane] += ((first + second) + s2 * source[i2, lane]) + s3 * source[i3, lane]


# Plain Numba takes 2.01 times as long to measure policies at S20 A4 H10 dense, and 3.27 at S100 A10 H20.
@intrinsic
def _add_four_scaled(typing_context, source, i, s0, s1, s2, s3, target, k):
    def generate(context, builder, signature, arguments):
        source, i, *scales, target, k = arguments
        total = None
        for n, scale in enumerate(scales):
            row = builder.add(i, _INDEX(n))
            taken = builder.load(_row(context, builder, signature.args[0], source, row, LANES), align=8)
            repeated = repeat(builder, scale, LANES)
            if total is None:
                total = builder.fmul(taken, repeated, flags=_FUSED)
            else:
                total = _multiply_add(builder, taken, repeated, total)
        place = _row(context, builder, signature.args[6], target, k, LANES)
        builder.store(builder.fadd(builder.load(place, align=8), total, flags=_FUSED), place, align=8)
        return context.get_dummy_value()

    if _is_solid(source, types.float64, 2) and _is_solid(target, types.float64, 2):
        scales = [types.float64] * 4
        return types.void(source, types.uint64, *scales, target, types.uint64), generate
    return None


@overload(add_four_scaled)
def _overload_add_four_scaled(source, i, s0, s1, s2, s3, target, k):
    return _add_four_scaled


@overload(add_scaled)
def _overload_add_scaled(source, i, scale, target, k):
    return _add_scaled


def _is_solid(kind, numbers, dimensions):
    """Whether a type is that of an array of such numbers without gaps: nothing else may be read as vectors."""
    return isinstance(kind, types.Array) and (kind.dtype, kind.ndim, kind.layout) == (numbers, dimensions, "C")


def _row(context, builder, kind, array, index, width):
    """Return the place of a row of numbers in an array [n, width]."""
    numbers = context.make_array(kind)(context, builder, array).data
    first = builder.gep(numbers, [builder.mul(index, _INDEX(width))])
    return builder.bitcast(first, ir.VectorType(ir.DoubleType(), width).as_pointer())


def repeat(builder, number, width):
    """Return a vector of the same number everywhere."""
    empty = ir.Constant(ir.VectorType(number.type, width), ir.Undefined)
    alone = builder.insert_element(empty, number, ir.IntType(32)(0))
    return builder.shuffle_vector(alone, empty, ir.Constant(ir.VectorType(ir.IntType(32), width), None))


def _multiply_add(builder, a, b, c):
    return builder.fadd(c, builder.fmul(a, b, flags=_FUSED), flags=_FUSED)
