"""Learners, which see episodes but never the model: Algorithm 1, its evaluators, and their constants."""

import sys
from collections.abc import Mapping
from types import ModuleType

from opdop.algorithms.baseline import Baseline
from opdop.algorithms.constants import Constants, Preset, choose, presets
from opdop.algorithms.counts import Counts
from opdop.algorithms.doubling import Doubling
from opdop.algorithms.lstd import LSTD
from opdop.algorithms.opdop import OPDOP, OPPO
from opdop.algorithms.radius_rules import (
    BallRadius,
    FixedRadius,
    PaperLinearRadius,
    PaperRadius,
    Radius,
    SelfNormalisedRadius,
    SpanRadius,
    WeissmanRadius,
)
from opdop.algorithms.registry import Algorithm, algorithms, find, recommended
from opdop.algorithms.replanning import Plan, Planner, ReplanningLearner
from opdop.algorithms.task import CompiledEvaluator, CompiledLearner, Estimates, Evaluator, Learner, Task

__all__ = [
    "LSTD",
    "OPDOP",
    "OPPO",
    "Algorithm",
    "BallRadius",
    "Baseline",
    "CompiledEvaluator",
    "CompiledLearner",
    "Constants",
    "Counts",
    "Doubling",
    "Estimates",
    "Evaluator",
    "FixedRadius",
    "Learner",
    "PaperLinearRadius",
    "PaperRadius",
    "Plan",
    "Planner",
    "Preset",
    "Radius",
    "ReplanningLearner",
    "SelfNormalisedRadius",
    "SpanRadius",
    "Task",
    "WeissmanRadius",
    "algorithms",
    "choose",
    "find",
    "presets",
    "recommended",
]


class _CallablePackage(ModuleType):
    """A package that lists the algorithms when it is called: `opdop.algorithms()` is public, as is the package."""

    def __call__(self) -> Mapping[str, Algorithm]:
        """Return the algorithms by name."""
        return algorithms()


sys.modules[__name__].__class__ = _CallablePackage
