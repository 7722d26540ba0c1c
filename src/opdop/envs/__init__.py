"""Problems that ship, one file each, found by a registry."""

from opdop.envs.named_problems import evaluate, solve
from opdop.envs.registry import Environment, Parameter, Value, environment, environments, make, parse

__all__ = ["Environment", "Parameter", "Value", "environment", "environments", "evaluate", "make", "parse", "solve"]
