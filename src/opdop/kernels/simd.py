"""Vector instructions for the innermost loops over lists, which LLVM does not vectorise by itself.

Each function is written twice: as plain Python, which says what it does, and as vector instructions. Every lane makes
the same operations in the same order as it would alone, so that no bit depends on the other lanes.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from opdop.kernels.caching import njit
from opdop.kernels.parts import overload

LANES = 8  # one cache line of numbers

_INDEX = ir.IntType(64)
_FUSED = ("contract",)  # a product may be fused with a sum, as in the kernels' fastmath={"contract"}


def add_scaled(source, i, scale, target, k):
    """Add scale times row i of source [n, LANES] to row k of target [m, LANES]."""
    for lane in range(LANES):
        target[k, lane] += scale * source[i, lane]


@intrinsic
def _add_scaled(typing_context, source, i, scale, target, k):
    def generate(context, builder, signature, arguments):
        source, i, scale, target, k = arguments
        taken = builder.load(_row(context, builder, signature.args[0], source, i, LANES), align=8)
        place = _row(context, builder, signature.args[3], target, k, LANES)
        grown = _multiply_add(builder, taken, _repeat(builder, scale, LANES), builder.load(place, align=8))
        builder.store(grown, place, align=8)
        return context.get_dummy_value()

    if _is_solid(source, types.float64, 2) and _is_solid(target, types.float64, 2):
        return types.void(source, types.uint64, types.float64, target, types.uint64), generate
    return None


def add_four_scaled(source, i, s0, s1, s2, s3, target, k):
    """Add rows i to i+3 of source [n, LANES], times a number each, to row k of target [m, LANES]."""
    for lane in range(LANES):
        first, second = s0 * source[i, lane], s1 * source[i + 1, lane]
        target[k, lane] += ((first + second) + s2 * source[i + 2, lane]) + s3 * source[i + 3, lane]


@intrinsic
def _add_four_scaled(typing_context, source, i, s0, s1, s2, s3, target, k):
    def generate(context, builder, signature, arguments):
        source, i, *scales, target, k = arguments
        total = None
        for n, scale in enumerate(scales):
            row = builder.add(i, _INDEX(n))
            taken = builder.load(_row(context, builder, signature.args[0], source, row, LANES), align=8)
            repeated = _repeat(builder, scale, LANES)
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


@overload(add_four_scaled, allocates=False)
def _overload_add_four_scaled(source, i, s0, s1, s2, s3, target, k):
    def compiled(source, i, s0, s1, s2, s3, target, k):
        _add_four_scaled(source, i, s0, s1, s2, s3, target, k)

    return compiled


@overload(add_scaled, allocates=False)
def _overload_add_scaled(source, i, scale, target, k):
    def compiled(source, i, scale, target, k):
        _add_scaled(source, i, scale, target, k)

    return compiled


def look_up(weights, places, first, last, values):
    """Return sum_e weights[e] values[places[e]] over the entries from first to last; values [S, 2], so two sums."""
    one, two = 0.0, 0.0
    for entry in range(first, last):
        one += weights[entry] * values[places[entry], 0]
        two += weights[entry] * values[places[entry], 1]
    return one, two


@intrinsic
def _look_up(typing_context, weights, places, first, last, values):
    def generate(context, builder, signature, arguments):
        weights, places, first, last, values = arguments
        weights = _data(context, builder, signature.args[0], weights)
        places = _data(context, builder, signature.args[1], places)
        pair = ir.VectorType(ir.DoubleType(), 2)
        before, nothing = builder.block, ir.Constant(pair, [0.0, 0.0])
        loop, after = builder.append_basic_block("look_up"), builder.append_basic_block("looked_up")
        builder.cbranch(builder.icmp_unsigned("<", first, last), loop, after)

        builder.position_at_end(loop)
        entry, total = builder.phi(_INDEX), builder.phi(pair)
        weight = _repeat(builder, builder.load(builder.gep(weights, [entry])), 2)
        place = builder.zext(builder.load(builder.gep(places, [entry])), _INDEX)
        value = builder.load(_row(context, builder, signature.args[4], values, place, 2), align=8)
        grown, following = _multiply_add(builder, weight, value, total), builder.add(entry, _INDEX(1))
        for phi, at_first, then in ((entry, first, following), (total, nothing, grown)):
            phi.add_incoming(at_first, before)
            phi.add_incoming(then, loop)
        builder.cbranch(builder.icmp_unsigned("<", following, last), loop, after)

        builder.position_at_end(after)
        result = builder.phi(pair)
        result.add_incoming(nothing, before)
        result.add_incoming(grown, loop)
        columns = [builder.extract_element(result, ir.IntType(32)(n)) for n in range(2)]
        return context.make_tuple(builder, signature.return_type, columns)

    lists = _is_solid(weights, types.float64, 1) and _is_solid(places, types.int32, 1)
    if lists and _is_solid(values, types.float64, 2):
        both = types.UniTuple(types.float64, 2)
        return both(weights, places, types.uint64, types.uint64, values), generate
    return None


@overload(look_up, allocates=False)
def _overload_look_up(weights, places, first, last, values):
    def compiled(weights, places, first, last, values):
        return _look_up(weights, places, first, last, values)

    return compiled


@njit(cache=True, fastmath=False, allocates=False)
def lay_in_pairs(v, h, pairs):
    """Write the signals v [J, :, S] at h into pairs [(J+1)//2, 2*S]: two signals of a state side by side."""
    for j in range(v.shape[0]):
        signal, pair = v[j, h], pairs[j // 2]
        for x in range(signal.shape[0]):
            pair[2 * x + j % 2] = signal[x]


def _is_solid(kind, numbers, dimensions):
    """Whether a type is that of an array of such numbers without gaps: nothing else may be read as vectors."""
    return isinstance(kind, types.Array) and (kind.dtype, kind.ndim, kind.layout) == (numbers, dimensions, "C")


def _data(context, builder, kind, array):
    """Return where the numbers of an array begin."""
    return context.make_array(kind)(context, builder, array).data


def _row(context, builder, kind, array, index, width):
    """Return the place of a row of numbers in an array [n, width]."""
    first = builder.gep(_data(context, builder, kind, array), [builder.mul(index, _INDEX(width))])
    return builder.bitcast(first, ir.VectorType(ir.DoubleType(), width).as_pointer())


def _repeat(builder, number, width):
    """Return a vector of the same number everywhere."""
    vector = ir.VectorType(ir.DoubleType(), width)
    empty = ir.Constant(vector, ir.Undefined)
    alone = builder.insert_element(empty, number, ir.IntType(32)(0))
    return builder.shuffle_vector(alone, empty, ir.Constant(ir.VectorType(ir.IntType(32), width), None))


def _multiply_add(builder, a, b, c):
    return builder.fadd(c, builder.fmul(a, b, flags=_FUSED), flags=_FUSED)
