"""How many episodes certificates need: `python -m studies.certification [--largest 1e6] [--problems NAME ...]`.

Each learner plays each shipped problem with finitely many states. Ten times in each decade of episodes, the study asks
for the certificate of the recommended policy. The tables say from how many episodes on that policy is certified to keep
every constraint and to be within a share of the reward range H of the best, and how far from the best it is certified
to be in the end. Runs are kept in studies/results/certification.jsonl, so the study can be interrupted; use another
--file after a change of the code. With --tables only what is known is printed.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import opdop
from opdop.confidence import Certificate, Certifier, TabularSet

FILE = Path(__file__).parent / "results" / "certification.jsonl"
LEVELS = (0.20, 0.10, 0.05, 0.02)  # shares of the reward range
FIRST = 100  # episodes before the first certificate
PER_DECADE = 10
RISK = 0.05
SHOWN = (100_000, 1_000_000)  # episodes at which the tables give the gap


@dataclass(frozen=True)
class Way:
    """A learner, and whether it and the certificates keep the stages of a stationary kernel apart."""

    algorithm: str
    preset: str = "practical"
    by_stage: bool = False

    @property
    def name(self) -> str:
        """The algorithm, and its preset where it has several."""
        return f"{self.algorithm} {self.preset}" if self.algorithm == "opdop" else self.algorithm


WAYS = (
    Way("optimistic", "certified"),
    Way("optimistic", "certified", by_stage=True),
    Way("replan"),
    Way("opdop", "practical"),
    Way("opdop", "certified"),
)


@dataclass(frozen=True)
class Point:
    """The certificate of the recommended policy after some episodes, without and with declared successors."""

    episodes: int
    keeps: bool
    gap: float
    keeps_declared: bool
    gap_declared: float
    seconds: float  # of the processor, since the start, with all certificates


@dataclass(frozen=True)
class Result:
    """The certificates of a run, and that of the policy it ended with."""

    points: tuple[Point, ...]
    final_violation: float
    final_gap: float

    def reached(self, goal: float, *, declared: bool = False) -> int | None:
        """Return from how many episodes on the gap is at most the goal, with every constraint kept; None if never."""
        for point in self.points:
            keeps, gap = (point.keeps_declared, point.gap_declared) if declared else (point.keeps, point.gap)
            if keeps and gap <= goal:
                return point.episodes
        return None

    def at(self, episodes: int) -> Point | None:
        """Return the certificate after exactly so many episodes, if there is one."""
        return next((point for point in self.points if point.episodes == episodes), None)


class Results:
    """The results of all runs made so far, by problem, learner, number of episodes and seed."""

    def __init__(self, file: Path) -> None:
        self.file = file
        file.parent.mkdir(parents=True, exist_ok=True)
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        self.known = {tuple(key): _result(values) for key, values in map(json.loads, lines)}

    def find(self, problem: str, way: Way, largest: int, seed: int) -> Result | None:
        """Return the result of a run, or None if it has not been made."""
        return self.known.get(_key(problem, way, largest, seed))

    def fill(self, problem: str, way: Way, largest: int, seed: int) -> None:
        """Make a run unless it has been made."""
        if self.find(problem, way, largest, seed) is not None:
            return
        found, key = measure(problem, way, largest, seed), _key(problem, way, largest, seed)
        with self.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps([key, asdict(found)]) + "\n")
        self.known[key] = found


def _key(problem: str, way: Way, largest: int, seed: int) -> tuple[Any, ...]:
    return problem, way.algorithm, way.preset, way.by_stage, largest, seed


def _result(values: dict[str, Any]) -> Result:
    return Result(**{**values, "points": tuple(Point(**each) for each in values["points"])})


def sizes(largest: int) -> list[int]:
    """Return the numbers of episodes at which certificates are made, up to `largest`.

    >>> sizes(300)
    [100, 126, 158, 200, 251, 300]
    """
    decades = np.log10(largest / FIRST)
    steps = FIRST * 10.0 ** (np.arange(int(PER_DECADE * decades) + 1) / PER_DECADE)
    return sorted({*(round(each) for each in steps), largest})


def measure(problem: str, way: Way, largest: int, seed: int) -> Result:
    """Return the certificates of one run; its constants are those for the largest number of episodes."""
    cmdp = opdop.make(problem).tabular()
    possible = cmdp.dense().transitions.rows.reshape(-1, cmdp.num_states, cmdp.num_actions, cmdp.num_states) > 0.0
    run: opdop.Run | None = None
    points = []
    began = time.process_time()
    for episodes in sizes(largest):
        run = opdop.train(
            problem,
            way.algorithm,
            preset=way.preset,
            episodes=episodes - (int(run.episodes[-1]) if run else 0),
            planned_episodes=largest,
            stationary=False if way.by_stage else None,
            failure_probability=RISK,
            seed=seed,
            records=2,
            measure_every=1000,
            start=run,
        )
        plain = opdop.certify(run, failure_probability=RISK)
        declared = with_successors(run, possible)
        points.append(
            Point(
                episodes,
                plain.keeps_constraints,
                plain.gap,
                declared.keeps_constraints,
                declared.gap,
                time.process_time() - began,
            )
        )
    assert run is not None
    last = opdop.certify(run, "final", failure_probability=RISK)
    return Result(tuple(points), -float(last.slack.min()), last.gap)


def with_successors(run: opdop.Run, possible: Any) -> Certificate:
    """Return the certificate of the recommended policy if it is known which states may follow, `possible` [L,S,A,S]."""
    data = run.observations.as_declared().with_possible(possible)
    return Certifier(TabularSet(data, RISK), run.display).recommend([run.policy])


def problems() -> list[str]:
    """Return the names of the shipped problems with finitely many states."""
    return [name for name in opdop.environments() if isinstance(opdop.make(name), opdop.TabularCMDP)]


def main_table(results: Results, names: Sequence[str], largest: int, seed: int) -> Iterator[str]:
    """Yield the lines of the table of all problems and learners."""
    shown = [each for each in SHOWN if each <= largest]
    heads = [*(f"{100 * level:g} %" for level in LEVELS), *(f"gap at {each:.0e}" for each in shown), "seconds"]
    yield f"| problem | learner | {' | '.join(heads)} |".replace("e+0", "e")
    yield f"|---|---|{'--:|' * len(heads)}"
    for name in names:
        horizon = opdop.make(name).tabular().horizon
        for way in WAYS:
            found = results.find(name, way, largest, seed)
            if found is None or (way.by_stage and not opdop.make(name).tabular().is_stationary):
                continue
            cells = [_episodes(found.reached(level * horizon)) for level in LEVELS]
            cells += [_gap(found.at(each)) for each in shown] + [f"{found.points[-1].seconds:.0f}"]
            stages = ", stage by stage" if way.by_stage else ""
            yield f"| {name} (H {horizon}) | {way.name}{stages} | {' | '.join(cells)} |"


def successor_table(results: Results, names: Sequence[str], largest: int, seed: int) -> Iterator[str]:
    """Yield the lines of the table of `optimistic`, with and without declared successors."""
    yield "| problem | stages | 5 % | 5 %, declared | 2 % | 2 %, declared | last gap | last gap, declared |"
    yield f"|---|---|{'--:|' * 6}"
    for name in names:
        cmdp = opdop.make(name).tabular()
        for way in (each for each in WAYS if each.algorithm == "optimistic"):
            found = results.find(name, way, largest, seed)
            if found is None or (way.by_stage and not cmdp.is_stationary):
                continue
            cells = [
                _episodes(found.reached(level * cmdp.horizon, declared=declared))
                for level in (0.05, 0.02)
                for declared in (False, True)
            ]
            last = found.points[-1]
            pooled = "pooled" if cmdp.is_stationary and not way.by_stage else "one by one"
            gaps = _shown_gap(last.keeps, last.gap), _shown_gap(last.keeps_declared, last.gap_declared)
            yield f"| {name} | {pooled} | {' | '.join(cells)} | {' | '.join(gaps)} |"


# The prototype's certificates after 1e6 episodes: of the last policy (violation, gap), or of the recommended one (gap).
PROTOTYPE: tuple[tuple[str, Way, float | None, float], ...] = (
    ("random-tabular", Way("opdop", "practical"), -0.010, 0.031),
    ("inventory", Way("opdop", "practical"), 0.016, 0.065),
    ("media-streaming", Way("opdop", "practical"), 0.073, 0.176),
    ("media-streaming", Way("optimistic", "certified", by_stage=True), None, 0.510),
    ("media-streaming", Way("optimistic", "certified"), None, 0.210),
    ("factored", Way("optimistic", "certified", by_stage=True), None, 0.065),
    ("factored", Way("optimistic", "certified"), None, 0.029),
    ("random-tabular", Way("optimistic", "certified"), None, 0.019),
)


def prototype_table(results: Results, largest: int, seed: int) -> Iterator[str]:
    """Yield the lines of the comparison with the prototype."""
    yield "| problem | learner | prototype | the same policy here | recommended policy here |"
    yield "|---|---|--:|--:|--:|"
    for name, way, violation, gap in PROTOTYPE:
        found = results.find(name, way, largest, seed)
        if found is None:
            continue
        before = f"{'kept' if violation is None else f'{violation:.3f}'} / {gap:.3f}"
        same = "" if violation is None else f"{found.final_violation:.3f} / {found.final_gap:.3f}"
        stages = ", stage by stage" if way.by_stage else ""
        last = found.points[-1]
        now = f"{'kept' if last.keeps else 'not kept'} / {last.gap:.3f}"
        yield f"| {name} | {way.name}{stages} | {before} | {same} | {now} |"


def aims(results: Results, largest: int, seed: int) -> Iterator[str]:
    """Yield a sentence for each aim: whether and when it was reached."""
    streaming, random = opdop.make("media-streaming").tabular(), opdop.make("random-tabular").tabular()
    near = 0.02 * opdop.solve(random).value
    goals = (
        ("media-streaming", False, 0.05 * streaming.horizon, "5 % of H, pooled", 100_000),
        ("media-streaming", True, 0.05 * streaming.horizon, "5 % of H, stage by stage", 1_000_000),
        ("random-tabular", False, near, f"2 % of the optimum ({near:.4f})", 100_000),
    )
    for name, by_stage, goal, words, limit in goals:
        for declared in (False, True):
            found = [
                (episodes, way.name)
                for way in WAYS
                if way.by_stage == by_stage and (result := results.find(name, way, largest, seed))
                if (episodes := result.reached(goal, declared=declared))
            ]
            if not any(results.find(name, way, largest, seed) for way in WAYS if way.by_stage == by_stage):
                continue
            first = f"from {min(found)[0]:,} episodes on ({min(found)[1]})" if found else f"not by {largest:,} episodes"
            verdict = "reached" if found and min(found)[0] <= limit else "missed"
            known = ", successors declared" if declared else ""
            yield f"- {name}, within {words}{known}: {first}; aim {limit:,}: {verdict}."


def _episodes(found: int | None) -> str:
    return "-" if found is None else f"{found:,}"


def _gap(point: Point | None) -> str:
    return "" if point is None else _shown_gap(point.keeps, point.gap)


def _shown_gap(keeps: bool, gap: float) -> str:
    return f"{gap:.3f}" if keeps else f"({gap:.3f})"


def main(arguments: list[str] | None = None) -> None:
    """Make the runs that are missing and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m studies.certification", description=__doc__.splitlines()[0])
    parser.add_argument("--largest", type=float, default=1e6, help="episodes of each run")
    parser.add_argument("--problems", nargs="+", default=[], help="only these problems")
    parser.add_argument("--learners", nargs="+", default=[], help='only these, such as "opdop certified"')
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--file", type=Path, default=FILE)
    parser.add_argument("--tables", action="store_true", help="make no runs")
    given = parser.parse_args(arguments)
    results, largest, names = Results(given.file), int(given.largest), given.problems or problems()
    chosen = [way for way in WAYS if not given.learners or way.name in given.learners]
    for way in () if given.tables else chosen:
        for name in names:
            if not way.by_stage or opdop.make(name).tabular().is_stationary:
                results.fill(name, way, largest, given.seed)
    tables = (main_table(results, names, largest, given.seed), successor_table(results, names, largest, given.seed))
    for lines in (*tables, prototype_table(results, largest, given.seed), aims(results, largest, given.seed)):
        print(*lines, "", sep="\n")


if __name__ == "__main__":
    main()
