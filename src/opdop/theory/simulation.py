"""A witness plays a learner step by step beside the true model, and shows each episode to every check."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from opdop.algorithms import OPDOP, Estimates, Task, find
from opdop.algorithms.constants import Constants, choose
from opdop.model import Episode, InvalidParameterError, ModelSimulator, Problem, TabularCMDP, TabularPolicy
from opdop.model.features import Features, one_hot
from opdop.model.validation import Floats
from opdop.planning import Optimum, solve, value_functions
from opdop.theory.bounds import Setting
from opdop.theory.identities import Decomposition, action_values, decompose
from opdop.theory.reference_evaluators import Account, Ledger, ledger_of

Build = Callable[..., OPDOP]


@dataclass(frozen=True, eq=False)
class Case:
    """One problem with what is true of it, and the algorithm that learns it."""

    cmdp: TabularCMDP
    optimum: Optimum
    algorithm: str
    noisy: bool = False
    preset: str = "certified"

    @classmethod
    def of(
        cls,
        problem: Problem,
        *,
        algorithm: str | None = None,
        noisy: bool = False,
        preset: str = "certified",
    ) -> Case:
        """Return a case; models with known features are learnt by least squares unless told otherwise."""
        cmdp = problem.tabular()
        chosen = algorithm or ("opdop-lstd" if cmdp.features is not None else "opdop")
        if chosen not in ("opdop", "opdop-lstd"):
            raise InvalidParameterError(
                f"{chosen!r} cannot be verified: the paper's statements are about 'opdop' and 'opdop-lstd'."
            )
        if problem.num_states == math.inf:
            raise InvalidParameterError(
                f"{cmdp.display.name or 'this problem'} has continuous states, and the theorem is for finitely many: "
                "verify a problem with a finite number of states."
            )
        return cls(cmdp, solve(cmdp), chosen, noisy, preset)

    @property
    def name(self) -> str:
        """The problem, and what is not usual about how it is learnt."""
        how = "least squares" if self.algorithm == "opdop-lstd" else "counts"
        S, A, H = self.cmdp.num_states, self.cmdp.num_actions, self.cmdp.horizon
        words = [f"{self.cmdp.display.name or 'a model'} S{S} A{A} H{H}", how]
        words += ["noisy"] * self.noisy + [self.preset] * (self.preset != "certified")
        return ", ".join(words)

    def with_preset(self, preset: str) -> Case:
        """Return the same with another preset."""
        return replace(self, preset=preset)

    @property
    def features(self) -> Features | None:
        """The features that the algorithm learns with; None for counts."""
        if self.algorithm == "opdop":
            return None
        return self.cmdp.features or one_hot(self.cmdp.num_states, self.cmdp.num_actions)

    def task(self, episodes: int, failure_probability: float) -> Task:
        """Return what the learner is told."""
        gap = self.optimum.slater_gap or None
        return Task.of(
            self.cmdp, episodes=episodes, failure_probability=failure_probability, slater_gap=gap, noisy=self.noisy
        )

    def setting(self, episodes: int, failure_probability: float) -> Setting:
        """Return what the bounds depend on."""
        return Setting.of(self.task(episodes, failure_probability), preset=self.preset, sizes=self.features)


@dataclass(frozen=True, eq=False)
class Moment:
    """One episode: what the learner did and believed, what it should have found, and what is true."""

    case: Case
    constants: Constants  # those of the preset, not the learner's own
    episode: Episode
    policy: TabularPolicy  # pi^k
    following: TabularPolicy  # pi^{k+1}
    estimates: Estimates  # Q^k and V^k
    dual: Floats  # Y^k [I]
    dual_before: Floats  # Y^{k-1}
    believed_before: Floats  # <rho, V^{k-1}> [1+I], by its estimates; the thresholds at first
    account: Account  # from the episodes before this one
    ledger: Ledger  # whose books are one episode behind while this one is shown

    @cached_property
    def believed(self) -> Floats:
        """<rho, V^k> of all signals, [1+I]."""
        return self.estimates.v[:, 0] @ self.case.cmdp.initial

    @cached_property
    def target(self) -> Floats:
        """Signal + P V^k, which Q^k is to be at least, [1+I, H, S, A]."""
        return action_values(self.case.cmdp, self.estimates.v)

    @cached_property
    def error(self) -> Floats:
        """The prediction errors iota, [1+I, H, S, A]."""
        return self.target - self.estimates.q

    @cached_property
    def true_v(self) -> Floats:
        """The true values of pi^k, [1+I, H+1, S]."""
        return value_functions(self.case.cmdp, self.policy)

    @cached_property
    def totals(self) -> Floats:
        """The true expected totals of pi^k, [1+I]."""
        return self.true_v[:, 0] @ self.case.cmdp.initial

    @cached_property
    def parts(self) -> Decomposition:
        """Both sides of the decompositions."""
        return decompose(self.case.cmdp, self.case.optimum.policy, self.policy, self.estimates, self.episode)

    @property
    def tops(self) -> Floats:
        """H - h, the largest value of each stage, [1, H, 1, 1]."""
        return np.arange(self.case.cmdp.horizon, 0, -1.0)[None, :, None, None]

    @cached_property
    def allowed(self) -> Floats:
        """What the two-sided bound allows for -iota: min(H - h, twice the added bonus), [1+I, H, S, A]."""
        least: Floats = np.minimum(2.0 * self.account.bonus, self.tops)
        return least


def witness(
    case: Case, *, episodes: int, seed: int, failure_probability: float, build: Build | None = None
) -> Iterator[Moment]:
    """Play a learner for a number of episodes; yield each of them with all that can be said of it.

    `build(task, preset)` makes the learner; without it the case's own algorithm does.
    """
    task = case.task(episodes, failure_probability)
    constants = choose(task, case.preset)
    learner: OPDOP = (build or find(case.algorithm).build)(task, case.preset)
    ledger: Ledger = ledger_of(task, constants, case.features)
    simulator = ModelSimulator(case.cmdp, seed=seed, noisy=case.noisy)
    dual = np.zeros(task.num_constraints)
    believed = np.append(0.0, task.thresholds)  # so that Y^1 = Y^0
    for _ in range(episodes):
        policy = learner.propose()
        episode = simulator.play(policy)
        learner.learn(episode)
        last = learner.estimates
        estimates = Estimates(last.q.copy(), last.v.copy(), last.touched.copy())  # they are overwritten by the next
        moment = Moment(
            case=case,
            constants=constants,
            episode=episode,
            policy=policy,
            following=learner.propose(),
            estimates=estimates,
            dual=learner.dual.copy(),
            dual_before=dual,
            believed_before=believed,
            account=ledger.account(estimates.v),
            ledger=ledger,
        )
        yield moment
        ledger.add(episode, estimates)
        dual, believed = moment.dual, moment.believed
