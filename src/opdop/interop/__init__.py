"""Gymnasium in both directions: its environments as problems, and the shipped problems as its environments."""

from typing import TYPE_CHECKING

from opdop.lazy import late_names

if TYPE_CHECKING:
    from opdop.interop.function_simulator import FunctionSimulator, from_functions
    from opdop.interop.gymnasium_envs import ProblemEnv, register_envs
    from opdop.interop.gymnasium_problems import from_gymnasium
    from opdop.interop.gymnasium_simulator import GymnasiumSimulator, Transition
else:
    __getattr__, __dir__ = late_names(__name__)

__all__ = [
    "FunctionSimulator",
    "GymnasiumSimulator",
    "ProblemEnv",
    "Transition",
    "from_functions",
    "from_gymnasium",
    "register_envs",
]
