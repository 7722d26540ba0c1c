"""The goal of a run that ends early: how near to the best its recommended policy has to be certified."""

from __future__ import annotations

import math
import re
from typing import Any

from opdop.model import InvalidParameterError, Quantity
from opdop.model.validation import is_number, shown

_FORM = re.compile(r"\s*([0-9.]+(?:[eE][-+]?[0-9]+)?)\s*(.*?)\s*")
_EXPECTED = "a share of the reward range, such as 0.05 or 5%, or a number with the reward's unit, such as '0.2 steps'"


def check_until(name: str, value: Any) -> str | None:
    """Return a goal for the certified gap in its usual form: a number, and a unit after a blank if it has one.

    >>> check_until("until", 0.05), check_until("until", "0.2steps"), check_until("until", "5 %")
    ('0.05', '0.2 steps', '5.0 %')
    """
    if value is None:
        return None
    found = _FORM.fullmatch(repr(float(value)) if is_number(value) else str(value))
    try:
        size = float(found[1]) if found else 0.0
    except ValueError:
        size = 0.0
    if found is None or not 0.0 < size < math.inf or not found[2].isprintable() or isinstance(value, bool):
        raise InvalidParameterError(f"{name} is {shown(value)}; expected {_EXPECTED}.")
    return f"{size!r} {found[2]}".rstrip()


def goal_of(until: str | None, horizon: int, reward: Quantity) -> float:
    """Return the certified gap, in model units, at which a run with this goal ends; 0 if it has none.

    Raises InvalidParameterError if the goal has another unit than the reward, or is no share.
    """
    if until is None:
        return 0.0
    text, _, unit = until.partition(" ")
    size = float(text)
    if unit in ("", "%"):
        share = size / 100.0 if unit else size
        if share < 1.0:
            return share * horizon
    elif unit in {reward.unit, reward.unit.removesuffix("s")} and reward.scale:
        return size / abs(reward.scale)
    rest = f" The unit of {reward.name} is {reward.unit}." if reward.unit else f" {reward.name} has no unit."
    raise InvalidParameterError(f"until is {shown(until)}; expected {_EXPECTED}.{rest}")
