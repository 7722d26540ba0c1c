"""Numbers side by side, as one value: a kernel computes with it as with a number. `LANES` are 8, `WIDE` are more.

LLVM vectorises only long loops over pairs; with few states its vector code costs more than it saves. A kernel that
takes `LANES` pairs at a time uses vector instructions at every size, and its sums stay in registers. Formulas are
written once: `+`, `-`, `*`, `min` and `max` do in each lane what they do for a number, with the `fastmath` of the
kernel in which they stand. So no bit depends on whether a pair is computed alone or beside others.

Evaluating a policy from counts pair by pair takes 1.45 times as long at S4 A2 H4, 2.72 times at S10 A4 H10 and 4.31
times at S20 A4 H10: `make bench BENCH=intrinsics`.
"""

from __future__ import annotations

import operator

import numpy as np
from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba import config, types
from numba.core import cgutils
from numba.core.typing import signature
from numba.core.typing.templates import ConcreteTemplate, infer_global
from numba.extending import intrinsic, lower_builtin, models, register_model

from opdop.kernels.parts import overload
from opdop.kernels.simd import LANES, repeat


def _has_wide_registers() -> bool:
    """Whether LLVM may use the 32 registers of 8 numbers of AVX-512."""
    given = config.CPU_FEATURES  # of Numba, instead of the host's
    return "+avx512f" in given.split(",") if given is not None else get_host_cpu_features().get("avx512f", False)


WIDE = 8 * LANES if _has_wide_registers() else 2 * LANES  # so that two wide vectors and a third one stay in registers

_INDEX = ir.IntType(64)
_VALUES = ir.VectorType(ir.DoubleType(), LANES)
_MASK = ir.VectorType(ir.IntType(1), LANES)
_LOADED = {types.float64: (ir.DoubleType(), 8), types.int32: (ir.IntType(32), 4)}  # numbers and their bytes


class _Vector(types.Type):  # type: ignore[misc]
    """Numba's type of `lanes` numbers side by side."""

    def __init__(self, lanes: int) -> None:
        super().__init__(name=f"opdop.Vector{lanes}")
        self.lanes = lanes


_VECTOR, _WIDE_VECTOR = _Vector(LANES), _Vector(WIDE)


@register_model(_Vector)
class _VectorModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager, kind):
        super().__init__(manager, kind, ir.VectorType(ir.DoubleType(), kind.lanes))


def zeros():
    """Return a vector of zeros."""
    return np.zeros(LANES)


def wide_zeros():
    """Return a vector of `WIDE` zeros, which LLVM keeps in several registers."""
    return np.zeros(WIDE)


def load(like, array, at):
    """Return the number at a place of an array without gaps, or the vector that begins there if `like` is a vector."""
    flat = array.reshape(-1)
    return flat[at : at + np.size(like)].astype(np.float64) if np.ndim(like) else float(flat[at])


def store(array, at, value):
    """Write a number to a place of an array without gaps, or a vector to this place and those that follow."""
    array.reshape(-1)[at : at + np.size(value)] = value


def load_some(array, at, count):
    """Return a vector of the `count` numbers from a place of an array without gaps on, and of zeros."""
    found = array.reshape(-1)[at : at + count]
    return np.append(found, np.zeros(LANES - count))


def store_some(array, at, value, count):
    """Write the first `count` numbers of a vector to a place of an array without gaps and those that follow."""
    array.reshape(-1)[at : at + count] = value[:count]


def power_of_two(rounded):
    """Return 2^k, where k is the whole number in the last bits of a number, or of the lanes of a vector."""
    return np.int64((np.float64(rounded).view(np.int64) + 1023) << 52).view(np.float64)


def gather(array, count, h, a, x):
    """Return the vector of array[n, h, a, x] for n = 0, 1, ...: `count` numbers, of which the last is repeated."""
    return array[np.minimum(np.arange(LANES), count - 1), h, a, x]


def where_positive(number, one, other):
    """Return `one` where a number, or a lane of a vector, is positive, and `other` elsewhere."""
    return np.where(number > 0.0, one, other)


@intrinsic
def _zeros(typing_context):
    return _VECTOR(), lambda context, builder, sig, arguments: ir.Constant(_VALUES, None)


@intrinsic
def _wide_zeros(typing_context):
    return _WIDE_VECTOR(), lambda context, builder, sig, arguments: ir.Constant(
        ir.VectorType(ir.DoubleType(), WIDE), None
    )


@intrinsic
def _load(typing_context, like, array, at):
    def generate(context, builder, sig, arguments):
        _, array, at = arguments
        number, size = _LOADED[sig.args[1].dtype]
        kind = ir.VectorType(number, sig.return_type.lanes) if isinstance(sig.return_type, _Vector) else number
        found = builder.load(_place(context, builder, sig.args[1], array, at, kind), align=size)
        return found if size == 8 else builder.sitofp(found, context.get_value_type(sig.return_type))

    if isinstance(array, types.Array) and array.layout == "C" and array.dtype in _LOADED:
        return like(like, array, types.uint64), generate
    return None


@intrinsic
def _store(typing_context, array, at, value):
    def generate(context, builder, sig, arguments):
        array, at, value = arguments
        builder.store(value, _place(context, builder, sig.args[0], array, at, value.type), align=8)
        return context.get_dummy_value()

    if isinstance(array, types.Array) and (array.layout, array.dtype) == ("C", types.float64):
        return types.void(array, types.uint64, value), generate
    return None


