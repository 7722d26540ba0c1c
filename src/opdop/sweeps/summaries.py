"""A summary of every run of a sweep, kept in one file with a checksum so that many runs are read quickly.

The file is made from the runs, and made again wherever it is missing, damaged, or older than a run. Each run is read
whole, with its own checksum, before its summary is kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from opdop.model import OpdopError
from opdop.model.validation import printable
from opdop.runs.files import DamagedFileError, digest_of, plain, read_arrays, write_arrays, write_whole
from opdop.runs.recorder import hard_columns
from opdop.runs.run import HISTORY, RUN, Run
from opdop.sweeps.spec import group_of
from opdop.sweeps.store import Store

SUMMARIES = "summaries.npz"
_KIND = "opdop summaries of format 3"

Summary = Mapping[str, Any]  # as `summary` returns it


def read_summaries(store: Store, keys: Iterable[str]) -> tuple[dict[str, Summary], dict[str, str]]:
    """Return the summaries of those of these runs that are finished, and the errors of those that are damaged."""
    before = _kept(store)
    kept: dict[str, Any] = {}
    damaged: dict[str, str] = {}
    for key in keys:
        stamp = _stamp(store, key)
        if stamp is None:
            continue
        if before.get(key, [None])[0] == stamp:
            kept[key] = before[key]
            continue
        try:
            kept[key] = stamp, plain(summary(store.load(key)))
        except OpdopError as error:
            damaged[key] = str(error)
    if kept != before:
        with contextlib.suppress(OpdopError):  # a folder that cannot be written is read all the same
            text = np.frombuffer(json.dumps(kept).encode(), dtype=np.uint8)
            write_arrays(store.folder / SUMMARIES, {"kind": _KIND}, {"json": text})
    return {key: about for key, (_, about) in kept.items()}, damaged


def restore_histories(store: Store, finished: Mapping[str, Summary]) -> None:
    """Write history.parquet of each finished run again where it is missing or damaged, from its run.npz.

    Raises OpdopError if it cannot be written.
    """
    for key, about in finished.items():
        path = store.run(key) / HISTORY
        if digest_of(path) != about["history"]:
            with contextlib.suppress(DamagedFileError):  # damaged in this very moment: the next start makes it again
                write_whole(path, store.load(key).parquet())


def _kept(store: Store) -> dict[str, Any]:
    """Return the stamp and the summary of each run in the file; nothing if it is missing or damaged."""
    try:
        _, arrays = read_arrays(store.folder / SUMMARIES, kind=_KIND)
        kept: dict[str, Any] = json.loads(arrays["json"].tobytes())
    except (OpdopError, KeyError, ValueError):
        return {}
    return kept


def _stamp(store: Store, key: str) -> str | None:
    """Return a text that changes whenever a run's file is changed or replaced; None if there is no file."""
    try:
        about = os.stat(store.run(key) / RUN)
    except OSError:
        return None
    return f"{about.st_mtime_ns} {about.st_ctime_ns} {about.st_size} {about.st_ino}"


def summary(run: Run) -> dict[str, Any]:
    """Return the facts of a run that tables show: its configuration and results, in model units.

    "violations" and "hard_violations" are those of each constraint. "average", "final" and "optimum" are expected
    totals of one episode: the reward, then each utility. Where the model is not known, "average" are realised totals,
    and there are no others, no regret and no violation.

    Raises OpdopError if the display of the run does not fit its constraints.
    """
    if len(run.display.quantities) != 1 + len(run.thresholds):
        raise OpdopError("its display does not have one quantity for each signal.")
    best = run.optimum
    end = run.history.row(-1, named=True)
    return {
        "config": run.config.record(),
        "group": printable(group_of(run.config)),
        **{name: end.get(name) for name in ("regret", "violation", "hard_violation")},
        "violations": [max(value, 0.0) for name, value in end.items() if name.startswith("shortfall_")],
        "hard_violations": [end.get(name) for name in hard_columns(len(run.thresholds)) or ["hard_violation"]],
        "horizon": run.policy.table.shape[0],
        "average": run.average.totals.tolist(),
        "final": None if run.last is None else run.last.totals.tolist(),
        "optimum": None if best is None else [best.value, *best.utility_values.tolist()],
        "dual": None if best is None else best.dual.tolist(),
        "slater_gap": None if best is None else best.slater_gap,
        "thresholds": run.thresholds.tolist(),
        "quantities": [
            {**asdict(each), "name": printable(each.name), "unit": printable(each.unit)}
            for each in run.display.quantities
        ],
        "seconds": run.seconds,
        "history": hashlib.sha256(run.parquet()).hexdigest(),
        "constants": dict(run.constants),
    }
