"""Make the runs of the comparison that are missing, and print its tables.

python -m studies.peers
python -m studies.peers --algorithms triple-q --only factored queue
python -m studies.peers --again opdop
python -m studies.peers --tables
python -m studies.peers --again opdop --write
"""

from __future__ import annotations

import argparse
from pathlib import Path

from studies.peers.runs import FILE, SPEC, Comparison
from studies.peers.tables import PAGE, Tables, written


def main(arguments: list[str] | None = None) -> None:
    """Make the missing runs and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m studies.peers", description=__doc__.splitlines()[0])
    parser.add_argument("--algorithms", nargs="+", default=[], help="only these")
    parser.add_argument("--only", nargs="+", default=[], help="problems whose names begin like this")
    parser.add_argument("--again", nargs="+", default=[], help="make all runs of these algorithms anew")
    parser.add_argument("--tables", action="store_true", help="make no runs")
    parser.add_argument("--write", action="store_true", help="also write the tables into docs/comparison.md")
    parser.add_argument("--spec", type=Path, default=SPEC)
    parser.add_argument("--file", type=Path, default=FILE)
    given = parser.parse_args(arguments)
    comparison = Comparison(given.spec, given.file)
    if given.again:
        comparison.forget(given.again)
    if not given.tables:
        for case in comparison.cases:
            for name in given.algorithms or comparison.algorithms:
                if not given.only or case.name.startswith(tuple(given.only)):
                    comparison.fill(name, case)
    tables = Tables(comparison).text()
    print(tables, end="")
    if given.write:
        PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), tables), encoding="utf-8")


if __name__ == "__main__":
    main()