@intrinsic
def _load_some(typing_context, array, at, count):
    def generate(context, builder, sig, arguments):
        array, at, count = arguments
        place = _place(context, builder, sig.args[0], array, at, _VALUES)
        kind = ir.FunctionType(_VALUES, [place.type, ir.IntType(32), _MASK, _VALUES])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.masked.load.v8f64.p0v8f64")
        return builder.call(function, [place, ir.IntType(32)(8), _first(builder, count), ir.Constant(_VALUES, None)])

    if isinstance(array, types.Array) and (array.layout, array.dtype) == ("C", types.float64):
        return _VECTOR(array, types.uint64, types.uint64), generate
    return None


@intrinsic
def _store_some(typing_context, array, at, value, count):
    def generate(context, builder, sig, arguments):
        array, at, value, count = arguments
        place = _place(context, builder, sig.args[0], array, at, _VALUES)
        kind = ir.FunctionType(ir.VoidType(), [_VALUES, place.type, ir.IntType(32), _MASK])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.masked.store.v8f64.p0v8f64")
        builder.call(function, [value, place, ir.IntType(32)(8), _first(builder, count)])
        return context.get_dummy_value()

    if isinstance(array, types.Array) and (array.layout, array.dtype) == ("C", types.float64):
        return types.void(array, types.uint64, _VECTOR, types.uint64), generate
    return None


@intrinsic
def _power_of_two(typing_context, rounded):
    def generate(context, builder, sig, arguments):
        (number,) = arguments
        bits = builder.bitcast(number, ir.VectorType(_INDEX, LANES) if number.type == _VALUES else _INDEX)
        bias, place = (_as_wide(builder, _INDEX(each), bits) for each in (1023, 52))  # of the exponent
        return builder.bitcast(builder.shl(builder.add(bits, bias), place), number.type)

    return rounded(rounded), generate


def _first(builder, count):
    """Return which lanes are the first `count`."""
    lanes = ir.Constant(ir.VectorType(_INDEX, LANES), [_INDEX(lane) for lane in range(LANES)])
    return builder.icmp_unsigned("<", lanes, repeat(builder, count, LANES))


@intrinsic
def _gather(typing_context, array, count, h, a, x):
    def generate(context, builder, sig, arguments):
        array, count, *place = arguments
        found, last = ir.Constant(_VALUES, ir.Undefined), builder.sub(count, _INDEX(1))
        numbers = context.make_array(sig.args[0])(context, builder, array)
        for lane in range(LANES):
            is_inside = builder.icmp_unsigned("<", _INDEX(lane), last)
            index = builder.select(is_inside, _INDEX(lane), last)
            at = cgutils.get_item_pointer(context, builder, sig.args[0], numbers, [index, *place], wraparound=False)
            found = builder.insert_element(found, builder.load(at, align=8), ir.IntType(32)(lane))
        return found

    if isinstance(array, types.Array) and (array.ndim, array.dtype) == (4, types.float64):
        return _VECTOR(array, *[types.uint64] * 4), generate
    return None


@intrinsic
def _where_positive(typing_context, number, one, other):
    def generate(context, builder, sig, arguments):
        number, one, other = (_as_wide(builder, each, arguments[0]) for each in arguments)
        is_positive = builder.fcmp_ordered(">", number, ir.Constant(number.type, None))
        return builder.select(is_positive, one, other)

    return number(number, one, other), generate


def _as_wide(builder, value, like):
    """Return a number as a vector, if `like` is one."""
    return value if value.type == like.type else repeat(builder, value, like.type.count)


def _place(context, builder, kind, array, at, numbers):
    """Return the address of a number in an array, as that of a vector where `numbers` is one."""
    first = builder.gep(context.make_array(kind)(context, builder, array).data, [at])
    return builder.bitcast(first, numbers.as_pointer())


# Intrinsics are called directly: a function in between would be compiled for each kind of arguments. Numba makes the
# indices unsigned, as their types say.


@overload(gather)
def _overload_gather(array, count, h, a, x):
    return _gather


@overload(where_positive)
def _overload_where_positive(number, one, other):
    return _where_positive


@overload(zeros)
def _overload_zeros():
    return _zeros


@overload(wide_zeros)
def _overload_wide_zeros():
    return _wide_zeros


@overload(load)
def _overload_load(like, array, at):
    return _load


@overload(load_some)
def _overload_load_some(array, at, count):
    return _load_some


@overload(store_some)
def _overload_store_some(array, at, value, count):
    return _store_some


@overload(power_of_two)
def _overload_power_of_two(rounded):
    return _power_of_two


@overload(store)
def _overload_store(array, at, value):
    return _store


def _define(function, combine):
    """Give a function of two numbers its meaning for vectors, and for a vector and a number."""
    vectors = (_VECTOR, _WIDE_VECTOR)
    pairs = [pair for v in vectors for pair in ((v, v), (v, types.float64), (types.float64, v))]

    @infer_global(function)
    class _Template(ConcreteTemplate):  # type: ignore[misc]
        cases = [signature(next(k for k in pair if k != types.float64), *pair) for pair in pairs]  # noqa: RUF012

    def lower(context, builder, sig, arguments):
        like = next(each for each in arguments if isinstance(each.type, ir.VectorType))
        return combine(builder, *(_as_wide(builder, each, like) for each in arguments))

    for pair in pairs:
        lower_builtin(function, *pair)(lower)


def _choose(comparison):
    """Return how Numba defines `min` and `max` of numbers: the second one if it is smaller or larger."""

    def combine(builder, one, two):
        return builder.select(builder.fcmp_ordered(comparison, two, one), two, one)

    return combine


for _function in (operator.add, operator.iadd):
    _define(_function, ir.IRBuilder.fadd)
for _function in (operator.sub, operator.isub):
    _define(_function, ir.IRBuilder.fsub)
_define(operator.mul, ir.IRBuilder.fmul)
_define(operator.truediv, ir.IRBuilder.fdiv)
_define(min, _choose("<"))
_define(max, _choose(">"))
