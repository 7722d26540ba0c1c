"""What is compared: an algorithm by name, its preset and the preset's parameters.

A setting is written ALGORITHM[:PRESET][,NAME=VALUE...], so that any registered learner can join the table.
"""

from __future__ import annotations

from dataclasses import dataclass

import opdop
from opdop.algorithms import recommended
from studies.general.cases import Case

RECOMMENDED = "recommended"  # what `opdop run` uses where no algorithm is named
FIRST_EDITION = "opdop:scaled"  # of `practical`
PLANNED = ("paper", "certified", "scaled")  # presets whose constants depend on the planned number of episodes
# Algorithms whose `practical` constants depend on it too.
PLANNED_ALGORITHMS = (
    "linear-primal-dual",
    "opt-primal-dual",
    "optpess-primal-dual",
    "regularised-primal-dual",
    "triple-q",
)


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
        return self.preset in PLANNED or self.algorithm in PLANNED_ALGORITHMS

    def train(self, case: Case, episodes: int, seed: int, *, certificates: int = 0) -> opdop.Run:
        """Make a run; a problem with features is learnt by least squares where the algorithm is Algorithm 1.

        Certificates are made at about as many sizes of the data as `certificates` says.
        """
        options = {"episodes": episodes, "seed": seed, "noisy": case.noisy}
        options |= {"measure_every": max(1, episodes // 4_000), "records": 2_000, "certificates": certificates}
        algorithm = "opdop-lstd" if self.algorithm == "opdop" and case.linear else self.algorithm
        algorithm = recommended(case.made.learner_features) if algorithm == RECOMMENDED else algorithm
        return opdop.train(case.made, algorithm, preset=self.preset, parameters=self.parameters, **options)
