"""Sentences in a problem's own units: the singular of a unit, and what one more of it is worth."""

from __future__ import annotations

import pytest

import opdop
from opdop.model.display import Quantity, amount, singular, worth

SHIPPED = {  # every unit of the shipped problems, and one of it
    "cards": "card",
    "customer-slots": "customer-slot",
    "customers": "customer",
    "dollars": "dollar",
    "entries": "entry",
    "hm³": "hm³",
    "moves": "move",
    "patients": "patient",
    "points": "point",
    "services": "service",
    "stages": "stage",
    "steps": "step",
    "strokes": "stroke",
    "thousand EUR": "thousand EUR",
    "units of effort": "unit of effort",
}
OWN = {
    "boxes": "box",
    "losses": "loss",
    "batches": "batch",
    "crashes": "crash",
    "deliveries": "delivery",
    "ties": "tie",
    "calories": "calorie",
    "doses": "dose",
    "houses": "house",
    "people": "person",
    "dollars per day": "dollar per day",
    "Dollars/day": "Dollar/day",
    "dollars a week": "dollar a week",
    "thousands of dollars": "thousand dollars",
    "man-hours": "man-hour",
    "degrees Celsius": "degree Celsius",
    "Mbps": "Mbps",
    "ms": "ms",
    "m/s": "m/s",
    "gas": "gas",
    "lbs": "lb",
    "kWh": "kWh",
    "€": "€",
    "": "unit",
}


def test_every_unit_of_a_shipped_problem_has_its_singular() -> None:
    found = {each.unit for name in opdop.environments() for each in opdop.make(name).display.quantities}
    assert {unit: singular(unit) for unit in found} == {unit: SHIPPED[unit] for unit in found}


@pytest.mark.parametrize(("unit", "one"), OWN.items())
def test_units_of_users_have_their_singular(unit: str, one: str) -> None:
    assert singular(unit) == one


def test_price_of_one_more_unit_reads_as_a_sentence() -> None:
    effort = Quantity("service effort", "units of effort", -1.0, 10.0)
    assert worth(Quantity("profit", "dollars", 2.0), effort, 0.5) == (
        "one more unit of effort of budget is worth 1 dollar of profit"
    )
    assert amount(0.99999, "entries") == "1 entry"
    assert amount(1.01, "entries") == "1.01 entries"
