"""Records: named tuples of arrays and numbers, of which kernels get the address instead of a copy.

Numba passes a named tuple as all numbers of all arrays in it, up to some hundred for the counts of a learner. Each
call of a part copies them one by one, and most of LLVM's time goes into removing these copies again. A record lies in
the memory of the outermost kernel, and a part loads what it needs: compiling takes a third less.

A record is read, never written, while a kernel runs, which is what LLVM is told of it. A kernel cannot return one. What
it makes of such a class itself is a plain named tuple, another type.
"""

from __future__ import annotations

import hashlib
from typing import Any, TypeVar

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.imputils import impl_ret_borrowed, lower_builtin, lower_getattr_generic
from numba.extending import NativeValue, models, register_model, typeof_impl, unbox

_ADDRESS = ir.IntType(8).as_pointer()
_INDEX = ir.IntType(64)
_WORD = 8  # bytes; every field begins at a multiple

Class = TypeVar("Class", bound=type)


class RecordType(types.NamedTuple):  # type: ignore[misc]
    """Numba's type of a record: that of a named tuple with these fields, under a short name."""

    def __init__(self, kinds: Any, kind: type) -> None:
        super().__init__(kinds, kind)
        digest = hashlib.sha256(repr(self.types).encode()).hexdigest()[:16]
        self.name = f"{kind.__module__}.{kind.__name__}.{digest}"


@register_model(RecordType)
class _RecordModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager, kind):
        super().__init__(manager, kind, _ADDRESS)


def as_record(kind: Class) -> Class:
    """Make records of the named tuples of a class, where Python gives them to a kernel."""

    @typeof_impl.register(kind)
    def find_type(value, context):
        kinds = [typeof_impl(each, context) for each in value]
        return None if None in kinds else RecordType(kinds, kind)

    return kind


def declare_records(function: Any, kinds: dict[str, Any]) -> None:
    """Tell LLVM of the arguments of a function that are records; kinds are the types of all arguments by name."""
    for argument in function.args:
        kind = kinds.get(argument.name.removeprefix("arg."))
        if isinstance(kind, RecordType):
            for fact in ("noalias", "nonnull", "readonly"):
                set.add(argument.attributes, fact)  # llvmlite does not know that arguments may be "readonly"
            argument.attributes.align = _WORD
            argument.attributes.dereferenceable = _size(kind)


def _size(kind):
    """Return the bytes of a field or a record."""
    if isinstance(kind, RecordType):
        return sum(map(_size, kind))
    if isinstance(kind, types.Array):
        return _WORD * (5 + 2 * kind.ndim)
    if isinstance(kind, types.BaseTuple):
        return sum(map(_size, kind))
    return _WORD


def _field(builder, kind, address, index):
    """Return the address of a field."""
    return builder.gep(address, [_INDEX(sum(_size(kind[n]) for n in range(index)))])


def _read(context, builder, kind, address, index):
    """Return a field: its address if it is a record."""
    found = _field(builder, kind, address, index)
    if isinstance(kind[index], RecordType):
        return found
    stored, value = context.get_data_type(kind[index]), context.get_value_type(kind[index])
    place = builder.bitcast(found, stored.as_pointer())
    if stored == value:
        return builder.load(place)
    return context.unpack_value(builder, kind[index], place)


def _write(context, builder, kind, address, index, value):
    """Write a field; a record is copied."""
    found = _field(builder, kind, address, index)
    if isinstance(kind[index], RecordType):
        words = ir.ArrayType(_INDEX, _size(kind[index]) // _WORD).as_pointer()
        builder.store(builder.load(builder.bitcast(value, words)), builder.bitcast(found, words))
    else:
        place = builder.bitcast(found, context.get_data_type(kind[index]).as_pointer())
        context.pack_value(builder, kind[index], value, place)


def _room(builder, kind):
    """Return the address of room for a record, in the memory of the function."""
    words = cgutils.alloca_once(builder, ir.ArrayType(_INDEX, _size(kind) // _WORD))
    return builder.bitcast(words, _ADDRESS)


@lower_getattr_generic(RecordType)
def _get_attribute(context, builder, kind, address, name):
    index = kind.fields.index(name)
    return impl_ret_borrowed(context, builder, kind[index], _read(context, builder, kind, address, index))


@lower_builtin("static_getitem", RecordType, types.IntegerLiteral)
def _get_item(context, builder, sig, arguments):
    (kind, _), (address, index) = sig.args, arguments
    found = _read(context, builder, kind, address, index if index >= 0 else index + len(kind))
    return impl_ret_borrowed(context, builder, sig.return_type, found)


@unbox(RecordType)
def _unbox(kind, value, c):
    """Copy the addresses of arrays and the numbers of a named tuple into the memory of the function."""
    address = _room(c.builder, kind)
    is_wrong = cgutils.alloca_once_value(c.builder, cgutils.false_bit)
    cleanups = []
    for index, each in enumerate(kind):
        native = c.unbox(each, c.pyapi.tuple_getitem(value, index))
        _write(c.context, c.builder, kind, address, index, native.value)
        with c.builder.if_then(native.is_error, likely=False):
            c.builder.store(cgutils.true_bit, is_wrong)
        if native.cleanup is not None:
            cleanups.append(native.cleanup)
        if c.context.enable_nrt and not isinstance(each, RecordType):
            cleanups.append(lambda each=each, item=native.value: c.context.nrt.decref(c.builder, each, item))

    def cleanup():
        for clean in reversed(cleanups):
            clean()

    return NativeValue(address, is_error=c.builder.load(is_wrong), cleanup=cleanup if cleanups else None)
