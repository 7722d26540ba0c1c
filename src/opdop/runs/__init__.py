"""One run: its configuration, training with exact measurements, checkpoints, and the saved result."""

from typing import TYPE_CHECKING

from opdop.lazy import late_names

if TYPE_CHECKING:
    from opdop.runs.agent import Agent
    from opdop.runs.assumptions import AssumptionWarning
    from opdop.runs.certification import certify
    from opdop.runs.checkpoint import CHECKPOINT, fingerprint, read_config
    from opdop.runs.config import RunConfig, settings
    from opdop.runs.files import DamagedFileError
    from opdop.runs.many import train_many
    from opdop.runs.progress import Progress
    from opdop.runs.run import Run
    from opdop.runs.training import execute, train
else:
    __getattr__, __dir__ = late_names(__name__)

__all__ = [
    "CHECKPOINT",
    "Agent",
    "AssumptionWarning",
    "DamagedFileError",
    "Progress",
    "Run",
    "RunConfig",
    "certify",
    "execute",
    "fingerprint",
    "read_config",
    "settings",
    "train",
    "train_many",
]
