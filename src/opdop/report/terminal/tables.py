"""Pages for a terminal: the problems, the solution of one, the result of a run, and the algorithms."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from opdop.algorithms import Algorithm
from opdop.algorithms.constants import ALGORITHM_1
from opdop.algorithms.preset_makers import Presets
from opdop.envs import Environment
from opdop.model import Display, Problem, Quantity
from opdop.model.display import SHARE, singular, worth
from opdop.model.rounding import number, short_number
from opdop.report.summary.guarantee_card import card_lines
from opdop.report.summary.run_facts import constants_text
from opdop.report.summary.run_summary import Measure, RunSummary
from opdop.report.summary.solution import (
    ConstraintSummary,
    Solution,
    better,
    discretisation_text,
    duration,
    setting_text,
    sizes_text,
)
from opdop.report.summary.visit_map import VisitMap

# From WIDE on, sizes have words and summaries a column; below NARROW, sizes are left out.
WIDE, NARROW = 150, 80

_LETTERS = "S states, A actions, H stages, I constraints. "
_LEGEND = (
    "V*: optimal value subject to the constraints. Y*: Lagrange multiplier, the loss of V* per unit by which a "
    "constraint is tightened. Slater gap: the largest slack in all constraints at once. All in the problem's own units."
)
_MEASURES = (
    "Regret: reward lost against the optimum. Violation: cumulative, slack cancels. Hard violation: the sum of the "
    "positive parts, which slack never cancels."
)
_SHARED = (
    f" Worst constraint: in each episode the one that is violated most, in {SHARE}, because the constraints have "
    "different units; 100 % is the most by which two episode totals can differ."
)
_OWN = "Algorithms with presets of their own:"
_DOUBLING = (
    "doubling:NAME runs an algorithm without knowing the number of episodes: whenever the planned K is reached, it "
    "starts again with 2 K. --param NAME=VALUE sets a parameter. Every run prints and stores all its constants."
)


def overview(solutions: Sequence[Solution], *, width: int) -> RenderableType:
    """Return the table of problems with their optima, fitted to a width; a row has a line for each constraint."""
    wide, sized = width >= WIDE, width >= NARROW
    table = _table()
    table.add_column("problem", no_wrap=True, style="bold")
    if sized:
        for letter, word in zip("SAHI", ("states", "actions", "stages", "constraints"), strict=True):
            table.add_column(word if wide else letter, justify="right", no_wrap=True)
    table.add_column("V*", justify="right", no_wrap=True)
    table.add_column("", overflow="fold")  # its unit
    table.add_column("Y*", justify="right", no_wrap=True)
    table.add_column("Slater gap" if wide else "Slater\ngap", justify="right", no_wrap=True)
    table.add_column("binds", no_wrap=True)
    if wide:
        table.add_column("summary", ratio=1)
    for solution in solutions:
        name, *cells = overview_cells(solution)
        table.add_row(name, *cells[0 if sized else 4 :], *([solution.cmdp.display.summary] if wide else []))
    if wide:
        return Group(table, Text(""), Text(_LEGEND, style="dim"))
    summaries = _grid()
    for solution in solutions:
        summaries.add_row(solution.cmdp.display.name, solution.cmdp.display.summary)
    legend = (_LETTERS if sized else "") + _LEGEND
    return Group(table, Text(""), summaries, Text(""), Text(legend, style="dim"))


def overview_cells(solution: Solution, line: str = "\n") -> list[str]:
    """Return the overview's cells for one problem; `line` separates the values of several constraints."""
    cmdp, constraints = solution.cmdp, solution.constraints
    return [
        cmdp.display.name,
        "∞" if solution.problem.num_states == math.inf else f"{cmdp.num_states:,}",
        f"{cmdp.num_actions:,}",
        f"{cmdp.horizon:,}",
        f"{cmdp.num_constraints}",
        number(solution.reward.shown(solution.optimum.value)),
        solution.reward.unit,
        line.join(short_number(constraint.own_multiplier) for constraint in constraints),
        line.join(short_number(constraint.own_slater_gap) for constraint in constraints),
        line.join("yes" if constraint.binds else "no" for constraint in constraints),
    ]


