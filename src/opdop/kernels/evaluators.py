"""The same three calls for every evaluator, chosen by the type of its state.

The evaluators are Algorithm 2 in two forms, Algorithm 3, and Algorithm 3 with confidence balls instead of bonuses.
"""

from __future__ import annotations

from numba import types

from opdop.kernels import counts, lstd, visits
from opdop.kernels.ball_evaluation import evaluate_ball
from opdop.kernels.parts import overload


def _implementation(state, of_counts, of_linear, of_one_hot, of_ball=None):
    """Return the implementation for a state, given as a value or as a Numba type."""
    kind = _kind(state)
    if of_ball is not None and issubclass(kind, _COUNTS) and _kind(state[0]) is visits.BallVisits:
        return of_ball
    by_kind = {
        counts.CountTable: of_counts,
        counts.CountLists: of_counts,
        lstd.Linear: of_linear,
        lstd.OneHot: of_one_hot,
    }
    return by_kind.get(kind)


_COUNTS = counts.CountTable, counts.CountLists


def _kind(state):
    return state.instance_class if isinstance(state, types.BaseNamedTuple) else type(state)


def evaluate(state, policy, q, v):
    """Evaluate policy [H, A, S] optimistically into q [J, H, A, S] and v [J, H+1, S]."""
    found = _implementation(state, counts.evaluate, lstd.evaluate_linear, lstd.evaluate_one_hot, evaluate_ball)
    found(state, policy, q, v)


@overload(evaluate)
def _overload_evaluate(state, policy, q, v):
    return _implementation(state, counts.evaluate, lstd.evaluate_linear, lstd.evaluate_one_hot, evaluate_ball)


def observe(state, v, states, actions, observed):
    """Add one episode to the data, with the value functions v [J, H+1, S] of its own evaluation."""
    _implementation(state, _count, lstd.observe_linear, lstd.observe_one_hot)(state, v, states, actions, observed)


def _count(state, v, states, actions, observed):
    counts.observe(state, states, actions, observed)


@overload(observe, allocates=False, forceinline=True)
def _overload_observe(state, v, states, actions, observed):
    return _implementation(state, _count, lstd.observe_linear, lstd.observe_one_hot)


def is_full(state):
    """Return whether the evaluator must make room before the next episode; only counts ever must."""
    return _implementation(state, counts.is_full, _never_full, _never_full)(state)


def _never_full(state):
    return False


@overload(is_full, allocates=False, forceinline=True)
def _overload_is_full(state):
    return _implementation(state, counts.is_full, _never_full, _never_full)
