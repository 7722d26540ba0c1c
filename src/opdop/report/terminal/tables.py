"""Tables and paragraphs for a terminal, built from data; none is wider than it must be."""

from __future__ import annotations

import math
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
from opdop.model import Display, Problem, Quantity
from opdop.report.summary.guarantee_card import card_lines
from opdop.report.summary.run_summary import Learnt, Measure, constants_text
from opdop.report.summary.solution import Answer, Promise, better, discretisation_text, duration, number, short_number
from opdop.report.summary.visit_map import VisitMap

# From WIDE on, sizes have words and summaries a column; below NARROW, sizes are left out.
WIDE, NARROW = 150, 80

PRESETS = {
    "paper": "the theorem's, with its unknown factor C1 as a parameter: a guarantee, and very slow learning",
    "certified": "the same guarantee with every constant explicit and no smaller than the proof needs",
    "practical": "the certified ones, scaled by the parameters: learns soon, promises nothing",
}

_LETTERS = "S states, A actions, H stages, I promises (constraints). "
_LEGEND = (
    "V*: the best value that keeps every promise. Y*: the multiplier, what making a promise stricter costs per unit, "
    "in units of V*. Slater gap: how much of the promise some policy has to spare. All in the problem's own units."
)
_MEASURES = (
    "Regret: reward lost against the optimum. Violation: how far the promise is broken, where later slack pays for "
    "earlier violation. Hard violation: the same, never paid back."
)


def overview(answers: Sequence[Answer], *, width: int) -> RenderableType:
    """Return the table of problems with their optima, one line for each promise."""
    wide, sized = width >= WIDE, width >= NARROW
    table = _table()
    table.add_column("problem", no_wrap=True, style="bold")
    if sized:
        for letter, word in zip("SAHI", ("states", "actions", "stages", "promises"), strict=True):
            table.add_column(word if wide else letter, justify="right", no_wrap=True)
    table.add_column("V*", justify="right", no_wrap=True)
    table.add_column("", overflow="fold")  # its unit
    table.add_column("Y*", justify="right", no_wrap=True)
    table.add_column("Slater gap" if wide else "Slater\ngap", justify="right", no_wrap=True)
    table.add_column("binds", no_wrap=True)
    if wide:
        table.add_column("summary", ratio=1)
    for answer in answers:
        name, *cells = overview_cells(answer)
        table.add_row(name, *cells[0 if sized else 4 :], *([answer.cmdp.display.summary] if wide else []))
    if wide:
        return Group(table, Text(""), Text(_LEGEND, style="dim"))
    summaries = _grid()
    for answer in answers:
        summaries.add_row(answer.cmdp.display.name, answer.cmdp.display.summary)
    legend = (_LETTERS if sized else "") + _LEGEND
    return Group(table, Text(""), summaries, Text(""), Text(legend, style="dim"))


def overview_cells(answer: Answer, line: str = "\n") -> list[str]:
    """Return what the overview says of one problem; `line` parts what is said of several promises."""
    cmdp, promises = answer.cmdp, answer.promises
    return [
        cmdp.display.name,
        "∞" if answer.problem.num_states == math.inf else f"{cmdp.num_states:,}",
        f"{cmdp.num_actions:,}",
        f"{cmdp.horizon:,}",
        f"{cmdp.num_constraints}",
        number(answer.reward.shown(answer.optimum.value)),
        answer.reward.unit,
        line.join(short_number(promise.own_multiplier) for promise in promises),
        line.join(short_number(promise.own_slater_gap) for promise in promises),
        line.join("yes" if promise.binds else "no" for promise in promises),
    ]


def markdown_overview(answers: Iterable[Answer]) -> str:
    """Return the overview as a Markdown table."""
    lines = [
        "| problem | states | actions | stages | V* | Y* | Slater gap | binds |",
        "|---|--:|--:|--:|--:|--:|--:|---|",
    ]
    for answer in answers:
        name, states, actions, stages, _, value, unit, *rest = overview_cells(answer, "<br>")
        cells = [f"`{name}`", states, actions, stages, f"{value} {unit}".strip(), *rest]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def problem_page(entry: Environment, answer: Answer) -> RenderableType:
    """Return what a problem says of itself: its paragraph, its units, and its parameters."""
    cmdp = answer.cmdp
    parameters = _table()
    parameters.add_column("parameter", no_wrap=True, style="bold")
    parameters.add_column("default", overflow="fold", max_width=20)
    parameters.add_column("meaning, and what it may be")
    for key, parameter in entry.parameters.items():
        meaning = Text.assemble(parameter.help, "\n", (parameter.expected, "dim"))
        parameters.add_row(key, setting_text(parameter.default), meaning)
    facts = _grid()
    facts.add_row("size", sizes(answer.problem))
    for label, words in units(answer):
        facts.add_row(label, words)
    facts.add_row("source", source(entry))
    facts.add_row("try", example(entry))
    return Group(_heading(cmdp.display), Text(""), Text(entry.description), Text(""), facts, Text(""), parameters)


