"""Read the runs in a folder and group them: by problem, and within a problem by every setting but the seed."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from opdop.envs import environments, make
from opdop.model import Display, InvalidParameterError, OpdopError, TabularCMDP
from opdop.model.rounding import short_number
from opdop.model.text_files import open_regular
from opdop.model.validation import MOST_EPISODES, Floats
from opdop.report.summary.guarantee_card import card_lines
from opdop.report.summary.realised_summary import RealisedSummary, summary_of
from opdop.report.summary.run_facts import RunFacts
from opdop.report.summary.run_summary import RunSummary
from opdop.report.summary.solution import setting_text
from opdop.report.summary.statistics import Band, band
from opdop.runs import Run, RunConfig, fingerprint, settings
from opdop.runs.files import file_name
from opdop.runs.run import RUN
from opdop.sweeps.results import run_folders_in
from opdop.sweeps.store import FAILED, MANIFEST, RUNS, SPEC, Store, folder_at, read_json

_LARGEST = 1e30  # of a number in a run: larger ones cannot be drawn
_LONGEST = 10 * 2**20  # bytes of a text file that comes with the runs


@dataclass(frozen=True, eq=False)
class Group:
    """Runs that differ only in their seed, in the order of their seeds."""

    label: str
    runs: tuple[Run, ...]

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seed of each run."""
        return tuple(run.config.seed for run in self.runs)

    @cached_property
    def summaries(self) -> tuple[RunSummary, ...]:
        """The summary of each run."""
        return tuple(RunSummary(run) for run in self.runs)

    @property
    def facts(self) -> RunFacts:
        """The first run, for what can be said of any run."""
        return RunFacts(self.runs[0])

    @property
    def episodes(self) -> int:
        """The number of episodes that every run has played."""
        return min(int(run.episodes[-1]) for run in self.runs)

    @cached_property
    def grid(self) -> Floats:
        """The episodes at which the runs are compared, [K'].

        These are all episodes that some run recorded, within the range that every run covers. Values between two
        records are interpolated linearly. Runs of one configuration are recorded at the same episodes.
        """
        recorded = [run.episodes for run in self.runs]
        first, last = max(each[0] for each in recorded), min(each[-1] for each in recorded)
        every = np.unique(np.concatenate(recorded))
        grid: Floats = every[(every >= first) & (every <= last)].astype(np.float64)
        return grid

    def column(self, name: str) -> Floats:
        """Return a column of the histories at the episodes of `grid`, [n, K']."""
        return np.array([np.interp(self.grid, run.episodes, run.history[name].to_numpy()) for run in self.runs])

    def average(self, name: str) -> Floats:
        """Return a column of cumulative sums as averages per episode, [n, K']."""
        return self.column(name) / self.grid


@dataclass(frozen=True)
class Metric:
    """Regret, violation or hard violation, or a realised quantity where the model is not known, with its unit."""

    key: str  # its column in the history: a sum over all episodes so far
    scale: float  # own units in a model unit
    unit: str
    label: str = ""  # its name in sentences, if that is not the column's
    offset: float = 0.0  # of an episode, in own units

    @property
    def name(self) -> str:
        """Its name in sentences."""
        return self.label or self.key.replace("_", " ")

    def per_episode(self, group: Group) -> dict[int, float]:
        """Return the average over all episodes of each run by seed, in own units."""
        return {
            run.config.seed: self.offset + self.scale * float(run.history[self.key][-1]) / int(run.episodes[-1])
            for run in group.runs
        }

    def text(self, group: Group) -> str:
        """Return the average over the runs of a group with its band; a single realised average has four digits."""
        found = band(list(self.per_episode(group).values()))
        return short_number(float(found.mean)) if found.runs == 1 and self.label else found.text


