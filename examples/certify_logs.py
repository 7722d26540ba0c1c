"""What a log proves about its best policy, without a simulator.

    python examples/certify_logs.py [WEEKS]

docs/tutorials/logs.md explains the log and the answer.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl

import opdop

TASK = """
horizon = 7
states = ["good", "worn"]
actions = ["run", "repair"]
initial = "good"
stationary = true

[reward]
column = "output"
range = [0, 10]
unit = "units"

[[constraint]]
column = "defects"
budget = 1
unit = "defects"
"""


def record(weeks: int) -> pl.DataFrame:
    """Return the log of a machine that was repaired on one day in three, at random."""
    rng, rows = np.random.default_rng(0), []
    for week in range(weeks):
        worn = False
        for day in range(7):
            repair = rng.random() < 1 / 3
            after = not repair and (worn or rng.random() < 0.3)
            rows.append(
                {
                    "episode": week,
                    "stage": day,
                    "state": "worn" if worn else "good",
                    "action": "repair" if repair else "run",
                    "output": 0 if repair else 6 if worn else 10,
                    "defects": int(worn),
                    "next_state": "worn" if after else "good",
                }
            )
            worn = after
    return pl.DataFrame(rows)


def main(weeks: int = 1000) -> None:
    """Certify the log's recommended policy and print it."""
    log = record(weeks)
    print(f"the log: {log['output'].sum() / weeks:.1f} units and {log['defects'].sum() / weeks:.2f} defects a week")
    with tempfile.TemporaryDirectory() as folder:
        task = Path(folder) / "task.toml"
        task.write_text(TASK, encoding="utf-8")
        found = opdop.certify(log, task=task)
    print(found)
    for day in range(7):
        repair = found.policy.probabilities(day, 1)[1]
        print(f"day {day + 1}: repair a worn machine with probability {repair:.2f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