def answer_page(answer: Answer, *, width: int) -> RenderableType:
    """Return the optimum of a problem: its values, its promises, what they cost, and where its policy goes."""
    cmdp, optimum = answer.cmdp, answer.optimum
    gap = Text("")
    parts: list[RenderableType] = [_heading(cmdp.display), gap, _values(answer), gap, _promises(answer), gap]
    if cmdp.display.geometry is not None:
        visits = VisitMap.of(cmdp, optimum.policy)
        drawn = visits.text(width - 2)
        if drawn is None:
            parts += [Text("The map is wider than this terminal: --figure FILE.svg draws it."), Text("")]
        else:
            words = "Where the optimal policy goes; numbers: expected stages in each cell."
            parts += [Text(words), Padding(drawn, (0, 0, 0, 2)), Text(visits.legend, style="dim"), Text("")]
    facts = _grid()
    facts.add_row("solved by", f"{optimum.method}, {optimum.passes} backward passes, {duration(answer.seconds)}")
    duals = ", ".join(f"{dual:.6g}" for dual in optimum.dual)
    words = f"value {optimum.value:.6g}, dual {duals}, Slater gap {optimum.slater_gap:.6g} (signals in [0, 1])"
    facts.add_row("model units", words)
    facts.add_row("size", sizes(answer.problem))
    if answer.refinement is not None:
        facts.add_row("discretised", discretisation_text(answer.refinement.record(), answer.reward))
    facts.add_row("parameters", settings(cmdp.display) or "none")
    return Group(*parts, facts)


def run_page(learnt: Learnt) -> RenderableType:
    """Return what a run has learnt: its policies beside the optimum, what learning cost, and all its constants."""
    run, config = learnt.run, learnt.run.config
    H, S, A = learnt.shape
    facts = _grid()
    for i, promise in enumerate(learnt.promises):
        facts.add_row("multiplier" if i == 0 else "", _multiplier(learnt, i, promise))
    facts.add_row("believes", _beliefs(learnt))
    facts.add_row("algorithm", learnt.method)
    facts.add_row("constants", constants_text(run.constants))
    for label, words in card_lines(learnt):
        facts.add_row(label, words)
    pace = f"{learnt.episodes:,} in {duration(run.seconds)}, {learnt.episodes_per_second:,.0f} per second"
    facts.add_row("episodes", f"{pace}; seed {config.seed}" + (", noisy signals" if config.noisy else ""))
    words = sizes_text(S, A, H, len(learnt.promises))
    if "discretisation" in run.origin:
        words = words.replace(" state", " carried state", 1)
    facts.add_row("size", words)
    if "discretisation" in run.origin:
        facts.add_row("discretised", discretisation_text(run.origin["discretisation"], learnt.reward))
    facts.add_row("parameters", settings(run.display) or "none")
    notes = [Text(note, style="yellow") for note in learnt.notes]
    gap = Text("")
    legend = Text(_MEASURES, style="dim")
    parts = (_heading(run.display), gap, _policies(learnt), gap, _costs(learnt), legend, gap)
    return Group(*parts, Text(learnt.verdict, style="bold"), *notes, gap, facts)


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


def sizes(problem: Problem) -> str:
    """Return the sizes of a problem in words."""
    cmdp = problem.tabular()
    words = sizes_text(problem.num_states, cmdp.num_actions, cmdp.horizon, cmdp.num_constraints)
    return f"{words}; {problem.discretisation}" if problem.discretisation else words


def sizes_text(*counts: float) -> str:
    """Return S, A, H and I in words; infinitely many states are called continuous."""
    named = zip(counts, ("state", "action", "stage", "promise"), strict=True)
    return ", ".join(
        f"{'continuous' if count == math.inf else f'{count:,}'} {word}{'' if count == 1 else 's'}"
        for count, word in named
    )


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


def units(answer: Answer) -> list[tuple[str, str]]:
    """Return what a problem optimises and promises, each with its unit."""
    reward = answer.reward
    aim = "as little as possible" if better(reward) == "less" else "as much as possible"
    wanted = [("aim", f"{reward.name}, {aim}" + (f", in {reward.unit}" if reward.unit else ""))]
    return wanted + [("promise", promise.sentence) for promise in answer.promises]


def source(entry: Environment) -> str:
    """Return where a problem comes from: the sentence that opens its module."""
    return (sys.modules[entry.build.__module__].__doc__ or "").strip().partition("\n")[0]


