"""What every learner must do, each fact as one function of a `Subject`; it raises `Failure` where the fact is wrong."""

from __future__ import annotations

import copy
import types
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opdop.algorithms import CompiledLearner, Learner, Task
from opdop.algorithms.sizes import as_learner
from opdop.algorithms.task import Observing
from opdop.model import Episode, OpdopError, Problem, TabularPolicy
from opdop.model.validation import shown
from opdop.planning import Optimum, Values, evaluate, solve
from opdop.runs import Run, train
from opdop.testing.cases import Case, random_problem

EPISODES = 12  # played in each check
LEARNING_EPISODES = 2_000
_OBJECTS = 100_000  # looked through in the search for a model


class Failure(Exception):
    """A fact that does not hold, in words."""


class Whole(NamedTuple):
    """All episodes of a learner: policies with their episodes, diagnostics, and the state after half of them."""

    played: list[tuple[TabularPolicy, Episode]]
    numbers: list[dict[str, float]]
    state: dict[str, NDArray[Any]]
    kept: dict[str, NDArray[Any]]  # a copy of the state, made at once


class Subject:
    """A learner in a case: it makes new learners, and plays with them."""

    def __init__(self, build: Callable[[Task], Any], case: Case) -> None:
        self.build, self.case = build, case

    @property
    def task(self) -> Task:
        """What the learner is told."""
        return self.case.task

    def fresh(self) -> Any:
        """Return a new learner."""
        return self.build(self.task)

    def play(self, learner: Learner, count: int, seed: int = 1) -> list[tuple[TabularPolicy, Episode]]:
        """Play episodes step by step; return each policy with its episode."""
        simulator = self.case.simulator(seed)
        played = []
        for _ in range(count):
            policy = learner.propose()
            episode = simulator.play(policy)
            learner.learn(episode)
            played.append((policy, episode))
        return played

    @cached_property
    def whole(self) -> Whole:
        """The episodes, played step by step."""
        learner, simulator = self.fresh(), self.case.simulator(1)
        played, numbers, state, kept = [], [], {}, {}
        for n in range(EPISODES):
            if n == EPISODES // 2:
                state = learner.state()
                kept = copy.deepcopy(state)
            policy = learner.propose()
            episode = simulator.play(policy)
            learner.learn(episode)
            played.append((policy, episode))
            numbers.append(learner.diagnostics())
        return Whole(played, numbers, state, kept)

    def train(self, episodes: int, **options: Any) -> Run:
        """Make a run of `opdop.train` with a new learner."""
        noisy = self.task.noisy
        return train(self.case.problem, self.fresh(), episodes=episodes, planned_episodes=100, noisy=noisy, **options)


def _expect(holds: Any, words: str) -> None:
    if not holds:
        raise Failure(words)


def _refused(action: Callable[[], Any], what: str) -> None:
    """Expect an OpdopError with a message."""
    try:
        action()
    except OpdopError as error:
        _expect(str(error).strip(), f"{what} is refused without a message")
    except Exception as error:
        raise Failure(f"{what} ends with {type(error).__name__}: {error}; expected an opdop.OpdopError") from error
    else:
        raise Failure(f"{what} is not refused; expected an opdop.OpdopError")


def _same(one: Any, two: Any) -> bool:
    one, two = np.asarray(one), np.asarray(two)
    return bool(one.dtype == two.dtype and one.shape == two.shape and one.tobytes() == two.tobytes())


def has_the_methods(subject: Subject) -> None:
    """It has propose, learn, diagnostics, state and restore, and its task, if it has one, has the sizes of ours."""
    try:
        as_learner(subject.fresh(), subject.task)
    except OpdopError as error:
        raise Failure(str(error)) from error