def markdown_overview(solutions: Iterable[Solution]) -> str:
    """Return the overview as a Markdown table."""
    lines = [
        "| problem | states | actions | stages | V* | Y* | Slater gap | binds |",
        "|---|--:|--:|--:|--:|--:|--:|---|",
    ]
    for solution in solutions:
        name, states, actions, stages, _, value, unit, *rest = overview_cells(solution, "<br>")
        cells = [f"`{name}`", states, actions, stages, f"{value} {unit}".strip(), *rest]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def problem_page(entry: Environment, solution: Solution) -> RenderableType:
    """Return the description of a problem: its text, its units and its parameters."""
    cmdp = solution.cmdp
    parameters = _table()
    parameters.add_column("parameter", no_wrap=True, style="bold")
    parameters.add_column("default", overflow="fold", max_width=20)
    parameters.add_column("meaning, and what it may be")
    for key, parameter in entry.parameters.items():
        meaning = Text.assemble(parameter.help, "\n", (parameter.expected, "dim"))
        parameters.add_row(key, setting_text(parameter.default), meaning)
    facts = _grid()
    facts.add_row("size", sizes(solution.problem))
    for label, words in units(solution):
        facts.add_row(label, words)
    facts.add_row("source", source(entry))
    facts.add_row("try", example(entry))
    return Group(_heading(cmdp.display), Text(""), Text(entry.description), Text(""), facts, Text(""), parameters)


def solution_page(solution: Solution, *, width: int) -> RenderableType:
    """Return the solution of a problem: its values, its constraints and their multipliers, and the policy's map."""
    cmdp, optimum = solution.cmdp, solution.optimum
    gap = Text("")
    values = _values(cmdp.display.quantities, solution, bold="optimum")
    parts: list[RenderableType] = [_heading(cmdp.display), gap, values, gap, _constraints(solution), gap]
    if cmdp.display.geometry is not None:
        visits = VisitMap.of(cmdp, optimum.policy)
        drawn = visits.text(width - 2)
        if drawn is None:
            parts += [Text("The map is wider than this terminal: --figure FILE.svg draws it."), Text("")]
        else:
            words = "The optimal policy; numbers are the expected stages in each cell."
            parts += [Text(words), Padding(drawn, (0, 0, 0, 2)), Text(visits.legend, style="dim"), Text("")]
    facts = _grid()
    facts.add_row("solved by", f"{optimum.method}, {optimum.passes} backward passes, {duration(solution.seconds)}")
    duals = ", ".join(f"{dual:.6g}" for dual in optimum.dual)
    words = f"value {optimum.value:.6g}, dual {duals}, Slater gap {optimum.slater_gap:.6g} (signals in [0, 1])"
    facts.add_row("model units", words)
    facts.add_row("size", sizes(solution.problem))
    if solution.refinement is not None:
        facts.add_row("discretised", discretisation_text(solution.refinement.record(), solution.reward))
    facts.add_row("parameters", settings(cmdp.display) or "none")
    return Group(*parts, facts)


def run_page(summary: RunSummary) -> RenderableType:
    """Return the result of a run: its policies beside the optimum, regret and violation, constants and guarantee."""
    run, config = summary.run, summary.run.config
    H, S, A = summary.shape
    facts = _grid()
    for i, constraint in enumerate(summary.constraints):
        facts.add_row("multiplier" if i == 0 else "", _multiplier(summary, i, constraint))
    facts.add_row("estimates", _estimates(summary))
    facts.add_row("algorithm", summary.method)
    facts.add_row("constants", constants_text(run.constants))
    for label, words in (*card_lines(summary), *summary.card.lines()):
        facts.add_row(label, words)
    pace = f"{summary.episodes:,} in {duration(run.seconds)}, {summary.episodes_per_second:,.0f} per second"
    facts.add_row("episodes", f"{pace}; seed {config.seed}" + (", noisy signals" if config.noisy else ""))
    words = sizes_text(S, A, H, len(summary.constraints))
    if "discretisation" in run.origin:
        words = words.replace(" state", " carried state", 1)
    facts.add_row("size", words)
    if "discretisation" in run.origin:
        facts.add_row("discretised", discretisation_text(run.origin["discretisation"], summary.reward))
    facts.add_row("parameters", settings(run.display) or "none")
    notes = [Text(note, style="yellow") for note in summary.notes]
    gap = Text("")
    legend = Text(_MEASURES + (_SHARED if summary.hard_violation.unit == SHARE else ""), style="dim")
    parts = (
        _heading(run.display),
        gap,
        _values(run.display.quantities, summary, bold="average"),
        gap,
        _measures(summary),
        legend,
        gap,
    )
    return Group(*parts, Text(summary.verdict, style="bold"), *notes, gap, facts)