def _policies(learnt: Learnt) -> Table:
    """Return what the learnt policies attain, beside the optimum."""
    optimum, average, last = learnt.optimum, learnt.run.average, learnt.last
    table = _table()
    table.add_column("per episode,\non average")
    table.add_column("\nwanted", no_wrap=True)
    for words in ("\noptimum", "learnt:\naverage", "learnt:\nlast", "\nno promise"):
        table.add_column(words, justify="right", no_wrap=True, style="bold" if "average" in words else "")
    table.add_column("\nunit")
    best = (optimum.value, average.reward, last.reward, optimum.unconstrained.reward)
    table.add_row(learnt.reward.name, _aim(learnt.reward), *_shown(learnt.reward, best), learnt.reward.unit)
    for i, promise in enumerate(learnt.promises):
        totals = (promise.attained, average.utilities[i], last.utilities[i], promise.unconstrained)
        table.add_row(promise.quantity.name, _wanted(promise), *_shown(promise.quantity, totals), promise.quantity.unit)
    return table


def _costs(learnt: Learnt) -> Table:
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

    many = len(learnt.promises) > 1
    add("regret", learnt.regret)
    for measure in learnt.violations:
        add(f"violation: {measure.name}" if many else "violation", measure)
    add("hard violation: promise broken most" if many else "hard violation", learnt.hard_violation)
    return table


def _multiplier(learnt: Learnt, i: int, promise: Promise) -> str:
    """Return where a multiplier is, and where it should be."""
    of = f"{promise.quantity.name}: " if len(learnt.promises) > 1 else ""
    end, usual, best = map(short_number, (learnt.multipliers[i], learnt.usual_multipliers[i], promise.own_multiplier))
    unit = f"{learnt.reward.unit} " if learnt.reward.unit else ""
    return (
        f"{of}{usual} on average over the second half, {end} at the end, Y* {best} (what making the promise stricter "
        f"costs, {unit}per unit)"
    )


def _beliefs(learnt: Learnt) -> str:
    """Return what the learner thinks of its last policy."""
    names = ["estimated_reward", *(f"estimated_utility_{i}" for i in range(len(learnt.promises)))]
    totals = [
        f"{number(quantity.shown(learnt.final(name)))} {quantity.unit}".rstrip()
        for name, quantity in zip(names, learnt.run.display.quantities, strict=True)
    ]
    return f"{', '.join(totals)}: the learner's own estimates of its last policy"


def _shown(quantity: Quantity, totals: Iterable[float]) -> list[str]:
    return [number(quantity.shown(float(total))) for total in totals]


def _aim(reward: Quantity) -> str:
    return "least" if better(reward) == "less" else "most"


def _wanted(promise: Promise) -> str:
    sign = "<=" if better(promise.quantity) == "less" else ">="
    return f"{sign} {promise.quantity.shown(promise.threshold):g}"


def _values(answer: Answer) -> Table:
    """Return the totals of three policies side by side."""
    optimum, reward = answer.optimum, answer.reward
    table = _table()
    table.add_column("per episode, on average")
    table.add_column("wanted", no_wrap=True)
    for words in ("optimum", "no promise", "safest"):
        table.add_column(words, justify="right", no_wrap=True)
    table.add_column("unit")

    def add(quantity: Quantity, wanted: str, totals: Sequence[float], style: str = "") -> None:
        table.add_row(quantity.name, wanted, *_shown(quantity, totals), quantity.unit, style=style)

    totals = (optimum.value, optimum.unconstrained.reward, optimum.slater.reward)
    add(reward, _aim(reward), totals, style="bold")
    for promise in answer.promises:
        add(promise.quantity, _wanted(promise), (promise.attained, promise.unconstrained, promise.safest))
    return table


def _promises(answer: Answer) -> Table:
    grid = _grid()
    unit = answer.reward.unit
    many = len(answer.promises) > 1
    for promise in answer.promises:
        grid.add_row("promise", Text(promise.sentence, style="bold"))
        grid.add_row("  binds", binding(promise, unit))
        grid.add_row("  Slater gap", slack(promise, many=many))
    together = "all promises together cost" if many else "keeping the promise costs"
    grid.add_row("price", f"{together} {number(answer.own_price)} {unit}".rstrip())
    return grid


def binding(promise: Promise, unit: str) -> str:
    """Return whether a promise binds, and what it costs at the margin."""
    if not promise.binds:
        spare = f"{number(promise.spare)} {promise.quantity.unit}".rstrip()
        return f"no: it costs nothing, and the optimum has {spare} to spare"
    return f"yes: making it stricter costs {short_number(promise.own_multiplier)} {unit}".rstrip() + " per unit"


def slack(promise: Promise, *, many: bool) -> str:
    """Return the Slater gap of a promise in words."""
    if promise.slater_gap == 0.0:
        subject = "all promises at once" if many else "the promise"
        return (
            f"0: no policy keeps {subject} with anything to spare; multipliers may not be unique, and guarantees "
            f"that divide by the gap say nothing"
        )
    gap = f"{short_number(promise.own_slater_gap)} {promise.quantity.unit}".rstrip()
    return f"{gap}: some policy keeps {'every promise' if many else 'the promise'} with this much to spare"


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
