"""Training runs: played, measured, saved and resumed, one by one and in sweeps."""

from opdop.experiment.checkpoint import CHECKPOINT, fingerprint, read_config
from opdop.experiment.files import DamagedFileError
from opdop.experiment.run import Run
from opdop.experiment.sweep import Job, Spec, Sweep, run_sweep
from opdop.experiment.train import Progress, train

__all__ = [
    "CHECKPOINT",
    "DamagedFileError",
    "Job",
    "Progress",
    "Run",
    "Spec",
    "Sweep",
    "fingerprint",
    "read_config",
    "run_sweep",
    "train",
]
