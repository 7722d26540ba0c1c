"""Learn a good policy in an unknown environment under constraints, with regret and violation measured."""

from typing import TYPE_CHECKING

from opdop.lazy import late_names
from opdop.version import __version__ as __version__

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
    from opdop.confidence import Certificate, Evaluation, Observations
    from opdop.envs import environments, make, solve
    from opdop.interop import from_functions, from_gymnasium, register_envs
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
    from opdop.report import Comparison, compare, report
    from opdop.runs import Agent, Run, certify, train, train_many
    from opdop.sweeps import Spec, Sweep
    from opdop.sweeps import run_sweep as sweep
    from opdop.theory import verify_problems as verify
else:
    __getattr__, __dir__ = late_names(__name__)


__all__ = [
    "LSTD",
    "OPDOP",
    "OPPO",
    "Agent",
    "Baseline",
    "Certificate",
    "Comparison",
    "ContinuousCMDP",
    "ContinuousSimulator",
    "Counts",
    "Display",
    "Doubling",
    "Episode",
    "Estimates",
    "Evaluation",
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
    "compare",
    "environments",
    "evaluate",
    "from_functions",
    "from_gymnasium",
    "load_model",
    "load_policy",
    "make",
    "register_envs",
    "report",
    "save_model",
    "solve",
    "sweep",
    "train",
    "train_many",
    "verify",
]
