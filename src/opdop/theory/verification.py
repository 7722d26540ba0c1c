"""Run learners beside the true model, and count how often each statement of the paper held."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from scipy.stats import beta

from opdop.envs import make
from opdop.model import InvalidParameterError
from opdop.theory import bounds
from opdop.theory.bounds import Setting
from opdop.theory.episode_checks import EVERYWHERE, OPTIMISM, Worst, optimistic, two_sided
from opdop.theory.problem_checks import DUALITY, MULTIPLIER, multiplier_bound, strong_duality
from opdop.theory.run_checks import OVER_THE_RUN, Totals
from opdop.theory.simulation import Build, Case, witness
from opdop.theory.statements import Finding, Statement

LEVEL = 0.95  # of the binomial intervals
CERTIFIED = "certified"
_STEP = 25  # episodes between two reports of progress

Tell = Callable[[int], None]  # told how many more episodes are done


def interval(held: int, runs: int, level: float = LEVEL) -> tuple[float, float]:
    """Return Clopper and Pearson's interval for a probability, of which `held` in `runs` were seen.

    >>> low, high = interval(20, 20)
    >>> round(low, 3), high
    (0.832, 1.0)
    """
    tail = (1.0 - level) / 2.0
    low = float(beta.ppf(tail, held, runs - held + 1)) if held > 0 else 0.0
    high = float(beta.ppf(1.0 - tail, held + 1, runs - held)) if held < runs else 1.0
    return low, high


@dataclass(frozen=True)
class Row:
    """One statement over all runs that it was tried on."""

    statement: Statement
    promised: float | None  # a probability; None where nothing is promised
    held: int
    runs: int
    tightness: float | None  # the largest measured / bound
    off: float | None  # identities: the largest rounding error
    failures: tuple[str, ...] = ()  # in which runs it failed

    @property
    def interval(self) -> tuple[float, float]:
        """Where the probability of holding lies, at 95 %."""
        return interval(self.held, self.runs)

    @property
    def broken(self) -> bool:
        """Whether a promise is broken: a sure one by one failure, another if the interval lies below it."""
        if self.promised is None:
            return False
        return self.held < self.runs if self.promised == 1.0 else self.interval[1] < self.promised

    @property
    def verdict(self) -> str:
        """In one word or two."""
        if self.promised is None:
            return "not promised"
        if self.broken:
            return "BROKEN"
        return "holds" if self.held == self.runs else "as promised"

    def record(self) -> dict[str, Any]:
        """Return this as plain data."""
        low, high = self.interval
        return {
            "statement": self.statement.name,
            "where": self.statement.where,
            "says": self.statement.says,
            "held": self.held,
            "runs": self.runs,
            "promised": self.promised,
            "interval": [low, high],
            "tightness": self.tightness,
            "rounding": self.off,
            "verdict": self.verdict,
            "broken": self.broken,
            "failures": list(self.failures),
        }


@dataclass(frozen=True)
class Reach:
    """A problem's explicit bounds at the verified K, and the K from which they say something."""

    case: str
    regret: float
    violation: float
    trivial: float
    regret_from: int | None
    violation_from: int | None

    @classmethod
    def of(cls, case: Case, setting: Setting) -> Reach:
        """Compute the bounds of a case."""
        regret, violation = bounds.regret(setting), bounds.violation(setting)
        return cls(
            case.name,
            regret.total,
            violation.total,
            regret.trivial,
            bounds.useful_from(setting, bounds.regret),
            bounds.useful_from(setting, bounds.violation),
        )


@dataclass(frozen=True)
class Verification:
    """The table, and what it was made from."""

    rows: tuple[Row, ...]
    reaches: tuple[Reach, ...]
    cases: tuple[str, ...]
    seeds: int
    episodes: int
    failure_probability: float

    @property
    def broken(self) -> bool:
        """Whether any promise is."""
        return any(row.broken for row in self.rows)

    def row(self, name: str) -> Row:
        """Return the row of a statement."""
        return next(row for row in self.rows if row.statement.name == name)

    def record(self) -> dict[str, Any]:
        """Return all of it as plain data for JSON."""
        return {
            "format": "opdop.verify/1",
            "cases": list(self.cases),
            "seeds": self.seeds,
            "episodes": self.episodes,
            "failure_probability": self.failure_probability,
            "broken": self.broken,
            "statements": [row.record() for row in self.rows],
            "bounds": [vars(reach) for reach in self.reaches],
        }


