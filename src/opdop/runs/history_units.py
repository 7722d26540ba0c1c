"""The history of a run in the problem's own units, with the meaning and the unit of each column."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opdop.model import Quantity
from opdop.model.display import joint_unit, price_scale, singular

if TYPE_CHECKING:
    import polars as pl

_MEANINGS = {
    "episode": "number of the episode, from 1",
    "realised_reward": "total {reward} of the one episode that was played",
    "realised_utility": "total {name} in the one episode that was played",
    "total_realised_reward": "sum of the realised {reward} of all episodes so far",
    "total_realised_utility": "sum of the realised {name} of all episodes so far",
    "realised_shortfall": "by how much the realised {name} missed its limit, summed; slack cancels",
    "reward": "true expected total {reward} of the episode's policy",
    "utility": "true expected total {name} of the episode's policy",
    "estimated_reward": "the learner's optimistic estimate of the {reward}",
    "estimated_utility": "the learner's optimistic estimate of the {name}",
    "dual": "Lagrange multiplier of the constraint on {name}",
    "total_reward": "sum of the {reward} of all episodes so far",
    "total_utility": "sum of the {name} of all episodes so far",
    "regret": "sum of the differences from the optimal {reward}",
    "shortfall": "by how much {name} missed its limit, summed; slack cancels",
    "hard_violation_of": "by how much {name} missed its limit, summed; never cancels",
    "hard_violation": "sum of each episode's largest violation of a constraint; never cancels",
    "violation": "largest shortfall of a constraint, at least 0: the paper's violation",
}


@dataclass(frozen=True)
class ColumnUnits:
    """How a column of a history becomes own units: offset + scale * value; sums have one offset for each episode."""

    meaning: str
    unit: str
    scale: float = 1.0
    offset: float = 0.0
    is_sum: bool = False


def column_units(names: Sequence[str], quantities: Sequence[Quantity], horizon: int) -> dict[str, ColumnUnits]:
    """Return the meaning and the unit of each of these columns of a history, and the map to that unit.

    Violations that may be of any constraint have the constraints' unit if they share one; otherwise they are a share of
    the range of a constraint.
    """
    return {name: _column(name, quantities, horizon) for name in names}


def describe_columns(names: Sequence[str], quantities: Sequence[Quantity], horizon: int) -> dict[str, dict[str, str]]:
    """Return the meaning and the unit of each of these columns as plain data."""
    units = column_units(names, quantities, horizon)
    return {name: {"meaning": each.meaning, "unit": each.unit} for name, each in units.items()}


def in_units(history: pl.DataFrame, quantities: Sequence[Quantity], horizon: int) -> pl.DataFrame:
    """Return a history, which is in model units, in own units; the columns keep their names."""
    import polars as pl

    units = column_units(history.columns, quantities, horizon)
    return history.select(
        (pl.col(name) * each.scale + each.offset * (pl.col("episode") if each.is_sum else 1.0)).alias(name)
        if (each.scale, each.offset) != (1.0, 0.0)
        else pl.col(name)
        for name, each in units.items()
    )


def _column(name: str, quantities: Sequence[Quantity], horizon: int) -> ColumnUnits:
    reward, *constrained = quantities
    stem, i = name, None
    if numbered := re.fullmatch(r"(.*)_(\d+)", name):
        stem, i = numbered[1], int(numbered[2])
    quantity = reward if i is None else constrained[i]
    unit = quantity.unit or quantity.name
    meaning = _MEANINGS["hard_violation_of" if stem == "hard_violation" and i is not None else stem]
    meaning = meaning.format(reward=reward.name, name=quantity.name)
    if stem == "episode":
        return ColumnUnits(meaning, "episodes")
    if stem in ("violation", "hard_violation") and i is None:
        scale, shared = joint_unit(constrained, horizon)
        return ColumnUnits(meaning, shared or "utility", scale)
    if stem == "dual":
        price = f"{reward.unit or reward.name} per {singular(unit)}"
        return ColumnUnits(meaning, price, price_scale(reward, quantity))
    if stem in ("regret", "shortfall", "realised_shortfall", "hard_violation"):
        return ColumnUnits(meaning, unit, abs(quantity.scale))
    return ColumnUnits(meaning, unit, quantity.scale, quantity.offset, stem.startswith("total_"))
