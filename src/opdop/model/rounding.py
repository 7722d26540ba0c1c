"""Numbers as people read them: with fixed or with significant digits."""

from __future__ import annotations

import math


def number(value: float, digits: int = 4) -> str:
    """Return a number with fixed digits, and never -0.

    >>> number(-0.00001), number(2 / 3, digits=2)
    ('0.0000', '0.67')
    """
    return f"{round(value, digits) + 0.0:.{digits}f}"


def short_number(value: float) -> str:
    """Return a number with four significant digits, in plain notation where it is readable.

    >>> short_number(0.0068712), short_number(5.0), short_number(696.132), short_number(12345.6)
    ('0.006871', '5', '696.1', '12,346')
    """
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e9 else f"{value:.4g}"


def digits_for(width: float) -> int:
    """Return the number of decimals that shows two significant digits of a width.

    >>> digits_for(0.0123), digits_for(4.2), digits_for(300.0), digits_for(0.0)
    (3, 1, 0, 4)
    """
    if not math.isfinite(width) or width == 0.0:
        return 4
    return min(max(1 - math.floor(math.log10(abs(width))), 0), 10)


def plain(value: float, digits: int) -> str:
    """Return a number with this many decimals, and never -0."""
    return f"{round(value, digits) + 0.0:,.{digits}f}"