def sees_no_model(subject: Subject) -> None:
    """Nothing that the learner refers to is a problem, a simulator, an optimum or its values."""
    learner = subject.fresh()
    subject.play(learner, 2)
    for found, path in _reachable(learner):
        is_simulator = callable(getattr(type(found), "play", None))
        if isinstance(found, Problem | Optimum | Values) or is_simulator:
            raise Failure(f"the learner can see a model: {path} is {shown(found)}")


def _reachable(start: Any) -> Iterator[tuple[Any, str]]:
    """Yield the objects that an object refers to, with their names; not what is in modules, classes and arrays."""
    seen: set[int] = set()
    waiting = [(start, "learner")]
    while waiting and len(seen) < _OBJECTS:
        value, path = waiting.pop()
        if id(value) in seen or isinstance(value, (type, types.ModuleType, np.ndarray, str, bytes, int, float)):
            continue
        seen.add(id(value))
        yield value, path
        if isinstance(value, Mapping):
            waiting += [(item, f"{path}[{key!r}]") for key, item in value.items()]
        elif isinstance(value, (list, tuple, set, frozenset)):
            waiting += [(item, f"{path}[{n}]") for n, item in enumerate(value)]
        elif isinstance(value, types.MethodType):
            waiting.append((value.__self__, f"{path}.__self__"))
        elif isinstance(value, types.FunctionType):
            waiting += [(cell.cell_contents, f"{path}'s closure") for cell in value.__closure__ or () if _is_set(cell)]
        else:
            waiting += [(item, f"{path}.{name}") for name, item in getattr(value, "__dict__", {}).items()]


