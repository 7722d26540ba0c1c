"""How long the first run on a new machine takes, with an empty cache, and what takes the time.

`opdop run` compiles in two processes; the time by the clock is what a user waits. Phases, entry points and kernels are
those of a run that compiles everything in one process.
"""

from __future__ import annotations

import collections
import functools
import gc
import os
import resource
import subprocess
import sys
import tempfile
import time
from typing import Any

from numba.core import codegen, event

from opdop.__main__ import main as opdop
from opdop.kernels.compiler import KernelLibrary
from opdop.runs import compiling

AIM = 8.0  # seconds
RUNS = (
    ("counts, replan", ["factored", "--episodes", "1000"]),
    ("counts, opdop", ["factored", "--algorithm", "opdop", "--episodes", "1000"]),
    ("LSTD", ["random-mixture", "--algorithm", "opdop-lstd", "--episodes", "100"]),
    ("continuous states", ["reservoir", "--episodes", "20"]),
)
SHOWN = 7
STARTS = 3
PASSES = {  # of Numba, by the end of their names; the others are Python's bytecode and Numba's representation of it
    "type_inference": "types",
    "lowering": "lowering",
}
STEPS = {  # methods of Numba's libraries of LLVM code
    "_optimize_final_module": "LLVM's optimisation",
    "_finalize_specific": "machine code",
    "add_ir_module": "LLVM's text",
}


class Clock:
    """Adds up seconds of the processor by name: each is without the others that are measured inside it."""

    def __init__(self) -> None:
        self.seconds: collections.Counter[str] = collections.Counter()
        self.number: collections.Counter[str] = collections.Counter()
        self.whole: collections.Counter[str] = collections.Counter()  # what is not inside another one, with its inside
        self._open: list[list[float]] = []

    def start(self) -> None:
        """Begin with something."""
        self._open.append([time.process_time(), 0.0])

    def stop(self, name: str) -> None:
        """End what was begun last."""
        began, inside = self._open.pop()
        spent = time.process_time() - began
        self.seconds[name] += spent - inside
        self.number[name] += 1
        if self._open:
            self._open[-1][1] += spent
        else:
            self.whole[name] += spent

    def most(self, counter: collections.Counter[str]) -> str:
        """Return the largest numbers as text."""
        return ", ".join(f"{name} {seconds:.1f}" for name, seconds in counter.most_common(SHOWN))


class Functions(event.Listener):
    """Measures each function that Numba compiles."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.modules: collections.Counter[str] = collections.Counter()

    def on_start(self, event: event.Event) -> None:
        """Numba begins with a function."""
        self.clock.start()

    def on_end(self, event: event.Event) -> None:
        """Numba has compiled a function."""
        function = event.data["dispatcher"].py_func
        self.clock.stop(function.__qualname__)
        self.modules[function.__module__.split(".")[0]] += 1


class Phases(event.Listener):
    """Measures the passes of Numba, and the steps of LLVM in them."""

    def __init__(self) -> None:
        self.clock = Clock()
        for method, phase in STEPS.items():
            for kind in (
                codegen.CPUCodeLibrary,
                codegen.JITCodeLibrary,
                KernelLibrary,
                *KernelLibrary.__subclasses__(),
            ):
                if method in vars(kind):
                    setattr(kind, method, self.timed(getattr(kind, method), phase))

    def timed(self, method: Any, phase: str) -> Any:
        """Return a method that is measured."""

        @functools.wraps(method)
        def call(*arguments: Any) -> Any:
            self.clock.start()
            try:
                return method(*arguments)
            finally:
                self.clock.stop(phase)

        return call

    def on_start(self, event: event.Event) -> None:
        """Numba begins with a pass."""
        self.clock.start()

    def on_end(self, event: event.Event) -> None:
        """Numba has ended a pass; what it calls it begins with the name of the pass."""
        name = event.data["name"].partition(" ")[0]
        self.clock.stop(next((PASSES[end] for end in PASSES if name.endswith(end)), "bytecode and its analysis"))


class Garbage:
    """Measures Python's search for cyclic garbage."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        """Python begins or ends a search."""
        self.seconds += time.process_time() * (1.0 if phase == "stop" else -1.0)


def child(arguments: list[str]) -> None:
    """Run `opdop run` in this process alone; print what compiling takes on standard error."""
    compiling.cores = lambda: 1
    functions, phases = Functions(), Phases()
    event.register("numba:compile", functions)
    event.register("numba:run_pass", phases)
    garbage = Garbage()
    gc.callbacks.append(garbage)
    sys.argv = ["opdop", "run", *arguments]
    try:
        opdop()
    except SystemExit as ended:
        if ended.code:
            raise
    whole = time.process_time()
    clock, ours = functions.clock, functions.modules.pop("opdop", 0)
    spent = sum(clock.seconds.values())
    lines = [
        f"in one process: {whole:.1f} s of the processor, {spent:.1f} of them compiling, {garbage.seconds:.1f} "
        "looking for garbage",
        f"phases: {phases.clock.most(phases.clock.seconds)}",
        f"called by Python, with all they call: {clock.most(clock.whole)}",
        f"{ours} kernels, {functions.modules.total()} functions of Numba; alone: {clock.most(clock.seconds)}",
    ]
    print("\n".join(lines), file=sys.stderr)


def first_start(arguments: list[str]) -> tuple[float, float]:
    """Return the seconds of `opdop run` with an empty cache: by the clock, and of all processors."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "opdop", "run", *arguments]
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(command, env={**os.environ, "NUMBA_CACHE_DIR": folder}, capture_output=True, check=True)
        seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Print what each kind of run takes, with a cache of its own."""
    print(f"the fastest and the slowest of {STARTS} first starts")
    for name, arguments in RUNS:
        starts = sorted(first_start(arguments) for _ in range(STARTS))
        (fastest, busy), (slowest, _) = starts[0], starts[-1]
        print(f"  {name}: {fastest:.1f} to {slowest:.1f} s (aim: {AIM:g}), {busy:.1f} s of all processors")
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "benchmarks.bench_cold", *arguments]
            done = subprocess.run(
                command, env={**os.environ, "NUMBA_CACHE_DIR": folder}, capture_output=True, text=True, check=True
            )
        print(*(f"    {line}" for line in done.stderr.strip().splitlines()[-4:]), sep="\n", flush=True)


if __name__ == "__main__":
    child(sys.argv[1:])