@dataclass
class _Tally:
    """Counts what came of one statement."""

    statement: Statement
    promised: float | None = None
    held: int = 0
    runs: int = 0
    tightness: float = -math.inf
    off: float = 0.0
    failures: list[str] = field(default_factory=list)

    def add(self, finding: Finding, promised: float | None, run: str) -> None:
        if promised is None and self.promised is not None:
            return  # runs without the promise do not dilute those with it
        if promised is not None and self.promised is None:
            self.held = self.runs = 0
            self.tightness, self.failures = -math.inf, []
        self.promised = promised
        self.runs += 1
        self.held += finding.held
        if not finding.held:
            self.failures.append(run)
        if self.statement.identity:
            self.off = max(self.off, finding.measured)
        elif finding.tightness is not None:
            self.tightness = max(self.tightness, finding.tightness)

    def row(self) -> Row:
        exact = self.statement.identity
        tightness = None if exact or self.tightness == -math.inf else self.tightness
        return Row(
            self.statement,
            self.promised,
            self.held,
            self.runs,
            tightness,
            self.off if exact else None,
            tuple(self.failures),
        )


def standard_cases() -> list[Case]:
    """Return the small problems on which everything is verified by default: counts and least squares, also with noise.

    The last two are learnt with `practical`, whose multipliers soon move; what is sure must hold there too.
    """
    tabular, mixture, factored = make("random-tabular"), make("random-mixture"), make("factored")
    return [
        Case.of(factored),
        Case.of(tabular),
        Case.of(tabular, noisy=True),
        Case.of(make("queue")),
        Case.of(make("random-tabular", states=3), algorithm="opdop-lstd"),
        Case.of(mixture),
        Case.of(make("random-embedding"), noisy=True),
        Case.of(factored, preset="practical"),
        Case.of(mixture, preset="practical"),
    ]


def verify(
    cases: Sequence[Case],
    *,
    seeds: int = 3,
    episodes: int = 300,
    failure_probability: float = 0.05,
    build: Build | None = None,
    progress: Tell | None = None,
) -> Verification:
    """Try every statement on every case with so many seeds; `build(task, preset)` replaces the learner."""
    _check(seeds, episodes)
    statements = (DUALITY, MULTIPLIER, *(each for each, _ in EVERYWHERE), *(each for each, _ in OVER_THE_RUN))
    tallies = {statement.name: _Tally(statement) for statement in statements}

    def count(statement: Statement, finding: Finding, case: Case, run: str) -> None:
        promised = statement.promised(failure_probability, case.preset == CERTIFIED)
        tallies[statement.name].add(finding, promised, run)

    reaches = []
    for case in cases:
        setting = case.setting(episodes, failure_probability)
        count(DUALITY, strong_duality(case), case, case.name)
        count(MULTIPLIER, multiplier_bound(case, setting), case, case.name)
        if case.preset == CERTIFIED:
            reaches.append(Reach.of(case, setting))
        for seed in range(seeds):
            worst, totals = [Worst() for _ in EVERYWHERE], Totals(setting, case.optimum.dual)
            moments = witness(case, episodes=episodes, seed=seed, failure_probability=failure_probability, build=build)
            for moment in _told(moments, progress):
                totals.see(moment)
                for (_, look), found in zip(EVERYWHERE, worst, strict=True):
                    found.note(look(moment))
            run = f"{case.name}, seed {seed}"
            for (statement, _), found in zip(EVERYWHERE, worst, strict=True):
                count(statement, found.finding(), case, run)
            for statement, conclude in OVER_THE_RUN:
                count(statement, conclude(totals), case, run)
    rows = tuple(tally.row() for tally in tallies.values() if tally.runs)
    return Verification(rows, tuple(reaches), tuple(case.name for case in cases), seeds, episodes, failure_probability)


