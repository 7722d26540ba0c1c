"""Many runs: the specification of a sweep, its workers, its folder and its results."""

from opdop.sweeps.results import Listing, Sweep, list_runs
from opdop.sweeps.scheduler import DeadWorkerError, SweepProgress
from opdop.sweeps.spec import InvalidSpecError, Spec, group_of, key_of, short_key
from opdop.sweeps.store import Failure, SweepError, Underway
from opdop.sweeps.sweep import run_sweep

__all__ = [
    "DeadWorkerError",
    "Failure",
    "InvalidSpecError",
    "Listing",
    "Spec",
    "Sweep",
    "SweepError",
    "SweepProgress",
    "Underway",
    "group_of",
    "key_of",
    "list_runs",
    "run_sweep",
    "short_key",
]
