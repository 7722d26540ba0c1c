"""Learn a good policy in an unknown environment under constraints, with regret and violation measured."""

from typing import TYPE_CHECKING

from opdop.lazy import late_names

if TYPE_CHECKING:
    from opdop.algorithms import (
        LSTD,
        OPDOP,
        OPPO,
        Baseline,
        Counts,
        Doubling,
        Estimates,
        Evaluator,
        Learner,
        Task,
        algorithms,
    )
    from opdop.confidence import Certificate, Observations
    from opdop.envs import environments, make, solve
    from opdop.interop import from_gymnasium, register_envs
    from opdop.model import (
        ContinuousCMDP,
        ContinuousSimulator,
        Display,
        Episode,
        InfeasibleError,
        InvalidModelError,
        InvalidParameterError,
        LinearCMDP,
        ModelSimulator,
        OpdopError,
        Policy,
        PolicyMixture,
        Problem,
        Quantity,
        Simulator,
        TabularCMDP,
        TabularPolicy,
        load_model,
        load_policy,
        save_model,
    )
    from opdop.planning import Optimum, Values, evaluate
    from opdop.runs import Agent, Run, certify, train, train_many
    from opdop.sweeps import Spec, Sweep
    from opdop.sweeps import run_sweep as sweep
else:
    __getattr__, __dir__ = late_names(__name__)

__version__ = "0.1.0"

__all__ = [
    "LSTD",
    "OPDOP",
    "OPPO",
    "Agent",
    "Baseline",
    "Certificate",
    "ContinuousCMDP",
    "ContinuousSimulator",
    "Counts",
    "Display",
    "Doubling",
    "Episode",
    "Estimates",
    "Evaluator",
    "InfeasibleError",
    "InvalidModelError",
    "InvalidParameterError",
    "Learner",
    "LinearCMDP",
    "ModelSimulator",
    "Observations",
    "OpdopError",
    "Optimum",
    "Policy",
    "PolicyMixture",
    "Problem",
    "Quantity",
    "Run",
    "Simulator",
    "Spec",
    "Sweep",
    "TabularCMDP",
    "TabularPolicy",
    "Task",
    "Values",
    "algorithms",
    "certify",
    "environments",
    "evaluate",
    "from_gymnasium",
    "load_model",
    "load_policy",
    "make",
    "register_envs",
    "save_model",
    "solve",
    "sweep",
    "train",
    "train_many",
]
