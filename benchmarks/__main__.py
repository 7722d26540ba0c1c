"""Run all benchmarks in the order of their names, or only those named: `python -m benchmarks [--list] [NAME ...]`."""

import ast
import importlib
import os
import pkgutil
import platform
import sys
from pathlib import Path

# Set before NumPy is loaded: every comparison is on one core.
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
    """Return the name of the processor, or of its architecture where the system does not tell the name."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


def title(name: str) -> str:
    """Return the sentence that opens the module of a benchmark."""
    tree = ast.parse((Path(__file__).parent / f"{PREFIX}{name}.py").read_text(encoding="utf-8"))
    return (ast.get_docstring(tree) or "").partition("\n")[0]


def main(arguments: list[str]) -> int:
    """Run the chosen benchmarks, or list all with --list; return the exit status."""
    names = available()
    if arguments == ["--list"]:
        for name in names:
            print(f"{name:10} {title(name)}")
        return 0
    chosen = [Path(argument).stem.removeprefix(PREFIX) for argument in arguments] or names
    unknown = [name for name in chosen if name not in names]
    if unknown:
        print(f"no such benchmark: {', '.join(unknown)}; there are: {', '.join(names)}", file=sys.stderr)
        return 2
    print(f"machine  {processor()}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}")
    print(f"python   {platform.python_version()}")
    print(f"numpy    {np.__version__}")
    print(f"numba    {numba.__version__}")
    for name in chosen:
        print(f"\n== {name}", flush=True)
        importlib.import_module(f"benchmarks.{PREFIX}{name}").main()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