@dataclass(frozen=True, eq=False)
class Section:
    """All groups of one problem."""

    key: str  # a name for files that no other section has
    groups: tuple[Group, ...]

    @property
    def summary(self) -> RunSummary:
        """The summary of the first run, for what all runs share: the problem, its optimum, its units."""
        return self.groups[0].summaries[0]

    @property
    def name(self) -> str:
        """The problem's name."""
        return self.summary.run.display.name

    @cached_property
    def cmdp(self) -> TabularCMDP | None:
        """The model, rebuilt from its name; None if no shipped problem has this name, or it has changed since."""
        run = self.summary.run
        if run.config.problem not in environments():
            return None  # code is not run because a folder names it
        try:
            built = make(run.config.problem, **run.config.problem_parameters)
        except OpdopError:
            return None
        cmdp = built.tabular()
        sizes = (cmdp.horizon, cmdp.num_states, cmdp.num_actions, len(cmdp.thresholds))
        same = sizes == (*self.summary.shape, len(run.thresholds)) and fingerprint(built) == run.origin.get("model")
        return cmdp if same else None

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Regret, violation and hard violation: in own units, or in model units if the constraints' units differ."""
        measures = (self.summary.regret, self.summary.violation, self.summary.hard_violation)
        return tuple(
            Metric(each.name.replace(" ", "_"), each.scale or 1.0, "model units" if each.scale is None else each.unit)
            for each in measures
        )

    @property
    def seeds(self) -> int:
        """The largest number of runs in a group."""
        return max(len(group.runs) for group in self.groups)

    @property
    def total_runs(self) -> int:
        """The number of runs."""
        return sum(len(group.runs) for group in self.groups)