def _is_set(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def needs_a_proposal(subject: Subject) -> None:
    """It learns only from an episode of the policy that it proposed, once; until then the proposal stays the same."""
    learner, simulator = subject.fresh(), subject.case.simulator(1)
    episode = simulator.play(subject.fresh().propose())
    _refused(lambda: learner.learn(episode), "learn() before propose()")
    first = learner.propose()
    _expect(_same(first.table, learner.propose().table), "a second propose() without learn() gives another policy")
    learner.learn(simulator.play(first))
    _refused(lambda: learner.learn(episode), "learn() twice after one propose()")


def proposes_distributions(subject: Subject) -> None:
    """Every proposal is a policy [H, S, A] of probabilities that sum to 1 in each state."""
    task = subject.task
    sizes = task.horizon, task.num_states, task.num_actions
    for n, (policy, _) in enumerate(subject.whole.played):
        table = getattr(policy, "table", None)
        where = f"the policy of episode {n + 1}"
        _expect(isinstance(table, np.ndarray), f"{where} is {shown(policy)}; expected a TabularPolicy")
        assert isinstance(table, np.ndarray)
        _expect(table.shape == sizes, f"{where} has shape {list(table.shape)}; expected [H,S,A] = {list(sizes)}")
        _expect(np.isfinite(table).all() and (table >= 0.0).all(), f"{where} has probabilities below 0 or not finite")
        error = float(np.abs(table.sum(axis=2) - 1.0).max())
        _expect(error <= 1e-9, f"the probabilities of {where} miss a sum of 1 by {error:.1e}")


def keeps_what_it_proposed(subject: Subject) -> None:
    """Learning does not change policies that were proposed before."""
    learner, simulator = subject.fresh(), subject.case.simulator(1)
    kept = []
    for _ in range(EPISODES // 2):
        policy = learner.propose()
        kept.append((policy.table, policy.table.copy()))
        learner.learn(simulator.play(policy))
    for n, (table, before) in enumerate(kept):
        _expect(_same(table, before), f"the policy of episode {n + 1} was changed by later learning")


def refuses_foreign_episodes(subject: Subject) -> None:
    """An episode with wrong states, actions or signals is refused, and changes nothing."""
    learner, task = subject.fresh(), subject.task
    good = subject.play(learner, 2)[-1][1]
    policy, before = learner.propose(), learner.state()
    wrong = {
        "an episode with a state that does not exist": Episode(
            good.states + task.num_states, good.actions, good.signals
        ),
        "an episode with an action that does not exist": Episode(
            good.states, good.actions + task.num_actions, good.signals
        ),
        "an episode that is too short": Episode(good.states[:-1], good.actions, good.signals),
        "an episode with signals that are not numbers": Episode(good.states, good.actions, np.nan * good.signals),
    }
    for what, episode in wrong.items():
        _refused(lambda episode=episode: learner.learn(episode), what)  # type: ignore[misc]
    after = learner.state()
    changed = [name for name in before if not _same(before[name], after.get(name))]
    _expect(not changed, f"refused episodes have changed {changed[:3]} of the state")
    _expect(_same(policy.table, learner.propose().table), "refused episodes have changed the proposal")


def same_seed_gives_the_same_bits(subject: Subject) -> None:
    """Two new learners with the same episodes propose the same policies, bit for bit."""
    again = subject.play(subject.fresh(), EPISODES)
    for n, ((one, _), (two, _)) in enumerate(zip(subject.whole.played, again, strict=True)):
        _expect(_same(one.table, two.table), f"the same seed gives another policy in episode {n + 1}")


def restores_its_state(subject: Subject) -> None:
    """A new learner that is given the state of another goes on as that one does, bit for bit; states are copies."""
    played, numbers, state, kept = subject.whole
    _expect(isinstance(state, Mapping) and state, f"state() is {shown(state)}; expected arrays by name")
    for name, array in state.items():
        plain = isinstance(name, str) and isinstance(array, np.ndarray) and array.dtype.kind in "biuf"
        _expect(plain, f"{name!r} of state() is {shown(array)}; expected an array of numbers under a text")
        _expect(_same(array, kept[name]), f"learning has changed {name!r} of a state that was taken before")
    learner = subject.fresh()
    learner.restore(state)
    for n, (policy, episode) in enumerate(played[EPISODES // 2 :], EPISODES // 2):
        _expect(_same(policy.table, learner.propose().table), f"the restored learner differs in episode {n + 1}")
        learner.learn(episode)
        _expect(learner.diagnostics() == numbers[n], f"its diagnostics differ after episode {n + 1}")
    for name, array in kept.items():
        _expect(_same(state[name], array), f"the restored learner has changed {name!r} of the state it was given")


def refuses_damaged_states(subject: Subject) -> None:
    """A state with a missing array, or one of another shape, or with numbers that are not finite, is refused."""
    state, learner = subject.whole.state, subject.fresh()
    _refused(lambda: learner.restore({}), "restore() of an empty state")
    for name, array in state.items():
        without = {key: value for key, value in state.items() if key != name}
        _refused(lambda without=without: learner.restore(without), f"restore() without {name!r}")  # type: ignore[misc]
        longer = {**state, name: np.concatenate([np.ravel(array), np.ravel(array)[:1], np.zeros(1, array.dtype)])}
        _refused(lambda longer=longer: learner.restore(longer), f"restore() with {name!r} too long")  # type: ignore[misc]
        if array.dtype.kind == "f" and array.size:
            spoilt = {**state, name: np.full_like(array, np.nan)}
            _refused(lambda spoilt=spoilt: learner.restore(spoilt), f"restore() with {name!r} not a number")  # type: ignore[misc]


def reports_finite_numbers(subject: Subject) -> None:
    """Diagnostics are finite numbers by name, with the estimates and multipliers that runs record."""
    I = subject.task.num_constraints
    wanted = {"estimated_reward", *(f"{what}_{i}" for i in range(I) for what in ("estimated_utility", "dual"))}
    for n, numbers in enumerate(subject.whole.numbers):
        _expect(isinstance(numbers, dict), f"diagnostics() is {shown(numbers)}; expected numbers by name")
        for name, value in numbers.items():
            finite = isinstance(name, str) and isinstance(value, float) and np.isfinite(value)
            _expect(
                finite, f"{name!r} of diagnostics() is {shown(value)} after episode {n + 1}; expected a finite number"
            )
        _expect(wanted <= numbers.keys(), f"diagnostics() lacks {sorted(wanted - numbers.keys())}")


def keeps_its_data(subject: Subject) -> None:
    """If it keeps data for certificates, these are the steps that were played."""
    learner = subject.fresh()
    subject.play(learner, EPISODES)
    data = learner.observations() if isinstance(learner, Observing) else None
    if data is not None and hasattr(data, "observed"):
        steps = EPISODES * subject.task.horizon
        _expect(data.observed == steps, f"observations() has {data.observed} steps after {steps} were played")


def trains_on(subject: Subject) -> None:
    """`opdop.train` for some episodes, and then for others, is the same run as for all at once."""
    first = subject.train(EPISODES // 3)
    both, whole = subject.train(EPISODES - EPISODES // 3, start=first), subject.train(EPISODES)
    _compare_runs(both, whole, "a run that was continued", "an uninterrupted one")


def compiles_to_the_same_bits(subject: Subject) -> None:
    """Where it has a compiled loop, that gives the same run as step by step."""
    learner = subject.fresh()
    if isinstance(learner, CompiledLearner) and learner.compiles:
        step_by_step, compiled = subject.train(EPISODES, compiled=False), subject.train(EPISODES)
        _compare_runs(compiled, step_by_step, "the compiled loop", "step by step")


def _compare_runs(one: Run, two: Run, name: str, other: str) -> None:
    for column in two.history.columns:
        ours, theirs = one.history[column].to_numpy(), two.history[column].to_numpy()
        _expect(len(ours) == len(theirs), f"{name} has {len(ours)} episodes, {other} has {len(theirs)}")
        if not _same(ours, theirs):
            place = int(np.argmax(ours.view(np.int64) != theirs.view(np.int64)))
            raise Failure(f"{name} has {column} {ours[place]!r} in row {place + 1}, {other} has {theirs[place]!r}")
    _expect(_same(one.policy.table, two.policy.table), f"{name} ends with another policy than {other}")


CHECKS: Mapping[str, Callable[[Subject], None]] = {
    check.__name__.replace("_", " "): check
    for check in (
        has_the_methods,
        needs_a_proposal,
        proposes_distributions,
        keeps_what_it_proposed,
        sees_no_model,
        refuses_foreign_episodes,
        same_seed_gives_the_same_bits,
        restores_its_state,
        refuses_damaged_states,
        reports_finite_numbers,
        keeps_its_data,
        trains_on,
        compiles_to_the_same_bits,
    )
}


def learns(build: Callable[[Task], Any]) -> None:
    """Raise Failure unless the second half of the episodes of an easy problem costs less than the uniform policy.

    The cost is the mean regret, and the violation of the mean utility times twice the optimum's multiplier. It must be
    at most 0.9 of the uniform policy's.
    """
    cmdp = random_problem(2, 2, 5, seed=1)
    optimum = solve(cmdp)

    def cost(reward: float, utility: float) -> float:
        return optimum.value - reward + 2.0 * float(optimum.dual[0]) * max(float(cmdp.thresholds[0]) - utility, 0.0)

    run = train(cmdp, build(Task.of(cmdp, episodes=LEARNING_EPISODES, baseline=True)), episodes=LEARNING_EPISODES)
    late = run.history.filter(run.history["episode"] > LEARNING_EPISODES // 2)
    found = cost(*(float(late[name].to_numpy().mean()) for name in ("reward", "utility_0")))
    uniform = evaluate(cmdp, np.full((2, 2, 5), 0.2))
    most = cost(uniform.reward, float(uniform.utilities[0]))
    words = f"late episodes cost {found:.3g} on an easy problem; expected at most 0.9 of uniform's {most:.3g}"
    _expect(found <= 0.9 * most, words)
