"""Learn a good policy in an unknown environment while keeping a promise, with regret and violation that are measured."""

from opdop.envs import environments, make
from opdop.model import (
    Display,
    Episode,
    InfeasibleError,
    InvalidModelError,
    InvalidParameterError,
    ModelSimulator,
    OpdopError,
    Policy,
    PolicyMixture,
    Quantity,
    Simulator,
    TabularCMDP,
    TabularPolicy,
)
from opdop.planning import Optimum, Values, evaluate, solve

__version__ = "0.1.0"

__all__ = [
    "Display",
    "Episode",
    "InfeasibleError",
    "InvalidModelError",
    "InvalidParameterError",
    "ModelSimulator",
    "OpdopError",
    "Optimum",
    "Policy",
    "PolicyMixture",
    "Quantity",
    "Simulator",
    "TabularCMDP",
    "TabularPolicy",
    "Values",
    "environments",
    "evaluate",
    "make",
    "solve",
]