@dataclass(frozen=True, eq=False)
class RealisedSection:
    """All groups of one problem whose model is not known."""

    key: str  # a name for files that no other section has
    groups: tuple[Group, ...]

    @cached_property
    def summaries(self) -> tuple[RealisedSummary, ...]:
        """The summary of each group's first run."""
        return tuple(RealisedSummary(group.runs[0]) for group in self.groups)

    @property
    def summary(self) -> RealisedSummary:
        """The summary of the first run, for what all runs share: the problem, its constraints, its units."""
        return self.summaries[0]

    @property
    def name(self) -> str:
        """The problem's name."""
        return self.summary.run.display.name

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The realised reward and each realised quantity with a limit, in own units."""
        keys = ["total_realised_reward", *(f"total_realised_utility_{i}" for i in range(len(self.summary.constraints)))]
        return tuple(
            Metric(key, quantity.scale, quantity.unit, f"realised {quantity.name}", quantity.offset)
            for key, quantity in zip(keys, self.summary.run.display.quantities, strict=True)
        )

    @property
    def seeds(self) -> int:
        """The largest number of runs in a group."""
        return max(len(group.runs) for group in self.groups)

    @property
    def total_runs(self) -> int:
        """The number of runs."""
        return sum(len(group.runs) for group in self.groups)


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
    estimates = [name for name in run.history.columns if name.startswith(("estimated_", "dual_"))]  # may be NaN
    sums = [name for name in run.history.columns if name not in estimates]
    most = (H + np.abs(run.thresholds).max(initial=0.0)) * episodes * 2.0
    policies, optimum = run.average.totals, np.zeros(0)
    if isinstance(summary, RunSummary):
        policies = np.concatenate([*summary.policies.values(), summary.optimum.slater.totals])
        optimum = np.array([*summary.optimum.dual, summary.optimum.slater_gap])
    scales = np.array([(each.scale, each.offset) for each in run.display.quantities])
    for what, numbers, limit in (
        ("list of episodes", run.episodes, MOST_EPISODES),
        ("history", run.history.select(sums).to_numpy(), most),
        ("history of estimates", np.nan_to_num(run.history.select(estimates).to_numpy(), posinf=np.inf), _LARGEST),
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
        problem = f"{config.problem} {_key(config.problem_parameters)} {run.origin.get('model')} {facts}"
        seeds = problems.setdefault(problem, {}).setdefault(without_seed(config), {})
        if config.seed in seeds:
            repeated.append(Missing(place, f"the same run as {seeds[config.seed][0]}, which is in the report."))
        elif not _overlap([run, *(other for _, other in seeds.values())]):
            repeated.append(Missing(place, "its history does not overlap those of the other seeds."))
        else:
            seeds[config.seed] = (place, run)
    sections: list[Section | RealisedSection] = []
    used: set[str] = set()
    for _, groups in sorted(problems.items()):
        members = [tuple(run for _, (_, run) in sorted(seeds.items())) for seeds in groups.values()]
        labels = _labels([each[0].config for each in members])
        ordered = sorted(zip(labels, members, strict=True), key=lambda item: item[0])
        key = _unused(file_name(members[0][0].display.name)[:60] or "problem", used)
        kind = RealisedSection if members[0][0].optimum is None else Section
        sections.append(kind(key, tuple(Group(label, each) for label, each in ordered)))
    return tuple(sections), repeated


def _overlap(runs: list[Run]) -> bool:
    """Return whether some episodes are within the recorded range of every run."""
    return bool(max(run.episodes[0] for run in runs) <= min(run.episodes[-1] for run in runs))


def _totals(run: Run) -> list[Any]:
    return [] if run.optimum is None else [run.optimum.value, *run.optimum.utility_values]


def _key(data: Mapping[str, Any]) -> str:
    return json.dumps(data, sort_keys=True, default=str)


def _printable(display: Display) -> Display:
    """Return a display without control characters, which neither a figure nor a page may contain."""
    quantities = tuple(
        replace(each, name=printable(each.name), unit=printable(each.unit)) for each in display.quantities
    )
    return replace(display, name=printable(display.name), summary=printable(display.summary), quantities=quantities)


def printable(text: object) -> str:
    """Return a text without control characters, except line ends and tabs."""
    return "".join(letter for letter in str(text) if letter in "\n\t" or letter.isprintable())


def _labels(configs: list[RunConfig]) -> list[str]:
    """Return a name for each group: the algorithm, and the settings in which the groups differ."""
    labels = [" ".join([config.algorithm, *words]) for config, words in zip(configs, differences(configs), strict=True)]
    used: set[str] = set()
    return [_unused(printable(label), used) for label in labels]


def without_seed(config: RunConfig) -> str:
    """Return a text that is the same for configurations that differ only in their seed."""
    return _key({**config.record(), "seed": None})


def differences(configs: Sequence[RunConfig]) -> list[list[str]]:
    """Return for each configuration its settings, in words, in which these configurations differ.

    The algorithm is left out.
    """
    varying = [name for name in settings() if len({_key({"": getattr(each, name)}) for each in configs}) > 1]
    if all(config.planned_episodes == config.episodes for config in configs):
        varying = [name for name in varying if name != "planned_episodes"]
    found = []
    for config in configs:
        words = []
        for name in varying:
            value = getattr(config, name)
            if isinstance(value, Mapping):
                value = " ".join(f"{parameter}={setting_text(each)}" for parameter, each in value.items())
            if value and name != "algorithm":
                shown = f"{value:,}" if isinstance(value, int) else setting_text(value)
                words.append(settings()[name].label.format(shown))
        found.append(words)
    return found


def _unused(name: str, used: set[str]) -> str:
    """Return the name, with a number if it is used already, and add it to `used`."""
    free, count = name, 1
    while free in used:
        count += 1
        free = f"{name}-{count}"
    used.add(free)
    return free


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


def average_band(group: Group, signal: int) -> Band:
    """Return the value of a group's average policies in one signal, in own units, over the seeds."""
    quantity = group.runs[0].display.quantities[signal]
    return band([quantity.shown(float(run.average.totals[signal])) for run in group.runs])


def final_band(group: Group, signal: int) -> Band:
    """Return the value of a group's final policies in one signal, in own units, over the seeds."""
    quantity = group.runs[0].display.quantities[signal]
    return band([quantity.shown(float(each.final_values.totals[signal])) for each in group.summaries])
