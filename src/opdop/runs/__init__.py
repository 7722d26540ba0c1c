"""One run: its configuration, training with exact measurements, checkpoints, and the saved result."""

from opdop.runs.checkpoint import CHECKPOINT, fingerprint, read_config
from opdop.runs.files import DamagedFileError
from opdop.runs.run import Run
from opdop.runs.training import Progress, train

__all__ = ["CHECKPOINT", "DamagedFileError", "Progress", "Run", "fingerprint", "read_config", "train"]
