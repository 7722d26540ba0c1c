"""`opdop.compare`: a sweep over algorithms and seeds with its report, or runs that are there, and the verdicts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opdop.envs import environment_of
from opdop.envs.own_problems import is_code
from opdop.model import DescribedSimulator, InvalidParameterError, Problem
from opdop.model.html_tables import html_table
from opdop.model.validation import shown
from opdop.report.html.write import write_report
from opdop.report.summary.collection import Collection, collect, gather
from opdop.report.summary.groups import Section
from opdop.report.summary.verdicts import Verdict, verdicts
from opdop.runs import Run
from opdop.sweeps import Sweep, SweepProgress, run_sweep

REALISED = "realised totals: the model is not known"


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Groups of runs compared: each group's measures, and which differences between groups are clear."""

    runs: Collection
    page: Path | None = None  # the report, if one was written
    sweep: Sweep | None = None  # that made the runs, if one did

    @property
    def verdicts(self) -> list[Verdict]:
        """Every two groups of a problem compared in every measure; p values are corrected for each problem."""
        return [verdict for section in self.runs.sections for verdict in verdicts(section)]

    @property
    def rows(self) -> list[tuple[str, str, str]]:
        """The problem, the group and its measures per episode, in own units."""
        found = []
        for section in self.runs.sections:
            for group in section.groups:
                measures = (f"{metric.name} {metric.text(group)} {metric.unit}".rstrip() for metric in section.metrics)
                found.append((section.name, group.label, "; ".join(measures)))
        return found

    def __str__(self) -> str:
        lines = [f"{problem}, {group}, per episode: {measures}" for problem, group, measures in self.rows]
        if any(not isinstance(section, Section) for section in self.runs.sections):
            lines.append(f"({REALISED})")
        return "\n".join([*lines, *(f"- {each.metric.name}: {each.words}" for each in self.verdicts)])

    def __repr__(self) -> str:
        groups = sum(len(section.groups) for section in self.runs.sections)
        clear = sum(each.clear for each in self.verdicts)
        return f"Comparison({self.runs.total_runs} runs in {groups} groups, {clear} clear differences)"

    def _repr_html_(self) -> str:
        rows = [[f"{problem}, {group}", measures] for problem, group, measures in self.rows]
        rows += [[each.metric.name, each.words] for each in self.verdicts]
        return html_table(repr(self), rows, "" if self.page is None else f"Report: {self.page}")


def compare(
    what: str | Path | Problem | DescribedSimulator | Run | Iterable[Run],
    algorithms: Sequence[str] = ("opdop", "oppo"),
    *,
    seeds: int = 10,
    episodes: int = 20_000,
    preset: str = "practical",
    problem_parameters: Mapping[str, Any] | None = None,
    parameters: Mapping[str, float] | None = None,
    out: str | Path | None = None,
    workers: int | None = None,
    figures: bool = False,
    progress: bool | Callable[[SweepProgress], None] | None = None,
) -> Comparison:
    """Compare algorithms on a problem over many seeds, or runs that are there, and say which differences are clear.

    Args:
        what: the name of a problem, as for `opdop.make`, a model file, FILE.py:FUNCTION, or a problem as an object, on
            which runs are made as `opdop.sweep` does; or a folder of runs, or Runs, which are compared as they are.
        algorithms: NAME, or NAME:PRESET, as in ("opdop", "opdop:certified").
        seeds: runs of each algorithm, with the seeds 0 to seeds - 1.
        episodes: of each run.
        preset: of the algorithms that name none.
        problem_parameters: of the problem.
        parameters: of the presets.
        out: the folder of the runs and of the report; by default comparisons/NAME. Called again with the same folder,
            it makes only the missing runs.
        workers: processes; by default one for each core.
        figures: also save each figure of the report as a file.
        progress: as for `opdop.sweep`.

    Returns:
        The comparison; printed, it has the measures of each group and the verdicts.

    Raises InvalidParameterError if a name or a value is wrong, or if no run can be shown.

    >>> import opdop
    >>> runs = [opdop.train("factored", "oppo", episodes=200, seed=seed) for seed in range(2)]
    >>> compare(runs)
    Comparison(2 runs in 1 groups, 0 clear differences)
    """
    if not isinstance(what, (str, Path, Problem, DescribedSimulator)):
        found = gather([what] if isinstance(what, Run) else list(what))
        if not found.sections:
            reason = f": {found.missing[0].reason}" if found.missing else "."
            raise InvalidParameterError(f"there is no run that can be shown{reason}")
        return Comparison(found)
    if isinstance(what, (str, Path)) and os.path.isdir(what):
        return Comparison(collect(what))
    chosen = [algorithms] if isinstance(algorithms, str) else list(algorithms)
    problem, name = (str(what),) * 2 if isinstance(what, (str, Path)) else (what, what.display.name)
    spec = comparison_data(problem, chosen, seeds, episodes, preset, problem_parameters or {}, parameters or {})
    folder = Path(out) if out is not None else usual_folder(name)
    made = run_sweep(spec, folder, workers=workers, progress=progress)
    found = collect(folder)
    from opdop.report.figures import KINDS

    return Comparison(found, write_report(found, folder / "report.html", kinds=KINDS if figures else ()).page, made)


def usual_folder(name: str) -> Path:
    """Return the folder of a comparison on a problem if none is given."""
    return Path("comparisons") / Path(name).name.replace(":", "-")


def comparison_data(
    problem: Any,
    algorithms: Sequence[str],
    seeds: int,
    episodes: int,
    preset: str,
    settings: Mapping[str, Any],
    parameters: Mapping[str, float],
) -> dict[str, Any]:
    """Return the sweep that makes the runs of a comparison, as data; `settings` are the problem's parameters.

    Raises InvalidParameterError if there is no such problem or algorithm, or a value is wrong.
    """
    if isinstance(problem, str):
        environment = environment_of(problem)  # raises, with a suggestion, if there is none
        if is_code(problem):
            environment.check(settings)
    if not algorithms or not all(isinstance(each, str) and each.strip() for each in algorithms):
        raise InvalidParameterError(f"algorithms are {shown(algorithms)}; expected names, as in opdop,oppo.")
    entries = [_entry(each.strip(), preset) for each in algorithms]
    if parameters:
        entries = [{**each, "parameters": dict(parameters)} for each in entries]
    listed = [{"name": problem, **_plain(settings)}]
    return {"episodes": episodes, "seeds": seeds, "problem": listed, "algorithm": entries}


def _entry(chosen: str, preset: str) -> dict[str, Any]:
    """Return the algorithm and the preset that NAME, NAME:PRESET or doubling:NAME:PRESET chooses.

    >>> _entry("oppo", "practical"), _entry("doubling:opdop:paper", "practical")
    ({'name': 'oppo', 'preset': 'practical'}, {'name': 'doubling:opdop', 'preset': 'paper'})
    """
    words = chosen.split(":")
    algorithm = 2 if words[0] == "doubling" else 1
    return {"name": ":".join(words[:algorithm]), "preset": ":".join(words[algorithm:]) or preset}


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters in the form of a spec: "none" for None, and a list in a list, as a plain list is a grid."""
    listed = {key: [list(value)] if isinstance(value, tuple) else value for key, value in values.items()}
    return {key: "none" if value is None else value for key, value in listed.items()}
