"""The finite constrained Markov decision process: what a problem is, frozen and validated."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse

from opdop.kernels.transitions import Dense, Sparse, Transitions
from opdop.model.display import Display, Quantity
from opdop.model.errors import InvalidModelError
from opdop.model.features import Features
from opdop.model.html_tables import html_table, problem_rows
from opdop.model.signals import read_signals, read_thresholds
from opdop.model.simulator import ModelSimulator, Seed
from opdop.model.validation import (
    ROW_SUM_TOLERANCE,
    Floats,
    as_floats,
    as_index,
    as_size,
    check_distributions,
    check_memory,
    check_sparse_rows,
    read_sparse,
    shown,
    whole_number,
)

_SHAPES = "[H,S,A,S], [S,A,S] with horizon=H, or scipy.sparse [S*A,S] (one with horizon=H, or a list of H)"


@dataclass(frozen=True, eq=False, repr=False, init=False)
class TabularCMDP:
    """An episodic constrained MDP with finitely many states: maximise reward, with each utility above its threshold.

    Args:
        transitions: P(y | x, a) as [H, S, A, S]; or [S, A, S] with `horizon`; or scipy.sparse [S*A, S] with
            row x*A + a, one with `horizon` or a list of H.
        rewards: [H, S, A] or [S, A].
        utilities: [I, H, S, A]; for one constraint also [H, S, A] or [S, A]; for several also [I, S, A]; or arrays
            [H, S, A] or [S, A] by name.
        thresholds: [I] or a number, or numbers by name: each utility's expected total must reach its threshold.
        initial: the first state, or a distribution [S].
        horizon: number of stages H; needed for stationary transitions only.
        costs: as utilities, for what must stay small; they follow the utilities in the model.
        budgets: as thresholds: each cost's expected total must not exceed its budget.
        reward_range: (low, high) of the rewards.
        utility_range, cost_range: (low, high) of all utilities or costs, a pair for each in order, or pairs by name.
        units: a unit for everything, or by name: {"reward": ("profit", "dollars"), "cost": "dollars"}; a pair also
            changes the shown name.
        display: the problem's own words and units.

    A model computes with signals in [0, 1]. With utilities and thresholds alone, rewards and utilities must lie there
    and thresholds in (0, H]. Costs, names, ranges or units allow any finite numbers: those outside [0, 1] are mapped
    from their stated range, else from the smallest and the largest entry. `display` keeps the maps, by which every
    table, figure and report shows totals in the given units.

    Raises InvalidModelError, naming the entry that is wrong, if these do not make a model.

    Two states; action 1 moves to the other state, earns 1 in state 0, and is limited by the constraint:

    >>> import numpy as np
    >>> P = np.zeros((2, 2, 2)); P[0, 0, 0] = P[1, 0, 1] = P[0, 1, 1] = P[1, 1, 0] = 1
    >>> TabularCMDP(P, rewards=[[0, 1], [0, 0]], utilities=[[1, 0], [1, 0]], thresholds=2, horizon=3)
    TabularCMDP('model': 2 states, 2 actions, 3 stages, 1 constraint, dense, stationary)
    >>> TabularCMDP(P, [[0, 7], [0, 0]], [[1, 0], [1, 0]], thresholds=2, horizon=3)
    Traceback (most recent call last):
    opdop.model.errors.InvalidModelError: rewards[0, 1] is 7; signals must lie in [0, 1], and rewards spans [0, 7]. ...

    The same with 7 dollars, and a budget for the tolls of 3 dollars that each move costs:

    >>> from opdop import solve
    >>> moves = TabularCMDP(P, [[0, 7], [0, 0]], costs={"tolls": [[0, 3], [0, 3]]}, budgets={"tolls": 4.5}, horizon=3,
    ...                     units={"reward": ("profit", "dollars"), "tolls": "dollars"})
    >>> print(solve(moves))
    profit: 8.75 dollars
    tolls <= 4.5 dollars: 4.5; one more dollar of budget is worth 1.167 dollars of profit
    """

    horizon: int
    num_states: int
    num_actions: int
    transitions: Transitions  # L*S*A rows, L = 1 if stationary, else H
    signals: Floats  # [1+I, L, S, A], 0 the reward
    thresholds: Floats  # [I]
    initial: Floats  # [S]
    display: Display
    features: Features | None  # of the linear kernel, if it has one; a learner may be told
    absorbing: int | None  # the state in which an episode has ended, if there is one; a learner may be told
    usual_episodes: ClassVar[int] = 100_000
    discretisation: ClassVar[str] = ""

    def __init__(
        self,
        transitions: Any,
        rewards: Any,
        utilities: Any = None,
        thresholds: Any = None,
        initial: Any = 0,
        horizon: int | None = None,
        *,
        costs: Any = None,
        budgets: Any = None,
        reward_range: Any = None,
        utility_range: Any = None,
        cost_range: Any = None,
        units: Any = None,
        display: Display | None = None,
    ) -> None:
        if horizon is not None:
            horizon = as_size("horizon", horizon)
        rows, stages, S, A = _read_transitions(transitions)
        if stages is None and horizon is None:
            raise InvalidModelError("transitions are stationary, so horizon is needed: pass horizon=H.")
        if stages is not None and horizon is not None and stages != horizon:
            raise InvalidModelError(f"transitions have {stages} stages but horizon is {horizon}; expected the same.")
        H = stages or horizon or 1
        check_memory(8.0 * H * S * A, f"a policy for {H:,} stages, {S:,} states and {A:,} actions")
        signals = read_signals(
            (H, S, A),
            rewards,
            utilities,
            thresholds,
            costs,
            budgets,
            reward_range=reward_range,
            utility_range=utility_range,
            cost_range=cost_range,
            units=units,
        )
        fields = {
            "horizon": H,
            "num_states": S,
            "num_actions": A,
            "transitions": rows,
            "signals": signals.values,
            "thresholds": signals.thresholds,
            "initial": _read_initial(initial, S),
            "display": _read_display(display, len(signals.thresholds), S, A, signals.quantities),
            "features": None,
            "absorbing": None,
        }
        self.__setstate__(fields)

    def __setstate__(self, fields: dict[str, Any]) -> None:
        """Take all fields and freeze their arrays; copies and pickles go through here, and would not be frozen else."""
        self.__dict__.update(fields)
        for array in (*self.transitions, self.signals, self.thresholds, self.initial):
            array.setflags(write=False)

    def with_display(self, display: Display) -> Self:
        """Return the same model with the words and units of another display.

        Raises InvalidModelError if these do not fit its sizes.
        """
        return self._changed(display=_read_display(display, self.num_constraints, self.num_states, self.num_actions))

    def with_thresholds(self, thresholds: Any) -> Self:
        """Return the same model with other thresholds; the rest is shared, not copied.

        Raises InvalidModelError if there are more or fewer than before, or if one is not a finite number.
        """
        bounds = read_thresholds(thresholds, self.horizon)
        if len(bounds) != self.num_constraints:
            raise InvalidModelError(
                f"there are {len(bounds)} thresholds; expected {self.num_constraints}, as many as before."
            )
        return self._changed(thresholds=bounds)

    def with_initial(self, initial: Any) -> Self:
        """Return the same model with another first state, or another distribution [S] of it, given as `initial`.

        Raises InvalidModelError if it is neither.
        """
        return self._changed(initial=_read_initial(initial, self.num_states))

    def with_features(self, features: Features) -> Self:
        """Return the same model with the features of its linear kernel.

        Raises InvalidModelError if these are for other states and actions.
        """
        if not isinstance(features, Features):
            raise InvalidModelError(f"features is {type(features).__name__}; expected opdop.model.features.Features.")
        if (features.num_states, features.num_actions) != (self.num_states, self.num_actions):
            raise InvalidModelError(f"{features!r} are not for {self.num_states} states, {self.num_actions} actions.")
        return self._changed(features=features)

    def with_absorbing(self, state: int) -> Self:
        """Return the same model with a state that stands for the end of an episode, which a learner is told.

        Raises InvalidModelError unless all actions keep the state, with the same signals at every stage.
        """
        x = as_index("absorbing", state, self.num_states)
        stays = all(
            self.transition_matrix(h)[x * self.num_actions + a, x] == 1.0
            for h in range(self.stored_stages)
            for a in range(self.num_actions)
        )
        rest = self.signals[:, :, x]
        if not stays or (rest != rest[:, :1, :1]).any():
            raise InvalidModelError(f"state {x} is not absorbing; expected that it stays, with the same signals.")
        return self._changed(absorbing=x)

    def _changed(self, **fields: Any) -> Self:
        model = object.__new__(type(self))
        model.__setstate__({**self.__dict__, **fields})
        return model

    def tabular(self) -> TabularCMDP:
        """Return the model itself: it is finite already."""
        return self

    def refinements(self) -> tuple[()]:
        """Return nothing: the model is exact."""
        return ()

    def simulator(self, *, seed: Seed = 0, noisy: bool = False) -> ModelSimulator:
        """Return a simulator of this model; see `ModelSimulator` for the arguments and errors."""
        return ModelSimulator(self, seed=seed, noisy=noisy)

    @property
    def learner_features(self) -> Features | None:
        """The features of the model's linear kernel; None if it has none."""
        return self.features

    @property
    def num_constraints(self) -> int:
        """I, the number of constraints."""
        return len(self.thresholds)

    @property
    def is_stationary(self) -> bool:
        """Whether all stages share one kernel."""
        return self.stored_stages == 1 and self.horizon > 1

    @property
    def is_sparse(self) -> bool:
        """Whether transitions are stored in compressed form."""
        return isinstance(self.transitions, Sparse)

    @property
    def rewards(self) -> Floats:
        """Mean rewards as a read-only view [H, S, A]."""
        view: Floats = self._all_stages(self.signals[:1])[0]
        return view

    @property
    def utilities(self) -> Floats:
        """Mean utilities as a read-only view [I, H, S, A]."""
        return self._all_stages(self.signals[1:])

    def transition_matrix(self, stage: int) -> Any:
        """Return the kernel of one stage as [S*A, S]: a dense view, or scipy.sparse for a sparse model.

        Raises InvalidParameterError if there is no such stage.
        """
        stage = as_index("stage", stage, self.horizon)
        size = self.num_states * self.num_actions
        first = (stage % self.stored_stages) * size
        if isinstance(self.transitions, Dense):
            return self.transitions.rows[first : first + size]
        starts, successors, probabilities = self.transitions
        low, high = starts[first], starts[first + size]
        return sparse.csr_array(
            (probabilities[low:high], successors[low:high], starts[first : first + size + 1] - low),
            shape=(size, self.num_states),
        )

    def dense(self) -> TabularCMDP:
        """Return the same model with dense transitions: S*A*S numbers for each stored stage.

        Raises InvalidModelError if they would not fit into memory.
        """
        S, A, L = self.num_states, self.num_actions, self.stored_stages
        if not self.is_sparse:
            return self
        check_memory(24.0 * L * S * A * S, f"dense transitions of {S:,} states and {A:,} actions")  # and two copies
        tables = [self.transition_matrix(h).toarray().reshape(S, A, S) for h in range(L)]
        return self._with_transitions(np.stack(tables) if L == self.horizon else tables[0])

    def sparse(self) -> TabularCMDP:
        """Return the same model with compressed transitions."""
        if self.is_sparse:
            return self
        matrices = [sparse.csr_array(self.transition_matrix(h)) for h in range(self.stored_stages)]
        return self._with_transitions(matrices if len(matrices) == self.horizon else matrices[0])

    @property
    def stored_stages(self) -> int:
        """How many kernels are stored: H, or 1 for all stages."""
        rows = len(self.transitions.rows) if isinstance(self.transitions, Dense) else len(self.transitions.starts) - 1
        return rows // (self.num_states * self.num_actions)

    def _all_stages(self, signals: Floats) -> Floats:
        return np.broadcast_to(signals, (len(signals), self.horizon, self.num_states, self.num_actions))

    def _with_transitions(self, transitions: Any) -> TabularCMDP:
        signals = self.signals[0], self.signals[1:]
        model = TabularCMDP(transitions, *signals, self.thresholds, self.initial, self.horizon, display=self.display)
        return model._changed(features=self.features, absorbing=self.absorbing)

    def _repr_html_(self) -> str:
        """Return the sizes, and each constraint in own units, as notebooks show it."""
        return html_table(repr(self), problem_rows(self.display, self.thresholds), self.display.summary)

    def __repr__(self) -> str:
        constraints = f"{self.num_constraints} constraint{'s' if self.num_constraints > 1 else ''}"
        form = "sparse" if self.is_sparse else "dense"
        stages = "stationary" if self.stored_stages == 1 else "per-stage"
        return (
            f"{type(self).__name__}({self.display.name!r}: {self.num_states} states, {self.num_actions} actions, "
            f"{self.horizon} stages, {constraints}, {form}, {stages})"
        )


