"""Kernels that other kernels call, compiled as parts of these: without machine code and files of their own.

Numba compiles a function that another one calls as if Python called it: to machine code, with a wrapper that unpacks
Python's objects and one for C, and into the cache. All of that is repeated in the caller, into which LLVM copies the
function. A part ends as LLVM code instead, and that is what the caller's compilation begins with; no bit of a result
depends on it. A part with loops is optimised alone first: optimised only in their callers, the loops with counts lose
up to a third of their speed. A function that both Python and kernels call is compiled in both ways, each when it is
first needed. `make bench BENCH=cold` prints where the time of the first start goes.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numba
from numba import _dynfunc
from numba.core import codegen, types
from numba.core.analysis import compute_cfg_from_blocks
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import register_pass
from numba.core.registry import CPUDispatcher
from numba.core.typed_passes import NativeLowering
from numba.core.typing.templates import AbstractTemplate, infer_global


class _PartLibrary(codegen.JITCodeLibrary):  # type: ignore[misc]
    """LLVM code that is optimised and linked into its callers, and never made into machine code."""

    loops = True  # without a loop of its own, a part is optimised in its callers only: they would do all of it again

    def _optimize_final_module(self) -> None:
        if self.loops:
            super()._optimize_final_module()

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True


class _PolishedLibrary(codegen.JITCodeLibrary):  # type: ignore[misc]
    """Machine code that is optimised once more after all parts are in it: LLVM then sees what a part could not show."""

    def _optimize_final_module(self) -> None:
        super()._optimize_final_module()
        self._optimize_functions(self._final_module)


@register_pass(mutates_CFG=True, analysis_only=False)
class _PolishedLowering(NativeLowering):  # type: ignore[misc]
    """Numba's last pass, for a `_PolishedLibrary`."""

    _name = "polished_lowering"

    def run_pass(self, state: Any) -> bool:
        state.library = _PolishedLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        done: bool = super().run_pass(state)
        return done


@register_pass(mutates_CFG=True, analysis_only=False)
class _PartLowering(NativeLowering):  # type: ignore[misc]
    """Numba's last pass, without its last step."""

    _name = "part_lowering"

    def run_pass(self, state: Any) -> bool:
        state.library = _PartLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        has_loops = bool(compute_cfg_from_blocks(state.func_ir.blocks).loops())
        state.library.loops = vars(state.func_id.func).get("alone", has_loops)
        state.flags.no_compile = True
        super().run_pass(state)
        lowered = state["cr"]
        # Callers look a function up by an object that Python could call; this one has no address.
        name = lowered.fndesc.qualname.split(".")[-1]
        key = _dynfunc.make_function(
            lowered.fndesc.lookup_module(), name, "a part of kernels", 0, lowered.env, (state.library,)
        )
        state.targetctx.insert_user_function(key, lowered.fndesc, [state.library])
        state["cr"] = lowered._replace(cfunc=key)
        return True


class _PartCompiler(CompilerBase):  # type: ignore[misc]
    """Numba's compiler with `_PartLowering` as the last pass."""

    lowering = _PartLowering

    def define_pipelines(self) -> list[Any]:
        manager = DefaultPassBuilder.define_nopython_pipeline(self.state)
        manager._finalized = False
        manager.passes = [(self.lowering if each is NativeLowering else each, text) for each, text in manager.passes]
        manager.finalize()
        return [manager]


class Polished(_PartCompiler):
    """Numba's compiler with `_PolishedLowering` as the last pass: for the loop over the episodes."""

    lowering = _PolishedLowering


class Kernel(CPUDispatcher):  # type: ignore[misc]
    """A compiled function that other compiled functions take as a part."""

    options: dict[str, Any]  # those of `njit`
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
                if collects:
                    gc.enable()

    @property
    def _numba_type_(self) -> Any:
        """Numba's type of this function, where another one calls it."""
        if self._part is None:
            self._part = _as_part(self.py_func, self.options)
        return types.Dispatcher(self._part)


def as_kernel(compiled: Any, options: dict[str, Any]) -> Any:
    """Make what `njit(**options)` returned a part of the functions that call it; return it."""
    if isinstance(compiled, CPUDispatcher):  # not if compiling is switched off
        compiled.__class__ = Kernel
        compiled.options = options
    return compiled


def overload(
    function: Callable[..., Any], *, fastmath: Any = False, allocates: bool = True, forceinline: bool = False
) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator for what chooses, by the types of the arguments, which function is called for this one.

    It may choose a kernel, another function with a choice, or a plain function, which is compiled as a part with these
    options: `fastmath` and `allocates` are as for `opdop.kernels.caching.njit`, and `forceinline` as for Numba's. With
    Numba's own `overload` one more function is compiled for each choice, and again for other options of a caller.
    """
    options = {"fastmath": fastmath, "_nrt": allocates, "error_model": "numpy", "forceinline": forceinline}

    def decorate(choose: Callable[..., Any]) -> Callable[..., Any]:
        class Choice(AbstractTemplate):  # type: ignore[misc]
            key = function

            def generic(self, arguments: Any, named: Any) -> Any:
                found = choose(*arguments, **named)
                if found is None:
                    return None
                self.type_of_chosen = _type_of(found, options)
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


def _type_of(found: Any, options: dict[str, Any]) -> Any:
    """Return Numba's type of a function that was chosen."""
    if isinstance(found, Kernel):
        return found._numba_type_
    if found in _choices:
        return _choices[found]
    if found not in _chosen:
        _chosen[found] = _as_part(found, options)
    return types.Dispatcher(_chosen[found])


def _as_part(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    """Return a function with `njit(**options)`, for other compiled functions only."""
    alone = {"pipeline_class": _PartCompiler, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return numba.njit(**{**options, **alone})(function)
