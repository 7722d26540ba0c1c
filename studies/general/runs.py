"""Makes the runs of the study and keeps their measures in a file, one line for each, so that it can be interrupted."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

import opdop
from studies.general.cases import Case
from studies.general.settings import Setting

LATE = 0.9  # of the episodes of a run: what follows counts as late


@dataclass(frozen=True)
class Measured:
    """A run up to a number of episodes: measures per episode, over all and over the last tenth, in model units."""

    regret: float
    hard_violation: float
    late_regret: float
    late_hard_violation: float
    spread: float  # standard deviation of the multipliers over the second half, the largest of all constraints
    seconds: float  # of the whole run


def measures(run: opdop.Run, episodes: int) -> Measured:
    """Return the measures of a run up to a number of episodes."""
    history = run.history
    at = history["episode"].to_numpy()

    def between(name: str, first: float) -> float:
        low, high = np.interp([first, episodes], at, history[name].to_numpy())
        return float(high - low) / (episodes - first)

    late = LATE * episodes
    second = (at > episodes / 2) & (at <= episodes)
    duals = [history[name].to_numpy()[second] for name in history.columns if name.startswith("dual_")]
    return Measured(
        regret=float(np.interp(episodes, at, history["regret"].to_numpy())) / episodes,
        hard_violation=float(np.interp(episodes, at, history["hard_violation"].to_numpy())) / episodes,
        late_regret=between("regret", late),
        late_hard_violation=between("hard_violation", late),
        spread=max((float(dual.std()) for dual in duals), default=0.0),
        seconds=run.seconds,
    )


class Results:
    """The measures of all runs made so far, by setting, problem, number of episodes and seed."""

    def __init__(self, file: Path) -> None:
        self.file = file
        file.parent.mkdir(parents=True, exist_ok=True)
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        self.known = {tuple(key): Measured(**values) for key, values in map(json.loads, lines)}

    def find(self, setting: Setting, case: Case, episodes: int, seed: int) -> Measured | None:
        """Return the measures of a run, or None if it has not been made."""
        return self.known.get((setting.text, case.name, episodes, seed))

    def fill(self, setting: Setting, case: Case, lengths: Iterable[int], seed: int) -> None:
        """Make the runs of a problem that are missing: one for all lengths, or one for each if the setting plans."""
        missing = [length for length in lengths if self.find(setting, case, length, seed) is None]
        groups = [[length] for length in missing] if setting.is_planned else [missing] if missing else []
        for group in groups:
            began = time.perf_counter()
            run = setting.train(case, max(group), seed)
            for length in group:
                self._keep((setting.text, case.name, length, seed), measures(run, length))
            print(f"{setting.text}: {case.name}, K {max(group):,}: {time.perf_counter() - began:.1f} s", flush=True)

    def _keep(self, key: tuple[str, str, int, int], found: Measured) -> None:
        with self.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps([key, asdict(found)]) + "\n")
        self.known[key] = found