def _read_transitions(value: Any) -> tuple[Transitions, int | None, int, int]:
    """Return kernel form, number of stages (None: stationary), S and A."""
    if sparse.issparse(value):
        rows, _, S, A = _read_sparse([value], "{}")
        return rows, None, S, A
    if isinstance(value, Iterator) or (
        isinstance(value, (list, tuple)) and any(sparse.issparse(item) for item in value)
    ):
        return _read_sparse(value, "{}" if isinstance(value, (list, tuple)) and len(value) == 1 else "{}[{}]")
    table = as_floats("transitions", value, _SHAPES)
    if table.ndim not in (3, 4) or table.shape[-1] != table.shape[-3]:
        raise InvalidModelError(f"transitions have shape {list(table.shape)}; expected {_SHAPES}.")
    if 0 in table.shape:
        raise InvalidModelError(
            f"transitions have shape {list(table.shape)}; expected at least one stage, one state and one action."
        )
    check_distributions("transitions", table)
    _, A, S = table.shape[-3:]
    return Dense(table.reshape(-1, S)), len(table) if table.ndim == 4 else None, S, A


def _read_sparse(matrices: Iterable[Any], label_form: str) -> tuple[Sparse, int, int, int]:
    """Return scipy.sparse [S*A, S] as one kernel form, with H, S and A; checked entry by entry and never dense.

    They are read one after the other, so that only one matrix of an iterator is in memory at a time.
    """
    name = "transitions"
    starts, successors, probabilities = [np.zeros(1, dtype=np.int64)], [], []
    shape: tuple[int, ...] | None = None
    for h, matrix in enumerate(matrices):
        label = label_form.format(name, h)
        if not sparse.issparse(matrix):
            raise InvalidModelError(f"{label} is {type(matrix).__name__}; expected scipy.sparse like the other stages.")
        found = tuple(matrix.shape)
        if len(found) != 2 or 0 in found or found[0] % found[1]:
            raise InvalidModelError(
                f"{label} has shape {list(found)}; expected [S*A, S] with row x*A + a, at least one state and action."
            )
        if shape is not None and found != shape:
            raise InvalidModelError(f"{label} has shape {list(found)}; expected {list(shape)} like {name}[0].")
        shape = found
        csr = read_sparse(label, matrix)
        sums = check_sparse_rows(label, csr, found[0] // found[1], ROW_SUM_TOLERANCE)
        if (np.abs(sums - 1.0) > 1e-14).any():
            csr.data /= sums
        csr.eliminate_zeros()
        starts.append(csr.indptr[1:].astype(np.int64) + starts[-1][-1])
        successors.append(csr.indices.astype(np.int32))
        probabilities.append(csr.data)
    if shape is None:
        raise InvalidModelError(f"{name} are empty; expected at least one stage.")
    rows = Sparse(np.concatenate(starts), _joined(successors), _joined(probabilities))
    return rows, len(starts) - 1, shape[1], shape[0] // shape[1]


def _joined(parts: list[Any]) -> Any:
    """Return the parts as one array, and free the parts."""
    whole = np.concatenate(parts)
    parts.clear()
    return whole


def _read_initial(value: Any, S: int) -> Floats:
    expected = f"a state in 0..{S - 1} or a distribution [S] = [{S}]"
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        if not 0 <= value < S:
            raise InvalidModelError(f"initial is state {whole_number(value)}; expected {expected}.")
        point = np.zeros(S)
        point[value] = 1.0
        return point
    initial = as_floats("initial", value, expected)
    if initial.ndim == 0:
        raise InvalidModelError(f"initial is {shown(value)} ({type(value).__name__}); expected {expected}.")
    if initial.shape != (S,):
        raise InvalidModelError(f"initial has shape {list(initial.shape)}; expected {expected}.")
    check_distributions("initial", initial)
    return initial


def _read_display(display: Any, I: int, S: int, A: int, quantities: tuple[Quantity, ...] = ()) -> Display:
    """Return a display that fits a model; `quantities` are those that its rewards and costs were given with."""
    if display is None:
        return replace(Display.plain(I), quantities=quantities) if quantities else Display.plain(I)
    if not isinstance(display, Display):
        raise InvalidModelError(f"display is {shown(display)} ({type(display).__name__}); expected an opdop.Display.")
    cells, arrows = (display.geometry.cells, display.geometry.arrows) if display.geometry else ((), ())
    names = ("state_names", display.state_names, S), ("action_names", display.action_names, A)
    for name, found, size in (*names, ("cells", cells, S), ("arrows", arrows, A)):
        if len(found) not in (0, size):
            raise InvalidModelError(f"display has {len(found)} {name}; expected {size}, or none.")
    if not display.quantities:
        return replace(display, quantities=quantities or Display.plain(I).quantities)
    if quantities:
        raise InvalidModelError(
            "the display has quantities, and costs, ranges or units make their own; expected a display without them."
        )
    if len(display.quantities) != 1 + I:
        raise InvalidModelError(
            f"display has {len(display.quantities)} quantities; expected {1 + I}: the reward and each constraint."
        )
    return display
