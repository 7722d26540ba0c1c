"""Certificates of finished runs, of logged transitions, and of policies played anew."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from opdop.algorithms import Task
from opdop.confidence import Certificate, Certifier, Observations
from opdop.confidence.data import Data, confidence_set
from opdop.confidence.fresh_episodes import certify_by_episodes
from opdop.model import Display, InvalidParameterError
from opdop.model.validation import check_failure_probability, shown
from opdop.runs.fresh import fresh_simulator
from opdop.runs.log_task import LogTask, read_task
from opdop.runs.logged import read_log
from opdop.runs.run import RUN, Run

_NAMED = ("recommended", "final", "average")


def certify(
    data: Any,
    policy: Any = None,
    *,
    failure_probability: float = 0.05,
    stationary: bool | None = None,
    task: Task | LogTask | str | Path | None = None,
    display: Display | None = None,
    thresholds: Any = None,
    episodes: int | None = None,
    seed: int = 0,
    noisy: bool = False,
) -> Certificate:
    """Return what data alone prove about a policy, or about the best policy that they prove to keep every constraint.

    Args:
        data: a Run, the folder of one, `Observations`, or logged transitions, whoever collected them: a polars or
            pandas DataFrame, or the path of a Parquet or CSV file, with the columns that `read_log` describes.
        policy: a table [H, S, A], a TabularPolicy or a PolicyMixture; of a run also "final" or "average". Without it,
            or "recommended": the best policy that is certified to keep every constraint.
        failure_probability: the probability with which the certificate may be wrong.
        stationary: whether the kernel is the same at every stage, so that the visits of all stages are pooled; by
            default as the run's task, or `task`, says.
        task: sizes, thresholds and first states; needed for logged transitions only. A `LogTask`, or the path of its
            TOML file, also names the columns, units and ranges; docs/certificates.md describes it.
        display: the words and units; by default the run's.
        thresholds: of the utilities, [I], instead of those of the run or the task.
        episodes: play so many fresh episodes with the policy, which then may be any policy that the simulator plays,
            and use nothing else. `data` is then a problem's name, a problem, continuous ones included, a Run of a
            shipped problem or one that was made in this session, a simulator that describes itself, or another
            simulator with `task`. Nothing is proved about the distance from the optimum.
        seed: of the fresh episodes; they differ from those of training with the same seed.
        noisy: whether signals are random in the fresh episodes of a problem.

    Raises InvalidParameterError or InvalidModelError, saying why, if the data or the policy cannot be used.
    """
    risk = check_failure_probability("failure_probability", failure_probability)
    run = _as_run(data)
    if episodes is not None:
        told = task if isinstance(task, Task) else None
        return _play_anew(run or data, policy, episodes, risk, told, display, thresholds, seed, noisy)
    found: Data
    if run is not None:
        if run.observations is None:
            raise InvalidParameterError(
                "the run has no data from which a certificate can be made: its learner keeps none, or it was saved by "
                "an earlier version. Train again with `opdop`, `optimistic` or `opdop-lstd`."
            )
        found, display = run.observations, display or run.display
    elif isinstance(data, Observations):
        found = data
    elif isinstance(task, Task):
        found = read_log(data, task, display=display)
    elif isinstance(task, (str, Path, LogTask)):
        about = task if isinstance(task, LogTask) else read_task(task)
        found, display = about.read(data)[0], display or about.display
    else:
        raise InvalidParameterError(
            f"data is {shown(data)} and task is {shown(task)}; expected a Run, its folder, or logged transitions with "
            "task=opdop.Task(horizon, num_states, num_actions, thresholds, initial, episodes), or a task.toml."
        )
    if thresholds is not None:
        found = found.with_thresholds(thresholds)
    certifier = Certifier(confidence_set(found.as_declared(stationary), risk), display)
    candidates = () if run is None else (run.policy, run.mixture)
    if policy is None or (isinstance(policy, str) and policy == "recommended"):
        return _acting(certifier.recommend(candidates), run)
    if isinstance(policy, str):
        if run is None or policy not in _NAMED:
            known = ", ".join(_NAMED) if run is not None else "recommended"
            raise InvalidParameterError(f"policy is {shown(policy)}; expected {known}, or a table [H,S,A].")
        policy = run.policy if policy == "final" else run.mixture
    return _acting(certifier.certificate(policy), run)


def _acting(certificate: Certificate, run: Run | None) -> Certificate:
    """Return a certificate whose policy acts on the observations of the run, also if it was planned on the data."""
    space = None if run is None else run.policy.space
    if space is None or certificate.policy.space is not None:
        return certificate
    return replace(certificate, policy=certificate.policy.with_space(space))


def _play_anew(
    data: Any,
    policy: Any,
    episodes: int,
    risk: float,
    task: Task | None,
    display: Display | None,
    thresholds: Any,
    seed: int,
    noisy: bool,
) -> Certificate:
    """Return what fresh episodes prove about a policy; see `certify`."""
    if isinstance(data, Run):
        policy = data.policy_of(policy) if policy in ("final", "average") else policy
        display = display or data.display
    if policy is None or isinstance(policy, str):
        raise InvalidParameterError(f"policy is {shown(policy)}; expected the policy that plays the fresh episodes.")
    fresh = fresh_simulator(data, task=task, seed=seed, noisy=noisy)
    bounds = fresh.thresholds
    if thresholds is not None:
        bounds = np.broadcast_to(np.asarray(thresholds, dtype=np.float64), bounds.shape)
    return certify_by_episodes(
        fresh.simulator,
        policy,
        episodes=episodes,
        horizon=fresh.horizon,
        thresholds=bounds,
        display=display or fresh.display,
        failure_probability=risk,
        generator=fresh.generator,
    )


def _as_run(data: Any) -> Run | None:
    """Return a run, or the run in a folder; None if it is neither."""
    if isinstance(data, Run):
        return data
    if isinstance(data, (str, Path)):
        path = Path(data)
        if os.path.isdir(path) or path.name == RUN:
            return Run.load(path.parent if path.name == RUN else path)
    return None
