"""What a problem is: models, policies, episodes and simulators; frozen and validated."""

from typing import TYPE_CHECKING

from opdop.lazy import late_names

if TYPE_CHECKING:
    from opdop.model.cmdp import TabularCMDP
    from opdop.model.continuous_cmdp import ContinuousCMDP, ContinuousSimulator
    from opdop.model.display import Display, Geometry, Quantity
    from opdop.model.errors import InfeasibleError, InvalidModelError, InvalidParameterError, OpdopError, suggestion
    from opdop.model.features import Features
    from opdop.model.linear import LinearCMDP
    from opdop.model.model_files import load_model, save_model
    from opdop.model.policy import Policy, PolicyMixture, TabularPolicy, as_policy
    from opdop.model.policy_files import load_policy
    from opdop.model.problem import Problem, as_tabular
    from opdop.model.simulator import (
        CompiledSimulator,
        DescribedSimulator,
        Episode,
        KnownSimulator,
        ModelSimulator,
        ReseedableSimulator,
        Seed,
        Simulator,
    )
    from opdop.model.spaces import Axis, Space
else:
    __getattr__, __dir__ = late_names(__name__)

__all__ = [
    "Axis",
    "CompiledSimulator",
    "ContinuousCMDP",
    "ContinuousSimulator",
    "DescribedSimulator",
    "Display",
    "Episode",
    "Features",
    "Geometry",
    "InfeasibleError",
    "InvalidModelError",
    "InvalidParameterError",
    "KnownSimulator",
    "LinearCMDP",
    "ModelSimulator",
    "OpdopError",
    "Policy",
    "PolicyMixture",
    "Problem",
    "Quantity",
    "ReseedableSimulator",
    "Seed",
    "Simulator",
    "Space",
    "TabularCMDP",
    "TabularPolicy",
    "as_policy",
    "as_tabular",
    "load_model",
    "load_policy",
    "save_model",
    "suggestion",
]
