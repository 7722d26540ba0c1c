"""How the LLVM code of kernels is written: shorter than Numba's own code for what kernels are made of.

Numba writes about forty lines to read an element of an array, sixty to loop over a range and thirty for each view: all
of an array or a range is copied to memory first. LLVM removes all of that again, and the code that remains is the same.
Whatever is not written here is left to Numba: arrays with gaps, slices, ranges with steps, bounds checks, powers,
and kernels whose references are counted.
"""

from __future__ import annotations

import operator
from typing import Any

from numba.core import cgutils, ir, lowering, types
from numba.core.ir_utils import guard
from numba.np.arrayobj import fix_integer_index, load_item, store_item

from opdop.kernels.records import declare_records

_implementations: dict[Any, Any] = {}  # of operators


class KernelCode(lowering.Lower):  # type: ignore[misc]
    """Numba's writer of LLVM code, with less code for elements, views, ranges and operators."""

    def setup_function(self, descriptor: Any) -> None:
        """Begin with a function."""
        super().setup_function(descriptor)
        declare_records(self.function, dict(zip(descriptor.args, descriptor.argtypes, strict=True)))

    def lower_binop(self, result: Any, expr: Any, function: Any) -> Any:
        """Write an operator; only powers have code of their own for numbers that are known."""
        if function in (operator.pow, operator.ipow):
            return super().lower_binop(result, expr, function)
        operands = expr.lhs, expr.rhs
        sig = self.fndesc.calltypes[expr]
        values = [
            self.context.cast(self.builder, self.loadvar(each.name), self.typeof(each.name), kind)
            for each, kind in zip(operands, sig.args, strict=True)
        ]
        known = _implementations.get((self.context, function, sig.args))
        if known is None:
            kind = self.context.typing_context.resolve_value_type(function)
            call = kind.get_call_type(self.context.typing_context, sig.args, {})
            known = self.context.get_function(kind, call)
            if not any(isinstance(each, types.Array | types.BaseTuple) for each in sig.args):
                _implementations[self.context, function, sig.args] = known
        return self.context.cast(self.builder, known(self.builder, values), sig.return_type, result)

    def lower_getitem(self, result: Any, expr: Any, value: Any, index: Any, sig: Any) -> Any:
        """Write an element of an array, or a view of its last axes."""
        kind, place = self.typeof(value.name), self._place(value, index)
        if place is None:
            return super().lower_getitem(result, expr, value, index, sig)
        address, taken = place
        if taken == kind.ndim:
            found = load_item(self.context, self.builder, kind, address)
        else:
            found = self._view(self.loadvar(value.name), kind, sig.return_type, address, taken)
        return self.context.cast(self.builder, found, sig.return_type, result)

    def lower_setitem(self, target: Any, index: Any, value: Any, sig: Any) -> Any:
        """Write a number to an array."""
        kind, place = self.typeof(target.name), self._place(target, index)
        if place is None or place[1] < kind.ndim or not isinstance(sig.args[2], types.Number | types.Boolean):
            return super().lower_setitem(target, index, value, sig)
        number = self.context.cast(self.builder, self.loadvar(value.name), self.typeof(value.name), sig.args[2])
        number = self.context.cast(self.builder, number, sig.args[2], kind.dtype)
        return store_item(self.context, self.builder, kind, number, place[0])

    def lower_expr(self, result: Any, expr: Any) -> Any:
        """Write an expression."""
        if expr.op in ("pair_first", "pair_second"):
            return self.builder.extract_value(self.loadvar(expr.value.name), int(expr.op == "pair_second"))
        if expr.op == "getiter" and isinstance(result, types.RangeIteratorType):
            found = self._begin_range(result, expr.value)
            if found is not None:
                return found
        if expr.op == "iternext" and isinstance(self.typeof(expr.value.name), types.RangeIteratorType):
            return self._next_of_range(result, self.loadvar(expr.value.name))
        return super().lower_expr(result, expr)

    def _place(self, array: Any, index: Any) -> Any:
        """Return the address of an element, and how many axes its index has; None if Numba must find it."""
        kind, index_kind = self.typeof(array.name), self.typeof(index.name)
        is_tuple = isinstance(index_kind, types.BaseTuple)
        kinds = tuple(index_kind) if is_tuple else (index_kind,)
        if (
            not isinstance(kind, types.Array)
            or kind.layout != "C"
            or self.context.enable_boundscheck
            or self.context.enable_nrt
            or not all(isinstance(each, types.Integer) for each in kinds)
            or len(kinds) > kind.ndim
        ):
            return None
        builder, value, given = self.builder, self.loadvar(array.name), self.loadvar(index.name)
        shape = [builder.extract_value(value, (5, axis)) for axis in range(kind.ndim)]
        indices = [
            fix_integer_index(self.context, builder, each, builder.extract_value(given, n) if is_tuple else given, size)
            for n, (each, size) in enumerate(zip(kinds, shape, strict=False))
        ]
        at = indices[0]
        for index_here, size in zip(indices[1:], shape[1:], strict=False):
            at = builder.add(builder.mul(at, size), index_here)
        for size in shape[len(kinds) :]:
            at = builder.mul(at, size)
        return builder.gep(builder.extract_value(value, 4), [at]), len(kinds)

    def _view(self, array: Any, kind: Any, result: Any, address: Any, taken: int) -> Any:
        """Return a view of the last axes of an array."""
        builder, found = self.builder, self.context.get_constant_undef(result)
        items = None
        for axis in range(kind.ndim - taken):
            size = builder.extract_value(array, (5, taken + axis))
            items = size if items is None else builder.mul(items, size)
            found = builder.insert_value(found, size, (5, axis))
            found = builder.insert_value(found, builder.extract_value(array, (6, taken + axis)), (6, axis))
        for n, each in ((2, items), (4, address), *((n, builder.extract_value(array, n)) for n in (0, 1, 3))):
            found = builder.insert_value(found, each, n)
        return found

    def _begin_range(self, kind: Any, given: Any) -> Any:
        """Return an iterator over range(n) or range(m, n); None if there is a step."""
        call = guard(self.func_ir.get_definition, given.name)
        if not isinstance(call, ir.Expr) or call.op != "call" or not 0 < len(call.args) < 3 or call.kws or call.vararg:
            return None
        number, builder, state = self.context.get_value_type(kind.yield_type), self.builder, self.loadvar(given.name)
        first, last = builder.extract_value(state, 0), builder.extract_value(state, 1)
        place, left = cgutils.alloca_once(builder, number), cgutils.alloca_once(builder, number)
        builder.store(first, place)
        builder.store(builder.sub(last, first), left)
        found = self.context.get_constant_undef(kind)
        for n, each in enumerate((place, last, number(1), left)):
            found = builder.insert_value(found, each, n)
        return found

    def _next_of_range(self, kind: Any, iterator: Any) -> Any:
        """Return the next number of a range, and whether there is one."""
        builder = self.builder
        place, step, left = (builder.extract_value(iterator, n) for n in (0, 2, 3))
        count, value = builder.load(left), builder.load(place)
        builder.store(builder.sub(count, count.type(1)), left)
        builder.store(builder.add(value, step), place)
        found = builder.insert_value(self.context.get_constant_undef(kind), value, 0)
        return builder.insert_value(found, builder.icmp_signed(">", count, count.type(0)), 1)