@dataclass(frozen=True)
class Coverage:
    """How often a problem's certified estimates were optimistic everywhere, in every episode."""

    case: str
    runs: int
    optimistic: int
    two_sided: int  # of these, those within twice the bonus too
    used: float | None  # the largest share of a bonus that was needed

    def record(self) -> dict[str, Any]:
        """Return this as plain data."""
        return dict(vars(self))


@dataclass(frozen=True)
class CoverageStudy:
    """The coverage of all problems together."""

    parts: tuple[Coverage, ...]
    episodes: int
    failure_probability: float

    @property
    def row(self) -> Row:
        """All runs as one row."""
        runs, held = sum(part.runs for part in self.parts), sum(part.optimistic for part in self.parts)
        used = [part.used for part in self.parts if part.used is not None]
        promised = OPTIMISM.promised(self.failure_probability, certified=True)
        return Row(OPTIMISM, promised, held, runs, max(used, default=None), None)

    @property
    def broken(self) -> bool:
        """Whether optimism failed more often than promised, over all runs or those of one problem."""
        promised = self.row.promised
        assert promised is not None
        return self.row.broken or any(interval(part.optimistic, part.runs)[1] < promised for part in self.parts)

    def record(self) -> dict[str, Any]:
        """Return all of it as plain data for JSON."""
        return {
            "format": "opdop.coverage/1",
            "episodes": self.episodes,
            "failure_probability": self.failure_probability,
            "broken": self.broken,
            "all": self.row.record(),
            "problems": [part.record() for part in self.parts],
        }


def coverage_cases() -> list[Case]:
    """Return the problems of the coverage study: tabular and linear, certain and noisy, one and two constraints."""
    small, tiny = make("random-tabular"), make("random-tabular", states=2, actions=2, stages=3, seed=1)
    mixture = make("random-mixture", states=6, stages=3, dimension=2, successors=3)
    return [
        Case.of(tiny),
        Case.of(tiny, noisy=True),
        Case.of(make("factored")),
        Case.of(small),
        Case.of(make("queue")),
        Case.of(tiny, algorithm="opdop-lstd"),
        Case.of(mixture),
        Case.of(mixture, noisy=True),
        Case.of(make("random-embedding", states=6, stages=3)),
    ]


def coverage(
    cases: Iterable[Case],
    *,
    seeds: int,
    episodes: int,
    failure_probability: float = 0.05,
    build: Build | None = None,
    progress: Tell | None = None,
) -> CoverageStudy:
    """Check optimism at every (k, h, x, a) of every signal over many certified runs."""
    _check(seeds, episodes)
    parts = []
    for case in cases:
        upper = both = 0
        used: list[float] = []
        for seed in range(seeds):
            above, below = Worst(), Worst()
            moments = witness(case, episodes=episodes, seed=seed, failure_probability=failure_probability, build=build)
            for moment in _told(moments, progress):
                above.note(optimistic(moment))
                below.note(two_sided(moment))
            found = above.finding()
            upper += found.held
            both += found.held and below.finding().held
            used += [] if found.tightness is None else [found.tightness]
        parts.append(Coverage(case.name, seeds, upper, both, max(used, default=None)))
    return CoverageStudy(tuple(parts), episodes, failure_probability)


def _told(moments: Iterator[Any], progress: Tell | None) -> Iterator[Any]:
    """Pass the moments on, and tell of them now and then."""
    waiting = 0
    for moment in moments:
        yield moment
        waiting += 1
        if progress is not None and waiting == _STEP:
            progress(waiting)
            waiting = 0
    if progress is not None and waiting:
        progress(waiting)


def _check(seeds: int, episodes: int) -> None:
    for name, value in (("seeds", seeds), ("episodes", episodes)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise InvalidParameterError(f"{name} is {value!r}; expected a whole number, at least 1.")
