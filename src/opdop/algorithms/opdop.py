"""Algorithm 1 (OPDOP): optimistic primal-dual proximal policy optimisation, with any evaluator.

Ding, Wei, Yang, Wang, Jovanovic: "Provably Efficient Safe Exploration via Primal-Dual Policy Optimization". The
arithmetic is in `opdop.kernels.primal_dual`; its trailing comments name the paper's lines. The same steps over many
episodes, compiled, are in `opdop.kernels.loops`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opdop.algorithms.constants import Constants, Preset
from opdop.algorithms.saved_state import fitting, fitting_policy, prefixed, under
from opdop.algorithms.sizes import (
    as_task,
    check_estimates,
    check_loop,
    check_room,
    check_same_sizes,
    check_state,
    required_proposal,
)
from opdop.algorithms.task import CompiledEvaluator, Estimates, Evaluator, Observing, Task, by_action, swapped
from opdop.confidence.data import Data
from opdop.kernels import loops
from opdop.kernels.primal_dual import (
    LEAST_SCALE,
    MOST_OF_GAP,
    Seen,
    Steps,
    find_rates,
    find_targets,
    further_updates,
    improve,
    move_dual,
    update_scales,
    update_variances,
)
from opdop.model import Episode, InvalidParameterError, OpdopError, TabularPolicy
from opdop.model.overriding import has_originals, originals
from opdop.model.validation import Floats, as_flag, as_number, printable, shown

MakesEvaluator = Callable[..., Evaluator]
_LARGEST = 1e100  # of a constant
_MOST_UPDATES = 1e6  # after the first episode


class OPDOP:
    """Algorithm 1: improve the policy, play an episode, move the multipliers, evaluate optimistically, then observe.

    >>> import opdop
    >>> cmdp = opdop.make("factored")
    >>> task = opdop.Task.of(cmdp, episodes=200)
    >>> learner = OPDOP.preset(task, opdop.Counts, "practical")
    >>> simulator = opdop.ModelSimulator(cmdp, seed=0)
    >>> for _ in range(200):
    ...     learner.learn(simulator.play(learner.propose()))
    >>> learner.episodes
    200

    Args:
        task: what the learner is told: sizes, thresholds, planned episodes.
        evaluator: estimates the values of policies, such as `Counts` or `LSTD`.
        step_size: alpha, of the policy's mirror descent.
        dual_step_size: eta, of the multipliers.
        mixing: theta, the share of the uniform policy that is mixed in before each improvement.
        dual_bound: chi, the largest value of a multiplier.
        dual_total: the largest sum of the multipliers.
        margin: what is added to every threshold in the multipliers' steps.
        damping: kappa, with which the multipliers react to the last violation beside the sum of all.
        damping_ratio: relative steps raise kappa where the policy reacts so little to the multipliers that both would
            oscillate with a smaller damping ratio.
        relative: whether alpha, eta and kappa are shares of the ranges of Q that were seen, free of units, horizon and
            number of episodes; see `opdop.kernels.primal_dual.find_rates`. Theta is then divided by the episode.
        early_updates: early_updates / k updates of policy and multipliers are made for episode k instead of one, as
            long as that is more, all but one of them before the next episode; with 1 it is Algorithm 1.
        caution: relative steps raise every threshold by so many standard errors of the estimated utility, but at most
            by half of 2H / chi, which is the Slater gap if chi came from it.
        constants: plain data stored with the run; by default the numbers above.

    Raises InvalidParameterError if a number is out of range, the evaluator has other sizes than the task, or
    `dual_total` is combined with damping or relative steps, or `caution` or `damping_ratio` with steps that are not
    relative.
    """

    def __init__(
        self,
        task: Task,
        evaluator: Evaluator,
        *,
        step_size: float,
        dual_step_size: float,
        mixing: float,
        dual_bound: float,
        dual_total: float = math.inf,
        margin: float = 0.0,
        damping: float = 0.0,
        damping_ratio: float = 0.0,
        relative: bool = False,
        early_updates: float = 1.0,
        caution: float = 0.0,
        constants: Mapping[str, Any] | None = None,
    ) -> None:
        numbers = {
            "step_size": step_size,
            "dual_step_size": dual_step_size,
            "mixing": mixing,
            "dual_bound": dual_bound,
            "damping": damping,
        }
        task, margin = as_task(task), _constant("margin", margin)
        numbers = {name: _constant(name, value) for name, value in numbers.items()}
        _check_evaluator(evaluator, task)
        H, S, A = task.horizon, task.num_states, task.num_actions
        check_room(task, 4.0 + task.num_constraints, "the policy and its estimates")
        self.task, self.evaluator = task, evaluator
        self.step_size, self.dual_step_size = numbers["step_size"], numbers["dual_step_size"]
        self.mixing, self.dual_bound = numbers["mixing"], numbers["dual_bound"]
        self.dual_total = math.inf if dual_total == math.inf else _constant("dual_total", dual_total)
        self.thresholds = task.thresholds + margin
        if margin and (self.thresholds > task.horizon).any():
            raise InvalidParameterError(
                f"margin is {margin}; expected thresholds plus margin of at most H = {task.horizon}."
            )
        self.early_updates = _constant("early_updates", early_updates)
        if self.early_updates > _MOST_UPDATES:
            raise InvalidParameterError(f"early_updates is {early_updates}; expected at most {_MOST_UPDATES:g}.")
        self.damping, self.relative = numbers["damping"], as_flag("relative", relative)
        if self.dual_total < math.inf and (self.relative or self.damping):
            raise InvalidParameterError("dual_total is for steps that are neither damped nor relative.")
        self.caution, self.damping_ratio = _constant("caution", caution), _constant("damping_ratio", damping_ratio)
        if self.caution and not self.relative:
            raise InvalidParameterError("caution is for relative steps, which see how much a total varies.")
        if self.damping_ratio and not self.relative:
            raise InvalidParameterError("damping_ratio is for relative steps, which see how much the policy reacts.")
        if not isinstance(constants, Mapping | None):
            raise InvalidParameterError(f"constants are {shown(constants)}; expected names with values, or None.")
        if constants is None:
            own = {"margin": margin} if margin else {}
            own |= {} if self.dual_total == math.inf else {"dual_total": self.dual_total}
            own |= {} if self.early_updates == 1.0 else {"early_updates": self.early_updates}
            own |= {"damping_ratio": self.damping_ratio} if self.damping_ratio else {}
            own |= {"caution": self.caution} if self.caution else {}
            constants = {"preset": "none", **numbers, "relative": self.relative, **own, **task.plan()}
        self.constants = {**constants, **getattr(evaluator, "described", dict)()}
        self.episodes = 0
        self._by_action = np.full((H, A, S), 1.0 / A)
        self.dual = np.zeros(task.num_constraints)
        self.integral = np.zeros(task.num_constraints)
        self.seen = Seen(*(np.ones(n + task.num_constraints) for n in (1, 0, 0)))
        self._targets = self.thresholds.copy()
        self._rates = np.zeros(2 + 2 * task.num_constraints)
        self.utility_estimates = self.thresholds.copy()  # so that Y^1 = Y^0
        self._estimates = zero_estimates(task)
        self._states = np.zeros(H + 1, dtype=np.int64)  # of the last episode
        self._further = np.zeros(1, dtype=np.int64)  # updates to be made before the next episode
        self._proposed: TabularPolicy | None = None

    @classmethod
    def preset(
        cls,
        task: Task,
        evaluator: Evaluator | MakesEvaluator,
        preset: str | Preset,
        *,
        dual_bound: float | None = None,
        **parameters: float,
    ) -> OPDOP:
        """Return a learner with the constants of a preset, given as a `Preset`, or by name with its parameters.

        The constants depend on the task. Given an evaluator's class, the preset also chooses its radius and ridge; a
        ready evaluator keeps its own. Without `dual_bound` the multipliers are bounded by 2H / Slater gap. Raises
        InvalidParameterError if there is no such preset or parameter, or if the multipliers have no bound.
        """
        return cls._from(task, evaluator, Preset.of(preset, dual_bound, **parameters))

    @classmethod
    def _from(cls, task: Task, evaluator: Evaluator | MakesEvaluator, preset: Preset, **own: Any) -> OPDOP:
        constants = cls._constants(task, preset)
        ready: Evaluator
        if isinstance(evaluator, type) or not isinstance(evaluator, Evaluator):
            ready = _made(evaluator, task, constants)
        else:
            ready = evaluator
        return cls(
            task,
            ready,
            step_size=constants.step_size,
            dual_step_size=constants.dual_step_size,
            mixing=constants.mixing,
            dual_bound=constants.dual_bound,
            dual_total=constants.dual_total,
            margin=constants.margin if constants.dual_bound else 0.0,
            damping=constants.damping,
            damping_ratio=constants.damping_ratio,
            relative=constants.relative,
            early_updates=constants.early_updates,
            caution=constants.caution,
            constants=constants.described(task),
            **own,
        )

    @classmethod
    def _constants(cls, task: Task, preset: Preset) -> Constants:
        constants: Constants = preset.constants(task)
        return constants

    def propose(self) -> TabularPolicy:
        """Return pi^k; the same one until `learn` is called."""
        if self._proposed is None:
            while self._further[0]:
                self._update_again()
            last, table = self._estimates, self._by_action.copy()
            step_size, mixing = self._find_rates()
            improve(table, by_action(last.q), self.dual, step_size, mixing, last.touched)  # lines 4-6
            self._proposed = TabularPolicy.trusted(by_action(table))
        return self._proposed

    def learn(self, episode: Episode) -> None:
        """Learn from the episode played with the policy proposed last.

        Raises OpdopError if no policy was proposed, and InvalidModelError if the episode does not fit the task.
        """
        proposed = required_proposal(self._proposed)
        episode = self.task.checked(episode)
        self._by_action[:] = swapped(proposed.table)
        self._update_dual()
        estimates = self.evaluator.evaluate(proposed)  # line 10, on the episodes before this one only
        self._estimates = check_estimates(estimates, self.task)
        self.evaluator.observe(episode, self._estimates)
        self._update_scales(episode.states)
        self._update_variances(episode.states, episode)
        self.utility_estimates[:] = self.estimated_totals()[1:]
        self._proposed = None
        self.episodes += 1
        self._states[:] = episode.states
        self._further[0] = further_updates(self.steps, self.episodes - 1)

    def _update_again(self) -> None:
        """Improve the policy, move the multipliers and evaluate, without another episode."""
        last, (step_size, mixing) = self._estimates, self._find_rates()
        improve(self._by_action, by_action(last.q), self.dual, step_size, mixing, last.touched)
        self._update_dual()
        estimates = self.evaluator.evaluate(TabularPolicy.trusted(self.policy))
        self._estimates = check_estimates(estimates, self.task)
        self._update_scales(self._states)
        self.utility_estimates[:] = self.estimated_totals()[1:]
        self._further[0] -= 1

    @property
    def steps(self) -> Steps:
        """The constants of the steps, as the kernels take them."""
        return Steps(
            self.step_size,
            self.dual_step_size,
            self.mixing,
            self.damping,
            self.relative,
            self.early_updates,
            self.damping_ratio,
            self.caution,
            most_margin=MOST_OF_GAP * 2.0 * self.task.horizon / self.dual_bound if self.dual_bound else 0.0,
        )

    def _find_rates(self) -> tuple[float, float]:
        """Find the thresholds and the step sizes of the next episode; return alpha and theta."""
        find_targets(self.steps, self.thresholds, self.seen.variances, self.episodes, self._targets)
        find_rates(
            self.steps,
            self.seen,
            self.integral,
            self.dual,
            self._targets,
            self.utility_estimates,
            self.episodes,
            self._rates,
        )
        return float(self._rates[0]), float(self._rates[1])

    def _update_dual(self) -> None:
        move_dual(  # line 9
            self.integral,
            self._targets,
            self.utility_estimates,
            self._rates,
            self.dual_bound,
            self.dual_total,
            self.dual,
        )

    def _update_scales(self, states: NDArray[np.int64]) -> None:
        if self.relative:
            update_scales(by_action(self._estimates.q), self._by_action, states, self.episodes, self.seen)

    def _update_variances(self, states: NDArray[np.int64], episode: Episode) -> None:
        """Compare an episode, which visited these states of the tables, with the last estimates."""
        if self.relative:
            last, actions, observed = self._estimates, episode.actions, episode.signals
            update_variances(by_action(last.q), last.v, states, actions, observed, self.episodes, self.seen)

    def estimated_totals(self) -> NDArray[np.float64]:
        """Return <rho, V^k> of all signals, [1+I]."""
        out = np.empty(1 + self.task.num_constraints)
        loops.average_start(self._estimates.v, self.task.initial, out)
        return out

    @property
    def policy(self) -> NDArray[np.float64]:
        """The policy of the last episode, [H, S, A]; after `propose`, that of the last update."""
        return swapped(self._by_action)

    @property
    def estimates(self) -> Estimates:
        """The result of the last evaluation, Q^k and V^k; zero before the first."""
        return self._estimates

    def observations(self) -> Data | None:
        """Return the data that the evaluator has; None if it keeps none from which certificates can be made."""
        return self.evaluator.observations() if isinstance(self.evaluator, Observing) else None

    def diagnostics(self) -> dict[str, float]:
        """Return the optimistic estimates and the multipliers of the last episode."""
        estimated = self.estimated_totals()
        numbers = {"episodes": float(self.episodes), "estimated_reward": float(estimated[0])}
        for i in range(self.task.num_constraints):
            numbers[f"estimated_utility_{i}"] = float(estimated[1 + i])
            numbers[f"dual_{i}"] = float(self.dual[i])
        return numbers

    def state(self) -> dict[str, NDArray[Any]]:
        """Return everything that later proposals depend on."""
        own = {
            "episodes": np.array(self.episodes),
            "policy": self.policy.copy(),
            "dual": self.dual.copy(),
            "integral": self.integral.copy(),
            **{name: numbers.copy() for name, numbers in self.seen._asdict().items()},
            "utility_estimates": self.utility_estimates.copy(),
            "states": self._states.copy(),
            "further_updates": self._further.copy(),
        }
        if self._compiled_evaluator is None:  # a compiled evaluator stores the estimates itself
            last = self._estimates
            own |= {"q": last.q.copy(), "v": last.v.copy(), "touched": last.touched.copy()}
        return own | prefixed("evaluator.", self.evaluator.state())

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Return to a saved state; raises OpdopError if it does not fit."""
        policy = fitting_policy(state, self.policy)
        dual, integral = (fitting(state, name, self.dual) for name in ("dual", "integral"))
        if min(dual.min(), integral.min()) < 0.0 or max(dual.max(), integral.max()) > self.dual_bound:
            raise OpdopError(f"the saved multipliers are outside [0, {self.dual_bound:g}].")
        seen = {name: fitting(state, name, numbers) for name, numbers in self.seen._asdict().items()}
        for name, numbers in seen.items():
            least = LEAST_SCALE if name == "scales" else 0.0
            if not (numbers >= least).all() or not np.isfinite(numbers).all():
                raise OpdopError(f"the saved {name} of Q are not numbers of at least {least:g}.")
        states, further = fitting(state, "states", self._states), fitting(state, "further_updates", self._further)
        if not ((states >= 0) & (states < self.task.num_states)).all():
            raise OpdopError(f"the saved states of the last episode are not in 0 ... {self.task.num_states - 1}.")
        if not 0 <= further[0] <= _MOST_UPDATES:
            raise OpdopError(f"the saved number of further updates is {further[0]}; expected 0 ... {_MOST_UPDATES:g}.")
        self._states[:], self._further[:] = states, further
        self._by_action[:], self.dual[:] = swapped(policy), dual
        self.integral[:] = integral
        for name, numbers in seen.items():
            getattr(self.seen, name)[:] = numbers
        self.utility_estimates[:] = fitting(state, "utility_estimates", self.utility_estimates)
        self.episodes = int(fitting(state, "episodes", np.array(0)))
        self.evaluator.restore(under(state, "evaluator."))
        if (compiled := self._compiled_evaluator) is not None:
            self._estimates = compiled.estimates if self.episodes else zero_estimates(self.task)
        else:
            names = "q", "v", "touched"
            self._estimates = Estimates(*(fitting(state, name, getattr(self._estimates, name)) for name in names))
        self._proposed = None

    @property
    def _compiled_evaluator(self) -> CompiledEvaluator | None:
        evaluator = self.evaluator
        return evaluator if isinstance(evaluator, CompiledEvaluator) and evaluator.compiles else None

    @property
    def compiles(self) -> bool:
        """Whether `run_compiled` does exactly what the methods do that it replaces: False if one is overridden."""
        return has_originals(self, _REPLACED) and self._compiled_evaluator is not None

    def run_compiled(self, model: loops.Model, uniforms: Floats, record: loops.Record) -> int:
        """Play and learn from episodes in the compiled loop; return how many.

        Args:
            model: the model in which episodes are played.
            uniforms: random numbers [n, ...] of n episodes. Fewer are played before the evaluator must make room.
            record: arrays into which the loop writes, with room for n episodes.

        Raises OpdopError unless `compiles`, and InvalidModelError if an array does not have the task's sizes.
        """
        evaluator = self._compiled_evaluator
        if evaluator is None:
            raise OpdopError(f"{type(self.evaluator).__name__} cannot be used in the compiled loop.")
        check_loop(model, uniforms, record, self.task)
        check_estimates(self._estimates, self.task)
        state = evaluator.arrays
        check_state(state, evaluator.q, evaluator.v, self.task)
        arrays = loops.PrimalDual(
            policy=self._by_action,
            q=evaluator.q,
            v=evaluator.v,
            dual=self.dual,
            utility_estimates=self.utility_estimates,
            touched=evaluator.estimates.touched,
            thresholds=self.thresholds,
            initial=self.task.initial,
            steps=self.steps,
            dual_bound=self.dual_bound,
            dual_total=self.dual_total,
            played=self.episodes,
            integral=self.integral,
            seen=self.seen,
            states=self._states,
            further=self._further,
        )
        done = int(loops.run_episodes(arrays, state, model, uniforms, record))
        self._estimates = evaluator.estimates
        self._proposed = None
        self.episodes += done
        return done


