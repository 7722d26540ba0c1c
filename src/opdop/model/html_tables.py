"""Small HTML tables for notebooks: nothing is loaded, and colours are those of the page, light or dark."""

from __future__ import annotations

import html
from collections.abc import Sequence

from opdop.model.display import Display
from opdop.model.validation import Floats

_CELL = "padding:.15em .8em .15em 0;text-align:left;vertical-align:top;border:0;background:none;white-space:normal"


def problem_rows(display: Display, thresholds: Floats) -> list[list[str]]:
    """Return the reward and each constraint of a problem as rows of a table, in own units."""
    reward, *others = display.quantities or Display.plain(len(thresholds)).quantities
    aim = "as little as possible" if reward.scale < 0 else "as much as possible"
    unit = f", in {reward.unit}" if reward.unit else ""
    pairs = zip(others, thresholds, strict=True)
    return [["reward", f"{reward.name}, {aim}{unit}"], *(["constraint", q.constraint(float(b))] for q, b in pairs)]


def html_table(title: str, rows: Sequence[Sequence[str]], note: str = "", *, heads: Sequence[str] = ()) -> str:
    """Return a table as HTML; every text is escaped.

    Args:
        title: above the table.
        rows: the cells of each row; the first is its header.
        note: below the table.
        heads: of the columns, if they need any.

    Returns:
        A `<div>` for a notebook.

    >>> html_table("a < b", [["reward", "1 dollar"]]).count("&lt;")
    1
    """
    head = ""
    if heads:
        cells = "".join(f'<th scope="col" style="{_CELL};opacity:.7">{html.escape(each)}</th>' for each in heads)
        head = f"<thead><tr>{cells}</tr></thead>"
    lines = []
    for first, *others in rows:
        cells = "".join(f'<td style="{_CELL}">{html.escape(each)}</td>' for each in others)
        lines.append(
            f'<tr style="background:none"><th scope="row" style="{_CELL}">{html.escape(first)}</th>{cells}</tr>'
        )
    below = f'<div style="opacity:.7;max-width:48em">{html.escape(note)}</div>' if note else ""
    return (
        f'<div style="color:inherit;font-size:90%"><div><b>{html.escape(title)}</b></div>'
        f'<table style="border-collapse:collapse;margin:.3em 0;color:inherit">{head}<tbody>{"".join(lines)}</tbody>'
        f"</table>{below}</div>"
    )
