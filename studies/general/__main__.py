"""Run learners on one half of the problems, and print the tables.

    python -m studies.general training --lengths 2000 20000 opdop:scaled opdop opdop,damping=0.5
    python -m studies.general validation --cases opdop:scaled opdop

A setting is ALGORITHM[:PRESET][,NAME=VALUE...]; `opdop:scaled` is the first edition of `practical`. Without settings
the tables of all settings in the results are printed. Runs are kept in FOLDER/HALF.jsonl (studies/results), so the
study can be interrupted; use another folder after a change of the code.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import opdop
from studies.general.cases import HALVES, cases
from studies.general.runs import Results
from studies.general.settings import Setting
from studies.general.tables import Table

FOLDER = Path(__file__).parents[1] / "results"


def main(arguments: list[str] | None = None) -> None:
    """Make the runs that are missing and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m studies.general", description=__doc__.splitlines()[0])
    parser.add_argument("half", choices=HALVES)
    parser.add_argument("settings", nargs="*", help="ALGORITHM[:PRESET][,NAME=VALUE...]")
    parser.add_argument("--lengths", nargs="+", type=int, default=[2_000, 20_000])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--draws", nargs="+", type=int, default=[], help="seeds of the problems of each family")
    parser.add_argument("--only", nargs="+", default=[], help="problems whose names begin like this")
    parser.add_argument("--cases", action="store_true", help="also print every problem")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    given = parser.parse_args(arguments)
    results = Results(given.folder / f"{given.half}.jsonl")
    drawn, beginnings = cases(given.half, given.draws), tuple(given.only)
    chosen = tuple(case for case in drawn if not beginnings or case.name.startswith(beginnings))
    lengths = tuple(sorted(given.lengths))
    settings = [Setting(text) for text in given.settings]
    for setting in settings:
        for case in chosen:
            for seed in given.seeds:
                try:
                    results.fill(setting, case, case.lengths(lengths), seed)
                except opdop.InvalidParameterError as error:  # a planner needs finitely many states
                    print(f"{setting.text}: {case.name} is left out: {error}")
    settings = settings or [Setting(text) for text in sorted({key[0] for key in results.known})]
    table = Table(results, chosen, lengths, tuple(given.seeds))
    table.print_settings(settings)
    if given.cases:
        table.print_cases(settings)
        table.print_against(settings[0], settings[1:])


if __name__ == "__main__":
    main()
