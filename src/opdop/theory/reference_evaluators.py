"""An independent re-implementation of Algorithms 2 and 3 and of the optimum over L1 balls, to check learners against.

It keeps plain sums of every episode, inverts whole matrices, and has its own radii (`reference_radii`). So the check
finds a learner whose data, order of steps, clip or bonus is wrong.

Each stage is checked given the learner's own values of the next one: there is no second backward pass here.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opdop.algorithms.constants import Constants
from opdop.algorithms.counts import known_visits
from opdop.algorithms.task import Estimates, Task
from opdop.model import Episode, Features, InvalidParameterError
from opdop.model.validation import Floats
from opdop.theory import reference_radii
from opdop.theory.checks import ROUNDING, Result
from opdop.theory.potential import ball_widths, most_potential, pigeonhole

# Algorithm 3 is re-implemented with a plain table of all transitions, of at most this many cells.
MOST_CELLS = 50_000_000


class Evaluated(NamedTuple):
    """What a learner must find, Q = clip(centre + bonus, 0, H - h), and what Q may exceed the truth by."""

    centre: Floats  # [1+I, H, S, A]
    bonus: Floats  # [1+I, H, S, A]
    allowed: Floats  # [1+I, H, S, A]: -iota is at most this


def _tables(task: Task) -> tuple[Floats, Floats]:
    """Return room for the transitions [H, S, A, S] and the sums of the signals [1+I, H, S, A] of all episodes.

    What the task says of an absorbing state is there already, as many visits of every stage.
    """
    J, H, S, A = 1 + task.num_constraints, task.horizon, task.num_states, task.num_actions
    if H * S * A * S > MOST_CELLS:
        raise InvalidParameterError(
            f"a table of H = {H}, S = {S}, A = {A} would have {H * S * A * S:,} cells; expected at most "
            f"{MOST_CELLS:,}: verify a smaller problem of the same kind."
        )
    seen, sums = np.zeros((H, S, A, S)), np.zeros((J, H, S, A))
    if task.absorbing is not None and task.rest is not None:
        often = known_visits(task) // H
        seen[:, task.absorbing, :, task.absorbing] = often
        sums[:, :, task.absorbing] = often * task.rest[:, None, None]
    return seen, sums


class ReferenceCounts:
    """Computes from the raw episodes what Algorithm 3 must find."""

    def __init__(self, task: Task, constants: Constants) -> None:
        self.seen, self.sums = _tables(task)
        self.known = float(self.seen[0].sum())  # visits of a stage that were not played
        self.ridge = reference_radii.ridge_of(constants)
        self.bonus = reference_radii.count_bonus(task, constants)[:, None, None]
        self.unvisited_bonus = reference_radii.unvisited_bonus(task, constants)[:, None, None]
        self.widths = np.zeros(task.horizon)  # sums of 1 / sqrt(n + ridge) at the visited pairs

    @property
    def visits(self) -> Floats:
        """n(x, a) at every stage, [H, S, A]."""
        number: Floats = self.seen.sum(axis=3)
        return number

    def evaluate(self, v: Floats) -> Evaluated:
        """Return smoothed means plus P^ V, and twice the bonus (lines 5 to 7).

        v [1+I, H+1, S] are the learner's values: each stage is checked given the learner's values of the next.
        """
        visits = self.visits
        centre = (self.sums + np.einsum("hxay,jhy->jhxa", self.seen, v[:, 1:])) / (visits + self.ridge)
        bonus = np.where(visits > 0.0, self.bonus / np.sqrt(visits + self.ridge), self.unvisited_bonus)
        bonus = np.broadcast_to(bonus, centre.shape)
        return Evaluated(centre, bonus, 2.0 * bonus)

    def add(self, episode: Episode, estimates: Estimates) -> None:
        """Count one episode."""
        stages, x, a = np.arange(len(self.widths)), episode.states[:-1], episode.actions
        self.widths += 1.0 / np.sqrt(self.visits[stages, x, a] + self.ridge)
        self.seen[stages, x, a, episode.states[1:]] += 1.0
        self.sums[:, stages, x, a] += episode.signals

    def potential(self) -> Result:
        """Compare the sum of 1 / sqrt(n + ridge) at visited pairs with the largest sum that any visits can have."""
        pairs = self.seen[0].size // self.seen.shape[3]
        K = float(self.seen[0].sum()) - self.known
        bound = pairs * pigeonhole(K / pairs, np.inf, 1.0, self.ridge)
        largest = K / np.sqrt(self.ridge)
        return Result.inequality(float(self.widths.max()), bound, largest, rounding=ROUNDING * bound)


class ReferenceBalls:
    """The same for the preset `certified` with counts: Q = signal + the largest q V over an L1 ball.

    A q in the ball that has the largest expectation has P(V >= t) + eps/2 of its mass at values of at least t, for
    every t up to the largest value, and at most all of it. So its expectation is a sum over the steps of V; nothing is
    moved from one successor to another, as the learner does it.
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        self.seen, self.sums = _tables(task)
        self.known = float(self.seen[0].sum())  # visits of a stage that were not played
        self.logarithm, self.signal_logarithm = reference_radii.ball_logarithms(task)
        self.widths = np.zeros(task.horizon)  # sums of the kernel's widths at the visited pairs

    def _kernel_visits(self) -> Floats:
        """Return n of every row, [H, S, A]; where the kernel is pooled, the same at every stage."""
        visits = self.seen.sum(axis=3)
        pooled: Floats = np.broadcast_to(visits.sum(axis=0), visits.shape) if self.task.stationary else visits
        return pooled

    def evaluate(self, v: Floats) -> Evaluated:
        """Return the means plus P_n V; how far the sets reach above them; and the whole length of the sets."""
        H, noisy = self.task.horizon, self.task.noisy
        visits, own = self._kernel_visits(), self.seen.sum(axis=3)
        sums, observed = self.sums, own
        if self.task.stationary_signals:
            sums = np.broadcast_to(sums.sum(axis=1, keepdims=True), sums.shape)
            observed = np.broadcast_to(own.sum(axis=0), own.shape)
        seen = np.broadcast_to(self.seen.sum(axis=0), self.seen.shape) if self.task.stationary else self.seen
        mean = np.where(observed > 0.0, sums / np.maximum(observed, 1.0), 0.0)
        width = reference_radii.mean_widths(observed, self.signal_logarithm)
        above = np.where(observed > 0.0, np.minimum(1.0 - mean, width) if noisy else 0.0, 1.0)
        below = np.where(observed > 0.0, np.minimum(mean, width) if noisy else 0.0, 0.0)
        move = reference_radii.mean_widths(visits, self.logarithm)  # eps / 2
        middle, high, low = np.zeros_like(mean), np.zeros_like(mean), np.zeros_like(mean)
        for j in range(len(v)):
            for h in range(H - 1):
                parts = _over_ball(seen[h] / np.maximum(visits[h], 1.0)[..., None], v[j, h + 1], move[h])
                middle[j, h], high[j, h], low[j, h] = parts
        tops = np.arange(H, 0, -1.0)[:, None, None]
        centre = np.where(visits > 0.0, mean + middle, 0.0)
        bonus = np.where(visits > 0.0, above + high - middle, tops)
        allowed = np.where(visits > 0.0, above + below + high - low, tops)
        return Evaluated(centre, bonus, allowed)

    def add(self, episode: Episode, estimates: Estimates) -> None:
        """Count one episode."""
        stages, x, a = np.arange(self.task.horizon), episode.states[:-1], episode.actions
        visits = self._kernel_visits()[stages, x, a]
        self.widths += np.minimum(2.0 * reference_radii.mean_widths(visits, self.logarithm), 1.0)
        self.seen[stages, x, a, episode.states[1:]] += 1.0
        self.sums[:, stages, x, a] += episode.signals

    def potential(self) -> Result:
        """Compare the sum of the widths at visited pairs with the largest sum that any visits can have."""
        pairs, K = self.task.num_states * self.task.num_actions, float(self.seen[0].sum()) - self.known
        if self.task.stationary:
            sums, late = np.cumsum(self.widths), np.arange(1, self.task.horizon + 1)
        else:
            sums, late = self.widths, np.ones(self.task.horizon, dtype=np.int64)
        results = []
        for found, m in zip(sums.tolist(), late.tolist(), strict=True):
            bound = pairs * ball_widths(m * K / pairs, self.logarithm, late=m)
            results.append(Result.inequality(found, bound, m * K, rounding=ROUNDING * bound))
        return reduce(Result.joined, results)


