"""What is worth knowing of a model before it is learnt: reachable states, slack, prices, and a plan for a run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from opdop.algorithms import recommended
from opdop.model import Problem, TabularPolicy
from opdop.model.display import worth
from opdop.planning import occupancy
from opdop.report.summary.solution import Solution, solution_of

VISITS = 100  # of each reachable pair of state and action, in the recommended number of episodes
ACCURACY = 0.02  # of the horizon: what the average policy then loses or violates at most; see studies/recommended.py


@dataclass(frozen=True, eq=False)
class ModelCheck:
    """A valid model with its exact solution, and what follows for learning it."""

    solution: Solution
    reachable: int  # states that some policy reaches at some stage

    @property
    def algorithm(self) -> str:
        """The recommended algorithm: least squares where the kernel has features, otherwise a learner that plans."""
        return recommended(self.solution.problem.learner_features)

    @property
    def episodes(self) -> int:
        """The recommended number of episodes, 1, 2 or 5 times a power of 10 and at least 1,000.

        So many let each reachable pair of state and action be visited 100 times at a stage, if visits were even. On
        the shipped and random problems of `studies.recommended`, the average policy was then within `ACCURACY` of the
        optimum.
        """
        return recommended_episodes(self.reachable, self.solution.cmdp.num_actions)

    def lines(self) -> list[tuple[str, str]]:
        """Return the findings in words, each with a label."""
        found, cmdp = self.solution, self.solution.cmdp
        some = "all" if self.reachable == cmdp.num_states else f"{self.reachable:,} of {cmdp.num_states:,}"
        lines = [("states", f"{some} reachable from the first")]
        for each in found.constraints:
            gap = f"Slater gap {each.own_slater_gap:.4g} {each.quantity.unit}".rstrip()
            price = "it does not bind: leaving it out changes nothing"
            if each.binds:
                price = f"it binds: {worth(found.reward, each.quantity, each.multiplier)}"
            lines.append((each.sentence, f"{price}; {gap}"))
        cost = f"{found.own_price:.4g} {found.reward.unit}".rstrip()
        lines.append(("price", f"all constraints together cost {cost} of {found.reward.name}"))
        lines.append(("recommended", f"--algorithm {self.algorithm} --episodes {self.episodes}"))
        return lines

    def record(self) -> dict[str, Any]:
        """Return the findings as plain data for JSON."""
        plan = {"algorithm": self.algorithm, "episodes": self.episodes}
        return {"format": "opdop.check/1", "reachable": self.reachable, **plan, "solution": self.solution.record()}


def recommended_episodes(states: int, actions: int) -> int:
    """Return how many episodes are recommended for so many states that can be reached, and so many actions."""
    wanted = max(1000.0, VISITS * states * actions)
    unit = 10.0 ** math.floor(math.log10(wanted))
    return int(next(step * unit for step in (1, 2, 5, 10) if step * unit >= wanted))


def check_model(problem: Problem) -> ModelCheck:
    """Solve a model and find its reachable states; raises InfeasibleError if no policy satisfies the constraints."""
    solution = solution_of(problem)
    cmdp = solution.cmdp
    everywhere = TabularPolicy.uniform(cmdp.horizon, cmdp.num_states, cmdp.num_actions)
    visits = occupancy(cmdp, everywhere).sum(axis=(0, 2))
    return ModelCheck(solution, int(np.count_nonzero(visits)))
