"""Numba's compiler with the passes that kernels need, one optimisation, and a memory for the types of operators.

Kernels are written in a small part of Python: no closures, generators, `with` or `raise`, no calls that Numba inlines
itself. Half of Numba's passes only look for these. Its pass manager also analyses the whole function again after each
pass, its type inference tries up to thirty ways to read an operator, for each operator of each function, and LLVM
optimises each function three times: alone, to find counts of references that cancel, and then for good. Kernels do
without all of it: `make bench BENCH=cold`.
"""

from __future__ import annotations

import copy
from typing import Any

from numba.core import codegen, event, types
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.typed_passes import NativeLowering
from numba.core.typing import Context

from opdop.kernels.lowering import KernelCode
from opdop.kernels.records import RecordType

_LEFT_OUT = {
    "AnnotateTypes",
    "DumpParforDiagnostics",
    "FindLiterallyCalls",
    "InlineClosureLikes",
    "InlineInlinables",
    "InlineOverloads",
    "LiteralPropagationSubPipelinePass",
    "LiteralUnroll",
    "MakeFunctionToJitFunction",
    "NoPythonSupportedFeatureValidation",
    "NopythonRewrites",
    "RewriteDynamicRaises",
    "WithLifting",
}


class KernelLibrary(codegen.JITCodeLibrary):  # type: ignore[misc]
    """LLVM code that is optimised once, when all that it calls is in it."""

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        manager = self._codegen._module_pass_manager()
        passes, *builder = manager if isinstance(manager, tuple) else [manager]  # before Numba 0.62 it is alone
        passes.run(self._final_module, *builder)


class _Passes(PassManager):  # type: ignore[misc]
    """Runs passes one after the other."""

    def _runPass(self, index: int, each: Any, state: Any) -> None:
        each.analysis = self._analysis
        with event.trigger_event("numba:run_pass", data={"name": each.name()}):
            each.run_pass(state)


class _TypingContext(Context):  # type: ignore[misc]
    """Numba's rules for types, which are asked once for each operator and kinds of operands."""

    def resolve_function_type(self, func: Any, args: Any, kws: Any) -> Any:
        """Return the types of a call."""
        if kws or isinstance(func, str):  # such as "static_getitem", whose arguments may be slices
            return super().resolve_function_type(func, args, kws)
        key = func, args
        found = self.known.get(key)
        if found is None:
            found = super().resolve_function_type(func, args, kws)
            if found is not None and self._is_operator(func, found):
                self.known[key] = found
        return found

    def _is_operator(self, func: Any, found: Any) -> bool:
        """Return whether a function has one implementation, whatever its arguments: not if a choice was made."""
        kind = func if isinstance(func, types.Type) else self._lookup_global(func)
        return isinstance(kind, types.Function) and kind._impl_keys.get(found.args) is kind.typing_key


def _with_memory(context: Any) -> Any:
    """Return Numba's context, with a memory; there is one for each context."""
    found = vars(context).get("_opdop")
    if found is None:
        found = copy.copy(context)
        found.__class__ = _TypingContext
        found.known = {}
        context._opdop = found
    return found


@register_pass(mutates_CFG=True, analysis_only=False)
class KernelLowering(NativeLowering):  # type: ignore[misc]
    """Numba's last pass, for kernels that Python calls."""

    _name = "kernel_lowering"

    @property
    def lowering_class(self) -> Any:
        """Return what writes the code."""
        return KernelCode

    def run_pass(self, state: Any) -> bool:
        """Write the code into a library."""
        if isinstance(state.return_type, RecordType):
            raise NotImplementedError(f"{state.func_id.func_name} returns a record, which does not outlive it")
        state.library = self.library(state)
        done: bool = super().run_pass(state)
        return done

    def library(self, state: Any) -> Any:
        """Return an empty library, of which the machine code is kept."""
        library = KernelLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        library.enable_object_caching()
        return library


class KernelCompiler(CompilerBase):  # type: ignore[misc]
    """Numba's compiler for kernels."""

    lowering: Any = KernelLowering

    def __init__(self, typing_context: Any, *others: Any) -> None:
        super().__init__(_with_memory(typing_context), *others)

    def define_pipelines(self) -> list[Any]:
        """Return the passes."""
        every = DefaultPassBuilder.define_nopython_pipeline(self.state)
        chosen, pruned = _Passes("kernel"), False
        for each, text in every.passes:
            name = each.__name__
            if name in _LEFT_OUT or (name == "DeadBranchPrune" and pruned):
                continue
            pruned |= name == "DeadBranchPrune"
            chosen.add_pass(self.lowering if each is NativeLowering else each, text)
        chosen.finalize()
        return [chosen]
