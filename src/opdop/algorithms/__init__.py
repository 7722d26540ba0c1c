"""What learns from episodes and never sees the model: Algorithm 1, its evaluators, and their constants."""

from opdop.algorithms.constants import (
    Constants,
    FixedRadius,
    PaperRadius,
    Radius,
    WeissmanRadius,
    choose,
    presets,
)
from opdop.algorithms.counts import Counts
from opdop.algorithms.doubling import Doubling
from opdop.algorithms.opdop import OPDOP, OPPO
from opdop.algorithms.registry import Algorithm, algorithms, find
from opdop.algorithms.task import Estimates, Evaluator, Learner, Task

__all__ = [
    "OPDOP",
    "OPPO",
    "Algorithm",
    "Constants",
    "Counts",
    "Doubling",
    "Estimates",
    "Evaluator",
    "FixedRadius",
    "Learner",
    "PaperRadius",
    "Radius",
    "Task",
    "WeissmanRadius",
    "algorithms",
    "choose",
    "find",
    "presets",
]
