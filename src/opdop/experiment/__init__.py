"""Training runs: played, measured, saved and resumed."""

from opdop.experiment.files import DamagedFileError
from opdop.experiment.run import Run
from opdop.experiment.train import CHECKPOINT, Progress, fingerprint, read_config, train

__all__ = ["CHECKPOINT", "DamagedFileError", "Progress", "Run", "fingerprint", "read_config", "train"]
