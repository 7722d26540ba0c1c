"""Snapshots of a run while it is made: taken, written as checkpoints, checked, and restored."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from opdop.algorithms.saved_state import fitting, prefixed, under
from opdop.model import InvalidParameterError, OpdopError, PolicyMixture, TabularPolicy
from opdop.model.validation import printable, shown
from opdop.runs.checkpoint import CHECKPOINT, KIND, ResumableSimulator, difference
from opdop.runs.config import RunConfig
from opdop.runs.files import Arrays, DamagedFileError, damaged, plain, read_arrays, write_arrays
from opdop.runs.run import RUN, Run

if TYPE_CHECKING:
    from opdop.runs.trainer import Trainer


def snapshot_of(run: Trainer) -> tuple[dict[str, Any], Arrays]:
    """Return everything that the rest of the run depends on."""
    meta = {
        "kind": KIND,
        "config": run.config.but(episodes=run.target).record(),
        "origin": plain(run.origin),
        "seconds": run.seconds,
        "reservoir_stream": run.reservoir_stream.bit_generator.state,
        "simulator": run.simulator.state() if isinstance(run.simulator, ResumableSimulator) else None,
        **({"resumed": list(run.resumed)} if run.resumed else {}),
    }
    arrays: Arrays = {"occupancy": run.occupancy.copy(), "policy": run.policy.copy()}
    arrays |= prefixed("learner.", run.learner.state()) | prefixed("recorder.", run.recorder.state())
    arrays |= run.trail.state()
    if run.first_visits is not None:
        arrays["first_visits"] = run.first_visits.copy()
    if run.reservoir:
        arrays["reservoir"] = np.array(run.reservoir)
    return meta, arrays


def save(run: Trainer, path: Path) -> None:
    """Write a checkpoint."""
    write_arrays(path, *snapshot_of(run))


def refuse_other_run(run: Trainer, folder: Path) -> None:
    """Raise InvalidParameterError if a folder holds the result of another run, which would be replaced."""
    path, checkpointed = folder / RUN, os.path.lexists(folder / CHECKPOINT)
    if not os.path.lexists(path):
        return
    try:
        theirs = Run.load(folder)
    except DamagedFileError as error:
        if checkpointed:
            return  # it is made again
        raise InvalidParameterError(f"{error} Or name another folder.") from error
    played = theirs.config.but(episodes=run.target) if checkpointed else theirs.config
    _refuse_other(run, played.record() | dict(theirs.origin), run.config.but(episodes=run.target), path)


def _refuse_other(run: Trainer, theirs: Mapping[str, Any], config: RunConfig, origin: object) -> None:
    for name, ours in (config.record() | plain(run.origin)).items():
        if theirs.get(name) != ours:
            remedy = "Use the same arguments, or another folder."
            if name == "planned_episodes":
                planned = shown(theirs.get(name))
                remedy = f"To play more episodes, give planned_episodes={planned}; otherwise use another folder."
            raise InvalidParameterError(
                f"{printable(str(origin))} is of another run: "
                f"{difference(name, theirs.get(name), ours, run.display.quantities)}. {remedy}"
            )


def load(run: Trainer, path: Path) -> None:
    """Continue from a checkpoint."""
    meta, arrays = read_arrays(path, kind=KIND)
    restore(run, meta, arrays, origin=str(path))


def restore(run: Trainer, meta: Mapping[str, Any], arrays: Arrays, *, origin: str) -> None:
    """Return to a snapshot of the same run.

    Raises InvalidParameterError if it is of another run, and DamagedFileError if it cannot be used.
    """
    try:
        theirs = RunConfig.of(meta["config"]).but(episodes=run.target).record() | dict(meta["origin"])
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise damaged(origin, KIND, error) from error
    _refuse_other(run, theirs, run.config.but(episodes=run.target), origin)
    try:
        _restore(run, meta, arrays)
    except Exception as error:  # a learner or a simulator may raise any error
        raise damaged(origin, KIND, error) from error
    if run.recorder.episodes > run.target:
        raise InvalidParameterError(
            f"{printable(str(origin))} has {run.recorder.episodes:,} episodes, more than the {run.target:,} that "
            "are asked for. Ask for as many, or use another folder."
        )


def _restore(run: Trainer, meta: Mapping[str, Any], arrays: Arrays) -> None:
    run.occupancy[:] = fitting(arrays, "occupancy", run.occupancy)
    run.policy = fitting(arrays, "policy", run.occupancy)
    TabularPolicy(run.policy)  # raises unless it consists of probabilities
    run.learner.restore(under(arrays, "learner."))
    run.recorder.restore(under(arrays, "recorder."))
    episodes = run.recorder.episodes
    if run.first_visits is not None:
        run.first_visits[:] = fitting(arrays, "first_visits", run.first_visits)
    run.trail.restore(arrays, episodes)
    if episodes < 0 or episodes != getattr(run.learner, "episodes", episodes):
        raise OpdopError("learner and history are not at the same episode.")
    if run.cmdp is None and episodes:
        sampled = (min(episodes, run.most_sampled), *run.occupancy.shape)
        run.reservoir = list(fitting(arrays, "reservoir", np.empty(sampled)))
        PolicyMixture(run.reservoir)
    seconds = meta["seconds"]
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0.0 <= seconds < np.inf:
        raise OpdopError(f"the saved seconds are {seconds!r}; expected a number, at least 0.")
    run.seconds = float(seconds)
    run.reservoir_stream.bit_generator.state = meta["reservoir_stream"]
    run.resumed = [int(episode) for episode in meta.get("resumed", ())]
    if isinstance(run.simulator, ResumableSimulator):
        run.simulator.restore(meta["simulator"])
    elif episodes:
        run.reseed(episodes)
        run.resumed.append(episodes)
