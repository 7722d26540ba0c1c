"""Read the runs in a folder and group them: by problem, and within a problem by every setting but the seed."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from opdop.model import Display, InvalidParameterError, OpdopError
from opdop.model.text_files import open_regular
from opdop.model.validation import MOST_EPISODES
from opdop.report.summary.group_labels import key_of, labels, printable, unused, without_seed
from opdop.report.summary.groups import Group, RealisedSection, Section
from opdop.report.summary.guarantee_card import card_lines
from opdop.report.summary.realised_summary import summary_of
from opdop.report.summary.run_summary import RunSummary
from opdop.report.summary.solution import setting_text
from opdop.runs import Run
from opdop.runs.files import file_name
from opdop.runs.run import RUN
from opdop.sweeps.results import run_folders_in
from opdop.sweeps.store import FAILED, MANIFEST, RUNS, SPEC, Store, folder_at, read_json

_LARGEST = 1e30  # of a number in a run: larger ones cannot be drawn
_LONGEST = 10 * 2**20  # bytes of a text file that comes with the runs


@dataclass(frozen=True)
class Missing:
    """A run that is not in the report, and why."""

    place: str
    reason: str


@dataclass(frozen=True, eq=False)
class Collection:
    """All runs of a report, grouped, with the runs that cannot be shown."""

    name: str  # of the folder
    sections: tuple[Section | RealisedSection, ...]
    missing: tuple[Missing, ...] = ()
    manifest: Mapping[str, Any] = field(default_factory=dict)
    spec: str = ""  # of the sweep that made the runs, if one did

    @property
    def total_runs(self) -> int:
        """The number of runs."""
        return sum(section.total_runs for section in self.sections)


def collect(folder: str | Path) -> Collection:
    """Read the run in a folder, or all runs below it, and group them.

    Args:
        folder: of one run, of a sweep, or any folder with one run in each subfolder.

    Returns:
        The groups. A run that cannot be read is listed in `missing`, with the reason.

    Raises:
        InvalidParameterError: there is no such folder, or no run in it can be shown.

    """
    root = folder_at(folder)
    if not os.path.isdir(root):
        raise InvalidParameterError(f"there is no folder {str(root)!r}; expected one with runs (`opdop run --out`).")
    found: dict[str, Run] = {}
    missing = []
    for place in _places(root):
        shown = place.relative_to(root).as_posix()
        try:
            found[shown] = _checked(Run.load(place))
        except OpdopError as error:
            reason = str(error).replace(f"{root}/", "").replace(str(root), root.name)
            missing.append(Missing(shown, reason))
    missing += _failed(root)
    sections, repeated = _sections(found)
    missing += repeated
    if not sections:
        reasons = f" The first of {len(missing)} that cannot be used: {missing[0].reason}" if missing else ""
        raise InvalidParameterError(f"there is no run that can be shown in {str(root)!r}.{reasons}")
    return Collection(root.resolve().name, sections, tuple(missing), _manifest(root), _text(root / SPEC))


def gather(runs: Iterable[Run], name: str = "runs") -> Collection:
    """Group runs that are in memory, as `collect` does with those in a folder."""
    found, missing = {}, []
    for i, run in enumerate(runs):
        try:
            found[f"run {i}"] = _checked(run)
        except OpdopError as error:
            missing.append(Missing(f"run {i}", str(error)))
    sections, repeated = _sections(found)
    return Collection(name, sections, (*missing, *repeated))


def _checked(run: Run) -> Run:
    """Return a run of which everything can be computed that a report shows.

    Raises OpdopError, with the reason, for a run that `train` cannot have made, whatever its checksum says.
    """
    summary = summary_of(run)
    H, episodes, I = summary.shape[0], summary.episodes, len(run.thresholds)
    if len(run.display.quantities) != 1 + I:
        raise OpdopError("its display does not have one quantity for each signal.")
    estimates = [name for name in run.columns if name.startswith(("estimated_", "dual_"))]  # may be NaN
    sums = [name for name in run.columns if name not in estimates]
    most = (H + np.abs(run.thresholds).max(initial=0.0)) * episodes * 2.0
    policies, optimum = run.average.totals, np.zeros(0)
    if isinstance(summary, RunSummary):
        policies = np.concatenate([*summary.policies.values(), summary.optimum.slater.totals])
        optimum = np.array([*summary.optimum.dual, summary.optimum.slater_gap])
    scales = np.array([(each.scale, each.offset) for each in run.display.quantities])
    for what, numbers, limit in (
        ("list of episodes", run.episodes, MOST_EPISODES),
        ("history", np.array([run.columns[name] for name in sums]), most),
        ("history of estimates", np.nan_to_num([run.columns[name] for name in estimates], posinf=np.inf), _LARGEST),
        ("policies' values", policies, 2.0 * H),
        ("optimum", optimum, _LARGEST),
        ("thresholds", run.thresholds, _LARGEST),
        ("units", scales, _LARGEST),
        ("units", 1.0 / scales[:, 0] if scales[:, 0].all() else np.inf, _LARGEST),
    ):
        if not (np.abs(numbers) <= limit).all():  # also if one is NaN
            raise OpdopError(f"its {what} has a number that is not finite, or beyond {limit:.6g}.")
    try:
        card = card_lines(summary) if isinstance(summary, RunSummary) else summary.notes
        json.dumps([summary.record(certificate=False), card], default=str)
        shlex.join(run.config.command())
    except Exception as error:  # constants and settings of such a run may be anything
        raise OpdopError(f"it cannot be summarised ({type(error).__name__}: {error}).") from error
    return run


def _places(root: Path) -> list[Path]:
    """Return the folder itself if it holds a run, otherwise those of its folders, or of a sweep's, that do."""
    return [root] if os.path.exists(root / RUN) else run_folders_in(root / RUNS) + run_folders_in(root)


