"""What is compared: an algorithm by name, its preset and the preset's parameters; and the first edition of `practical`.

A setting is written ALGORITHM[:PRESET][,NAME=VALUE...], so that any registered learner can join the table.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import opdop
from opdop.algorithms.constants import WeissmanRadius
from studies.general.cases import Case

FIRST_EDITION = "first-edition"  # of `practical`, whose constants depend on the planned number of episodes
PLANNED = ("paper", "certified")  # presets whose constants do as well


@dataclass(frozen=True)
class Setting:
    """A learner and its constants; `text` is how it is written on the command line and in the results."""

    text: str

    @property
    def algorithm(self) -> str:
        """The name of the algorithm."""
        return self.text.split(",")[0].partition(":")[0]

    @property
    def preset(self) -> str:
        """The name of the preset."""
        return self.text.split(",")[0].partition(":")[2] or "practical"

    @property
    def parameters(self) -> dict[str, float]:
        """The parameters of the preset that differ from its defaults."""
        pairs = (part.partition("=") for part in self.text.split(",")[1:])
        return {name: float(value) for name, _, value in pairs}

    @property
    def is_planned(self) -> bool:
        """Whether the constants depend on the number of episodes, so that each number needs a run of its own."""
        return self.algorithm == FIRST_EDITION or self.preset in PLANNED

    def train(self, case: Case, episodes: int, seed: int) -> opdop.Run:
        """Make a run; a problem with features is learnt by least squares where the algorithm is Algorithm 1."""
        options = {"episodes": episodes, "seed": seed, "noisy": case.noisy}
        options |= {"measure_every": max(1, episodes // 4_000), "records": 2_000}
        if self.algorithm == FIRST_EDITION:
            task = opdop.Task.of(case.made, episodes=episodes, noisy=case.noisy)
            return opdop.train(case.made, first_edition(task), **options)
        algorithm = "opdop-lstd" if self.algorithm == "opdop" and case.linear else self.algorithm
        return opdop.train(case.made, algorithm, preset=self.preset, parameters=self.parameters, **options)


def first_edition(task: opdop.Task) -> opdop.OPDOP:
    """Return Algorithm 1 with the constants that `practical` had until its second edition."""
    evaluator = opdop.Counts if task.features is None else opdop.LSTD
    root = math.sqrt(task.episodes)
    return opdop.OPDOP(
        task,
        evaluator(task, radius=WeissmanRadius(0.0003, 1.0), ridge=0.01),
        step_size=math.sqrt(math.log(task.num_actions)) / (task.horizon**2 * root) * 300.0,
        dual_step_size=1.0 / root * 1000.0,
        mixing=1.0 / task.episodes,
        dual_bound=2.0 * task.horizon / (task.slater_gap or 1.0),
    )
