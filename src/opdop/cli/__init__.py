"""The command line: parses, calls, prints; one file for each group of commands."""

from opdop.cli import problems, report, run, sweeps, verify  # each adds its commands
from opdop.cli.application import app, main

__all__ = ["app", "main", "problems", "report", "run", "sweeps", "verify"]
