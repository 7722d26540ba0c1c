"""Tables and paragraphs for a terminal, built from data; none is wider than it must be."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

import numpy as np
from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from opdop.algorithms import Algorithm, Task, choose, presets
from opdop.envs import Environment
from opdop.model import Display, Quantity, TabularCMDP
from opdop.report.summary.guarantee_card import card_lines
from opdop.report.summary.run_summary import Measure, RunSummary, constants_text
from opdop.report.summary.solution import (
    ConstraintSummary,
    Solution,
    better,
    discretisation_text,
    duration,
    number,
    short_number,
)
from opdop.report.summary.visit_map import VisitMap

# From WIDE on, sizes have words and summaries a column; below NARROW, sizes are left out.
WIDE, NARROW = 150, 80

PRESETS = {
    "paper": "the theorem's, with its unknown factor C1 as a parameter: a guarantee, and very slow learning",
    "certified": "the same guarantee with every constant explicit and no smaller than the proof needs",
    "practical": "the certified ones, scaled by the parameters: learns soon, constraints nothing",
}

_LETTERS = "S states, A actions, H stages, I constraints. "
_LEGEND = (
    "V*: optimal value subject to the constraints. Y*: Lagrange multiplier, the loss of V* per unit by which a "
    "constraint is tightened. Slater gap: the largest slack in all constraints at once. All in the problem's own units."
)
_MEASURES = (
    "Regret: reward lost against the optimum. Violation: how far the constraint is broken, where later slack pays for "
    "earlier violation. Hard violation: the same, never paid back."
)


def overview(solutions: Sequence[Solution], *, width: int) -> RenderableType:
    """Return the table of problems with their optima, one line for each constraint."""
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
    """Return what the overview says of one problem; `line` parts what is said of several constraints."""
    cmdp, constraints = solution.cmdp, solution.constraints
    return [
        cmdp.display.name,
        f"{cmdp.num_states:,}" if cmdp.continuous is None else "∞",
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
    """Return what a problem says of itself: its paragraph, its units, and its parameters."""
    cmdp = solution.cmdp
    parameters = _table()
    parameters.add_column("parameter", no_wrap=True, style="bold")
    parameters.add_column("default", overflow="fold", max_width=20)
    parameters.add_column("meaning, and what it may be")
    for key, parameter in entry.parameters.items():
        meaning = Text.assemble(parameter.help, "\n", (parameter.expected, "dim"))
        parameters.add_row(key, setting_text(parameter.default), meaning)
    facts = _grid()
    facts.add_row("size", sizes(cmdp))
    for label, words in units(solution):
        facts.add_row(label, words)
    facts.add_row("source", source(entry))
    facts.add_row("try", example(entry))
    return Group(_heading(cmdp.display), Text(""), Text(entry.description), Text(""), facts, Text(""), parameters)


def solution_page(solution: Solution, *, width: int) -> RenderableType:
    """Return the optimum of a problem: its values, its constraints, what they cost, and where its policy goes."""
    cmdp, optimum = solution.cmdp, solution.optimum
    gap = Text("")
    parts: list[RenderableType] = [_heading(cmdp.display), gap, _values(solution), gap, _constraints(solution), gap]
    if cmdp.display.geometry is not None:
        visits = VisitMap.of(cmdp, optimum.policy)
        drawn = visits.text(width - 2)
        if drawn is None:
            parts += [Text("The map is wider than this terminal: --figure FILE.svg draws it."), Text("")]
        else:
            words = "Where the optimal policy goes; numbers: expected stages in each cell."
            parts += [Text(words), Padding(drawn, (0, 0, 0, 2)), Text(visits.legend, style="dim"), Text("")]
    facts = _grid()
    facts.add_row("solved by", f"{optimum.method}, {optimum.passes} backward passes, {duration(solution.seconds)}")
    duals = ", ".join(f"{dual:.6g}" for dual in optimum.dual)
    words = f"value {optimum.value:.6g}, dual {duals}, Slater gap {optimum.slater_gap:.6g} (signals in [0, 1])"
    facts.add_row("model units", words)
    facts.add_row("size", sizes(cmdp))
    if solution.refinement is not None:
        facts.add_row("discretised", discretisation_text(solution.refinement.record(), solution.reward))
    facts.add_row("parameters", settings(cmdp.display) or "none")
    return Group(*parts, facts)


def run_page(summary: RunSummary) -> RenderableType:
    """Return what a run has learnt: its policies beside the optimum, what learning cost, and all its constants."""
    run, config = summary.run, summary.run.config
    H, S, A = summary.shape
    facts = _grid()
    for i, constraint in enumerate(summary.constraints):
        facts.add_row("multiplier" if i == 0 else "", _multiplier(summary, i, constraint))
    facts.add_row("believes", _beliefs(summary))
    facts.add_row("algorithm", summary.method)
    facts.add_row("constants", constants_text(run.constants))
    for label, words in card_lines(summary):
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
    legend = Text(_MEASURES, style="dim")
    parts = (_heading(run.display), gap, _policies(summary), gap, _costs(summary), legend, gap)
    return Group(*parts, Text(summary.verdict, style="bold"), *notes, gap, facts)


def algorithms_page(known: Sequence[Algorithm]) -> RenderableType:
    """Return the algorithms, and the presets with their parameters."""
    names = _grid()
    for algorithm in known:
        names.add_row(algorithm.name, algorithm.summary)
    table = _table()
    table.add_column("preset", no_wrap=True, style="bold")
    table.add_column("what its constants are")
    table.add_column("parameters", no_wrap=True)
    for name, parameters in preset_parameters().items():
        lines = "\n".join(f"{parameter}={setting_text(value)}" for parameter, value in parameters.items())
        table.add_row(name, PRESETS.get(name, ""), lines or "none")
    try_it = Text(
        "A parameter is set with --param NAME=VALUE. Every run prints and stores all its constants.", style="dim"
    )
    return Group(names, Text(""), table, Text(""), try_it)


def preset_parameters() -> dict[str, dict[str, float]]:
    """Return the parameters of every preset with their defaults."""
    task = Task(1, 1, 2, np.ones(1), np.ones(1), episodes=1, slater_gap=1.0)  # parameters do not depend on it
    return {name: dict(choose(task, name).parameters) for name in presets()}


def sizes(cmdp: TabularCMDP) -> str:
    """Return the sizes of a model in words."""
    words = sizes_text(cmdp.num_states, cmdp.num_actions, cmdp.horizon, cmdp.num_constraints)
    if cmdp.continuous is None:
        return words
    nodes, cells = cmdp.continuous.features.nodes, cmdp.continuous.cells
    rest = words.split(", ", 1)[1]
    axes = "" if nodes.dim == 1 else f" along each of {nodes.dim} axes"
    return f"continuous states, {rest}; {len(nodes)} {nodes.name} nodes, measured on {cells} cells{axes}"


def sizes_text(*counts: int) -> str:
    """Return S, A, H and I in words."""
    named = zip(counts, ("state", "action", "stage", "constraint"), strict=True)
    return ", ".join(f"{count:,} {word}{'' if count == 1 else 's'}" for count, word in named)


def settings(display: Display) -> str:
    """Return the parameters that a problem was built from."""
    return ", ".join(f"{key}={setting_text(value)}" for key, value in display.parameters.items())


def setting_text(value: object) -> str:
    """Return a parameter's value as --set takes it.

    >>> setting_text((0.3, 0.7)), setting_text(None), setting_text(66.5), setting_text(True)
    ('0.3,0.7', 'none', '66.5', 'true')
    """
    if isinstance(value, tuple | list):
        return ",".join(setting_text(entry) for entry in value)
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def example(entry: Environment) -> str:
    """Return a command that solves a problem with a parameter set."""
    key, parameter = next(iter(entry.parameters.items()), (None, None))
    setting = f" --set {key}={setting_text(parameter.default)}" if parameter else ""
    return f"opdop solve {entry.name}{setting}"


def units(solution: Solution) -> list[tuple[str, str]]:
    """Return what a problem optimises and constraints, each with its unit."""
    reward = solution.reward
    aim = "as little as possible" if better(reward) == "less" else "as much as possible"
    wanted = [("aim", f"{reward.name}, {aim}" + (f", in {reward.unit}" if reward.unit else ""))]
    return wanted + [("constraint", constraint.sentence) for constraint in solution.constraints]


def source(entry: Environment) -> str:
    """Return where a problem comes from: the sentence that opens its module."""
    return (sys.modules[entry.build.__module__].__doc__ or "").strip().partition("\n")[0]


def _policies(summary: RunSummary) -> Table:
    """Return what the summary policies attain, beside the optimum."""
    optimum, average, last = summary.optimum, summary.run.average, summary.final_values
    table = _table()
    table.add_column("per episode,\non average")
    table.add_column("\nwanted", no_wrap=True)
    for words in ("\noptimum", "average\npolicy", "final\npolicy", "\nno constraint"):
        table.add_column(words, justify="right", no_wrap=True, style="bold" if "average" in words else "")
    table.add_column("\nunit")
    best = (optimum.value, average.reward, last.reward, optimum.unconstrained.reward)
    table.add_row(summary.reward.name, _aim(summary.reward), *_shown(summary.reward, best), summary.reward.unit)
    for i, constraint in enumerate(summary.constraints):
        totals = (constraint.attained, average.utilities[i], last.utilities[i], constraint.unconstrained)
        table.add_row(
            constraint.quantity.name,
            _wanted(constraint),
            *_shown(constraint.quantity, totals),
            constraint.quantity.unit,
        )
    return table


def _costs(summary: RunSummary) -> Table:
    """Return what learning cost: regret and violations, for each episode and in all."""
    table = _table()
    table.add_column("measured over all episodes")
    table.add_column("per episode", justify="right", no_wrap=True)
    table.add_column("in total", justify="right", no_wrap=True)
    table.add_column("unit")

    def add(words: str, measure: Measure) -> None:
        total = short_number(measure.shown(measure.total))
        unit = "model units" if measure.scale is None else measure.unit
        table.add_row(words, number(measure.shown(measure.per_episode)), total, unit)

    many = len(summary.constraints) > 1
    add("regret", summary.regret)
    for measure in summary.violations:
        add(f"violation: {measure.name}" if many else "violation", measure)
    add("hard violation: constraint broken most" if many else "hard violation", summary.hard_violation)
    return table


def _multiplier(summary: RunSummary, i: int, constraint: ConstraintSummary) -> str:
    """Return where a multiplier is, and where it should be."""
    of = f"{constraint.quantity.name}: " if len(summary.constraints) > 1 else ""
    end, usual, best = map(
        short_number, (summary.multipliers[i], summary.usual_multipliers[i], constraint.own_multiplier)
    )
    unit = f"{summary.reward.unit} " if summary.reward.unit else ""
    return (
        f"{of}{usual} on average over the second half, {end} at the end, Y* {best} ({unit}per unit by which the "
        f"constraint is tightened)"
    )


def _beliefs(summary: RunSummary) -> str:
    """Return what the learner thinks of its last policy."""
    names = ["estimated_reward", *(f"estimated_utility_{i}" for i in range(len(summary.constraints)))]
    totals = [
        f"{number(quantity.shown(summary.at_end(name)))} {quantity.unit}".rstrip()
        for name, quantity in zip(names, summary.run.display.quantities, strict=True)
    ]
    return f"{', '.join(totals)}: the learner's own estimates of its last policy"


def _shown(quantity: Quantity, totals: Iterable[float]) -> list[str]:
    return [number(quantity.shown(float(total))) for total in totals]


def _aim(reward: Quantity) -> str:
    return "least" if better(reward) == "less" else "most"


def _wanted(constraint: ConstraintSummary) -> str:
    sign = "<=" if better(constraint.quantity) == "less" else ">="
    return f"{sign} {constraint.quantity.shown(constraint.threshold):g}"


def _values(solution: Solution) -> Table:
    """Return the totals of three policies side by side."""
    optimum, reward = solution.optimum, solution.reward
    table = _table()
    table.add_column("per episode, on average")
    table.add_column("wanted", no_wrap=True)
    for words in ("optimum", "no constraint", "safest"):
        table.add_column(words, justify="right", no_wrap=True)
    table.add_column("unit")

    def add(quantity: Quantity, wanted: str, totals: Sequence[float], style: str = "") -> None:
        table.add_row(quantity.name, wanted, *_shown(quantity, totals), quantity.unit, style=style)

    totals = (optimum.value, optimum.unconstrained.reward, optimum.slater.reward)
    add(reward, _aim(reward), totals, style="bold")
    for constraint in solution.constraints:
        add(
            constraint.quantity,
            _wanted(constraint),
            (constraint.attained, constraint.unconstrained, constraint.max_slack),
        )
    return table


def _constraints(solution: Solution) -> Table:
    grid = _grid()
    unit = solution.reward.unit
    many = len(solution.constraints) > 1
    for constraint in solution.constraints:
        grid.add_row("constraint", Text(constraint.sentence, style="bold"))
        grid.add_row("  binds", binding(constraint, unit))
        grid.add_row("  Slater gap", slack(constraint, many=many))
    together = "all constraints together cost" if many else "keeping the constraint costs"
    grid.add_row("price", f"{together} {number(solution.own_price)} {unit}".rstrip())
    return grid


def binding(constraint: ConstraintSummary, unit: str) -> str:
    """Return whether a constraint binds, and what it costs at the margin."""
    if not constraint.binds:
        spare = f"{number(constraint.spare)} {constraint.quantity.unit}".rstrip()
        return f"no: it costs nothing, and the optimum has {spare} to spare"
    return f"yes: making it stricter costs {short_number(constraint.own_multiplier)} {unit}".rstrip() + " per unit"


def slack(constraint: ConstraintSummary, *, many: bool) -> str:
    """Return the Slater gap of a constraint in words."""
    if constraint.slater_gap == 0.0:
        subject = "all constraints at once" if many else "the constraint"
        return (
            f"0: no policy keeps {subject} with anything to spare; multipliers may not be unique, and guarantees "
            f"that divide by the gap say nothing"
        )
    gap = f"{short_number(constraint.own_slater_gap)} {constraint.quantity.unit}".rstrip()
    return f"{gap}: some policy keeps {'every constraint' if many else 'the constraint'} with this much to spare"


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
