"""What has come of a sweep so far: its runs, failures and gaps, one by one or as tables."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from opdop.model import InvalidParameterError, OpdopError
from opdop.runs.run import HISTORY, Run
from opdop.sweeps.index import Index
from opdop.sweeps.spec import Job, Spec
from opdop.sweeps.store import MANIFEST, SPEC, SWEEP_FORMAT, Failure, Store, Underway, read_json


@dataclass(frozen=True)
class Sweep:
    """The folder of a sweep, finished or not."""

    folder: Path
    manifest: Mapping[str, Any] = field(repr=False)

    @classmethod
    def open(cls, folder: str | Path) -> Sweep:
        """Open the folder of a sweep."""
        folder = Path(folder)
        try:
            manifest = read_json(folder / MANIFEST)
        except OpdopError as error:
            raise InvalidParameterError(f"there is no sweep in {str(folder)!r}: {error}") from error
        if manifest.get("format") != SWEEP_FORMAT:
            raise InvalidParameterError(
                f"{folder / MANIFEST} has the format {manifest.get('format')!r}; expected {SWEEP_FORMAT!r}."
            )
        return cls(folder, manifest)

    @property
    def store(self) -> Store:
        """What lies where."""
        return Store(self.folder)

    @cached_property
    def spec(self) -> Spec:
        """What was to be run."""
        return Spec.read(self.folder / SPEC)

    @cached_property
    def jobs(self) -> tuple[Job, ...]:
        """Every run that was asked for."""
        return tuple(self.spec.jobs())

    def runs(self) -> Iterator[tuple[Job, Run]]:
        """Return every finished run, in the order of the spec, each loaded when its turn comes."""
        for job in self.jobs:
            if self.store.has_run(job.key):
                yield job, Run.load(self.store.run(job.key))

    @property
    def failed(self) -> tuple[Failure, ...]:
        """The runs that raised, or whose processes died, and never succeeded."""
        store = self.store
        found = (store.read_failure(key) for key in sorted(store.failed() - store.finished()))
        return tuple(failure for failure in found if failure is not None)

    @property
    def missing(self) -> tuple[Job, ...]:
        """The runs that are neither finished nor failed."""
        there = self.store.finished() | self.store.failed()
        return tuple(job for job in self.jobs if job.key not in there)

    @property
    def underway(self) -> tuple[Underway, ...]:
        """The runs that some process works on right now."""
        return tuple(self.store.underway())

    @property
    def damaged(self) -> dict[str, str]:
        """The finished runs that cannot be read, with what is wrong with each; a sweep makes them again."""
        with Index(self.store) as index:
            index.renew()
            return dict(index.damaged)

    def summaries(self) -> list[tuple[Job, dict[str, Any]]]:
        """Return every finished run with its summary, in the order of the spec."""
        with Index(self.store) as index:
            index.renew()
            found = dict(index.summaries())
        return [(job, found[job.key]) for job in self.jobs if job.key in found]

    def table(self) -> pl.DataFrame:
        """Return one row for each finished run; docs/experiments.md explains every column."""
        rows = [_row(job, about) for job, about in self.summaries()]
        names = list(dict.fromkeys(name for row in rows for name in row))
        return pl.DataFrame({name: [row.get(name) for row in rows] for name in names})

    def histories(self) -> pl.DataFrame:
        """Return the histories of all finished runs below each other, with what tells the runs apart."""
        alike: dict[int, list[Job]] = {}
        for job, about in self.summaries():
            alike.setdefault(len(about["thresholds"]), []).append(job)
        parts = [self._stacked(jobs) for _, jobs in sorted(alike.items())]
        return pl.concat(parts, how="diagonal") if parts else pl.DataFrame()

    def _stacked(self, jobs: list[Job]) -> pl.DataFrame:
        """Return the histories of runs that have the same columns."""
        files = [self.store.run(job.key) / HISTORY for job in jobs]
        try:
            stacked = pl.scan_parquet(files, include_file_paths="file", glob=False).collect()
        except (
            pl.exceptions.PolarsError,
            OSError,
        ):  # a file is damaged: the history is in run.npz too, with a checksum
            each = [Run.load(file.parent).history.with_columns(pl.lit(str(file)).alias("file")) for file in files]
            stacked = pl.concat(each)
        known = pl.DataFrame(
            {"file": [str(file) for file in files], **_columns([_about(job) for job in jobs])},
        )
        joined = stacked.join(known, on="file", how="left", maintain_order="left").drop("file")
        return joined.select(*known.columns[1:], *(name for name in stacked.columns if name != "file"))


def _columns(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in rows[0]} if rows else {}


def _about(job: Job) -> dict[str, Any]:
    """Return what tells a run from others, as columns."""
    return {
        "key": job.key,
        "group": job.group,
        "problem": job.problem,
        "algorithm": job.algorithm,
        "preset": job.preset,
        "seed": job.seed,
    }


def _row(job: Job, about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row of a run in the table of all runs."""
    reward, *promised = about["quantities"]
    last, best, dual = (about[name] or [None] * len(about["average"]) for name in ("last", "optimum", "dual"))
    row = {
        **_about(job),
        "problem_parameters": json.dumps(about["problem_parameters"]),
        "parameters": json.dumps(about["parameters"]),
        **{name: about[name] for name in ("episodes", "regret", "violation", "hard_violation")},
        "average_reward": about["average"][0],
        "last_reward": last[0],
        "optimum": best[0],
        "slater_gap": about["slater_gap"],
        "reward_unit": reward["unit"],
        "reward_scale": reward["scale"],
        "reward_offset": reward["offset"],
    }
    for i, quantity in enumerate(promised):
        row |= {
            f"average_utility_{i}": about["average"][1 + i],
            f"last_utility_{i}": last[1 + i],
            f"optimal_utility_{i}": best[1 + i],
            f"optimal_dual_{i}": dual[i],
            f"threshold_{i}": about["thresholds"][i],
            f"utility_{i}_unit": quantity["unit"],
            f"utility_{i}_scale": quantity["scale"],
            f"utility_{i}_offset": quantity["offset"],
        }
    return {**row, "seconds": about["seconds"]}
