"""The guarantee of a run in words and as data: its bounds, their assumptions, and what was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opdop.model.rounding import short_number

if TYPE_CHECKING:
    from opdop.report.summary.run_summary import Measure, RunSummary

_MET = {True: "satisfied", False: "NOT SATISFIED", None: "not checked"}


def card_lines(summary: RunSummary) -> list[tuple[str, str]]:
    """Return the guarantee as lines of a label and a text; a label is empty where it repeats."""
    card = summary.guarantee
    if card.probability is None:
        constants = summary.run.constants
        # Nothing is verified for continuous states, for steps that are not constant, nor for other algorithms.
        others = "nodes" in constants or "planner" in constants or "source" in constants
        verified = not others and constants.get("preset") in ("paper", "scaled")
        rest = f" `opdop verify --preset {constants['preset']}` checks what holds nevertheless." if verified else ""
        return [("guarantee", f"none: {card.why}.{rest}")]
    bounds = bounded(summary)
    texts = [f"{name} <= {_in_unit(measure, bound)}" for name, (measure, bound) in bounds.items()]
    rest = "" if card.constraints else "; the violation has no bound"
    lines = [
        ("guarantee", f"with probability at least {card.probability:.4g}, {' and '.join(texts)} in total{rest}"),
        ("", _vacuity(summary)),
        *_margin(summary),
        *(("", f"assumption, {_MET[each.met]}: {each.words}") for each in card.assumptions),
    ]
    shares = ", ".join(_share(name, _ratio(measure.total, bound)) for name, (measure, bound) in bounds.items())
    return [*lines, ("measured", shares + ("" if summary.exact else " (estimated: not every episode was measured)"))]


def bounded(summary: RunSummary) -> dict[str, tuple[Measure, float]]:
    """Return the measured totals that have a bound, each with its bound in model units; none without a guarantee."""
    card = summary.guarantee
    if card.probability is None:
        return {}
    regret = {"regret": (summary.regret, card.regret())}
    return {**regret, "violation": (summary.violation, card.violation())} if card.constraints else regret


def is_within_bounds(summary: RunSummary) -> bool:
    """Return whether every measured total that has a bound is within it."""
    return all(measure.total <= bound for measure, bound in bounded(summary).values())


def card_record(summary: RunSummary) -> dict[str, Any]:
    """Return the guarantee as plain data; docs/command-line.md explains every key."""
    card, bounds = summary.guarantee, bounded(summary)
    records: dict[str, Any] = {"regret": None, "violation": None}
    for name, (measure, bound) in bounds.items():
        records[name] = {
            "bound": measure.pair(bound),
            "terms": [{"name": term, "model": value} for term, value in card.terms(name).items()],
            "trivial": card.trivial,
            "useful_from": card.useful_from(name),
            "measured_over_bound": _ratio(measure.total, bound),
            "within_bound": measure.total <= bound,
        }
    return {
        "preset": card.preset,
        "certified": card.probability is not None,
        "probability": card.probability,
        "why_not": card.why or None,
        "margin": card.margin,
        "zero_violation": card.zero_violation,
        **records,
        "assumptions": [{"words": each.words, "met": each.met} for each in card.assumptions],
    }


def _in_unit(measure: Measure, value: float) -> str:
    return f"{short_number(measure.shown(value))} {measure.unit}".rstrip()


def _ratio(total: float, bound: float) -> float | None:
    """Return the measured total over its bound; None for a positive total where the bound is 0."""
    if bound > 0.0:
        return total / bound
    return 0.0 if total <= 0.0 else None


def _margin(summary: RunSummary) -> list[tuple[str, str]]:
    """Return what a margin does, if there is one."""
    card = summary.guarantee
    if not card.margin or not card.constraints:
        return []
    regret, violation = summary.regret, summary.violation
    raised = f"the multipliers aim at {_in_unit(violation, card.margin)} per episode more than every threshold"
    cost = f"this is {_in_unit(regret, card.terms('regret')['margin'])} of the bound on the regret"
    zero = "; over all episodes together no constraint is violated" if card.zero_violation else ""
    return [("", f"margin: {raised}; {cost}{zero}")]


def _share(name: str, share: float | None) -> str:
    if share is None:
        return f"{name} ABOVE its bound of 0"
    if share > 1.0:
        return f"{name} ABOVE its bound, {short_number(share)} times"
    return f"{name} {max(share, 0.0):.2%} of its bound"


def _vacuity(summary: RunSummary) -> str:
    """Return which bounds are vacuous, that is not below K H, and from which K on they are not."""
    card = summary.guarantee
    parts = []
    for name, (_, bound) in bounded(summary).items():
        begins = card.useful_from(name)
        first = "beyond 1e60" if begins is None else f"{begins:,}"
        vacuous = "not vacuous: it" if bound < card.trivial else "vacuous: it"
        parts.append(f"the bound on the {name} is {vacuous} is below the trivial K H from K = {first} on")
    return "; ".join(parts)