def _sections(runs: Mapping[str, Run]) -> tuple[tuple[Section | RealisedSection, ...], list[Missing]]:
    """Group runs by problem, then by every setting but the seed; runs that cannot be added are listed as missing."""
    problems: dict[str, dict[str, dict[int, tuple[str, Run]]]] = {}
    repeated = []
    for place, run in ((place, replace(run, display=_printable(run.display))) for place, run in runs.items()):
        config = run.config
        facts = (run.policy.table.shape, run.thresholds.tolist(), run.display.quantities, _totals(run))
        problem = f"{config.problem} {key_of(config.problem_parameters)} {run.origin.get('model')} {facts}"
        seeds = problems.setdefault(problem, {}).setdefault(without_seed(config), {})
        if config.seed in seeds:
            repeated.append(Missing(place, f"the same run as {seeds[config.seed][0]}, which is in the report."))
        elif not _overlap([run, *(other for _, other in seeds.values())]):
            repeated.append(Missing(place, "its history does not overlap those of the other seeds."))
        else:
            seeds[config.seed] = (place, run)
    sections: list[Section | RealisedSection] = []
    used: set[str] = set()
    chosen = [next(iter(next(iter(groups.values())).values()))[1] for _, groups in sorted(problems.items())]
    for label, (_, groups) in zip(_names(chosen), sorted(problems.items()), strict=True):
        members = [tuple(run for _, (_, run) in sorted(seeds.items())) for seeds in groups.values()]
        names = labels([each[0].config for each in members])
        ordered = sorted(zip(names, members, strict=True), key=lambda item: item[0])
        key = unused(file_name(members[0][0].display.name)[:60] or "problem", used)
        kind = RealisedSection if members[0][0].optimum is None else Section
        sections.append(kind(key, tuple(Group(words, each) for words, each in ordered), label))
    return tuple(sections), repeated


def _names(runs: list[Run]) -> list[str]:
    """Return a name of the problem of each run; where several have the same, with the parameters in which they differ.

    Problems of the same name and parameters are numbered: they are models that were given as objects, or functions that
    have changed between the runs.
    """
    found = []
    for run in runs:
        name = run.display.name
        alike = [each.config.problem_parameters for each in runs if each.display.name == name]
        own = run.config.problem_parameters
        keys = dict.fromkeys(key for parameters in alike for key in parameters)
        differ = [key for key in keys if any(parameters.get(key) != own.get(key) for parameters in alike)]
        words = ", ".join(f"{key}={setting_text(own[key])}" for key in differ if key in own)
        found.append(f"{name} ({words})" if words else name)
    return [
        name if found.count(name) == 1 else f"{name} ({found[: i + 1].count(name)})" for i, name in enumerate(found)
    ]


def _overlap(runs: list[Run]) -> bool:
    """Return whether some episodes are within the recorded range of every run."""
    return bool(max(run.episodes[0] for run in runs) <= min(run.episodes[-1] for run in runs))


def _totals(run: Run) -> list[Any]:
    return [] if run.optimum is None else [run.optimum.value, *run.optimum.utility_values]


def _printable(display: Display) -> Display:
    """Return a display without control characters, which neither a figure nor a page may contain."""
    quantities = tuple(
        replace(each, name=printable(each.name), unit=printable(each.unit)) for each in display.quantities
    )
    return replace(display, name=printable(display.name), summary=printable(display.summary), quantities=quantities)


def _failed(root: Path) -> list[Missing]:
    """Return the runs of a sweep that raised an error."""
    store, missing = Store(root), []
    for key in sorted(store.failed()):
        failure = store.read_failure(key)
        if failure is not None:
            missing.append(Missing(f"{FAILED}/{key}.json", f"{failure.type}: {failure.error}"[:1000]))
    return missing


def _manifest(root: Path) -> dict[str, Any]:
    try:
        return read_json(root / MANIFEST)
    except OpdopError:
        return {}


def _text(file: Path) -> str:
    """Return the contents of a small text file; an empty text if it cannot be read."""
    try:
        with open_regular(file) as opened:
            text = opened.read(_LONGEST)
        return text.decode() if len(text) < _LONGEST else ""
    except (OSError, ValueError):
        return ""
