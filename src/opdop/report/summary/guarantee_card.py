"""The guarantee card of a run in words and as data: what was promised, on which assumptions, and what was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opdop.report.summary.solution import short_number
from opdop.theory import Guarantee

if TYPE_CHECKING:
    from opdop.report.summary.run_summary import Measure, RunSummary

_MET = {True: "true here", False: "NOT TRUE here", None: "taken on trust"}


def card_lines(summary: RunSummary) -> list[tuple[str, str]]:
    """Return the card as labelled lines."""
    card = summary.guarantee
    if not card.promised:
        finite = "nodes" not in summary.run.constants  # of continuous states nothing is verified
        rest = " What holds all the same, `opdop verify` shows." if finite else ""
        return [("guarantee", f"none: {card.why}.{rest}")]
    promised = [_bound("regret", card.regret(), summary.regret)]
    shares = [_share("regret", summary.regret, card.regret())]
    if card.constraints:
        promised.append(_bound("violation", card.violation(), summary.violation))
        shares.append(_share("violation", summary.violation, card.violation()))
    rest = "" if card.constraints else "; nothing is promised about the constraints' violation"
    words = f"with probability {card.probability:.4g} at least, {' and '.join(promised)} in all{rest}"
    lines = [("guarantee", words), ("", _reach(card, summary.shape[0]))]
    lines += [
        ("assumes" if i == 0 else "", f"{each.words} ({_MET[each.met]})") for i, each in enumerate(card.assumptions)
    ]
    lines.append(("measured", ", ".join(shares) + ("" if summary.exact else " (estimates: not every episode was)")))
    return lines


def is_within_bounds(summary: RunSummary) -> bool:
    """Whether a run's regret and violation are within the bounds that it was promised."""
    card = summary.guarantee
    kept = summary.regret.total <= card.regret()
    return kept and (not card.constraints or summary.violation.total <= card.violation())


def card_record(summary: RunSummary) -> dict[str, Any]:
    """Return the card as plain data."""
    card = summary.guarantee
    regret = _record("regret", card, summary.regret) if card.promised else None
    violation = _record("violation", card, summary.violation) if card.promised and card.constraints else None
    return {
        "preset": card.preset,
        "guaranteed": card.promised,
        "probability": card.probability,
        "why_not": card.why or None,
        "regret": regret,
        "violation": violation,
        "assumptions": [{"words": each.words, "met": each.met} for each in card.assumptions],
    }


def _record(name: str, card: Guarantee, measured: Measure) -> dict[str, Any]:
    bound = card.regret() if name == "regret" else card.violation()
    return {
        "bound": {"model": bound, "own": None if measured.scale is None else bound * measured.scale},
        "terms": [{"name": term, "model": value} for term, value in card.terms(name).items()],
        "trivial": card.trivial,
        "useful_from": card.useful_from(name),
        "measured_over_bound": measured.total / bound,
        "within_bound": measured.total <= bound,
    }


def _bound(name: str, bound: float, measured: Measure) -> str:
    unit = "model units" if measured.scale is None else measured.unit
    return f"{name} <= {short_number(measured.shown(bound))} {unit}".rstrip()


def _share(name: str, measured: Measure, bound: float) -> str:
    if measured.total > bound:
        return f"{name} ABOVE its bound, {short_number(measured.total / bound)} times"
    return f"{name} {max(measured.total / bound, 0.0):.2%} of its bound"


def _reach(card: Guarantee, horizon: int) -> str:
    """Return whether the bounds say anything yet, and from when on they do."""
    begins = {"regret": card.useful_from("regret")}
    if card.constraints:
        begins["violation"] = card.useful_from("violation")
    words = " and ".join(
        f"for the {name} from K = {'beyond 1e60' if k is None else f'{k:,}'}" for name, k in begins.items()
    )
    total = card.regret()
    now = "below" if total < card.trivial else "above"
    return f"now the regret's bound is {now} K H, which needs no proof; bounds are below it {words} on (H = {horizon})"
