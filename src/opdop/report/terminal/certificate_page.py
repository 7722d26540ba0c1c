"""The page of `opdop certify`: certificates in sentences, bounds in a table, and the pairs that the data lack."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from opdop.confidence import Certificate
from opdop.model import Quantity
from opdop.model.rounding import number, short_number
from opdop.report.summary.certificate_card import rounded_count

_PAIRS = 10


def certificate_page(certificates: Mapping[str, Certificate], facts: Mapping[str, Any]) -> RenderableType:
    """Return what the data prove about policies, by their names; the last one is the one that is recommended."""
    best = list(certificates.values())[-1]
    what = f"{facts['problem']}, " if facts.get("problem") and facts["problem"] != str(facts["source"]) else ""
    head = Text.assemble((str(facts["source"]), "bold cyan"), f": {what}{facts['episodes']:,} episodes; {best.basis}")
    parts: list[RenderableType] = [head, Text(""), _bounds(certificates), Text("")]
    parts.append(Text(f"{best.lead}, for all policies at once:" if len(certificates) > 1 else f"{best.lead}:"))
    for name, certificate in certificates.items():
        words = f"{name} policy" if name in ("final", "average", "recommended") else name
        parts.append(Text.assemble((f"{words}: ", "bold"), " ".join(certificate.statements(pairs=False))))
    if not best.keeps_constraints and not best.proves_infeasible:
        parts += [Text(""), Text("The data do not suffice to certify a policy that keeps every constraint.", "yellow")]
        if best.uncertain_pairs:
            parts += [Text("They say too little about:"), _pairs(best)]
        if "expected_episodes" in facts:
            expected = facts["expected_episodes"]
            words = "more episodes like these would not certify this policy."
            if expected is not None:
                words = f"about {rounded_count(expected)} episodes like these certify this policy."
            parts += [Text(""), Text(f"An estimate: {words}")]
    return Group(*parts)


def _bounds(certificates: Mapping[str, Certificate]) -> Table:
    """Return the bounds on each quantity in own units, a row for each quantity and a column for each policy."""
    one = next(iter(certificates.values()))
    reward, *others = one.display.quantities
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("certified, per episode")
    table.add_column("wanted", no_wrap=True)
    for name in certificates:
        table.add_column(name, justify="right", overflow="fold")
    table.add_column("unit")
    for i, quantity in enumerate(others):
        at_most = quantity.scale < 0.0
        limit = f"{'<=' if at_most else '>='} {short_number(quantity.shown(float(one.thresholds[i])))}"
        cells = [_safe(quantity, float(each.utility_lower[i])) for each in certificates.values()]
        bound = "at most" if at_most else "at least"
        table.add_row(f"{quantity.name}: {bound}", limit, *cells, quantity.unit)
    falls = reward.scale < 0.0
    cells = [_safe(reward, each.reward_lower) for each in certificates.values()]
    table.add_row(
        f"{reward.name}: {'at most' if falls else 'at least'}", "least" if falls else "most", *cells, reward.unit
    )
    if all(math.isfinite(each.gap) for each in certificates.values()):
        cells = [number(_up(abs(reward.scale) * each.gap)) for each in certificates.values()]
        table.add_row("worse than the best: at most", "least", *cells, reward.unit)
    return table


def _safe(quantity: Quantity, low: float) -> str:
    """Return a lower bound on a value in own units, rounded to the safe side."""
    shown = quantity.shown(low)
    return number(_up(shown) if quantity.scale < 0.0 else -_up(-shown))


def _up(value: float) -> float:
    """Return a number rounded up to four decimals; one that has no more, but for its rounding error, keeps them."""
    return math.ceil(value * 1e4 - 1e-5) / 1e4


def _pairs(certificate: Certificate) -> Table:
    """Return the pairs that contribute most to the uncertainty."""
    states, actions = certificate.display.state_names, certificate.display.action_names
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    pooled = all(pair.stage is None for pair in certificate.uncertain_pairs)
    for head in (*(() if pooled else ("stage",)), "state", "action", "visits", "share"):
        table.add_column(head, justify="left" if head in ("state", "action") else "right")
    for pair in certificate.uncertain_pairs[:_PAIRS]:
        state = states[pair.state] if states else str(pair.state)
        action = actions[pair.action] if actions else str(pair.action)
        stage = () if pooled else ("" if pair.stage is None else str(pair.stage),)
        table.add_row(*stage, state, action, f"{pair.visits:,}", f"{pair.share:.0%}")
    return table
