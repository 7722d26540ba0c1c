"""Kernels that other kernels call, compiled as parts of these: without machine code and files of their own.

Numba compiles a function that another one calls as if Python called it: to machine code, with a wrapper that unpacks
Python's objects and one for C, and into the cache. All of that is repeated in the caller, into which LLVM copies the
function. A part ends as LLVM code instead, and that is what the caller's compilation begins with; no bit of a result
depends on it. A part is optimised in its callers only: alone, all of that would be done once more. The exceptions are
loops that LLVM does not vectorise where they are called; they are optimised `alone` first. A function that both Python
and kernels call is compiled in both ways, each when it is first needed. `make bench BENCH=cold` prints where the time
of the first start goes.
"""

from __future__ import annotations

import gc
import inspect
from collections.abc import Callable
from typing import Any

import llvmlite
import numba
from numba import _dynfunc
from numba.core import types
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import register_pass
from numba.core.registry import CPUDispatcher
from numba.core.types.misc import unliteral
from numba.core.typing.templates import AbstractTemplate, infer_global

from opdop.kernels.compiler import KernelCompiler, KernelLibrary, KernelLowering

# Before llvmlite 0.48 an attribute is added to a function's result instead of the function, which is an error. Then all
# parts are compiled in the same way, and LLVM decides what stays a function.
HAS_ATTRIBUTES = tuple(map(int, llvmlite.__version__.split(".")[:2])) >= (0, 48)


class _PartLibrary(KernelLibrary):
    """LLVM code that is optimised and linked into its callers, and never made into machine code."""

    alone = False  # whether it is optimised before it is linked
    compact = False  # see `opdop.kernels.caching.njit`

    def _optimize_final_module(self) -> None:
        if self.compact and HAS_ATTRIBUTES:
            for function in self._final_module.functions:
                if not function.is_declaration:
                    function.add_function_attribute("optsize")
        if self.alone:
            super()._optimize_final_module()

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class _PartLowering(KernelLowering):
    """Numba's last pass, without its last step."""

    _name = "part_lowering"
    apart = compact = False

    def library(self, state: Any) -> Any:
        library = _PartLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        library.alone = vars(state.func_id.func).get("alone", False)
        library.compact = self.compact
        return library

    def run_pass(self, state: Any) -> bool:
        state.flags.no_compile = True
        super().run_pass(state)
        lowered = state["cr"]
        if self.apart and HAS_ATTRIBUTES:
            state.library.finalize()
            state.library._final_module.get_function(lowered.fndesc.llvm_func_name).add_function_attribute("noinline")
        # Callers look a function up by an object that Python could call; this one has no address.
        name = lowered.fndesc.qualname.split(".")[-1]
        key = _dynfunc.make_function(
            lowered.fndesc.lookup_module(), name, "a part of kernels", 0, lowered.env, (state.library,)
        )
        state.targetctx.insert_user_function(key, lowered.fndesc, [state.library])
        state["cr"] = lowered._replace(cfunc=key)
        return True


@register_pass(mutates_CFG=True, analysis_only=False)
class _ApartLowering(_PartLowering):
    """The same for a part that stays a function."""

    _name = "apart_lowering"
    apart = True


@register_pass(mutates_CFG=True, analysis_only=False)
class _CompactLowering(_ApartLowering):
    """The same for one whose code is kept short."""

    _name = "compact_lowering"
    compact = True


class _PartCompiler(KernelCompiler):
    """Numba's compiler with `_PartLowering` as the last pass."""

    lowering = _PartLowering


class _ApartCompiler(_PartCompiler):
    """Numba's compiler with `_ApartLowering` as the last pass."""

    lowering = _ApartLowering


class _CompactCompiler(_PartCompiler):
    """Numba's compiler with `_CompactLowering` as the last pass."""

    lowering = _CompactLowering