# The methods of OPDOP that the compiled loop replaces.
_REPLACED = originals(OPDOP, "propose", "learn", "estimated_totals", "diagnostics")


def _constant(name: str, value: Any) -> float:
    """Return a constant of the algorithm; larger ones would make sums infinite."""
    most = 1.0 if name == "mixing" else _LARGEST
    number = as_number(name, value, f"a number, 0 to {most:g}")
    if not 0.0 <= number <= most:
        raise InvalidParameterError(f"{name} is {number}; expected a number, 0 to {most:g}.")
    return number


def _check_evaluator(evaluator: Any, task: Task) -> None:
    if isinstance(evaluator, type) or not isinstance(evaluator, Evaluator):
        raise InvalidParameterError(
            f"evaluator is {shown(evaluator)}; expected an evaluator, such as opdop.Counts(task), with evaluate(), "
            "observe(), state() and restore()."
        )
    check_same_sizes("the evaluator", getattr(evaluator, "task", task), task)


def _made(evaluator: Any, task: Task, constants: Constants) -> Evaluator:
    """Return the evaluator that a class or function makes."""
    if not callable(evaluator):
        raise InvalidParameterError(f"evaluator is {shown(evaluator)}; expected an evaluator or its class.")
    try:
        found: Evaluator = evaluator(task, radius=constants.radius, ridge=constants.ridge)
    except (TypeError, AttributeError) as error:  # it does not take these arguments, so it makes something else
        reason = printable(str(error))
        raise InvalidParameterError(f"{shown(evaluator)} cannot make an evaluator: {reason}.") from error
    return found


def zero_estimates(task: Task) -> Estimates:
    """Return Q^0 = 0, with which all actions look alike."""
    J, H, S, A = 1 + task.num_constraints, task.horizon, task.num_states, task.num_actions
    return Estimates(np.zeros((J, H, S, A)), np.zeros((J, H + 1, S)), np.zeros((H, S), dtype=np.bool_))


class OPPO(OPDOP):
    """Optimistic PPO: Algorithm 1 without constraints (Y = 0) and without mixing (theta = 0)."""

    @classmethod
    def _constants(cls, task: Task, preset: Preset) -> Constants:
        return super()._constants(task, preset).unconstrained(task)