def algorithms_page(known: Sequence[Algorithm]) -> RenderableType:
    """Return the algorithms, the presets of Algorithm 1, and those of the algorithms that have their own."""
    names = _grid()
    for algorithm in known:
        names.add_row(algorithm.name, algorithm.summary)
    table = _presets_table("preset")
    for name in ALGORITHM_1.makes:
        table.add_row(name, *_preset_cells(ALGORITHM_1, name))
    own = _presets_table("algorithm: preset")
    for algorithm in known:
        if algorithm.presets is not ALGORITHM_1:
            for name in algorithm.presets.makes:
                own.add_row(f"{algorithm.name}:\n{name}", *_preset_cells(algorithm.presets, name))
    blank = Text("")
    return Group(names, blank, table, blank, Text(_OWN, style="dim"), own, blank, Text(_DOUBLING, style="dim"))


def _presets_table(first: str) -> Table:
    table = _table()
    table.add_column(first, no_wrap=True, style="bold")
    table.add_column("constants")
    table.add_column("parameters", no_wrap=True)
    return table


def _preset_cells(presets: Presets, name: str) -> tuple[str, str]:
    """Return where a preset's constants come from, and its parameters with their defaults."""
    parameters = presets.parameters(name).items()
    lines = "\n".join(f"{parameter}={setting_text(value)}" for parameter, value in parameters)
    return presets.summary(name), lines or "none"


def preset_parameters(presets: Presets = ALGORITHM_1) -> dict[str, dict[str, float]]:
    """Return the parameters of every preset with their defaults; without `presets`, of those of Algorithm 1."""
    return {name: presets.parameters(name) for name in presets.makes}


def sizes(problem: Problem) -> str:
    """Return the sizes of a problem in words."""
    cmdp = problem.tabular()
    words = sizes_text(problem.num_states, cmdp.num_actions, cmdp.horizon, cmdp.num_constraints)
    return f"{words}; {problem.discretisation}" if problem.discretisation else words


def settings(display: Display) -> str:
    """Return the parameters that a problem was built from."""
    return ", ".join(f"{key}={setting_text(value)}" for key, value in display.parameters.items())


def example(entry: Environment) -> str:
    """Return a command that solves a problem with a parameter set."""
    key, parameter = next(iter(entry.parameters.items()), (None, None))
    setting = f" --set {key}={setting_text(parameter.default)}" if parameter else ""
    return f"opdop solve {entry.name}{setting}"


def units(solution: Solution) -> list[tuple[str, str]]:
    """Return the objective and the constraints of a problem in words, each with a label."""
    reward = solution.reward
    aim = "as little as possible" if better(reward) == "less" else "as much as possible"
    wanted = [("objective", f"{reward.name}, {aim}" + (f", in {reward.unit}" if reward.unit else ""))]
    return wanted + [("constraint", constraint.sentence) for constraint in solution.constraints]


def source(entry: Environment) -> str:
    """Return where a problem comes from: the first sentence of its module."""
    return (sys.modules[entry.build.__module__].__doc__ or "").strip().partition("\n")[0]


