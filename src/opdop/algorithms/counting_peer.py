"""A learner that counts what it observes and chooses its policy anew before every episode, from the counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opdop.algorithms.counted_learner import CountedLearner
from opdop.algorithms.counts import Counts
from opdop.algorithms.saved_state import fitting, fitting_policy, prefixed, restore_counts
from opdop.algorithms.sizes import required_proposal
from opdop.algorithms.task import Task, swapped
from opdop.kernels import loops
from opdop.kernels.empirical_rows import renew_all, renew_visited
from opdop.kernels.optpess import OptPess
from opdop.kernels.peer_loop import choose_policy, run_peer
from opdop.kernels.regularised import Regularised
from opdop.model import Episode, OpdopError, TabularPolicy
from opdop.model.validation import Floats, check_memory

# The arrays that later proposals depend on, beside the counts.
_SAVED = {
    OptPess: ("policy", "queue", "dual", "estimates"),
    Regularised: ("policy", "dual", "estimates", "q", "v"),
}


def room_for_rows(task: Task, counts: Counts) -> Floats:
    """Return room for the empirical kernel as a table [L*S*A, S]; raises InvalidModelError if it is too large."""
    rows, S = counts.number.size, task.num_states
    check_memory(8.0 * rows * S, f"the empirical kernel of {rows:,} rows and {S:,} states")
    return np.zeros((rows, S))


class CountingPeer(CountedLearner):
    """A learner whose steps are in kernels: `choose_policy` of its state, then counting.

    Args:
        task: what the learner is told.
        counts: counts the visits; its bonuses are used if the kernel evaluates with them.
        peer: the state that the kernels change in place, with the constants of the steps.
        constants: plain data to be stored with the run.
    """

    def __init__(self, task: Task, counts: Counts, peer: OptPess | Regularised, constants: Mapping[str, Any]) -> None:
        self.task, self.counts, self.peer = task, counts, peer
        self.constants = dict(constants)
        self.episodes = 0
        self._chosen = False
        renew_all(counts.arrays, peer.rows)  # some are known before the first episode

    def propose(self) -> TabularPolicy:
        """Return the policy of the next episode; the same one until `learn` is called."""
        if not self._chosen:
            choose_policy(self.peer, self.counted(), self.episodes)
            self._chosen = True
        return TabularPolicy.trusted(np.array(swapped(self.peer.policy), order="C"))

    def learn(self, episode: Episode) -> None:
        """Count the episode played with the policy proposed last.

        Raises OpdopError if no policy was proposed, and InvalidModelError if the episode does not fit the task.
        """
        required_proposal(self._chosen)
        episode = self.task.checked(episode)
        self.counts.observe(episode)
        renew_visited(self.counts.arrays, episode.states, episode.actions, self.peer.rows)
        self._chosen = False
        self.episodes += 1

    @property
    def dual(self) -> Floats:
        """The multipliers, [I]."""
        return self.peer.dual

    @property
    def policy(self) -> Floats:
        """The policy of the last episode, [H, S, A]."""
        return swapped(self.peer.policy)

    def diagnostics(self) -> dict[str, float]:
        """Return the optimistic estimates and the multipliers of the last episode."""
        estimates = self.peer.estimates
        numbers = {"episodes": float(self.episodes), "estimated_reward": float(estimates[0])}
        for i in range(self.task.num_constraints):
            numbers[f"estimated_utility_{i}"] = float(estimates[1 + i])
            numbers[f"dual_{i}"] = float(self.peer.dual[i])
        return numbers

    def state(self) -> dict[str, NDArray[Any]]:
        """Return everything that later proposals depend on."""
        own = {name: getattr(self.peer, name).copy() for name in _SAVED[type(self.peer)]}
        own |= {"episodes": np.array(self.episodes), "chosen": np.array(self._chosen)}
        return own | prefixed("counts.", self.counts.state())

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Return to a saved state; raises OpdopError if it does not fit."""
        saved = {name: fitting(state, name, getattr(self.peer, name)) for name in _SAVED[type(self.peer)]}
        fitting_policy(state, self.peer.policy, actions=1)
        if (saved["dual"] < 0.0).any():
            raise OpdopError("a saved multiplier is negative.")
        episodes, chosen = int(fitting(state, "episodes", np.array(0))), fitting(state, "chosen", np.array(False))
        restore_counts(self.counts, state, episodes)
        for name, array in saved.items():
            getattr(self.peer, name)[:] = array
        renew_all(self.counts.arrays, self.peer.rows)
        self.episodes, self._chosen = episodes, bool(chosen)

    def _run(self, model: loops.Model, uniforms: Floats, record: loops.Record) -> int:
        done = int(run_peer(self.peer, self.counted(), model, uniforms, record, self.episodes, self._chosen))
        self._chosen = False
        self.episodes += done
        return done
