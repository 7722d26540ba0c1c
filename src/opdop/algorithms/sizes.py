"""Compare the sizes of learners, evaluators and arrays with a task's, because compiled code does not check them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np

from opdop.algorithms.task import Estimates, Learner, Task
from opdop.kernels import counts, features, loops, lstd, trust, visits
from opdop.kernels.dynamic_programming import count_uniforms
from opdop.kernels.simd import LANES
from opdop.kernels.transitions import Dense, count_rows
from opdop.model import InvalidModelError, InvalidParameterError, OpdopError
from opdop.model.validation import check_memory, shown

_Proposed = TypeVar("_Proposed")

_FLOAT = np.dtype(np.float64)
# The axes of each array that compiled code uses: P = S*A pairs; L and M are 1 or H stages, and R = L*P rows; other
# small letters are free sizes.
_AXES: Mapping[type, Mapping[str, str]] = {
    visits.Visits: {
        "touched": "HS",
        "number": "LP",
        "sums": "JLP",
        "lost": "JLP",
        "inverse": "LP",
        "width": "LP",
        "work": "JP",
        "spans": "J",
        "radii": "H",
        "doubt": "LP",
    },
    trust.Trust: {"first_width": "L", "state_number": "LS", "unvisited": "L", "total": "1"},
    visits.BallVisits: {
        "touched": "HS",
        "number": "LP",
        "signal_number": "MP",
        "sums": "JMP",
        "lost": "JMP",
        "upper": "JMP",
        "inverse": "LP",
        "moved": "LP",
        "order": "JHS",
        "work": "2P",
        "refuted": "1",
    },
    counts.CountTable: {"seen": "LSP"},
    counts.CountLists: {"starts": "R", "used": "R", "room": "R", "successors": "n", "seen": "n", "taken": "2"},
    lstd.Radii: {"noise": "H", "bias": "H"},
    lstd.OneHot: {
        "gram": "JHPSS",
        "inverse": "JHPSS",
        "target": "JHPS",
        "weights": "JHSP",
        "quadratic": "JHtP",
        "information": "JHP",
        "updates": "JHP",
        "signal_bonus": "HP",
    },
    lstd.Linear: {
        "varphi": "eP",
        "gram": "JHdd",
        "inverse": "JHdd",
        "target": "JHd",
        "information": "JH",
        "updates": "JH",
        "signal_gram": "Hee",
        "signal_inverse": "Hee",
        "signal_target": "JHe",
        "signal_information": "H",
        "signal_updates": "H",
        "signal_width": "HP",
    },
    lstd.OneHotRoom: {"products": "t", "forms": "P", "direction": "S"},
    lstd.LinearRoom: {
        "phi": "Jdb",
        "common": "ic",
        "certain": "b",
        "forms": "b",
        "w": "Jd",
        "u": "Je",
        "visited": "Jd1",
        "x": "d",
        "direction": "d",
        "f": "e",
        "along": "e",
        "reach": "P",
    },
    features.Table: {"psi": "SdP"},
    features.Listed: {"starts": "dQ", "successors": "n", "psi": "n"},
    features.Embedded: {"left": "lP", "right": "rS"},
}


def as_task(task: Any) -> Task:
    """Return a task; raises InvalidParameterError if it is something else."""
    if not isinstance(task, Task):
        raise InvalidParameterError(f"task is {shown(task)}; expected a Task, such as Task.of(cmdp, episodes=...).")
    return task


def check_same_sizes(what: str, theirs: Any, ours: Task, *, visitors: int = 0) -> None:
    """Raise InvalidParameterError unless a part's task has the sizes of ours, or `visitors` states more."""
    for name in ("horizon", "num_states", "num_actions", "num_constraints"):
        found = getattr(theirs, name, None)
        if found != getattr(ours, name) and not (name == "num_states" and found == ours.num_states + visitors):
            raise InvalidParameterError(
                f"{what} is for another task: its {name} is {shown(found)}, here it is {getattr(ours, name)}."
            )


def as_learner(learner: Any, task: Task) -> Learner:
    """Return a learner; raises InvalidParameterError if it is not one, or if its task has other sizes than this one."""
    methods = ("propose", "learn", "diagnostics", "state", "restore")
    missing = [name for name in methods if not callable(getattr(learner, name, None))]
    if isinstance(learner, type) or missing:
        lacks = "it is a class, not an object of it" if isinstance(learner, type) else f"it has no {missing[0]}()"
        raise InvalidParameterError(f"{shown(learner)} is not a learner: {lacks}.")
    if not isinstance(getattr(learner, "constants", {}), Mapping):
        raise InvalidParameterError(f"the learner's constants are {shown(learner.constants)}; expected a dictionary.")
    # Where states are continuous, a learner has H + 1 places for visited ones; see `with_visitors`.
    visitors = task.horizon + 1 if task.is_continuous else 0
    check_same_sizes("the learner", getattr(learner, "task", task), task, visitors=visitors)
    found: Learner = learner
    return found


def required_proposal(proposed: _Proposed | None) -> _Proposed:
    """Return what was proposed, a policy or that there is one; raises OpdopError if it is None or False."""
    if proposed is None or proposed is False:
        raise OpdopError("learn() needs an episode played with the policy of propose(): propose first.")
    return proposed


def check_room(task: Task, tables: float, what: str) -> None:
    """Raise if a number of tables [H, S, A] of 8-byte numbers would not fit into memory."""
    check_memory(8.0 * tables * task.horizon * task.num_states * task.num_actions, what)


