"""Run learners beside the true model, and count how often each statement of the paper held."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from opdop.envs import make
from opdop.model import InvalidParameterError
from opdop.theory import bounds
from opdop.theory.bounds import Setting
from opdop.theory.checks import Check, Result
from opdop.theory.episode_checks import EPISODE_CHECKS, optimistic, two_sided
from opdop.theory.problem_checks import PROBLEM_CHECKS
from opdop.theory.run_checks import RUN_CHECKS, RunSums
from opdop.theory.simulation import Build, Simulation

LEVEL = 0.95  # of the binomial intervals
CERTIFIED = "certified"


def interval(held: int, runs: int) -> tuple[float, float]:
    """Return Clopper and Pearson's 95 % interval for a probability, of which `held` in `runs` were seen.

    >>> low, high = interval(20, 20)
    >>> round(low, 3), high
    (0.832, 1.0)
    """
    from scipy.stats import binomtest  # late: every run imports this file; loading SciPy's statistics takes 0.25 s

    found = binomtest(held, runs).proportion_ci(LEVEL, method="exact")
    return float(found.low), float(found.high)


@dataclass(frozen=True)
class Row:
    """One check, with its results in all runs that count: with a guarantee where any run has one."""

    check: Check[Any]
    guaranteed: float | None  # the probability with which it must hold; None without a guarantee
    results: tuple[tuple[str, Result], ...]  # each with the name of its run

    @property
    def runs(self) -> int:
        """The number of runs."""
        return len(self.results)

    @property
    def held(self) -> int:
        """The number of runs in which the claim held."""
        return sum(result.held for _, result in self.results)

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the probability that the claim holds."""
        return interval(self.held, self.runs)

    @property
    def tightness(self) -> float | None:
        """The largest measured / bound; None for identities."""
        found = [result.tightness for _, result in self.results if result.tightness is not None]
        return None if self.check.identity else max(found, default=None)

    @property
    def off(self) -> float | None:
        """The largest difference of the two sides of an identity; None for inequalities."""
        return max(result.measured for _, result in self.results) if self.check.identity else None

    @property
    def failures(self) -> tuple[str, ...]:
        """The names of the runs in which the claim did not hold."""
        return tuple(run for run, result in self.results if not result.held)

    @property
    def failed(self) -> bool:
        """Whether the check failed: a sure claim by one failure, another if the interval lies below the guarantee."""
        if self.guaranteed is None:
            return False
        return self.held < self.runs if self.guaranteed == 1.0 else self.interval[1] < self.guaranteed

    @property
    def vacuous(self) -> bool:
        """Whether the check could not fail in any of these runs, as its bound was too large."""
        return all(result.vacuous for _, result in self.results)

    @property
    def verdict(self) -> str:
        """The outcome in one word or two."""
        if self.guaranteed is None:
            return "no guarantee"
        if self.failed:
            return "FAILED"
        return "vacuous" if self.vacuous else "passed"

    def record(self) -> dict[str, Any]:
        """Return this as plain data."""
        return {
            "check": self.check.name,
            "where": self.check.where,
            "claim": self.check.claim,
            "held": self.held,
            "runs": self.runs,
            "guaranteed": self.guaranteed,
            "interval": list(self.interval),
            "tightness": self.tightness,
            "rounding": self.off,
            "verdict": self.verdict,
            "failed": self.failed,
            "vacuous": self.vacuous,
            "vacuous_runs": sum(result.vacuous for _, result in self.results),
            "failures": list(self.failures),
        }


@dataclass(frozen=True)
class Verification:
    """The table of checks, and the runs that it was made from."""

    rows: tuple[Row, ...]
    bounds: tuple[Mapping[str, Any], ...]  # of every certified problem, see `bounds_record`
    problems: tuple[str, ...]
    seeds: int
    episodes: int
    failure_probability: float

    @property
    def failed(self) -> bool:
        """Whether any check failed."""
        return any(row.failed for row in self.rows)

    @property
    def vacuous(self) -> tuple[str, ...]:
        """The names of the checks with a guarantee that could not fail."""
        return tuple(row.check.name for row in self.rows if row.verdict == "vacuous")

    def row(self, name: str) -> Row:
        """Return the row of the check with this name."""
        return next(row for row in self.rows if row.check.name == name)

    def record(self) -> dict[str, Any]:
        """Return all of it as plain data for JSON."""
        return {
            "format": "opdop.verify/2",
            "problems": list(self.problems),
            "seeds": self.seeds,
            "episodes": self.episodes,
            "failure_probability": self.failure_probability,
            "failed": self.failed,
            "vacuous": list(self.vacuous),
            "checks": [row.record() for row in self.rows],
            "bounds": [dict(each) for each in self.bounds],
        }


