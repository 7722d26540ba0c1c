"""What every problem offers, whether its states are finitely many or continuous."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

from opdop.model.display import Display
from opdop.model.errors import InvalidModelError
from opdop.model.features import Features
from opdop.model.simulator import KnownSimulator, Seed
from opdop.model.validation import call, shown

if TYPE_CHECKING:
    from opdop.model.cmdp import TabularCMDP


@runtime_checkable
class Problem(Protocol):
    """A constrained MDP that can be solved, measured and simulated: tabular, linear or continuous."""

    @property
    def display(self) -> Display:
        """The problem's own words and units."""
        ...

    @property
    def num_states(self) -> float:
        """The number of states; infinity if they are continuous."""
        ...

    @property
    def learner_features(self) -> Features | None:
        """The features of the linear kernel that a learner is told; None if it has none."""
        ...

    @property
    def usual_episodes(self) -> int:
        """The number of episodes that `opdop run` plays if it is not told how many."""
        ...

    @property
    def discretisation(self) -> str:
        """How `tabular()` discretises the problem, in words; empty if it is exact."""
        ...

    def tabular(self) -> TabularCMDP:
        """Return the finite model in which values are measured: the problem itself, or its discretisation."""
        ...

    def refinements(self) -> Iterable[tuple[int, TabularCMDP]]:
        """Return discretisations from coarse to fine, each with its cells along an axis; the last is `tabular()`.

        They are for estimating the error of the discretisation. There are none if `tabular()` is exact.
        """
        ...

    def with_display(self, display: Display) -> Self:
        """Return the same problem with the words and units of another display."""
        ...

    def simulator(self, *, seed: Seed = 0, noisy: bool = False) -> KnownSimulator:
        """Return a simulator of the exact problem; the same seed gives the same episodes.

        With `noisy`, observed signals are 0 or 1 with the true means.
        """
        ...


def as_tabular(problem: Any) -> TabularCMDP:
    """Return the finite model of a problem, in which it is solved and measured.

    Raises InvalidModelError if it is not a problem.
    """
    from opdop.model.cmdp import TabularCMDP  # late: it imports this module

    if not isinstance(problem, TabularCMDP) and (isinstance(problem, type) or not isinstance(problem, Problem)):
        raise InvalidModelError(f"the problem is {shown(problem)}; expected a model, such as a TabularCMDP.")
    model = call("tabular() of the problem", problem.tabular)
    if not isinstance(model, TabularCMDP):
        raise InvalidModelError(f"tabular() of the problem is {shown(model)}; expected a TabularCMDP.")
    return model
