"""Episodes per second of the algorithms of other papers, against their public implementations where there are any."""

from __future__ import annotations

from benchmarks.bench_learn import dense_model
from opdop.runs import train

# Algorithm, presets, sizes S A H, episodes; the public implementation's episodes per second at these sizes, as measured
# on such a machine (issue 17), or None.
CASES = (
    ("opdop", ("practical",), (30, 3, 10), 20_000, None),
    ("opt-primal-dual", ("paper", "practical"), (30, 3, 10), 20_000, 2_800.0),
    ("optpess-primal-dual", ("paper", "practical"), (30, 3, 10), 20_000, None),
    ("regularised-primal-dual", ("paper", "practical"), (30, 3, 10), 20_000, None),
    ("dope", ("paper", "practical"), (10, 2, 10), 2_000, 7.0),
    ("optpess-lp", ("paper", "practical"), (10, 2, 10), 2_000, None),
    ("posterior", ("paper", "practical"), (10, 2, 10), 2_000, None),
)
AIM = 50.0  # times the public implementation


def main() -> None:
    """Print the episodes per second of each algorithm, every episode measured exactly, on one core."""
    print("new runs, every episode measured exactly, one core; `paper` of the planners plans before every episode")
    for name, presets, (S, A, H), episodes, public in CASES:
        cmdp = dense_model(S, A, H)
        for preset in presets:
            train(cmdp, name, episodes=20, preset=preset, records=10)  # compile
            seconds = min(train(cmdp, name, episodes=episodes, preset=preset, records=10).seconds for _ in range(3))
            rate = episodes / seconds
            line = f"  {name:24} {preset:10} S{S} A{A} H{H}: {rate:10,.0f} episodes/s"
            if public is not None:
                line += f", public {public:,.0f}: {rate / public:6.1f} times (aim: {AIM:g})"
            print(line, flush=True)


if __name__ == "__main__":
    main()
