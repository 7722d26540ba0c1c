"""Formulas in plain text, such as <rho, V>, pi* and S*A, for Markdown: which takes them for tags and emphasis."""

from __future__ import annotations

import re

_CODE_SPAN = re.compile(r"(`[^`]*`)")
_ANGLE = re.compile(r"<(?=[A-Za-z])(?!(?:img|br|a)\b)")
_STAR = re.compile(r"(?<![\w*])((?:\w+_)?(?:pi|D|Q|V|Y)(?:_\w+)?)\*(?![\w*])")  # an optimal policy, value or multiplier
_TIMES = re.compile(r"(?<=[\w)\]])\*(?=\w)")  # a product, or an index of something optimal: S*A, V*_b


def formulas_as_text(line: str) -> str:
    r"""Return a line of text with angle brackets and stars of formulas escaped, outside code spans.

    >>> formulas_as_text("D(Y*) = V(pi*), row (h*A + a)*S, in *all* `S*A` rows <rho, V*_b>")
    'D(Y\\*) = V(pi\\*), row (h\\*A + a)\\*S, in *all* `S*A` rows &lt;rho, V\\*\\_b>'
    """
    parts = _CODE_SPAN.split(line)
    parts[::2] = [_escaped(part) for part in parts[::2]]
    return "".join(parts)


def _escaped(text: str) -> str:
    starred = _TIMES.sub(r"\*", _STAR.sub(r"\1\*", _ANGLE.sub("&lt;", text)))
    return starred.replace("*_", r"*\_")  # an index after a star would begin an emphasis
