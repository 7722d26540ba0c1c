"""The results of a sweep, or of single runs in a folder: which runs there are, in what state, and their numbers."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from opdop.model import InvalidParameterError, OpdopError, Quantity
from opdop.model.display import joint_unit, price_scale
from opdop.model.validation import printable, shown
from opdop.runs import CHECKPOINT, Run, RunConfig, read_config
from opdop.runs.checkpoint import KIND
from opdop.runs.files import DamagedFileError, read_arrays
from opdop.runs.run import RUN
from opdop.sweeps.spec import Spec, group_of, key_of
from opdop.sweeps.store import MANIFEST, SWEEP_FORMAT, Failure, Store, Underway, folder_at, read_json
from opdop.sweeps.summaries import Summary, read_summaries, summary


@dataclass(frozen=True)
class Listing:
    """The runs in a folder, by state. Keys are names of their folders."""

    total: int
    finished: Mapping[str, Summary]
    running: tuple[Underway, ...] = ()  # some process makes them now
    unfinished: tuple[Underway, ...] = ()  # single runs with a checkpoint: running, or interrupted
    failed: tuple[Failure, ...] = ()
    damaged: Mapping[str, str] = field(default_factory=dict)  # key -> error
    missing: tuple[str, ...] = ()

    def table(self) -> pl.DataFrame:
        """Return one row for each finished run; docs/experiments.md explains every column."""
        rows = [_row(key, about) for key, about in self.finished.items()]
        names = list(dict.fromkeys(name for row in rows for name in row))
        return pl.DataFrame({name: [row.get(name) for row in rows] for name in names})


def list_runs(folder: str | Path) -> Listing:
    """Return the runs in a folder that `opdop sweep` or `opdop run --out` has made, or a folder of such folders.

    Raises InvalidParameterError if there are none.
    """
    folder = folder_at(folder)
    if os.path.lexists(folder / MANIFEST):
        return Sweep.open(folder).listing()
    places = run_folders(folder)
    if not places:
        raise InvalidParameterError(
            f"there is no sweep in {str(folder)!r}, and no run; expected a folder that `opdop sweep --out` or "
            "`opdop run --out` has made."
        )
    finished: dict[str, Summary] = {}
    unfinished, damaged = [], {}
    for place in places:
        key = printable((place.resolve() if place == folder else place).name)
        try:
            found = _read_single(place)
        except OpdopError as error:
            damaged[key] = str(error)
            continue
        if isinstance(found, Underway):
            unfinished.append(found)
        else:
            finished[key] = found
    return Listing(len(places), finished, unfinished=tuple(unfinished), damaged=damaged)


def run_folders(folder: Path) -> list[Path]:
    """Return the folder itself if it holds a run or a checkpoint, otherwise those of its folders that do."""
    return [folder] if _has_run(folder) else run_folders_in(folder)


def run_folders_in(folder: Path) -> list[Path]:
    """Return those of a folder's folders that hold a run or a checkpoint; hidden ones are left out."""
    below = sorted(folder.iterdir()) if os.path.isdir(folder) else []
    return [each for each in below if not each.name.startswith(".") and _has_run(each)]


def _has_run(folder: Path) -> bool:
    return os.path.exists(folder / RUN) or os.path.exists(folder / CHECKPOINT)


