"""Problems that ship, one file each, found by a registry."""

from opdop.envs.named_problems import solve
from opdop.envs.registry import (
    Environment,
    Parameter,
    Value,
    environment,
    environment_of,
    environments,
    make,
    make_trainable,
    parse,
)

__all__ = [
    "Environment",
    "Parameter",
    "Value",
    "environment",
    "environment_of",
    "environments",
    "make",
    "make_trainable",
    "parse",
    "solve",
]