def bounds_record(name: str, setting: Setting) -> dict[str, Any]:
    """Return the theorem's bounds for a problem, K H, and the K from which on each bound is below K H."""
    regret, violation = bounds.regret(setting), bounds.violation(setting)
    return {
        "problem": name,
        "regret": regret.total,
        "violation": violation.total,
        "trivial": regret.trivial,
        "regret_from": bounds.useful_from(setting, bounds.regret),
        "violation_from": bounds.useful_from(setting, bounds.violation),
    }


def standard_simulations(preset: str = CERTIFIED) -> list[Simulation]:
    """Return the small problems on which everything is verified by default: counts and least squares, also with noise.

    With `certified` the last two are learnt with `scaled`, whose multipliers soon move: claims that hold surely must
    hold there too. Another preset is used for all of them.
    """
    tabular, mixture, factored = make("random-tabular"), make("random-mixture"), make("factored")
    simulations = [
        Simulation.of(factored, preset=preset),
        Simulation.of(tabular, preset=preset),
        Simulation.of(tabular, noisy=True, preset=preset),
        Simulation.of(make("queue"), preset=preset),
        Simulation.of(make("random-tabular", states=3), algorithm="opdop-lstd", preset=preset),
        Simulation.of(mixture, preset=preset),
        Simulation.of(make("random-embedding"), noisy=True, preset=preset),
    ]
    if preset == CERTIFIED:
        simulations += [Simulation.of(model, preset="scaled") for model in (factored, mixture)]
    return simulations


def verify(
    simulations: Sequence[Simulation],
    *,
    seeds: int = 3,
    episodes: int = 300,
    failure_probability: float = 0.05,
    build: Build | None = None,
    progress: Callable[[], None] = lambda: None,
) -> Verification:
    """Make every check on every problem, and return a row for each check.

    Args:
        simulations: the problems, each with its algorithm and preset.
        seeds: runs of each problem.
        episodes: episodes of each run.
        failure_probability: p, with which the guarantee may fail.
        build: makes the learner from task and preset, in place of the simulation's own algorithm.
        progress: called after every episode.

    Raises:
        InvalidParameterError: if a number is out of range, or a problem is too large for the reference evaluator.
    """
    _validate(seeds, episodes)
    checks: list[Check[Any]] = [*PROBLEM_CHECKS, *EPISODE_CHECKS, *RUN_CHECKS]
    certified: dict[str, list[tuple[str, Result]]] = {check.name: [] for check in checks}
    others: dict[str, list[tuple[str, Result]]] = {check.name: [] for check in checks}
    explicit = []
    for simulation in simulations:
        setting = simulation.setting(episodes, failure_probability)
        results = certified if simulation.preset == CERTIFIED else others
        for examined in PROBLEM_CHECKS:
            results[examined.name].append((simulation.name, examined.measure(simulation)))
        if results is certified:
            explicit.append(bounds_record(simulation.name, setting))
        for seed in range(seeds):
            run, sums = f"{simulation.name}, seed {seed}", RunSums(simulation, setting)
            worst: dict[str, Result] = {}
            for record in simulation.play(setting, seed=seed, build=build):
                progress()
                sums.add(record)
                for each in EPISODE_CHECKS:
                    result = each.measure(record)
                    worst[each.name] = worst[each.name].joined(result) if each.name in worst else result
            for name, result in worst.items():
                results[name].append((run, result))
            for summed in RUN_CHECKS:
                results[summed.name].append((run, summed.measure(sums)))
    rows = [_row(check, certified[check.name], others[check.name], failure_probability) for check in checks]
    names = tuple(simulation.name for simulation in simulations)
    return Verification(tuple(rows), tuple(explicit), names, seeds, episodes, failure_probability)


def _row(check: Check[Any], certified: list[tuple[str, Result]], others: list[tuple[str, Result]], p: float) -> Row:
    """Return a check's row; runs without a guarantee count only if no run has one."""
    counted = certified + others if check.failure is None or not certified else certified
    return Row(check, check.guaranteed(p, certified=bool(certified)), tuple(counted))


