"""A safe baseline policy, which some algorithms need to be told: they play it until they know better ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from opdop.model import InvalidParameterError, Problem, TabularPolicy
from opdop.model.policy import fitting_table
from opdop.model.validation import Floats, as_vector, shown
from opdop.planning import max_slack_policy


@dataclass(frozen=True, eq=False)
class Baseline:
    """A policy that is known to keep every constraint, and by how much.

    Attributes:
        policy: a TabularPolicy, or a table [H, S, A] of action probabilities.
        slack: [I], lower bounds on how much each utility of the policy is above its threshold; all positive.

    Raises InvalidParameterError if a slack is not positive, and InvalidModelError if the policy is no table.
    """

    policy: Any
    slack: Floats

    def __post_init__(self) -> None:
        if not isinstance(self.policy, TabularPolicy):
            object.__setattr__(self, "policy", TabularPolicy(self.policy))
        slack = as_vector("the baseline's slack", np.atleast_1d(self.slack), np.size(self.slack), "I")
        if not (slack > 0.0).all():
            raise InvalidParameterError(f"the baseline's slack is {shown(slack.tolist())}; expected positive numbers.")
        slack.setflags(write=False)
        object.__setattr__(self, "slack", slack)

    @classmethod
    def of(cls, problem: Problem) -> Baseline | None:
        """Return the max-slack policy of `problem`, a known model; None if it has no slack in some constraint."""
        policy, slack = max_slack_policy(problem)
        return cls(policy, slack) if (slack > 0.0).all() else None

    def check(self, horizon: int, num_states: int, num_actions: int, num_constraints: int) -> None:
        """Raise InvalidModelError or InvalidParameterError unless the baseline has the sizes of a task.

        These are `horizon`, `num_states`, `num_actions` and `num_constraints`.
        """
        fitting_table(self.policy, horizon, num_states, num_actions)
        if len(self.slack) != num_constraints:
            raise InvalidParameterError(
                f"the baseline has {len(self.slack)} slacks; expected one for each of {num_constraints} constraints."
            )
