"""Both sides of the paper's identities and lemmas: Bellman, performance difference, decompositions, one policy step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opdop.algorithms import Estimates
from opdop.model import Episode, TabularCMDP, TabularPolicy
from opdop.model.validation import Floats
from opdop.planning import occupancy, value_functions


def expected_next(cmdp: TabularCMDP, v: Floats) -> Floats:
    """Return (P_h V_{h+1})(x, a) of every signal of `cmdp`, [J, H, S, A], for v [J, H+1, S]."""
    S, A = cmdp.num_states, cmdp.num_actions
    stages = [(cmdp.transition_matrix(h) @ v[:, h + 1].T).T.reshape(-1, S, A) for h in range(cmdp.horizon)]
    return np.stack(stages, axis=1)


def prediction_errors(cmdp: TabularCMDP, estimates: Estimates) -> Floats:
    """Return the paper's model prediction error of estimates: iota = signal + P V - Q in `cmdp`, [J, H, S, A]."""
    return action_values(cmdp, estimates.v) - estimates.q


def signal_totals(cmdp: TabularCMDP, policy: TabularPolicy) -> Floats:
    """Return the expected totals [J] of all signals of `cmdp` under a policy, computed from its occupancy."""
    signals = np.concatenate([cmdp.rewards[None], cmdp.utilities])
    totals: Floats = np.einsum("jhxa,hxa->j", signals, occupancy(cmdp, policy))
    return totals


def action_values(cmdp: TabularCMDP, v: Floats) -> Floats:
    """Return signal + P V of every signal of `cmdp`, [J, H, S, A]: the action values that belong to v [J, H+1, S]."""
    return np.concatenate([cmdp.rewards[None], cmdp.utilities]) + expected_next(cmdp, v)


def performance_difference(cmdp: TabularCMDP, better: TabularPolicy, policy: TabularPolicy) -> Floats:
    """Return V^better - V^policy of all signals of `cmdp`, [J], by the performance difference lemma.

    The lemma's sum is sum_h E_better <Q_h^policy, better_h - policy_h>.
    """
    q = action_values(cmdp, value_functions(cmdp, policy))
    states = occupancy(cmdp, better).sum(axis=2)
    sums: Floats = np.einsum("jhxa,hxa,hx->j", q, better.table - policy.table, states)
    return sums


@dataclass(frozen=True, eq=False)
class Decomposition:
    """One episode's share of each side of the paper's identities, for every signal [J].

    before: V^{pi*} - V^k, split into `policy_gap` + `expected_error` (equations RI and gRI).
    after: V^k - V^{pi^k}, split into `martingale` - `path_error` (equations RII and CII).
    """

    before: Floats
    policy_gap: Floats  # sum_h E_{pi*} <Q_h^k, pi*_h - pi^k_h>
    expected_error: Floats  # sum_h E_{pi*} iota_h^k
    after: Floats
    path_error: Floats  # sum_h iota_h^k(x_h^k, a_h^k)
    martingale: Floats  # sum_h D_{h,1}^k + D_{h,2}^k, and the draw of the first state


def decompose(
    cmdp: TabularCMDP, best: TabularPolicy, policy: TabularPolicy, estimates: Estimates, episode: Episode
) -> Decomposition:
    """Return both sides of the regret and violation decompositions for one episode.

    Args:
        cmdp: the true model.
        best: pi*, the policy with which others are compared.
        policy: pi^k, which played the episode.
        estimates: Q^k and V^k, made from the episodes before it.
        episode: what was observed.

    Values are those of the initial distribution; that the first state is drawn from it is the martingale's first step.
    """
    H = cmdp.horizon
    iota = prediction_errors(cmdp, estimates)
    q, v = estimates.q, estimates.v
    true_v = value_functions(cmdp, policy)
    true_q = q + iota + expected_next(cmdp, true_v - v)  # signal + P V^pi

    best_v = value_functions(cmdp, best)
    visits = occupancy(cmdp, best)
    states = visits.sum(axis=2)
    gap = np.einsum("jhxa,hxa->jhx", q, best.table - policy.table)

    stages, x, a = np.arange(H), episode.states[:-1], episode.actions
    error = q - true_q
    averaged = np.einsum("jhxa,hxa->jhx", error, policy.table)
    first = averaged[:, stages, x] - error[:, stages, x, a]
    ahead = expected_next(cmdp, v - true_v)[:, stages, x, a]
    second = ahead - (v - true_v)[:, stages + 1, episode.states[1:]]
    after = (v - true_v)[:, 0] @ cmdp.initial
    start = after - (v - true_v)[:, 0, episode.states[0]]
    return Decomposition(
        before=(best_v[:, 0] - v[:, 0]) @ cmdp.initial,
        policy_gap=np.einsum("jhx,hx->j", gap, states),
        expected_error=np.einsum("jhxa,hxa->j", iota, visits),
        after=after,
        path_error=iota[:, stages, x, a].sum(axis=1),
        martingale=start + (first + second).sum(axis=1),
    )


def mixed(policy: Floats, mixing: float) -> Floats:
    """Return the policy mixed with the uniform one (line 5 of Algorithm 1), [H, S, A]."""
    table: Floats = (1.0 - mixing) * policy + mixing / policy.shape[-1]
    return table


def divergence(p: Floats, q: Floats) -> Floats:
    """Return D(p | q), the Kullback-Leibler divergence over the last axis."""
    from scipy.special import rel_entr  # late: every run imports this file; loading it takes 0.02 s

    total: Floats = rel_entr(p, q).sum(axis=-1)
    return total


def pushback_difference(improved: Floats, start: Floats, direction: Floats, step_size: float) -> Floats:
    """Return the difference of both sides of the pushback property of the KL-divergence, [H, S, A].

    For x = argmax f(x) - D(x | y) / alpha and every z, f(x) - D(x | y) / alpha = f(z) - D(z | y) / alpha + D(z | x) /
    alpha: the paper's inequality is an equality, as f is linear. Both sides are linear in z too, so it is enough to try
    the z that take one action. improved is x, start is y, direction is f.
    """
    reached = (direction * improved).sum(axis=-1) - divergence(improved, start) / step_size
    other = direction + np.log(start) / step_size - np.log(improved) / step_size
    missing: Floats = reached[..., None] - other
    return missing


def mixing_cost(policy: Floats, mixing: float) -> Floats:
    """Return D(z | mixed policy) - D(z | policy) for every z that takes one action, [H, S, A]; linear in z."""
    cost: Floats = np.log(policy) - np.log(mixed(policy, mixing))
    return cost
