"""Triple-Q: model-free learning with two tables of Q-values and a virtual queue.

Wei, Liu and Ying, "Triple-Q: A Model-Free Algorithm for Constrained Reinforcement Learning with Sublinear Regret and
Zero Constraint Violation", AISTATS 2022, Algorithm 1. The arithmetic is in `opdop.kernels.triple_q`; its trailing
comments name the lines as docs/algorithms/triple-q.md numbers them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opdop.algorithms.constants import Preset, described
from opdop.algorithms.counted_learner import CountedLearner
from opdop.algorithms.counts import Counts
from opdop.algorithms.peers import refuse_continuous, refuse_several
from opdop.algorithms.radius_rules import BallRadius
from opdop.algorithms.registry import algorithm
from opdop.algorithms.saved_state import fitting, fitting_policy, prefixed, restore_counts
from opdop.algorithms.sizes import as_task, check_room, required_proposal
from opdop.algorithms.task import Task, swapped
from opdop.kernels import loops, triple_q
from opdop.model import Episode, InvalidParameterError, OpdopError, TabularPolicy
from opdop.model.validation import Floats, as_number

FRAME_EXPONENT = 0.6  # alpha: a frame has K^alpha episodes


@dataclass(frozen=True)
class TripleQConstants:
    """All constants of one run of Triple-Q, and the name of the preset that they come from."""

    preset: str
    rate: float  # chi: the learning rate of the t-th visit is (chi + 1) / (chi + t)
    eta: float  # the multiplier is the queue divided by eta
    bonus: float  # of the t-th visit, times sqrt((chi + 1) / (chi + t))
    extra_bonus: float  # what every Q-value of the reward gains when a frame ends
    margin: float  # epsilon: what the queue adds to the threshold
    frame: int  # episodes of a frame
    parameters: Mapping[str, float] = field(default_factory=dict)  # the preset's named fields, as used

    def __post_init__(self) -> None:
        """Check all numbers; raises InvalidParameterError if one is out of range."""
        for name in ("rate", "eta", "bonus", "extra_bonus", "margin"):
            least = 0.0 if name in ("bonus", "extra_bonus", "margin") else math.ulp(0.0)
            value = as_number(name, getattr(self, name), "a finite number")
            if not value >= least:
                raise InvalidParameterError(
                    f"{name} is {value}; expected a number, {'above' if least else 'at least'} 0."
                )
        if self.frame < 1:
            raise InvalidParameterError(f"frame is {self.frame}; expected at least 1 episode.")


def _frame(task: Task, scale: float = 1.0) -> int:
    return max(1, round(float(scale * task.episodes**FRAME_EXPONENT)))


def _paper(task: Task, dual_bound: float | None) -> TripleQConstants:
    """The constants of the paper's Theorem 1; the margin exceeds H unless episodes are astronomically many."""
    H, K, pairs = task.horizon, task.episodes, task.num_states * task.num_actions
    iota = 128.0 * math.log(math.sqrt(2.0 * pairs * H) * K)
    eta = K**0.2
    return TripleQConstants(
        "paper",
        rate=K**0.2,
        eta=eta,
        bonus=0.25 * math.sqrt(H**2 * iota),
        extra_bonus=2.0 * H**3 * math.sqrt(iota) / eta,
        margin=8.0 * math.sqrt(pairs * H**6 * iota**3) / K**0.2,
        frame=_frame(task),
    )


def _practical(
    task: Task,
    dual_bound: float | None,
    eta_scale: float = 0.1,
    bonus_scale: float = 0.001,
    extra_scale: float = 0.0001,
    margin_scale: float = 0.03,
    frame_scale: float = 0.15,
    rate_scale: float = 1.0,
) -> TripleQConstants:
    """The paper's powers of K, with factors that `python -m studies.general` chose; has no guarantee."""
    given = {name: value for name, value in locals().items() if name.endswith("_scale")}
    H, K = task.horizon, task.episodes
    return TripleQConstants(
        "practical",
        rate=rate_scale * K**0.2,
        eta=eta_scale * K**0.2,
        bonus=bonus_scale * H,
        extra_bonus=extra_scale * H,
        margin=margin_scale * H,
        frame=_frame(task, frame_scale),
        parameters=given,
    )


