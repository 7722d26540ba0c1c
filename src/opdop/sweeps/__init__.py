"""Many runs: the specification of a sweep, its scheduler and executors, its folder and its index."""

from opdop.sweeps.spec import InvalidSpecError, Job, Spec
from opdop.sweeps.sweep import Sweep, run_sweep

__all__ = ["InvalidSpecError", "Job", "Spec", "Sweep", "run_sweep"]
