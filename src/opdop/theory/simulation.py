"""Play a learner step by step beside the true model, and record all that the checks of an episode need."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from opdop.algorithms import OPDOP, Estimates, Task, find
from opdop.model import Episode, InvalidParameterError, ModelSimulator, Problem, TabularCMDP, TabularPolicy
from opdop.model.features import Features, one_hot
from opdop.model.validation import Floats
from opdop.planning import Optimum, solve, value_functions
from opdop.theory.bounds import Setting
from opdop.theory.identities import Decomposition, action_values, decompose
from opdop.theory.reference_evaluators import ReferenceEvaluator, reference_for

Build = Callable[[Task, str], OPDOP]
SMALLEST_BONUS = 1e-9  # below this, shares of a bonus are shares of rounding


@dataclass(frozen=True, eq=False)
class Simulation:
    """A problem with its exact optimum, and the algorithm and preset that learn it."""

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
    ) -> Simulation:
        """Solve a problem and return its simulation.

        Args:
            problem: the true model, with finitely many states.
            algorithm: "opdop" or "opdop-lstd"; by default the latter for models with known features.
            noisy: whether observed signals are random.
            preset: where the learner's constants come from.

        Raises:
            InvalidParameterError: for another algorithm, continuous states, or a preset whose steps are not constant.
        """
        cmdp = problem.tabular()
        chosen = algorithm or ("opdop-lstd" if cmdp.features is not None else "opdop")
        if chosen not in ("opdop", "opdop-lstd"):
            raise InvalidParameterError(
                f"{chosen!r} cannot be verified: the paper's statements are about 'opdop' and 'opdop-lstd'."
            )
        if preset == "practical":
            raise InvalidParameterError(
                "'practical' cannot be verified: its steps are relative to the ranges of Q, and the paper's statements "
                "are about constant ones. Verify 'scaled', which multiplies the certified constants."
            )
        if problem.num_states == math.inf:
            raise InvalidParameterError(
                f"{cmdp.display.name or 'this problem'} has continuous states, and the theorem is for finitely many: "
                "verify a problem with a finite number of states."
            )
        return cls(cmdp, solve(cmdp), chosen, noisy, preset)

    @property
    def name(self) -> str:
        """The problem, its sizes, and how it is learnt."""
        how = "least squares" if self.algorithm == "opdop-lstd" else "counts"
        S, A, H = self.cmdp.num_states, self.cmdp.num_actions, self.cmdp.horizon
        words = [f"{self.cmdp.display.name or 'a model'} S{S} A{A} H{H}", how]
        words += ["noisy"] * self.noisy + [self.preset] * (self.preset != "certified")
        return ", ".join(words)

    @property
    def features(self) -> Features | None:
        """The features that the algorithm learns with; None for counts."""
        if self.algorithm == "opdop":
            return None
        return self.cmdp.features or one_hot(self.cmdp.num_states, self.cmdp.num_actions)

    def setting(self, episodes: int, failure_probability: float) -> Setting:
        """Return the task, with this number of episodes and failure_probability, and the preset's constants."""
        gap = self.optimum.slater_gap or None
        task = Task.of(
            self.cmdp, episodes=episodes, failure_probability=failure_probability, slater_gap=gap, noisy=self.noisy
        )
        return Setting.of(task, preset=self.preset, sizes=self.features)

    def play(self, setting: Setting, *, seed: int, build: Build | None = None) -> Iterator[EpisodeRecord]:
        """Play all planned episodes of a setting; yield a record of each.

        `seed` is the simulator's. `build(task, preset)` makes the learner; by default it is that of the simulation's
        algorithm.
        """
        task = setting.task
        learner = (build or find(self.algorithm).build)(task, self.preset)
        reference = reference_for(task, setting.constants, self.features)
        simulator = ModelSimulator(self.cmdp, seed=seed, noisy=self.noisy)
        dual = np.zeros(task.num_constraints)
        estimated = np.append(0.0, setting.thresholds)  # so that Y^1 = Y^0
        for _ in range(task.episodes):
            policy = learner.propose()
            episode = simulator.play(policy)
            learner.learn(episode)
            last = learner.estimates
            estimates = Estimates(last.q.copy(), last.v.copy(), last.touched.copy())  # the next ones overwrite them
            expected = reference.evaluate(estimates.v)
            record = EpisodeRecord(
                simulation=self,
                setting=setting,
                episode=episode,
                policy=policy,
                following=learner.propose(),
                estimates=estimates,
                dual=learner.dual.copy(),
                dual_before=dual,
                estimated_before=estimated,
                centre=expected.centre,
                bonus=expected.bonus,
                allowed=expected.allowed,
                reference=reference,
            )
            yield record
            reference.add(episode, estimates)
            dual, estimated = record.dual, record.estimated


@dataclass(frozen=True, eq=False)
class EpisodeRecord:
    """One episode: what the learner did and estimated, what it should have estimated, and what is true."""

    simulation: Simulation
    setting: Setting  # constants are those of the preset, not the learner's own
    episode: Episode
    policy: TabularPolicy  # pi^k
    following: TabularPolicy  # pi^{k+1}
    estimates: Estimates  # Q^k and V^k
    dual: Floats  # Y^k [I]
    dual_before: Floats  # Y^{k-1}
    estimated_before: Floats  # <rho, V^{k-1}> [1+I]; the thresholds at first
    centre: Floats  # the reference's estimate without its bonus, from the episodes before this one, [1+I, H, S, A]
    bonus: Floats  # the reference's bonus, of the same shape
    allowed: Floats  # what -iota is at most, of the same shape
    reference: ReferenceEvaluator  # this episode is added to it after the record has been used

    @cached_property
    def estimated(self) -> Floats:
        """<rho, V^k> of all signals, [1+I]."""
        return self.estimates.v[:, 0] @ self.simulation.cmdp.initial

    @cached_property
    def target(self) -> Floats:
        """Signal + P V^k, which an optimistic Q^k is at least, [1+I, H, S, A]."""
        return action_values(self.simulation.cmdp, self.estimates.v)

    @cached_property
    def error(self) -> Floats:
        """The prediction errors iota, [1+I, H, S, A]."""
        return self.target - self.estimates.q

    @cached_property
    def true_v(self) -> Floats:
        """The true values of pi^k, [1+I, H+1, S]."""
        return value_functions(self.simulation.cmdp, self.policy)

    @cached_property
    def totals(self) -> Floats:
        """The true expected totals of pi^k, [1+I]."""
        return self.true_v[:, 0] @ self.simulation.cmdp.initial

    @cached_property
    def parts(self) -> Decomposition:
        """Both sides of the decompositions."""
        best = self.simulation.optimum.policy
        return decompose(self.simulation.cmdp, best, self.policy, self.estimates, self.episode)

    @property
    def tops(self) -> Floats:
        """H - h, the largest value of each stage, [1, H, 1, 1]."""
        return np.arange(self.simulation.cmdp.horizon, 0, -1.0)[None, :, None, None]

    @cached_property
    def needed(self) -> Floats:
        """The largest share of a bonus that optimism needed at each stage, where there is one; else -inf, [H].

        There is none where Q is clipped, and in the last stage if signals are not random: they are known exactly.
        """
        free = (self.estimates.q < self.tops) & (self.bonus > SMALLEST_BONUS)
        shares = np.full_like(self.target, -np.inf)
        shares[free] = (self.target - self.centre)[free] / self.bonus[free]
        largest: Floats = shares.max(axis=(0, 2, 3))
        return largest
