"""What the paper proves, as functions and as checks that anybody can run beside a learner."""

from opdop.theory.identities import (
    Decomposition,
    action_values,
    decompose,
    expected_next,
    performance_difference,
    prediction_errors,
    signal_totals,
)

__all__ = [
    "Decomposition",
    "action_values",
    "decompose",
    "expected_next",
    "performance_difference",
    "prediction_errors",
    "signal_totals",
]
