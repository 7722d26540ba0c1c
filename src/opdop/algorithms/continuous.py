"""Algorithms 1 and 2 for continuous states: value functions on nodes, policies at visited states by replay.

Value functions and policies are stored at finitely many carried states, where everything is as for finitely many
states. A visited state is in general not one of them. There pi^k is computed by replaying lines 4 to 6 with
Q^1, ..., Q^(k-1) at that state, each a closed formula of its evaluation's regressions. This is exact; memory and time
grow with k. The arithmetic is in `opdop.kernels.replay`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opdop.algorithms.constants import Preset
from opdop.algorithms.lstd import LSTD
from opdop.algorithms.opdop import OPDOP, OPPO, MakesEvaluator
from opdop.algorithms.saved_state import fitting, prefixed
from opdop.algorithms.sizes import check_state, required_proposal
from opdop.algorithms.task import Evaluator, Task, by_action, swapped
from opdop.kernels import evaluators
from opdop.kernels import replay as kernel
from opdop.kernels.lstd import Linear
from opdop.kernels.primal_dual import improve
from opdop.model import Episode, InvalidModelError, InvalidParameterError, OpdopError, TabularPolicy
from opdop.model.continuous_features import Carried, ContinuousFeatures, carry
from opdop.model.policy import draw_action
from opdop.model.validation import Floats, as_floats, as_number, shown

_MOST_REMEMBERED = 4096  # replayed states that a policy keeps
_LANED = ("signal_weights", "signal_inverse", "signal_radius", "weights", "inverse", "radius", "v")


class ReplayedPolicy:
    """pi^k, which later learning does not change: a table on the carried states, and computed by replay elsewhere."""

    def __init__(self, table: Floats, learner: ContinuousOPDOP) -> None:
        table.setflags(write=False)
        self.table = table  # [H, S, A], on the carried states
        self._source = learner.source
        self._first = learner.first_states
        self._past, self._entries, self._steps = learner.past, learner.entries, learner.episodes
        self._known: dict[tuple[int, bytes], tuple[Floats, Floats]] = {}
        self._rows: dict[bytes, kernel.Rows] = {}

    def probabilities(self, stage: int, state: Any) -> Floats:
        """Return the probabilities of the actions, [A], at a state of one or more coordinates."""
        x = _point(state, self._source.nodes.dim)
        if stage == 0 and x.tobytes() in self._first:  # carried along
            row: Floats = self.table[0, self._first[x.tobytes()]]
            return row
        return self.replayed(stage, x)[0]

    def act(self, observation: Any, stage: int, rng: np.random.Generator) -> int:
        """Return the action for a state of one or more coordinates at a stage, drawn with one number."""
        return draw_action(self.probabilities(stage, observation), rng)

    def sample(self, rng: np.random.Generator) -> ReplayedPolicy:
        """Return the policy that plays the next episode: this one."""
        return self

    def replayed(self, stage: int, x: Floats) -> tuple[Floats, Floats]:
        """Return the policy at a state [dim], and the one that the last evaluation valued; both [A]."""
        key = stage, x.tobytes()
        if key not in self._known:
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            A = self._source.num_actions
            now, valued, rows = np.empty(A), np.empty(A), self.rows(x)
            kernel.replay(self._past, self._entries, self._steps, stage, rows, valued, now)
            self._known[key] = now, valued
        return self._known[key]

    def rows(self, x: Floats) -> kernel.Rows:
        """Return the features of a state [dim]; they are computed once."""
        key = x.tobytes()
        if key not in self._rows:
            if len(self._rows) >= _MOST_REMEMBERED:
                self._rows.clear()
            self._rows[key] = self._source.rows(x)
        return self._rows[key]

    def __repr__(self) -> str:
        return f"ReplayedPolicy({self._entries} evaluations, {self._steps} steps)"


class ContinuousOPDOP(OPDOP):
    """Algorithm 1 with least squares, for states in [0, 1]^dim.

    With `reevaluate_at_growth` = c the policy is evaluated only when the determinant of some Gram matrix has grown by
    more than the factor c since the last evaluation, so that only O(d H log K) evaluations are stored. In between, Q
    and V do not change; the policy and the multipliers still make a step in every episode, with that Q and that
    estimate. Without it every episode is evaluated, as Algorithm 1 is written.
    """

    def __init__(
        self, task: Task, evaluator: LSTD, *, reevaluate_at_growth: float | None = None, **numbers: Any
    ) -> None:
        super().__init__(task, evaluator, **numbers)
        carried = evaluator.features.carried if isinstance(evaluator, LSTD) else None
        if carried is None or not isinstance(evaluator.arrays, Linear):
            raise InvalidParameterError(
                "the evaluator is not for continuous states; expected LSTD(with_visitors(task))."
            )
        if reevaluate_at_growth is not None:
            reevaluate_at_growth = as_number("reevaluate_at_growth", reevaluate_at_growth, "a number above 1")
            if reevaluate_at_growth <= 1.0:
                raise InvalidParameterError(
                    f"reevaluate_at_growth is {reevaluate_at_growth}; expected a number above 1."
                )
        self.lstd = evaluator
        self.regressions: Linear = evaluator.arrays
        self.source: ContinuousFeatures = carried.source
        self.visitors = task.num_states - task.horizon - 1  # the first of the H + 1 places for visited states
        self.first_states = {
            np.ascontiguousarray(carried.points[i]).tobytes(): i for i in np.flatnonzero(task.initial[: self.visitors])
        }
        self.stored = carried.points[: self.visitors]
        self.growth = reevaluate_at_growth
        nodes = self.source.nodes
        self.constants |= {"nodes": f"{len(nodes)} {nodes.name}", "reevaluate_at_growth": reevaluate_at_growth}
        self.entries = 0
        self.known = self._information()  # at the last evaluation
        self.past = self._room(0, 0)

    @classmethod
    def _from(cls, task: Task, evaluator: Evaluator | MakesEvaluator, preset: Preset, **own: Any) -> OPDOP:
        growth = preset.parameters.get("reevaluate_at_growth")
        return super()._from(task, evaluator, preset, reevaluate_at_growth=growth, **own)

    def propose(self) -> ReplayedPolicy:  # type: ignore[override]
        """Return pi^k; the same one until `learn` is called."""
        if not isinstance(self._proposed, ReplayedPolicy):
            last, table = self._estimates, self._by_action.copy()
            step_size, mixing = self._find_rates()
            improve(table, by_action(last.q), self.dual, step_size, mixing, last.touched)  # lines 4-6
            self._next = table
            self._proposed = ReplayedPolicy(swapped(table)[:, : self.visitors].copy(), self)  # type: ignore[assignment]
        return self._proposed  # type: ignore[return-value]

    def learn(self, episode: Episode) -> None:
        """Learn from the episode played with the policy proposed last.

        Raises OpdopError if no policy was proposed, and InvalidModelError if the episode does not fit the task.
        """
        proposed: Any = required_proposal(self._proposed)
        episode = self._checked(episode)
        self._by_action[:] = self._next
        self._update_dual()
        fresh = self._is_due()
        if fresh:  # line 10, on the episodes before this one only
            self._estimates = self.lstd.evaluate(TabularPolicy.trusted(swapped(self._next)))
        self._remember(fresh)
        self._observe(episode, proposed, fresh)
        self.utility_estimates[:] = self.estimated_totals()[1:]
        self._proposed = None
        self.episodes += 1
        self.past.rates[self.episodes - 1] = self._find_rates()  # of the step that is made with these multipliers

    def _is_due(self) -> bool:
        """Whether this episode is evaluated."""
        if self.growth is None or not self.entries:
            return True
        return bool((self._information() - self.known).max() > math.log(self.growth))

    def _information(self) -> Floats:
        """Return the log determinants of all Gram matrices."""
        return np.concatenate([self.regressions.information.ravel(), self.regressions.signal_information])

    def _remember(self, fresh: bool) -> None:
        """Store the multipliers of this episode's step, and its evaluation if it is new."""
        if self.entries == len(self.past.first) or self.episodes == len(self.past.dual):
            self._grow()
        self.past.dual[self.episodes] = self.dual
        if fresh:
            kernel.record(self.past, self.entries, self.regressions, self.lstd.v, self.source.folded)
            self.past.first[self.entries] = self.episodes
            self.entries += 1
            self.known = self._information()

    def _observe(self, episode: Episode, proposed: ReplayedPolicy, fresh: bool) -> None:
        """Write the visited states into their places, with V at each of them, then add the episode to the data."""
        H = self.task.horizon
        form, varphi, A = self.regressions.form, self.regressions.varphi, self.source.num_actions
        values = np.empty(1 + self.task.num_constraints)
        for h in range(H):
            place, x = self.visitors + h, episode.states[h]
            rows = proposed.rows(x)
            self.source.place(form, place, rows)
            varphi.reshape(len(varphi), A, -1)[:, :, place] = rows.varphi
            if h > 0:
                policy = proposed.replayed(h, x)[0 if fresh else 1]
                kernel.value_at(self.past, self.entries - 1, h, rows, policy, values)
                self.lstd.v[:, h, place] = values
        states = self.visitors + np.arange(H + 1)
        check_state(self.regressions, self.lstd.q, self.lstd.v, self.task)
        evaluators.observe(self.regressions, self.lstd.v, states, episode.actions, episode.signals)
        nearest = self._nearest(episode.states)
        self._update_scales(nearest)
        self._update_variances(nearest, episode)

    def _nearest(self, points: Floats) -> NDArray[np.int64]:
        """Return the stored state, other than the places of visitors, nearest to each point of [n, dim]."""
        squares = ((points[:, None] - self.stored[None]) ** 2).sum(axis=2)
        return np.asarray(squares.argmin(axis=1))

    def _checked(self, episode: Episode) -> Episode:
        """Return an episode with its states as [H+1, dim]; raises InvalidModelError if it does not fit the task."""
        if not isinstance(episode, Episode):
            raise InvalidModelError(f"the episode is {shown(episode)}; expected an opdop.Episode.")
        H, dim = self.task.horizon, self.source.nodes.dim
        states = np.asarray(episode.states)
        if states.dtype.kind != "f" or states.size != (H + 1) * dim or states.shape[:1] != (H + 1,):
            raise InvalidModelError(
                f"the episode's states are {states.dtype} {list(states.shape)}; expected numbers [H+1,dim] = "
                f"[{H + 1},{dim}]."
            )
        if not (states.min() >= 0.0 and states.max() <= 1.0):
            raise InvalidModelError(
                f"the episode's states reach from {states.min()} to {states.max()}; expected 0 to 1."
            )
        others = self.task.checked(Episode(np.zeros(H + 1, dtype=np.int64), episode.actions, episode.signals))
        points = np.ascontiguousarray(states.reshape(H + 1, dim), dtype=np.float64)
        return Episode(points, others.actions, others.signals)

    # The past ---------------------------------------------------------------------------------------------------------

    def _room(self, blocks: int, steps: int) -> kernel.Past:
        J, H, N = 1 + self.task.num_constraints, self.task.horizon, len(self.source.nodes)
        d, d2, L = self.source.row_dim, self.source.signal_dim, kernel.LANES
        return kernel.Past(
            signal_weights=np.zeros((blocks, J, H, d2, L)),
            signal_inverse=np.zeros((blocks, H, d2, d2, L)),
            signal_radius=np.zeros((blocks, H, L)),
            weights=np.zeros((blocks, J, H, d, L)),
            inverse=np.zeros((blocks, J, H, d, d, L)),
            radius=np.zeros((blocks, J, H, L)),
            v=np.zeros((blocks, J, H, 0 if self.source.folded else N, L)),
            first=np.zeros(blocks * L, dtype=np.int64),
            dual=np.zeros((steps, J - 1)),
            rates=np.zeros((steps, 2)),
        )

    def _grow(self) -> None:
        """Enlarge the room for evaluations or steps by half where none is left."""
        blocks, steps = len(self.past.radius), len(self.past.dual)
        if self.entries == len(self.past.first):
            blocks += 1 + blocks // 2
        if self.episodes == steps:
            steps += kernel.LANES + steps // 2
        roomy = self._room(blocks, steps)
        for before, after in zip(self.past, roomy, strict=True):
            after[: len(before)] = before
        self.past = roomy

    def state(self) -> dict[str, NDArray[Any]]:
        """Return everything that later proposals depend on, including the filled part of the past."""
        blocks = -(-self.entries // kernel.LANES)
        past = {name: getattr(self.past, name)[:blocks].copy() for name in _LANED}
        past |= {"first": self.past.first[: self.entries].copy()}
        past |= {name: getattr(self.past, name)[: self.episodes].copy() for name in ("dual", "rates")}
        return super().state() | prefixed("past.", past) | {"known": self.known.copy()}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Return to a saved state; raises OpdopError if it does not fit."""
        episodes = int(fitting(state, "episodes", np.array(0)))
        if "past.first" not in state or state["past.first"].ndim != 1:
            raise OpdopError("the saved state has no past.")
        entries = len(state["past.first"])
        if episodes < 0 or not (
            entries == episodes if self.growth is None else min(episodes, 1) <= entries <= episodes
        ):
            raise OpdopError(f"there are {entries} saved evaluations of {episodes} episodes.")
        blocks = -(-entries // kernel.LANES)
        like = self._room(blocks, episodes)
        like = like._replace(first=like.first[:entries])
        saved = {name: fitting(state, f"past.{name}", array) for name, array in like._asdict().items()}
        first = saved["first"]
        if entries and (first[0] != 0 or (np.diff(first) < 1).any() or first[-1] >= episodes):
            raise OpdopError("the saved evaluations are not in order.")
        known = fitting(state, "known", self.known)
        super().restore(state)
        self.entries, self.known = entries, known.copy()
        self.past = self._room(blocks, episodes)
        for name, array in saved.items():
            getattr(self.past, name)[: len(array)] = array


class ContinuousOPPO(OPPO, ContinuousOPDOP):
    """Optimistic PPO for continuous states: no constraints and no mixing."""


def with_visitors(task: Task) -> Task:
    """Return the task of a continuous problem with H + 1 more states: places for the states that an episode visits.

    Raises InvalidParameterError if the task's states are finitely many.
    """
    carried: Carried | None = None if task.features is None else task.features.carried
    if carried is None:
        raise InvalidParameterError("the task has finitely many states; expected features of continuous states.")
    H = task.horizon
    places = np.full((H + 1, carried.source.nodes.dim), 0.5)
    features = carry(carried.source, np.concatenate([carried.others, places]))
    initial = np.concatenate([task.initial, np.zeros(H + 1)])
    return replace(task, num_states=features.num_states, features=features, initial=initial)


def _point(state: Any, dim: int) -> Floats:
    """Return a state as [dim]."""
    x = as_floats("the state", state, f"{dim} coordinates").reshape(-1)
    if x.shape != (dim,) or not (x.min() >= 0.0 and x.max() <= 1.0):
        raise InvalidModelError(f"the state is {state!r}; expected {dim} number{'s' if dim > 1 else ''} in [0, 1].")
    return x
