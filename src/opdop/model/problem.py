"""What every problem offers, whether its states are finitely many or continuous."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol, Self, runtime_checkable

from opdop.model.display import Display
from opdop.model.features import Features
from opdop.model.simulator import KnownSimulator, Seed

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
        """Return the same problem with other words and units."""
        ...

    def simulator(self, *, seed: Seed = 0, noisy: bool = False) -> KnownSimulator:
        """Return a simulator of the exact problem; with `noisy`, observed signals are 0 or 1 with the true means."""
        ...
