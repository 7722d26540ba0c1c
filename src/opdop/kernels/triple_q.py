"""Triple-Q over many episodes: two tables of Q-values, a virtual queue, and the greedy policy of all three."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from opdop.kernels.caching import njit
from opdop.kernels.counts import is_full, observe
from opdop.kernels.dynamic_programming import play_in
from opdop.kernels.loops import copy_policy
from opdop.kernels.measuring import wait_for_measurement
from opdop.kernels.records import as_record


@as_record
class TripleQ(NamedTuple):
    """The learner's state, which the functions below change in place, and its constants."""

    q: np.ndarray  # [2, H, S, A]: Q of the reward and C of the utility
    visits: np.ndarray  # [H, S, A]: N of this frame
    policy: np.ndarray  # [H, A, S]: greedy; equally likely actions where several are best
    queue: np.ndarray  # [2]: the queue Z, and the sum C-bar of this frame
    initial: np.ndarray  # [S]
    threshold: float  # rho
    rate: float  # chi, of the learning rates (chi + 1) / (chi + t)
    eta: float
    bonus: float  # b_t is this times sqrt((chi + 1) / (chi + t))
    extra_bonus: float  # what every Q of the reward gains when a frame ends
    margin: float  # epsilon
    frame: int  # episodes of a frame


@njit(cache=True, fastmath=False)
def act_greedily_in(learner, h, x):
    """Make the policy in one state greedy for Q + (Z / eta) C."""
    price, A = learner.queue[0] / learner.eta, learner.policy.shape[1]
    best, number = -math.inf, 0
    for a in range(A):
        value = learner.q[0, h, x, a] + price * learner.q[1, h, x, a]
        if value > best:
            best, number = value, 1
        elif value == best:
            number += 1
    for a in range(A):
        value = learner.q[0, h, x, a] + price * learner.q[1, h, x, a]
        learner.policy[h, a, x] = 1.0 / number if value == best else 0.0


@njit(cache=True, fastmath=False)
def estimate(learner, out):
    """Write the values of the policy at the first stage, averaged over the first state, into out [2]."""
    A, S = learner.policy.shape[1:]
    for j in range(2):
        total = 0.0
        for x in range(S):
            if learner.initial[x] > 0.0:
                value = 0.0
                for a in range(A):
                    value += learner.policy[0, a, x] * learner.q[j, 0, x, a]
                total += learner.initial[x] * value
        out[j] = total


@njit(cache=True, fastmath=False)
def learn(learner, played, states, actions, observed):
    """Learn from one episode, the one after `played` others: states [H+1], actions [H], observed signals [2, H]."""
    q, visits, chi = learner.q, learner.visits, learner.rate
    H = actions.shape[0]
    learner.queue[1] += q[1, 0, states[0], actions[0]]  # line 15
    for h in range(H):
        x, a = states[h], actions[h]
        visits[h, x, a] += 1.0  # line 9
        rate = (chi + 1.0) / (chi + visits[h, x, a])  # line 11
        for j in range(2):
            ahead = q[j, h + 1, states[h + 1], actions[h + 1]] if h < H - 1 else 0.0  # line 9, as it was before
            target = observed[j, h] + ahead + learner.bonus * math.sqrt(rate)
            q[j, h, x, a] = (1.0 - rate) * q[j, h, x, a] + rate * target  # lines 12 and 13
    if (played + 1) % learner.frame == 0:  # line 16
        _end_frame(learner)
    else:
        for h in range(H):
            act_greedily_in(learner, h, states[h])


@njit(cache=True, fastmath=False)
def _end_frame(learner):
    """Forget the visits, add the extra bonus, and update the queue."""
    H, A, S = learner.policy.shape
    top = float(H)
    for h in range(H):
        for x in range(S):
            for a in range(A):
                learner.visits[h, x, a] = 0.0  # line 17
                learner.q[0, h, x, a] += learner.extra_bonus
                if learner.q[0, h, x, a] >= top or learner.q[1, h, x, a] >= top:  # line 18
                    learner.q[0, h, x, a] = top
                    learner.q[1, h, x, a] = top
    lacking = learner.threshold + learner.margin - learner.queue[1] / learner.frame
    learner.queue[0] = max(learner.queue[0] + lacking, 0.0)  # line 19
    learner.queue[1] = 0.0
    for h in range(H):
        for x in range(S):
            act_greedily_in(learner, h, x)


@njit(cache=True, fastmath=False)
def run_triple_q(learner, counts, played, model, uniforms, record, last):
    """Play and learn from episodes on uniforms [n, ...]; return how many were played.

    `played` episodes came before. It stops early when the counts must make room. The policy of the last episode is
    written into last [H, A, S].
    """
    H = learner.policy.shape[0]
    states = np.empty(H + 1, dtype=np.int64)
    actions = np.empty(H, dtype=np.int64)
    observed = np.empty((2, H))
    waiting = np.zeros(1 + record.waiting.shape[0], dtype=np.int64)
    done = 0
    while done < uniforms.shape[0]:
        # lines 4, 7 and 8: no Q of a stage changes before the stage, so that the policy is that of all stages
        play_in(model, learner.policy, uniforms[done], states, actions, observed)
        estimate(learner, record.estimates[done])
        record.dual[done, 0] = learner.queue[0] / learner.eta
        observe(counts, states, actions, observed)
        stop = done + 1 == uniforms.shape[0] or is_full(counts)
        wait_for_measurement(model, learner.policy, record, done, stop, waiting)
        if stop:
            copy_policy(learner.policy, last)
        learn(learner, played + done, states, actions, observed)
        done += 1
        if stop:
            break
    return done