def _values(quantities: Sequence[Quantity], item: RunSummary | Solution, *, bold: str) -> Table:
    """Return the expected totals of several policies in own units, a row for each quantity."""
    table = _table()
    table.add_column("per episode,\nin expectation")
    table.add_column("\nwanted", no_wrap=True)
    for name in item.policies:
        words = {"optimum": "optimal", "max_slack": "max-slack"}.get(name, name)
        table.add_column(f"{words}\npolicy", justify="right", no_wrap=True, style="bold" if name == bold else "")
    table.add_column("\nunit")
    wanted = ["least" if better(item.reward) == "less" else "most", *(each.wanted for each in item.constraints)]
    for j, quantity in enumerate(quantities):
        shown = [number(quantity.shown(float(totals[j]))) for totals in item.policies.values()]
        table.add_row(quantity.name, wanted[j], *shown, quantity.unit)
    return table


def _measures(summary: RunSummary) -> Table:
    """Return regret and violations, on average per episode and in total."""
    table = _table()
    table.add_column("over all episodes")
    table.add_column("per episode", justify="right", no_wrap=True)
    table.add_column("in total", justify="right", no_wrap=True)
    table.add_column("unit")

    def add(words: str, measure: Measure) -> None:
        total = short_number(measure.shown(measure.total))
        table.add_row(words, number(measure.shown(measure.per_episode)), total, measure.unit)

    many = len(summary.constraints) > 1
    add("regret", summary.regret)
    for measure in summary.violations:
        add(f"violation: {measure.name}" if many else "violation", measure)
    if many:
        for measure in summary.hard_violations:
            add(f"hard violation: {measure.name}", measure)
    add("hard violation: worst constraint" if many else "hard violation", summary.hard_violation)
    return table


def _multiplier(summary: RunSummary, i: int, constraint: ConstraintSummary) -> str:
    """Return a multiplier over the run, and its value at the optimum."""
    of = f"{constraint.quantity.name}: " if len(summary.constraints) > 1 else ""
    values = (summary.late_multiplier(i), summary.final_multiplier(i), constraint.multiplier)
    late, final, best = (short_number(constraint.price(value)["own"]) for value in values)
    unit = f" {summary.reward.unit} per {singular(constraint.quantity.unit)}".replace("  ", " ")
    return f"{of}{late} on average over the second half of the run, {final} at its end; Y* = {best}{unit}"


def _estimates(summary: RunSummary) -> str:
    """Return the learner's estimates of its final policy."""
    totals = [
        f"{number(quantity.shown(float(total)))} {quantity.unit}".rstrip()
        for quantity, total in zip(summary.run.display.quantities, summary.estimates, strict=True)
    ]
    return f"{', '.join(totals)}: the learner's optimistic estimates of its final policy"


def _constraints(solution: Solution) -> Table:
    """Return for each constraint whether it binds, its multiplier and its slack, and what all of them cost."""
    grid = _grid()
    unit = solution.reward.unit
    for constraint in solution.constraints:
        own = constraint.quantity.unit
        if constraint.binds:
            binds = f"yes: {worth(solution.reward, constraint.quantity, constraint.multiplier)} (multiplier Y*)"
        else:
            slack = f"{number(constraint.slack)} {own}".rstrip()
            binds = f"no: it costs nothing, and the optimal policy has a slack of {slack}"
        if constraint.slater_gap > 0.0:
            gap = f"{short_number(constraint.own_slater_gap)} {own}".rstrip() + ": the slack of the max-slack policy"
        else:
            gap = "0: no policy has slack; multipliers may not be unique, and bounds that divide by the gap are vacuous"
        grid.add_row("constraint", Text(constraint.sentence, style="bold"))
        grid.add_row("  binds", binds)
        grid.add_row("  Slater gap", gap)
    grid.add_row("price", f"the constraints cost {number(solution.own_price)} {unit}".rstrip() + " of the objective")
    return grid


def _heading(display: Display) -> Text:
    words = [": ", display.summary] if display.summary else []
    return Text.assemble((display.name, "bold cyan"), *words)


def _table() -> Table:
    return Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)


def _grid() -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="cyan", no_wrap=True)
    grid.add_column()
    return grid