@dataclass(frozen=True)
class Coverage:
    """How often a problem's certified estimates were optimistic everywhere, in every episode."""

    problem: str
    optimism: Row
    two_sided: int  # runs with optimistic estimates that were also within twice the bonus
    needed: tuple[float | None, ...]  # [H]: the largest share of a bonus that was needed; None if Q was always clipped

    @property
    def needed_before_last(self) -> float | None:
        """The largest share of a bonus that was needed at any stage but the last; None with one stage."""
        return max((share for share in self.needed[:-1] if share is not None), default=None)

    def record(self) -> dict[str, Any]:
        """Return this as plain data."""
        return {
            "problem": self.problem,
            "runs": self.optimism.runs,
            "optimistic": self.optimism.held,
            "two_sided": self.two_sided,
            "needed_by_stage": list(self.needed[:-1]),
            "needed_at_last_stage": self.needed[-1],
        }


@dataclass(frozen=True)
class CoverageStudy:
    """The coverage of several problems."""

    problems: tuple[Coverage, ...]
    episodes: int
    failure_probability: float

    @property
    def row(self) -> Row:
        """All runs of all problems in one row."""
        results = [result for part in self.problems for result in part.optimism.results]
        return Row(optimistic, optimistic.guaranteed(self.failure_probability, certified=True), tuple(results))

    @property
    def failed(self) -> bool:
        """Whether optimism failed more often than guaranteed, over all runs or those of one problem."""
        return self.row.failed or any(part.optimism.failed for part in self.problems)

    def record(self) -> dict[str, Any]:
        """Return all of it as plain data for JSON."""
        return {
            "format": "opdop.coverage/2",
            "episodes": self.episodes,
            "failure_probability": self.failure_probability,
            "failed": self.failed,
            "all": self.row.record(),
            "problems": [part.record() for part in self.problems],
        }


def coverage_simulations() -> list[Simulation]:
    """Return the problems of the coverage study: tabular and linear, certain and noisy, one and two constraints."""
    small, tiny = make("random-tabular"), make("random-tabular", states=2, actions=2, stages=3, seed=1)
    mixture = make("random-mixture", states=6, stages=3, dimension=2, successors=3)
    return [
        Simulation.of(tiny),
        Simulation.of(tiny, noisy=True),
        Simulation.of(make("factored")),
        Simulation.of(small),
        Simulation.of(make("queue")),
        Simulation.of(tiny, algorithm="opdop-lstd"),
        Simulation.of(mixture),
        Simulation.of(mixture, noisy=True),
        Simulation.of(make("random-embedding", states=6, stages=3)),
    ]


def coverage(
    simulations: Iterable[Simulation],
    *,
    seeds: int,
    episodes: int,
    failure_probability: float = 0.05,
    build: Build | None = None,
    progress: Callable[[], None] = lambda: None,
) -> CoverageStudy:
    """Check optimism at every (k, h, x, a) of every signal over many certified runs; return the counts by problem.

    The arguments and errors are those of `verify`.
    """
    _validate(seeds, episodes)
    guaranteed = optimistic.guaranteed(failure_probability, certified=True)
    problems = []
    for simulation in simulations:
        setting = simulation.setting(episodes, failure_probability)
        needed = np.full(setting.task.horizon, -np.inf)
        results, both = [], 0
        for seed in range(seeds):
            above: list[Result] = []
            below: list[Result] = []
            for record in simulation.play(setting, seed=seed, build=build):
                progress()
                above.append(optimistic.measure(record))
                below.append(two_sided.measure(record))
                needed = np.maximum(needed, record.needed)
            results.append((f"{simulation.name}, seed {seed}", reduce(Result.joined, above)))
            both += all(result.held for result in above + below)
        shares = tuple(float(share) if np.isfinite(share) else None for share in needed)
        problems.append(Coverage(simulation.name, Row(optimistic, guaranteed, tuple(results)), both, shares))
    return CoverageStudy(tuple(problems), episodes, failure_probability)


def _validate(seeds: int, episodes: int) -> None:
    for name, value in (("seeds", seeds), ("episodes", episodes)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise InvalidParameterError(f"{name} is {value!r}; expected a whole number, at least 1.")
