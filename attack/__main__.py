"""Run the attacks and print one table: `python -m attack [NAME ...]`; `make attack` runs all, in at most ten minutes.

The exit status is 1 if anything was wrong, lost, crashed, hung or ended in a traceback. `--times=3` before the names
allows three times as long, for a machine that does other things too.
"""

from __future__ import annotations

import sys

from attack.sandbox import BAD, FINE, Tally, hunt

# name: cases, seconds at most, seconds for one case, workers; one command may compare two algorithms and draw figures
ATTACKS = {
    "files": (5000, 120.0, 30.0, 2),
    "readers": (3000, 50.0, 30.0, 2),
    "api": (5000, 60.0, 30.0, 2),
    "command_line": (2600, 160.0, 60.0, 2),
    "sizes": (200, 30.0, 30.0, 2),
    "keys": (200, 20.0, 30.0, 1),
    "disk": (100, 60.0, 60.0, 2),
    "kills": (150, 100.0, 90.0, 2),
}


def main(names: list[str]) -> int:
    """Run the named attacks, or all; return the exit status."""
    times = float(names.pop(0).partition("=")[2]) if names and names[0].startswith("--times=") else 1.0
    unknown = [name for name in names if name not in ATTACKS]
    if unknown:
        print(f"there is no attack {unknown[0]!r}; there are {', '.join(ATTACKS)}")
        return 2
    tallies = []
    for name in names or ATTACKS:
        cases, seconds, patience, workers = ATTACKS[name]
        tallies.append(hunt(name, cases, times * seconds, workers=workers, patience=times * patience))
        print(f"{name}: {tallies[-1].tried} tried in {tallies[-1].seconds:.0f} s", flush=True)
    print()
    print("\n".join(table(tallies)))
    for tally in tallies:
        for outcome in BAD:
            for example in tally.examples.get(outcome, ()):
                print(f"\n{tally.name}, {outcome}: {example}")
    return 1 if any(tally.bad for tally in tallies) else 0


def table(tallies: list[Tally]) -> list[str]:
    """Return the lines of the table, in Markdown."""
    columns = (*FINE, *BAD)
    lines = [f"| attack | tried | {' | '.join(columns)} |", "|---|--:|" + "--:|" * len(columns)]
    for tally in tallies:
        numbers = " | ".join(f"{tally.outcomes[name]:,}" for name in columns)
        lines.append(f"| {tally.name.replace('_', ' ')} | {tally.tried:,} | {numbers} |")
    totals = " | ".join(f"{sum(tally.outcomes[name] for tally in tallies):,}" for name in columns)
    lines.append(f"| **all** | {sum(tally.tried for tally in tallies):,} | {totals} |")
    return lines


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
