"""The command line: parses, calls, prints; one file for each group of commands."""

from opdop.cli import problems, run, verify  # each adds its commands
from opdop.cli.app import app, main

__all__ = ["app", "main", "problems", "run", "verify"]
