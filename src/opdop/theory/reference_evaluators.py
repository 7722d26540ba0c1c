"""A second bookkeeper: what Algorithms 2 and 3 must find, from the raw episodes and by another way.

It keeps plain sums of every episode it is shown, inverts matrices whole, and takes its radii from the preset and not
from the learner. A learner that is wrong about its data or its bonus is caught by it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from opdop.algorithms.constants import Constants, first_widths, linear_rule
from opdop.algorithms.task import Estimates, Task
from opdop.kernels.lstd import kernel_radius, signal_radius
from opdop.model import Episode, Features, InvalidParameterError
from opdop.model.validation import Floats
from opdop.theory.potential import most_potential, pigeonhole

# A plain table of all transitions is what makes the second bookkeeper simple; up to so many of them.
MOST_CELLS = 50_000_000


@dataclass(frozen=True, eq=False)
class Account:
    """What must be found of the episodes so far: Q = clip(centre + bonus, 0, H - h), all [1+I, H, S, A]."""

    centre: Floats
    bonus: Floats

    def q(self) -> Floats:
        """Return the action values that follow."""
        H = self.centre.shape[1]
        top = np.arange(H, 0, -1.0)[None, :, None, None]
        values: Floats = np.clip(self.centre + self.bonus, 0.0, top)
        return values


@dataclass(frozen=True, eq=False)
class Potential:
    """Both sides of the lemma on the sum of widths; for counts what was collected, and the pigeonhole bound."""

    measured: float
    bound: float


class Ledger(Protocol):
    """Keeps its own books of a run."""

    def account(self, v: Floats) -> Account:
        """Return what must be found now, with the values v [1+I, H+1, S] of the next stage as the learner has them."""
        ...

    def add(self, episode: Episode, estimates: Estimates) -> None:
        """Put one episode into the books, with the values of its own evaluation."""
        ...

    def potential(self) -> Potential:
        """Return both sides of the potential lemma so far, at the stage where they are closest."""
        ...


class CountLedger:
    """The books of Algorithm 3."""

    def __init__(self, task: Task, constants: Constants) -> None:
        J, H, S, A = 1 + task.num_constraints, task.horizon, task.num_states, task.num_actions
        if H * S * A * S > MOST_CELLS:
            raise InvalidParameterError(
                f"the books of H = {H}, S = {S}, A = {A} would have {H * S * A * S:,} cells; expected at most "
                f"{MOST_CELLS:,}: verify a smaller problem of the same kind."
            )
        self.ridge = constants.ridge
        self.radii = constants.radius.radii(task, constants.ridge)
        self.first_bonus = 2.0 * self.radii * first_widths(constants.radius, task, constants.ridge)
        self.seen = np.zeros((H, S, A, S))
        self.sums = np.zeros((J, H, S, A))
        self.collected = np.zeros(H)

    @property
    def visits(self) -> Floats:
        """n(x, a) at every stage, [H, S, A]."""
        number: Floats = self.seen.sum(axis=3)
        return number

    def account(self, v: Floats) -> Account:
        """Return the smoothed means and P^ V, and twice the bonus (lines 5 to 7)."""
        visits = self.visits
        below = visits + self.ridge
        centre = (self.sums + np.einsum("hxay,jhy->jhxa", self.seen, v[:, 1:])) / below
        bonus = 2.0 * self.radii[:, None, None] / np.sqrt(below)
        bonus = np.where(visits > 0.0, bonus, self.first_bonus[:, None, None])
        return Account(centre, np.broadcast_to(bonus, centre.shape))

    def add(self, episode: Episode, estimates: Estimates) -> None:
        """Count one episode."""
        stages, x, a = np.arange(len(self.radii)), episode.states[:-1], episode.actions
        self.collected += 1.0 / np.sqrt(self.visits[stages, x, a] + self.ridge)
        self.seen[stages, x, a, episode.states[1:]] += 1.0
        self.sums[:, stages, x, a] += episode.signals

    def potential(self) -> Potential:
        """Return the sum of 1 / sqrt(n + ridge) at visited pairs beside what any visits can make of it."""
        pairs = self.seen[0].size // self.seen.shape[3]
        K = float(self.seen[0].sum())
        return Potential(float(self.collected.max()), pairs * pigeonhole(K / pairs, np.inf, 1.0, self.ridge))


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


class LinearLedger:
    """The books of Algorithm 2, for any features; one-hot ones fall into a regression for every pair."""

    def __init__(self, task: Task, constants: Constants, features: Features) -> None:
        J, H = 1 + task.num_constraints, task.horizon
        self.features, self.actions, self.horizon = features, task.num_actions, H
        pairs, blocks = task.num_states * task.num_actions, features.blocks
        self.radii = linear_rule(constants.radius).linear_radii(task, features, constants.ridge)
        self.block = np.arange(pairs) if blocks > 1 else np.zeros(pairs, dtype=np.int64)
        self.varphi = np.ones((pairs, 1)) if features.form is None else features.signal_features().reshape(pairs, -1)
        dim, signal_dim = features.kernel_dim // blocks, self.varphi.shape[1]
        self.kernel = _Regressions((J, H), (J, H), blocks, dim, constants.ridge)
        self.signal = _Regressions((H,), (J, H), blocks, signal_dim, constants.ridge)
        self.widths = np.zeros((J, H))
        self.signal_widths = np.zeros(H)

    def _integrals(self, v: Floats) -> Floats:
        """Return phi of every signal, stage and pair, [J, H, S*A, d]."""
        pairs = len(self.block)
        if self.features.form is None:
            return np.repeat(v[:, 1:, None, :], pairs, axis=2)
        rows = [[self.features.integrate(value).reshape(pairs, -1) for value in stages] for stages in v[:, 1:]]
        return np.array(rows)

    def account(self, v: Floats) -> Account:
        """Return the regressions' predictions and the sum of both bonuses (lines 4 to 11)."""
        phi, varphi = self._integrals(v), self.varphi
        inverse = np.linalg.inv(self.kernel.gram)
        weights = np.einsum("jhbdc,jhbc->jhbd", inverse, self.kernel.target)
        signal_inverse = np.linalg.inv(self.signal.gram)
        signal_weights = np.einsum("hbdc,jhbc->jhbd", signal_inverse, self.signal.target)
        block = self.block
        centre = np.einsum("jhpd,jhpd->jhp", phi, weights[:, :, block])
        centre += np.einsum("pd,jhpd->jhp", varphi, signal_weights[:, :, block])
        square = _forms(phi, inverse, block)
        signal_square = _forms(varphi[None], signal_inverse[None], block)[0]
        bonus = self._kernel_radii()[:, :, block] * np.sqrt(square)
        bonus += self._signal_radii()[:, block] * np.sqrt(signal_square)
        shape = (*v.shape[:1], self.horizon, -1, self.actions)
        return Account(centre.reshape(shape), bonus.reshape(shape))

    def _kernel_radii(self) -> Floats:
        information = self.kernel.information  # [J, H, blocks]
        radii = [
            [[kernel_radius(self.radii, h, float(each)) for each in blocks] for h, blocks in enumerate(stages)]
            for stages in information
        ]
        return np.array(radii)

    def _signal_radii(self) -> Floats:
        radii = [[signal_radius(self.radii, float(each)) for each in blocks] for blocks in self.signal.information]
        return np.array(radii)

    def add(self, episode: Episode, estimates: Estimates) -> None:
        """Put one episode into every regression, with the features and values of its own evaluation."""
        H = self.horizon
        stages, pair = np.arange(H), episode.states[:-1] * self.actions + episode.actions
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

    def potential(self) -> Potential:
        """Return the sum of min(1, width^2) beside what the information allows, where they are closest."""
        kernel, signal = (regressions.information.sum(axis=-1) for regressions in (self.kernel, self.signal))
        widths = np.append(self.widths[:, :-1], self.signal_widths).tolist()
        information = np.append(kernel[:, :-1], signal).tolist()
        sides = [Potential(width, most_potential(found)) for width, found in zip(widths, information, strict=True)]
        return max(sides, key=lambda side: side.measured - side.bound)


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


def ledger_of(task: Task, constants: Constants, features: Features | None) -> Ledger:
    """Return the books of Algorithm 3, or with features of Algorithm 2."""
    return CountLedger(task, constants) if features is None else LinearLedger(task, constants, features)