def _over_ball(p: Floats, v: Floats, move: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the mean of v [S] under every distribution p [..., S], and the largest and smallest over its ball.

    At most `move` [...], half of the width, may be moved. Each is the integral of the mass at values of at least t.
    """
    order = np.argsort(v)
    steps = np.diff(v[order])
    tails = np.cumsum(p[..., order][..., ::-1], axis=-1)[..., ::-1][..., 1:]  # mass at each value but the smallest
    least, moved = v[order[0]], move[..., None]
    return (
        least + tails @ steps,
        least + np.minimum(tails + moved, 1.0) @ steps,
        least + np.maximum(tails - moved, 0.0) @ steps,
    )


class _Regressions:
    """Ridge regressions with several targets' Gram matrices: [..., blocks, d, d]."""

    def __init__(self, lead: tuple[int, ...], targets: tuple[int, ...], blocks: int, dim: int, ridge: float) -> None:
        self.ridge = ridge
        self.gram = np.zeros((*lead, blocks, dim, dim)) + ridge * np.eye(dim)
        self.target = np.zeros((*targets, blocks, dim))

    @property
    def information(self) -> Floats:
        """Return log det(Gram / ridge) of every regression."""
        found: Floats = np.linalg.slogdet(self.gram / self.ridge)[1]
        return found


class ReferenceRegressions:
    """The same for Algorithm 2 with any features; with one-hot features every pair has a regression of its own."""

    def __init__(self, task: Task, constants: Constants, features: Features) -> None:
        J, H = 1 + task.num_constraints, task.horizon
        self.task, self.constants, self.features = task, constants, features
        pairs, blocks, ridge = task.num_states * task.num_actions, features.blocks, reference_radii.ridge_of(constants)
        self.block = np.arange(pairs) if blocks > 1 else np.zeros(pairs, dtype=np.int64)
        self.varphi = np.ones((pairs, 1)) if features.form is None else features.signal_features().reshape(pairs, -1)
        dim, signal_dim = features.kernel_dim // blocks, self.varphi.shape[1]
        self.kernel = _Regressions((J, H), (J, H), blocks, dim, ridge)
        self.signal = _Regressions((H,), (J, H), blocks, signal_dim, ridge)
        self.widths = np.zeros((J, H))  # sums of min(1, width^2) at the visited pairs
        self.signal_widths = np.zeros(H)
        self.episodes = 0

    def _integrals(self, v: Floats) -> Floats:
        """Return phi of every signal, stage and pair, [J, H, S*A, d]."""
        pairs = len(self.block)
        if self.features.form is None:
            return np.repeat(v[:, 1:, None, :], pairs, axis=2)
        rows = [[self.features.integrate(value).reshape(pairs, -1) for value in stages] for stages in v[:, 1:]]
        return np.array(rows)

    def evaluate(self, v: Floats) -> Evaluated:
        """Return the regressions' predictions, and the sum of both bonuses (lines 4 to 11)."""
        phi, varphi, block = self._integrals(v), self.varphi, self.block
        inverse = np.linalg.inv(self.kernel.gram)
        weights = np.einsum("jhbdc,jhbc->jhbd", inverse, self.kernel.target)
        signal_inverse = np.linalg.inv(self.signal.gram)
        signal_weights = np.einsum("hbdc,jhbc->jhbd", signal_inverse, self.signal.target)
        centre = np.einsum("jhpd,jhpd->jhp", phi, weights[:, :, block])
        centre += np.einsum("pd,jhpd->jhp", varphi, signal_weights[:, :, block])
        rule = self.task, self.constants, self.features
        radii = reference_radii.kernel_radii(*rule, self.kernel.information)
        signal_radii = reference_radii.signal_radii(*rule, self.signal.information)
        bonus = radii[:, :, block] * np.sqrt(_forms(phi, inverse, block))
        bonus += signal_radii[:, block] * np.sqrt(_forms(varphi[None], signal_inverse[None], block)[0])
        shape = (*v.shape[:1], self.task.horizon, -1, self.task.num_actions)
        return Evaluated(centre.reshape(shape), bonus.reshape(shape), 2.0 * bonus.reshape(shape))

    def add(self, episode: Episode, estimates: Estimates) -> None:
        """Put one episode into every regression, with the features and values of its own evaluation."""
        stages, pair = np.arange(self.task.horizon), episode.states[:-1] * self.task.num_actions + episode.actions
        block = self.block[pair]
        phi = self._integrals(estimates.v)[:, stages, pair]  # [J, H, d]
        f = self.varphi[pair]  # [H, d2]
        used = stages[:-1]  # there is no value after the last stage
        b, x, values = block[:-1], phi[:, :-1], estimates.v[:, used + 1, episode.states[1:-1]]
        gram = self.kernel.gram[:, used, b]
        self.widths[:, :-1] += np.minimum(_own_forms(x, gram), 1.0)
        self.signal_widths += np.minimum(_own_forms(f, self.signal.gram[stages, block]), 1.0)
        self.kernel.gram[:, used, b] += x[..., :, None] * x[..., None, :]
        self.kernel.target[:, used, b] += x * values[..., None]
        self.signal.gram[stages, block] += f[:, :, None] * f[:, None, :]
        self.signal.target[:, stages, block] += episode.signals[..., None] * f
        self.episodes += 1

    def potential(self) -> Result:
        """Compare the sum of min(1, width^2), which is at most K, with what the information allows."""
        kernel, signal = (regressions.information.sum(axis=-1) for regressions in (self.kernel, self.signal))
        widths = np.append(self.widths[:, :-1], self.signal_widths).tolist()
        bounds = [most_potential(found) for found in np.append(kernel[:, :-1], signal).tolist()]
        results = [
            Result.inequality(width, bound, self.episodes, rounding=ROUNDING * bound)
            for width, bound in zip(widths, bounds, strict=True)
        ]
        closest = max(results, key=lambda result: result.excess)
        return replace(closest, vacuous=all(result.vacuous for result in results))


def _forms(x: Floats, inverse: NDArray[Any], block: NDArray[Any]) -> Floats:
    """Return x^T inverse x of every pair: x [..., P, d], inverse [..., blocks, d, d]."""
    if inverse.shape[-3] == 1:
        across = x @ inverse[..., 0, :, :]
    else:
        across = np.einsum("...pdc,...pc->...pd", inverse[..., block, :, :], x)
    forms: Floats = np.maximum((across * x).sum(axis=-1), 0.0)
    return forms


def _own_forms(x: Floats, gram: Floats) -> Floats:
    """Return x^T Gram^-1 x, each x [..., d] with its own Gram matrix [..., d, d]."""
    form: Floats = (np.linalg.solve(gram, x[..., None])[..., 0] * x).sum(axis=-1)
    return form


ReferenceEvaluator = ReferenceCounts | ReferenceBalls | ReferenceRegressions


def reference_for(task: Task, constants: Constants, features: Features | None) -> ReferenceEvaluator:
    """Return the re-implementation of what a preset uses: balls or Algorithm 3, or with features Algorithm 2."""
    if features is None and constants.preset == "certified":
        return ReferenceBalls(task)
    if features is None:
        return ReferenceCounts(task, constants)
    return ReferenceRegressions(task, constants, features)
