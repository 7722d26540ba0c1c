"""One run: its configuration, training with exact measurements, checkpoints, and the saved result."""

from opdop.runs.checkpoint import CHECKPOINT, fingerprint, read_config
from opdop.runs.config import RunConfig, settings
from opdop.runs.files import DamagedFileError
from opdop.runs.run import Run
from opdop.runs.training import Progress, execute, train

__all__ = [
    "CHECKPOINT",
    "DamagedFileError",
    "Progress",
    "Run",
    "RunConfig",
    "execute",
    "fingerprint",
    "read_config",
    "settings",
    "train",
]
