"""Certificates of finished runs, of logged transitions, and of policies played anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from opdop.algorithms import Task
from opdop.confidence import Certificate, Certifier, Observations
from opdop.confidence.data import Data, confidence_set
from opdop.model import Display, InvalidParameterError
from opdop.model.validation import check_failure_probability, shown
from opdop.runs.logged import read_log
from opdop.runs.run import RUN, Run

_NAMED = ("recommended", "final", "average")


def certify(
    data: Any,
    policy: Any = None,
    *,
    failure_probability: float = 0.05,
    stationary: bool | None = None,
    task: Task | None = None,
    display: Display | None = None,
    thresholds: Any = None,
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
        task: sizes, thresholds and first states; needed for logged transitions only.
        display: the words and units; by default the run's.
        thresholds: of the utilities, [I], instead of those of the run or the task.

    Raises InvalidParameterError or InvalidModelError, saying why, if the data or the policy cannot be used.
    """
    risk = check_failure_probability("failure_probability", failure_probability)
    run = _as_run(data)
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
    else:
        raise InvalidParameterError(
            f"data is {shown(data)} and task is {shown(task)}; expected a Run, its folder, or logged transitions with "
            "task=opdop.Task(horizon, num_states, num_actions, thresholds, initial, episodes)."
        )
    if thresholds is not None:
        found = found.with_thresholds(thresholds)
    certifier = Certifier(confidence_set(found.as_declared(stationary), risk), display)
    candidates = () if run is None else (run.policy, run.mixture)
    if policy is None or (isinstance(policy, str) and policy == "recommended"):
        return certifier.recommend(candidates)
    if isinstance(policy, str):
        if run is None or policy not in _NAMED:
            known = ", ".join(_NAMED) if run is not None else "recommended"
            raise InvalidParameterError(f"policy is {shown(policy)}; expected {known}, or a table [H,S,A].")
        policy = run.policy if policy == "final" else run.mixture
    return certifier.certificate(policy)


def _as_run(data: Any) -> Run | None:
    """Return a run, or the run in a folder; None if it is neither."""
    if isinstance(data, Run):
        return data
    if isinstance(data, (str, Path)):
        path = Path(data)
        if path.is_dir() or path.name == RUN:
            return Run.load(path.parent if path.name == RUN else path)
    return None
