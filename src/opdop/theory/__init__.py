"""What the paper proves, as functions and as checks that anybody can run beside a learner."""

from opdop.theory import bounds
from opdop.theory.bounds import Bound, Setting
from opdop.theory.guarantees import Guarantee, guarantee
from opdop.theory.identities import (
    Decomposition,
    action_values,
    decompose,
    expected_next,
    performance_difference,
    prediction_errors,
    signal_totals,
)
from opdop.theory.simulation import Case, Moment, witness
from opdop.theory.verification import CoverageStudy, Row, Verification, coverage, coverage_cases, standard_cases, verify

__all__ = [
    "Bound",
    "Case",
    "CoverageStudy",
    "Decomposition",
    "Guarantee",
    "Moment",
    "Row",
    "Setting",
    "Verification",
    "action_values",
    "bounds",
    "coverage",
    "coverage_cases",
    "decompose",
    "expected_next",
    "guarantee",
    "performance_difference",
    "prediction_errors",
    "signal_totals",
    "standard_cases",
    "verify",
    "witness",
]
