"""What the paper proves, as functions and as checks that anybody can run beside a learner."""

from typing import TYPE_CHECKING

from opdop.lazy import late_names

if TYPE_CHECKING:
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
    from opdop.theory.problems import verify_problems
    from opdop.theory.simulation import EpisodeRecord, Simulation
    from opdop.theory.verification import (
        CoverageStudy,
        Verification,
        coverage,
        coverage_simulations,
        standard_simulations,
        verify,
    )

__all__ = [
    "Bound",
    "CoverageStudy",
    "Decomposition",
    "EpisodeRecord",
    "Guarantee",
    "Setting",
    "Simulation",
    "Verification",
    "action_values",
    "bounds",
    "coverage",
    "coverage_simulations",
    "decompose",
    "expected_next",
    "guarantee",
    "performance_difference",
    "prediction_errors",
    "signal_totals",
    "standard_simulations",
    "verify",
    "verify_problems",
]

__getattr__, __dir__ = late_names(__name__)