class Kernel(CPUDispatcher):  # type: ignore[misc]
    """A compiled function that other compiled functions take as a part."""

    options: dict[str, Any]  # those of `njit`
    kind: str  # "", "apart" or "compact": as in `opdop.kernels.caching.njit`
    _part: Any = None

    def compile(self, sig: Any) -> Any:
        """Compile for some types of arguments, or load what was compiled for them.

        Python's search for cyclic garbage waits meanwhile: with it, compiling takes an eighth longer.
        """
        with global_compiler_lock:
            collects = gc.isenabled()
            gc.disable()
            try:
                return super().compile(sig)
            finally:
                if hasattr(self._cache, "end_turn"):  # not if nothing is kept of this kernel
                    self._cache.end_turn()
                if collects:
                    gc.enable()

    @property
    def _numba_type_(self) -> Any:
        """Numba's type of this function, where another one calls it."""
        if self._part is None:
            self._part = _as_part(self.py_func, self.options, self.kind)
        return types.Dispatcher(self._part)


class _Part(CPUDispatcher):  # type: ignore[misc]
    """A part. It is compiled for whole numbers, and not once more for each number that a caller writes down."""

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Return how it is called with arguments of some types."""
        named = {name: unliteral(kind) for name, kind in kws.items()}
        return super().get_call_template(tuple(map(unliteral, args)), named)


def as_kernel(compiled: Any, options: dict[str, Any], kind: str = "") -> Any:
    """Make what `njit(**options)` returned a part of the functions that call it; return it."""
    if isinstance(compiled, CPUDispatcher):  # not if compiling is switched off
        compiled.__class__ = Kernel
        compiled.options, compiled.kind = options, kind
    return compiled


def overload(
    function: Callable[..., Any], *, fastmath: Any = False, allocates: bool = True, forceinline: bool = False
) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator for what chooses, by the types of the arguments, which function is called for this one.

    It may choose a kernel, an intrinsic of Numba, another function with a choice, or a plain function, which is
    compiled as a part with these options: `fastmath` and `allocates` are as for `opdop.kernels.caching.njit`, and
    `forceinline` as for Numba's. With Numba's own `overload` one more function is compiled for each choice, and again
    for other options of a caller.
    """
    options = {"fastmath": fastmath, "_nrt": allocates, "error_model": "numpy", "forceinline": forceinline}

    def decorate(choose: Callable[..., Any]) -> Callable[..., Any]:
        class Choice(AbstractTemplate):  # type: ignore[misc]
            key = function

            def generic(self, arguments: Any, named: Any) -> Any:
                found = choose(*arguments, **named)
                if found is None:
                    return None
                self.type_of_chosen = _type_of(found, options, self.context)
                return self.type_of_chosen.get_call_type(self.context, arguments, named)

            def get_impl_key(self, signature: Any) -> Any:
                return self.type_of_chosen.get_impl_key(signature)

        _choices[function] = types.Function(Choice)
        infer_global(function, _choices[function])
        return choose

    return decorate


def in_kernels(*, forceinline: bool = False) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator for a plain function that kernels call too, as one of their parts.

    For what makes room for a kernel: called from Python, where NumPy makes it, it takes no time to compile.
    """
    options = {"fastmath": False, "_nrt": True, "error_model": "numpy", "forceinline": forceinline}

    def decorate(function: Callable[..., Any]) -> Any:
        _chosen[function] = _as_part(function, options)
        vars(function)["_numba_type_"] = types.Dispatcher(_chosen[function])
        return function

    return decorate


_choices: dict[Callable[..., Any], Any] = {}  # Numba's types of the functions with a choice
_chosen: dict[Callable[..., Any], Any] = {}  # the parts that plain functions have become


def _type_of(found: Any, options: dict[str, Any], context: Any) -> Any:
    """Return Numba's type of a function that was chosen."""
    if isinstance(found, Kernel):
        return found._numba_type_
    if not inspect.isfunction(found):
        return context.resolve_value_type(found)
    if found in _choices:
        return _choices[found]
    if found not in _chosen:
        _chosen[found] = _as_part(found, options)
    return types.Dispatcher(_chosen[found])


def _as_part(function: Callable[..., Any], options: dict[str, Any], kind: str = "") -> Any:
    """Return a function with `njit(**options)`, for other compiled functions only."""
    compiler = {"": _PartCompiler, "apart": _ApartCompiler, "compact": _CompactCompiler}[kind]
    alone = {"pipeline_class": compiler, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    if kind:  # otherwise Numba takes the caller's
        alone["forceinline"] = False
    part = numba.njit(**{**options, **alone})(function)
    if isinstance(part, CPUDispatcher):  # not if compiling is switched off
        part.__class__ = _Part
    return part
