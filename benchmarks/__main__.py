"""Run the benchmarks in name order, or only those named on the command line."""

import importlib
import os
import pkgutil
import platform
import sys
from pathlib import Path

# Before NumPy is loaded: everything is compared on one core.
for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numba  # noqa: E402
import numpy as np  # noqa: E402

import benchmarks  # noqa: E402

PREFIX = "bench_"


def available() -> list[str]:
    """Return the sorted names of the benchmarks, without the prefix."""
    modules = (module.name for module in pkgutil.iter_modules(benchmarks.__path__))
    return sorted(name.removeprefix(PREFIX) for name in modules if name.startswith(PREFIX))


def processor() -> str:
    """Return the processor's name, as far as the system tells."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


def main(arguments: list[str]) -> int:
    """Run the chosen benchmarks and return the exit code."""
    names = available()
    chosen = [Path(argument).stem.removeprefix(PREFIX) for argument in arguments] or names
    unknown = [name for name in chosen if name not in names]
    if unknown:
        print(f"no such benchmark: {', '.join(unknown)}; there are: {', '.join(names)}", file=sys.stderr)
        return 2
    print(f"machine  {processor()}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}")
    print(f"python   {platform.python_version()}")
    print(f"numpy    {np.__version__}")
    print(f"numba    {numba.__version__}")
    if not chosen:
        print("\nno benchmarks yet: add benchmarks/bench_NAME.py with a function main()")
    for name in chosen:
        print(f"\n== {name}", flush=True)
        importlib.import_module(f"benchmarks.{PREFIX}{name}").main()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