@dataclass(frozen=True, repr=False)
class Sweep:
    """The folder of a sweep, finished or not."""

    folder: Path
    manifest: Mapping[str, Any] = field(repr=False)

    @classmethod
    def open(cls, folder: str | Path) -> Sweep:
        """Return the sweep in a folder.

        Raises InvalidParameterError if there is no sweep in it, or its manifest is damaged.
        """
        folder = folder_at(folder)
        try:
            manifest = read_json(folder / MANIFEST)
        except OpdopError as error:
            again = " `opdop sweep` with the same spec and folder makes a new one, and keeps the runs."
            hint = again if os.path.lexists(folder / MANIFEST) else ""
            raise InvalidParameterError(f"there is no sweep in {str(folder)!r}: {error}{hint}") from error
        if manifest.get("format") != SWEEP_FORMAT:
            raise InvalidParameterError(
                f"{folder / MANIFEST} has the format {shown(manifest.get('format'))}; expected {SWEEP_FORMAT!r}."
            )
        return cls(folder, manifest)

    def __repr__(self) -> str:
        return f"Sweep({str(self.folder)!r}: {self.manifest.get('runs')} runs)"

    @property
    def store(self) -> Store:
        """The files of the folder."""
        return Store(self.folder)

    @cached_property
    def spec(self) -> Spec:
        """The specification, as the manifest has it."""
        return Spec.of(self.manifest.get("spec", {}))

    @cached_property
    def jobs(self) -> tuple[RunConfig, ...]:
        """The configuration of every run that the spec asks for."""
        return tuple(self.spec.jobs())

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The key of every job: the name of its run's folder."""
        return tuple(map(key_of, self.jobs))

    def runs(self) -> Iterator[tuple[RunConfig, Run]]:
        """Load and yield every finished run, in the order of the spec; `listing` names damaged ones."""
        for job, key in zip(self.jobs, self.keys, strict=True):
            try:
                run = self.store.load(key)
            except DamagedFileError:
                continue
            yield job, run

    @property
    def failed(self) -> tuple[Failure, ...]:
        """The runs that raised, or whose processes died, and have not succeeded since."""
        return self.listing().failed

    @property
    def missing(self) -> tuple[RunConfig, ...]:
        """The runs that are neither finished nor failed nor damaged."""
        missing = {*self.listing().missing}
        return tuple(job for job, key in zip(self.jobs, self.keys, strict=True) if key in missing)

    def listing(self) -> Listing:
        """Return every run of the spec by state; finished runs are in the order of the spec."""
        finished, damaged = read_summaries(self.store, self.keys)
        noted = self.store.failed()
        unfinished = [key for key in self.keys if key not in finished]
        found = [failure for key in sorted(unfinished) if key in noted and (failure := self.store.read_failure(key))]
        failed = {failure.key for failure in found}
        return Listing(
            total=len(self.jobs),
            finished=finished,
            running=tuple(self.store.underway()),
            failed=tuple(found),
            damaged={key: reason for key, reason in damaged.items() if key not in failed},
            missing=tuple(key for key in unfinished if key not in damaged and key not in failed),
        )

    def table(self) -> pl.DataFrame:
        """Return one row for each finished run; docs/experiments.md explains every column."""
        return self.listing().table()

    def histories(self) -> pl.DataFrame:
        """Return the histories of all finished runs below each other, in own units; each row names its run."""
        parts = []
        for job, run in self.runs():
            about = _identity(key_of(job), group_of(job), job.record()).items()
            known = (pl.lit(value, pl.Int64 if name == "seed" else pl.String).alias(name) for name, value in about)
            parts.append(run.history_in_units().select(*known, pl.all()))
        return pl.concat(parts, how="diagonal") if parts else pl.DataFrame()


def _identity(key: str, group: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns that identify a run."""
    return {"key": key, "group": group, **{name: config[name] for name in ("problem", "algorithm", "preset", "seed")}}


def _row(key: str, about: Summary) -> dict[str, Any]:
    """Return the row of a run in the table of all runs, in own units."""
    reward, *constrained = (Quantity(**quantity) for quantity in about["quantities"])
    joint, joint_name = joint_unit(constrained, about["horizon"])
    config = about["config"]
    final, best, dual = (about[name] or [None] * len(about["average"]) for name in ("final", "optimum", "dual"))
    # Nothing that was realised is called an average of true values.
    average = "average" if about["optimum"] is not None else "realised"
    row = {
        **_identity(key, about["group"], config),
        **{name: json.dumps(config[name]) for name in ("problem_parameters", "parameters")},
        "episodes": config["episodes"],
        "regret": _times(about["regret"], abs(reward.scale)),
        **{name: _times(about[name], joint) for name in ("violation", "hard_violation")},
        f"{average}_reward": _shown(reward, about["average"][0]),
        "final_reward": _shown(reward, final[0]),
        "optimum": _shown(reward, best[0]),
        "slater_gap": _times(about["slater_gap"], joint),
        "reward_unit": reward.unit,
        "violation_unit": joint_name,
    }
    for i, quantity in enumerate(constrained):
        scale = abs(quantity.scale)
        row |= {
            f"utility_{i}_name": quantity.name,
            f"{average}_utility_{i}": _shown(quantity, about["average"][1 + i]),
            f"final_utility_{i}": _shown(quantity, final[1 + i]),
            f"optimal_utility_{i}": _shown(quantity, best[1 + i]),
            f"threshold_{i}": _shown(quantity, about["thresholds"][i]),
            f"optimal_dual_{i}": _times(dual[i], price_scale(reward, quantity)),
            f"violation_{i}": _times(about["violations"][i], scale) if about["violations"] else None,
            f"hard_violation_{i}": _times(about["hard_violations"][i], scale),
            f"utility_{i}_unit": quantity.unit,
        }
    return {**row, "seconds": about["seconds"]}


def _shown(quantity: Quantity, total: float | None) -> float | None:
    return None if total is None else quantity.shown(total)


def _times(value: float | None, scale: float) -> float | None:
    return None if value is None else value * scale


# Single runs -----------------------------------------------------------------------------------------------------


def _read_single(place: Path) -> Summary | Underway:
    """Return the run that `opdop run --out` keeps in a folder, or how far it is if it has not reached its end."""
    checkpoint = place / CHECKPOINT
    if not os.path.exists(checkpoint):
        return summary(Run.load(place))
    config = read_config(place)
    if os.path.exists(place / RUN):
        run = Run.load(place)
        if run.config == config:
            return summary(run)
    _, arrays = read_arrays(checkpoint, kind=KIND)
    episode = int(arrays.get("recorder.episodes", 0))
    saved = time.time() - os.stat(checkpoint).st_mtime
    return Underway(printable(place.name), episode, config.episodes, max(saved, 0.0))