class TripleQ(CountedLearner):
    """Learns Q-values of reward and utility from each episode, and acts greedily for their sum, weighted by a queue.

    >>> import opdop
    >>> run = opdop.train("media-streaming", "triple-q", preset="paper", episodes=100)
    >>> run.constants["frame"]
    16

    Args:
        task: what the learner is told; it must have one constraint and finitely many states.
        constants: those of a preset, or your own.

    Transitions are counted too, for certificates only; what is played does not depend on the counts. Raises
    InvalidParameterError if the task has several constraints or continuous states.
    """

    def __init__(self, task: Task, constants: TripleQConstants) -> None:
        self.task = as_task(task)
        refuse_continuous("triple-q", task)
        refuse_several("triple-q", task)
        check_room(task, 8.0, "the Q-values and the policy")
        H, S, A = task.horizon, task.num_states, task.num_actions
        self.counts = Counts(task, radius=BallRadius(0.0))  # it only counts
        self.constants = described(constants, task)
        self.episodes = 0
        self._learner = triple_q.TripleQ(
            q=np.full((2, H, S, A), float(H)),  # line 2
            visits=np.zeros((H, S, A)),
            policy=np.full((H, A, S), 1.0 / A),
            queue=np.zeros(2),
            initial=task.initial,
            threshold=float(task.thresholds[0]),
            rate=constants.rate,
            eta=constants.eta,
            bonus=constants.bonus,
            extra_bonus=constants.extra_bonus,
            margin=constants.margin,
            frame=constants.frame,
        )
        self._last = swapped(self._learner.policy).copy()  # of the last episode
        self._estimates, self._dual = np.zeros(2), 0.0
        self._proposed: TabularPolicy | None = None

    @property
    def q(self) -> Floats:
        """The Q-values of reward and utility, [2, H, S, A]."""
        return self._learner.q

    @property
    def queue(self) -> float:
        """Z, the length of the virtual queue."""
        return float(self._learner.queue[0])

    def propose(self) -> TabularPolicy:
        """Return the greedy policy for Q + (Z / eta) C; equally good actions are equally likely."""
        if self._proposed is None:
            self._proposed = TabularPolicy.trusted(np.array(swapped(self._learner.policy), order="C"))
        return self._proposed

    def learn(self, episode: Episode) -> None:
        """Learn from the episode played with the policy proposed last.

        Raises OpdopError if no policy was proposed, and InvalidModelError if the episode does not fit the task.
        """
        proposed = required_proposal(self._proposed)
        episode = self.task.checked(episode)
        triple_q.estimate(self._learner, self._estimates)
        self._dual = self.queue / self._learner.eta
        self.counts.observe(episode)
        triple_q.learn(self._learner, self.episodes, episode.states, episode.actions, episode.signals)
        self._last = proposed.table
        self._proposed = None
        self.episodes += 1

    @property
    def policy(self) -> Floats:
        """The policy of the last episode, [H, S, A]."""
        return self._last

    def diagnostics(self) -> dict[str, float]:
        """Return the Q-values of the last episode's policy, averaged over the first state, and its multiplier."""
        return {
            "episodes": float(self.episodes),
            "estimated_reward": float(self._estimates[0]),
            "estimated_utility_0": float(self._estimates[1]),
            "dual_0": float(self._dual),
            "queue": self.queue,
        }

    def state(self) -> dict[str, NDArray[Any]]:
        """Return everything that later proposals depend on."""
        own = {
            "episodes": np.array(self.episodes),
            "q": self._learner.q.copy(),
            "visits": self._learner.visits.copy(),
            "policy": swapped(self._learner.policy).copy(),
            "queue": self._learner.queue.copy(),
            "estimates": self._estimates.copy(),
            "dual": np.array(self._dual),
        }
        return own | prefixed("counts.", self.counts.state())

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Return to a saved state; raises OpdopError if it does not fit."""
        learner = self._learner
        found = {name: fitting(state, name, getattr(learner, name)) for name in ("q", "visits", "queue")}
        policy, visits, queue = fitting_policy(state, self.policy), found["visits"], found["queue"]
        estimates, dual = fitting(state, "estimates", self._estimates), fitting(state, "dual", np.array(0.0))
        episodes = int(fitting(state, "episodes", np.array(0)))
        if (visits.sum(axis=(1, 2)) != episodes % learner.frame).any() or (visits < 0.0).any():
            raise OpdopError(f"the saved visits are not those of {episodes} episodes with frames of {learner.frame}.")
        if queue[0] < 0.0 or dual < 0.0:
            raise OpdopError(f"the saved queue is {queue[0]}; expected a number, at least 0.")
        restore_counts(self.counts, state, episodes)
        for name, array in found.items():
            getattr(learner, name)[:] = array
        learner.policy[:] = swapped(policy)
        self.episodes, self._estimates, self._dual = episodes, estimates.copy(), float(dual)
        self._proposed = None

    def _run(self, model: loops.Model, uniforms: Floats, record: loops.Record) -> int:
        last = np.empty_like(self._learner.policy)
        done = int(triple_q.run_triple_q(self._learner, self.counted(), self.episodes, model, uniforms, record, last))
        if done:
            self._last, self._estimates = swapped(last), record.estimates[done - 1].copy()
            self._dual = float(record.dual[done - 1, 0])
        self._proposed = None
        self.episodes += done
        return done


@algorithm(
    "triple-q",
    summary="Triple-Q: model-free, with Q-values of reward and utility and a virtual queue; one constraint",
    presets={"paper": _paper, "practical": _practical},
)
def triple_q_learner(task: Task, preset: Preset) -> TripleQ:
    """Return the learner."""
    return TripleQ(task, preset.constants(task))
