"""Makes the runs of the comparison and keeps their measures in a file, so that it can be interrupted."""

from __future__ import annotations

import json
import subprocess
import time
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import opdop
from studies.general.cases import Case, cases
from studies.general.settings import Setting

SPEC = Path(__file__).parent / "spec.toml"
FILE = Path(__file__).parents[1] / "results" / "peers.jsonl"
LATE = 0.9  # of the episodes of a run: what follows counts as late
REFUSED = "refused"


@dataclass(frozen=True)
class Measured:
    """Measures of a run per episode, over all and over the last tenth, in model units."""

    episodes: int
    regret: float
    violation: float
    hard_violation: float
    late_regret: float
    late_violation: float
    late_hard_violation: float
    reached: int | None  # the episode from which on regret and violation per episode stay small
    seconds: float  # of 1,000 episodes


def measure(run: opdop.Run, share: float) -> Measured:
    """Return the measures of a run; `share` of H is what counts as small."""
    history, H = run.history, run.policy.table.shape[0]
    at = history["episode"].to_numpy()
    K = int(at[-1])

    def late(name: str) -> float:
        low, high = np.interp([LATE * K, K], at, history[name].to_numpy())
        return float(high - low) / ((1.0 - LATE) * K)

    shortfalls = [name for name in history.columns if name.startswith("shortfall_")]
    small = np.maximum(history["regret"].to_numpy(), history["violation"].to_numpy()) <= share * H * at
    large = np.flatnonzero(~small)
    first = 0 if not len(large) else int(large[-1]) + 1
    return Measured(
        episodes=K,
        regret=float(history["regret"][-1]) / K,
        violation=float(history["violation"][-1]) / K,
        hard_violation=float(history["hard_violation"][-1]) / K,
        late_regret=late("regret"),
        late_violation=max(0.0, *(late(name) for name in shortfalls)),
        late_hard_violation=late("hard_violation"),
        reached=int(at[first]) if first < len(at) else None,
        seconds=1000.0 * run.seconds / K,
    )


class Comparison:
    """The specification, and the results of all runs made so far."""

    def __init__(self, spec: Path = SPEC, file: Path = FILE) -> None:
        self.spec: Mapping[str, Any] = tomllib.loads(spec.read_text(encoding="utf-8"))
        self.file = file
        file.parent.mkdir(parents=True, exist_ok=True)
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        rows = [json.loads(line) for line in lines]
        self.known: dict[tuple[str, ...], Any] = {tuple(key): found for key, found, _ in rows}
        self.commits: dict[tuple[str, ...], str] = {tuple(key): commit for key, _, commit in rows}
        known = opdop.algorithms()
        self.algorithms = [name for name in self.spec["algorithms"] if Setting(name).algorithm in known]
        self.cases = cases("validation")

    def episodes(self, case: Case) -> int:
        """Return how long a problem is run."""
        if case.problem == "reservoir":
            return int(self.spec["continuous_episodes"])
        pairs = case.cmdp.horizon * case.cmdp.num_states * case.cmdp.num_actions
        return int(self.spec["large_episodes" if pairs > self.spec["large_pairs"] else "episodes"])

    def seeds(self, case: Case) -> list[int]:
        """Return the seeds of a problem."""
        few: Mapping[str, list[int]] = self.spec.get("seeds_of", {})
        return few.get(case.problem, list(self.spec["seeds"]))

    def found(self, algorithm: str, case: Case) -> list[Measured]:
        """Return the runs of an algorithm on a problem that were made; none if it refuses the problem."""
        keys = ((algorithm, case.name, str(seed)) for seed in self.seeds(case))
        return [Measured(**self.known[key]) for key in keys if key in self.known and self.known[key] != REFUSED]

    def refuses(self, algorithm: str, case: Case) -> bool:
        """Return whether an algorithm refuses a problem."""
        return self.known.get((algorithm, case.name, "0")) == REFUSED

    def certified(self, algorithm: str, case: Case) -> Any:
        """Return the episode at which a policy was certified, None if none was, and REFUSED if there was no run."""
        return self.known.get((algorithm, case.name, "certified"), REFUSED)

    def fill(self, algorithm: str, case: Case) -> None:
        """Make the runs of an algorithm on a problem that are missing."""
        for seed in self.seeds(case):
            key = algorithm, case.name, str(seed)
            if key not in self.known and not self.refuses(algorithm, case):
                run = self._train(key, algorithm, case, self.episodes(case), seed)
                self._keep(key, REFUSED if run is None else asdict(measure(run, self.spec["reached"]["share"])))
        key = algorithm, case.name, "certified"
        without = self.spec["certified"].get("without", ["reservoir"])
        if case.problem not in without and key not in self.known and not self.refuses(algorithm, case):
            sizes = int(self.spec["certified"]["sizes"])
            run = self._train(key, algorithm, case, self.episodes(case), 0, certificates=sizes)
            self._keep(key, None if run is None else self._first_certified(run))

    def _train(
        self, key: Any, algorithm: str, case: Case, K: int, seed: int, certificates: int = 0
    ) -> opdop.Run | None:
        began = time.perf_counter()
        try:
            run = Setting(algorithm).train(case, K, seed, certificates=certificates)
        except opdop.InvalidParameterError as error:
            print(f"{algorithm}: {case.name} is refused: {error}", flush=True)
            return None
        print(f"{' '.join(key)}, K {K:,}: {time.perf_counter() - began:.1f} s", flush=True)
        return run

    def _first_certified(self, run: opdop.Run) -> int | None:
        trail, H = run.certificates, run.policy.table.shape[0]
        gap = trail["optimum_upper"] - trail["reward_lower"]
        good = trail.filter((gap <= self.spec["certified"]["share"] * H) & trail["keeps_constraints"])
        return int(good["episode"][0]) if len(good) else None

    def forget(self, algorithms: list[str]) -> None:
        """Drop the results of some algorithms, so that their runs are made again."""
        for key in [key for key in self.known if key[0] in algorithms]:
            del self.known[key], self.commits[key]
        rows = ([key, found, self.commits[key]] for key, found in self.known.items())
        self.file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")

    def _keep(self, key: tuple[str, ...], found: Any) -> None:
        commit = present_commit()
        with self.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps([key, found, commit]) + "\n")
        self.known[key], self.commits[key] = found, commit


@cache
def present_commit() -> str:
    """Return the commit of the code that runs, with a mark if files of the package differ from it."""
    git = ["git", "-C", str(Path(__file__).parents[2])]
    head = subprocess.run([*git, "rev-parse", "--short=7", "HEAD"], capture_output=True, text=True, check=False)
    changed = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", "src"], check=False).returncode
    return f"{head.stdout.strip() or 'unknown'}{' with changes' if changed else ''}"