def check_estimates(estimates: Any, task: Task) -> Estimates:
    """Return what an evaluator has estimated; raises InvalidModelError if its arrays do not have the task's sizes."""
    if not isinstance(estimates, Estimates):
        raise InvalidModelError(f"the evaluator's estimates are {shown(estimates)}; expected opdop.Estimates.")
    J, H, S, A = 1 + task.num_constraints, task.horizon, task.num_states, task.num_actions
    _check_array("the estimates' q", estimates.q, (J, H, S, A), "[1+I,H,S,A]")
    _check_array("the estimates' v", estimates.v, (J, H + 1, S), "[1+I,H+1,S]")
    _check_array("the estimates' touched", estimates.touched, (H, S), "[H,S]", np.dtype(np.bool_))
    return estimates


def check_state(state: Any, q: Any, v: Any, task: Task) -> None:
    """Raise InvalidModelError unless the arrays of an evaluator, as the kernels take them, have the task's sizes."""
    J, H, S, A = 1 + task.num_constraints, task.horizon, task.num_states, task.num_actions
    _check_array("the evaluator's q", q, (J, H, A, S), "[1+I,H,A,S]")
    _check_array("the evaluator's v", v, (J, H + 1, S), "[1+I,H+1,S]")
    visits = getattr(state, "visits", None)
    L, M = (_stages(getattr(visits, name, None), H) for name in ("number", "signal_number"))
    sizes = {"J": J, "H": H, "L": L, "M": M, "S": S, "P": S * A, "R": L * S * A, "Q": S * A + 1, "1": 1, "2": 2}
    if isinstance(state, lstd.Linear) and type(state.form) in _AXES:
        sizes["b"] = lstd.pairs_together(state.form, A, S)
        sizes["i"], sizes["c"] = features.empty_common(state.form, J, S).shape
    _check_parts("the evaluator's arrays", state, sizes)
    if isinstance(state, lstd.Linear) and isinstance(state.form, features.Embedded):
        _check_axes("the evaluator's features", (sizes["l"] * sizes["r"],), "d", sizes)


def check_loop(model: loops.Model, uniforms: Any, record: loops.Record, task: Task) -> None:
    """Raise InvalidModelError unless a model, its random numbers and a record have the task's sizes."""
    J, H, S, A = 1 + task.num_constraints, task.horizon, task.num_states, task.num_actions
    signals, rows = model.signals, count_rows(model.transitions)
    width = model.transitions.rows.shape[1:] if isinstance(model.transitions, Dense) else (S,)
    if signals.shape not in {(J, 1, S, A), (J, H, S, A)} or rows not in {S * A, H * S * A} or width != (S,):
        raise InvalidModelError(
            f"the model has signals {list(signals.shape)} and {rows} rows of transitions; expected [1+I,H or 1,S,A] = "
            f"[{J},{H} or 1,{S},{A}]."
        )
    _check_array("the model's initial", model.initial, (S,), "[S]")
    n = len(uniforms)
    _check_array("uniforms", uniforms, (n, count_uniforms(H, J, bool(model.noisy))), "[n, numbers of an episode]")
    for name, array, axes in (
        ("totals", record.totals, J),
        ("estimates", record.estimates, J),
        ("dual", record.dual, J - 1),
    ):
        if array.ndim != 2 or len(array) < n or array.shape[1] != axes:
            raise InvalidModelError(f"the record's {name} have shape {list(array.shape)}; expected [{n}, {axes}].")
    _check_array(
        "the record's waiting", record.waiting, (min(max(len(record.waiting), 1), LANES), H, A, S), "[B,H,A,S]"
    )
    _check_array("the record's occupancy", record.occupancy, (H, S, A), "[H,S,A]")


def _check_array(name: str, array: Any, shape: tuple[int, ...], axes: str, dtype: np.dtype[Any] = _FLOAT) -> None:
    if not isinstance(array, np.ndarray) or array.shape != shape or array.dtype != dtype:
        found = f"{array.dtype} {list(array.shape)}" if isinstance(array, np.ndarray) else shown(array)
        raise InvalidModelError(f"{name} is {found}; expected {dtype} {axes} = {list(shape)}.")


def _stages(array: Any, horizon: int) -> int:
    """Return the number of stages that an array of counts should have: 1 if it has one, otherwise H."""
    return 1 if isinstance(array, np.ndarray) and array.shape[:1] == (1,) else horizon


def _check_parts(name: str, parts: Any, sizes: dict[str, int]) -> None:
    if type(parts) not in _AXES:
        raise InvalidModelError(f"{name} are {shown(parts)}; expected those of opdop.kernels.")
    for part, axes in _AXES[type(parts)].items():
        _check_axes(f"{name}: {part}", getattr(parts, part).shape, axes, sizes)
    for part in ("visits", "radii", "form", "trust", "room"):
        inner = getattr(parts, part, None)
        if isinstance(inner, tuple):
            _check_parts(f"{name}: {part}", inner, sizes)


def _check_axes(name: str, shape: tuple[int, ...], axes: str, sizes: dict[str, int]) -> None:
    expected = tuple(sizes.setdefault(axis, found) for axis, found in zip(axes, shape, strict=False))
    if shape != expected or len(shape) != len(axes):
        raise InvalidModelError(f"{name} has shape {list(shape)}; expected {list(expected)}, the task's sizes.")
