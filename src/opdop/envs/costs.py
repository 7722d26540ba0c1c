"""Costs as utilities: a cost of at most c becomes a utility of at least H - c / max."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from opdop.model import InvalidParameterError, Quantity
from opdop.model.signals import Scale
from opdop.model.validation import Floats


@dataclass(frozen=True)
class Cost:
    """A cost between 0 and `most` in each of `stages` stages.

    >>> fast = Cost("fast services", "services", most=1, stages=10)
    >>> fast.quantity.constraint(fast.threshold(4))
    'fast services <= 4 services'
    """

    name: str
    unit: str
    most: float
    stages: int

    @property
    def scale(self) -> Scale:
        """The map of the cost to [0, 1]."""
        return Scale(0.0, float(self.most), falls=True)

    def signal(self, cost: Any) -> Floats:
        """Return costs of any shape as a signal in [0, 1]: 1 is free, 0 costs `most`."""
        return self.scale.signal(cost)

    def threshold(self, budget: float) -> float:
        """Return what the signal's total must reach if the cost's total is to stay within the budget."""
        if not 0.0 <= budget < self.stages * self.most:
            raise InvalidParameterError(
                f"{self.name}: the budget is {budget:g} {self.unit}; expected less than {self.stages * self.most:g}, "
                f"which no policy can exceed ({self.most:g} in each of {self.stages} stages)."
            )
        return self.scale.threshold(budget, self.stages)

    @property
    def quantity(self) -> Quantity:
        """The signal's total, shown as a cost again."""
        return self.scale.quantity(self.name, self.unit, self.stages)
