"""The command line: parses, calls, prints; one file for each group of commands, imported when it is used."""

from opdop.cli.application import app

__all__ = ["app"]
