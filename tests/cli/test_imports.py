"""What `opdop run` must not load: packages that it does not use and that take long."""

from __future__ import annotations

import subprocess
import sys

UNUSED = ("scipy.stats", "scipy.special", "scipy.optimize", "matplotlib", "gymnasium", "jinja2")
PROGRAM = """
import sys
from opdop.cli import app

app(["run", "factored", "--episodes", "1000"], standalone_mode=False)
print([name for name in sys.argv[1:] if name in sys.modules], file=sys.stderr)
"""


def test_a_run_does_not_load_packages_that_it_does_not_use() -> None:
    command = [sys.executable, "-c", PROGRAM, *UNUSED]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "[]"
