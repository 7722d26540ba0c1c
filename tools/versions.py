"""Test opdop with every Python that is installed, or with the lowest versions of what it depends on.

`python -m tools.versions pythons [TESTS...]` looks for python3.11, python3.12, ... on the path and among those of
pyenv. `python -m tools.versions lowest [TESTS...]` takes the Python that runs it, and of each dependency in
`pyproject.toml` the lowest version that its range allows. Both make an environment in `.venvs`, install the package
there as users do, and run TESTS, or all tests and examples. They end with status 1 if a test fails. `OPDOP_WORKERS=1`
runs them in one process instead of two.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENTS = ROOT / ".venvs"
FIRST, LAST = 11, 30  # of Python 3
CHECKERS = {"ruff", "mypy", "import-linter"}  # no test needs these, and they ask for newer libraries than opdop does
TESTS = ("tests", "README.md", "docs")  # and the docstrings of the package, where it is installed
# Old libraries warn of new ones that they use; these warnings are not about opdop.
OLD = ("-W", "ignore::DeprecationWarning", "-W", "ignore::PendingDeprecationWarning")


def installed_pythons() -> dict[str, str]:
    """Return the Pythons 3.11 and newer that run on this machine, by their versions such as "3.12"."""
    found = {}
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for minor in range(FIRST, LAST):
        places = [shutil.which(f"python3.{minor}"), *sorted(map(str, pyenv.glob(f"3.{minor}.*/bin/python3")))]
        for place in places:
            asked = [place, "-c", "import sys, venv; print(*sys.version_info[:2], sep='.')"] if place else ["false"]
            done = subprocess.run(asked, capture_output=True, text=True, check=False)
            if done.returncode == 0 and done.stdout.strip() == f"3.{minor}":
                found[f"3.{minor}"] = str(place)
                break
    return found


def project() -> dict[str, Any]:
    """Return what `pyproject.toml` says of the project."""
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return found


def lowest_versions() -> list[str]:
    """Return the dependencies, also of the extras for users, with the lowest version of each range."""
    extras = project()["optional-dependencies"]
    lowest = {}
    for requirement in [*project()["dependencies"], *extras["gym"], *extras["pandas"], *extras["dask"]]:
        name, bound, version = re.findall(r"([A-Za-z0-9-]+)\s*(>=)?\s*([0-9.]*)", requirement)[0]
        lowest[name] = f"{name}=={version}" if bound else name
    return list(lowest.values())


def testing() -> list[str]:
    """Return what the tests need beside the package."""
    listed = project()["optional-dependencies"]["dev"]
    return [each for each in listed if re.split("[^A-Za-z0-9-]", each)[0] not in CHECKERS]


def passes(python: str, name: str, pins: list[str], tests: list[str], options: tuple[str, ...] = ()) -> bool:
    """Make an environment with a Python, install the package and `pins`, and return whether the tests pass."""
    folder = ENVIRONMENTS / name
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    ours = str(folder / "bin" / "python")
    pip = [ours, "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
    constraints = [] if pins else ["-c", str(ROOT / "constraints.txt")]
    # Not editable: compiled code is then kept in this environment, and package data must be in the wheel.
    subprocess.run([*pip, *constraints, str(ROOT), *testing(), *pins], check=True)
    print(f"== {name}: {_versions(ours)}", flush=True)
    package = subprocess.run(
        [ours, "-c", "import opdop; print(*opdop.__path__)"], cwd=folder, capture_output=True, text=True, check=True
    ).stdout.strip()
    workers = os.environ.get("OPDOP_WORKERS", "2")
    command = [ours, "-m", "pytest", "-q", "-n", workers, "-p", "no:cacheprovider", "--collect-in-virtualenv", *options]
    command += tests or [*TESTS, package]
    return subprocess.run(command, cwd=ROOT, check=False).returncode == 0


def _versions(python: str) -> str:
    names = ("numpy", "scipy", "numba", "llvmlite", "polars", "matplotlib", "typer", "rich", "jinja2", "gymnasium")
    asked = (
        "import platform, importlib.metadata as m; "
        f"print('Python', platform.python_version(), *(f'{{n}} {{m.version(n)}}' for n in {names!r}))"
    )
    return subprocess.run([python, "-c", asked], capture_output=True, text=True, check=True).stdout.strip()


def main(arguments: list[str]) -> int:
    """Run the tests as the module's docstring says; return the status."""
    if not arguments or arguments[0] not in ("pythons", "lowest"):
        print(__doc__)
        return 2
    tests = arguments[1:]
    if arguments[0] == "lowest":
        return 0 if passes(sys.executable, "lowest", lowest_versions(), tests, OLD) else 1
    results = {
        version: passes(python, f"python{version}", [], tests) for version, python in installed_pythons().items()
    }
    for version, passed in results.items():
        print(f"Python {version}: {'passed' if passed else 'FAILED'}")
    return 0 if results and all(results.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
