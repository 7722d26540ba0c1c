"""Run the command line: python -m opdop."""

from opdop.cli import main

main()
