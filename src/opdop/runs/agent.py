"""A learner in production: it chooses actions one by one, learns when an episode ends, and saves itself.

Where the environment calls the learner, and not the learner a simulator, an `Agent` keeps the stage, collects the
episode, and writes every finished episode to disk before it returns. Killed at any moment between two calls, it goes
on from there; only the episode that was being played is forgotten.
"""

from __future__ import annotations

import contextlib
import json
import os
import warnings
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from opdop.algorithms import Task, find, recommended
from opdop.algorithms.saved_state import fitting, prefixed, under
from opdop.algorithms.sizes import as_task
from opdop.model import (
    DescribedSimulator,
    Display,
    Episode,
    InvalidModelError,
    InvalidParameterError,
    OpdopError,
    Problem,
    Space,
    TabularPolicy,
)
from opdop.model.policy import draw_action
from opdop.model.text_files import open_regular, parse_json
from opdop.model.validation import Floats, as_flag, as_floats, as_index, as_number, number, printable, shown
from opdop.runs.assumptions import Assumptions, AssumptionWarning
from opdop.runs.checkpoint import difference, facts_of
from opdop.runs.config import DEFAULT_EPISODES, RunConfig
from opdop.runs.files import as_folder, damaged, owned, plain, read_arrays, write_arrays, write_whole
from opdop.runs.unknown_model import build_growing, display_of, task_of

AGENT, JOURNAL = "agent.npz", "episodes.jsonl"
KIND = "an opdop agent of format 1"
_ROUNDING = 1e-9
_EPISODES_PER_CHECKPOINT = 100
_LARGEST_JOURNAL = 2**30


class Agent:
    """Chooses actions, and learns from what is observed after each of them.

    Args:
        problem: what there is to learn: a Task, a problem such as a TabularCMDP, of which only the task and the units
            are used, or a simulator that describes itself, such as that of `opdop.from_gymnasium`.
        folder: where finished episodes and the learner are saved; an agent that is made again with the same arguments
            goes on from there. Without it nothing is saved.
        algorithm: a name from `opdop.algorithms()`; by default "replan", which needs no number of episodes, and with
            another preset than "practical" "doubling:opdop".
        episodes: the number of planned episodes, for an algorithm that needs it; a Task has its own.
        preset: where the constants come from.
        slater_gap: a lower bound on the Slater gap. Unknown is a normal case: see `opdop.train`.
        failure_probability: the probability with which the preset's guarantee may fail.
        seed: of the actions that are drawn.
        display: the names and units of a Task.

    Rewards and costs are given in the problem's own units. Raises InvalidParameterError if an argument is wrong or the
    folder holds another agent, and OpdopError if another process uses the folder.

    >>> import opdop
    >>> cmdp = opdop.make("factored")
    >>> agent = Agent(cmdp)
    >>> action = agent.act(0)
    >>> agent.observe(reward=0.5, costs=[1.0], next_observation=2)
    >>> agent.stage, agent.episodes
    (1, 0)
    """

    def __init__(
        self,
        problem: Task | Problem | DescribedSimulator,
        folder: str | Path | None = None,
        *,
        algorithm: str | None = None,
        episodes: int | None = None,
        preset: str = "practical",
        slater_gap: float | None = None,
        failure_probability: float = 0.05,
        seed: int = 0,
        display: Display | None = None,
    ) -> None:
        if algorithm is None:
            algorithm = recommended(None) if preset == RunConfig.preset else "doubling:opdop"
        self.config = RunConfig(
            algorithm=algorithm,
            preset=preset,
            slater_gap=slater_gap,
            failure_probability=failure_probability,
            seed=seed,
            episodes=DEFAULT_EPISODES if episodes is None else episodes,
        )
        self.task, self.display = _read_problem(problem, self.config, display)
        self.space: Space | None = getattr(problem, "space", None)
        shown_names = tuple(quantity.name for quantity in self.display.quantities[1:])
        own = getattr(getattr(problem, "maps", None), "names", None)  # the keys of `budgets`
        self._cost_names: list[tuple[str, ...]] = [*([] if own is None else [tuple(own[1:])]), shown_names]
        self._limits = [_stage_map(quantity, self.task.horizon) for quantity in self.display.quantities]
        if self.task.slater_gap is None:
            self.learner: Any = build_growing(algorithm, self.task, find(algorithm).preset(preset))
        else:
            self.learner = find(algorithm).build(self.task, preset)
        self.totals = np.zeros(1 + self.task.num_constraints)  # of all finished episodes, in model units
        self.episodes = 0
        self.assumptions = Assumptions(self.task)
        self.stage = 0
        self._waiting = False  # for the observation after an action
        self._states: NDArray[np.int64]
        self._actions: NDArray[np.int64]
        self._observed: Floats
        self._generator: np.random.Generator
        self._begin()
        self._owner = contextlib.ExitStack()
        self.folder = None if folder is None else as_folder("folder", folder)
        if self.folder is not None:
            self._owner.enter_context(owned(self.folder))
            try:
                self._resume(self.folder)
            except BaseException:
                self._owner.close()
                raise

    # Acting and observing ---------------------------------------------------------------------------------------------

    def act(self, observation: Any) -> Any:
        """Return the action for an observation. Called again before `observe`, it returns the same action.

        Raises InvalidParameterError if there is no such observation.
        """
        state = self._state(observation)
        if self._waiting:
            if state != self._states[self.stage]:
                raise InvalidParameterError("act() was called twice with different observations; expected observe().")
        else:
            self._states[self.stage] = state
            chances = self.policy.probabilities(self.stage, state)
            self._actions[self.stage] = draw_action(chances, self._generator)
            self._waiting = True
        chosen = int(self._actions[self.stage])
        return chosen if self.space is None else self.space.action(chosen)

    def observe(self, reward: float, costs: Any, next_observation: Any, terminated: bool = False) -> None:
        """Take what followed the action. At the end of an episode, learn from it and save it before returning.

        Args:
            reward: of this stage, in own units.
            costs: one number for each constraint, in order or by name, in own units: the cost, or the utility where the
                constraint is on one.
            next_observation: what is observed now; not used if the episode has terminated.
            terminated: whether the episode ends here, before its horizon. The task needs an absorbing state for this.

        Raises InvalidModelError, in own units, if a number is out of its range; the episode can then be continued with
        a correct one, or dropped by `drop`. Raises InvalidParameterError if no action was asked for.
        """
        if not self._waiting:
            raise InvalidParameterError("observe() needs an action that was taken; expected act() first.")
        ended = as_flag("terminated", terminated)
        if ended and self.task.absorbing is None and self.stage + 1 < self.task.horizon:
            raise InvalidModelError(
                f"the episode terminated at stage {self.stage} of {self.task.horizon}, but the task has no absorbing "
                "state; expected one, as in Task(..., absorbing=, rest=), or an episode that goes on."
            )
        signals = self._signals(reward, costs)
        after = self.task.absorbing if ended and self.task.absorbing is not None else self._state(next_observation)
        self._observed[:, self.stage] = signals
        self.stage += 1
        self._states[self.stage :] = after
        self._waiting = False
        if ended and self.task.rest is not None:
            self._observed[:, self.stage :] = self.task.rest[:, None]
        if ended or self.stage == self.task.horizon:
            self._finish(Episode(self._states.copy(), self._actions.copy(), self._observed.copy()))

    def drop(self) -> None:
        """Forget the episode that is being played; the next action begins another."""
        self._begin()

    @property
    def policy(self) -> TabularPolicy:
        """The policy of this episode."""
        proposed: TabularPolicy = self.learner.propose()
        return proposed if self.space is None else TabularPolicy.trusted(proposed.table, self.space)

    def averages(self) -> dict[str, float]:
        """Return the realised totals of a finished episode in own units, averaged over all of them, by name."""
        means = self.totals / max(self.episodes, 1)
        return {q.name: q.shown(float(mean)) for q, mean in zip(self.display.quantities, means, strict=True)}

    def close(self) -> None:
        """Save the learner, and leave the folder to others. An agent that is not closed loses no finished episode."""
        if self.folder is not None:
            self._checkpoint(self.folder)
        self._owner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        many = f"{self.episodes} episode{'' if self.episodes == 1 else 's'}"
        return f"Agent({self.display.name!r}: {many}, stage {self.stage} of {self.task.horizon})"

    # One episode ------------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        H, J = self.task.horizon, 1 + self.task.num_constraints
        self.stage, self._waiting = 0, False
        self._states, self._actions = np.zeros(H + 1, dtype=np.int64), np.zeros(H, dtype=np.int64)
        self._observed = np.zeros((J, H))
        # Of its own for each episode, so that a restart needs no state of a generator.
        self._generator = np.random.default_rng(np.random.SeedSequence(self.config.seed, spawn_key=(self.episodes,)))

    def _state(self, observation: Any) -> int:
        if self.space is not None:
            return self.space.state(observation)
        return as_index("observation", observation, self.task.num_states)

    def _signals(self, reward: float, costs: Any) -> Floats:
        """Return a reward and costs in own units as signals [1+I] in [0, 1]."""
        if isinstance(costs, Mapping):
            names = next((each for each in self._cost_names if set(each) == set(costs)), None)
            if names is None:
                found = shown(sorted(map(str, costs)))
                raise InvalidModelError(f"costs are for {found}; expected {sorted(self._cost_names[0])}.")
            costs = [costs[name] for name in names]
        listed = np.atleast_1d(as_floats("costs", costs, "one number for each constraint"))
        if listed.shape != (self.task.num_constraints,):
            raise InvalidModelError(
                f"costs have shape {list(listed.shape)}; expected [{self.task.num_constraints}], one each."
            )
        own = [as_number("reward", reward, "a number", error=InvalidModelError), *listed.tolist()]
        signals = np.empty(len(own))
        for j, (value, (offset, scale)) in enumerate(zip(own, self._limits, strict=True)):
            signals[j] = (value - offset) / scale
            if not -_ROUNDING <= signals[j] <= 1.0 + _ROUNDING:
                low, high = sorted((offset, offset + scale))
                raise InvalidModelError(
                    f"at stage {self.stage} the {self.display.quantities[j].name} is {number(value)}; expected a "
                    f"number in its range, [{number(low)}, {number(high)}]."
                )
        return np.clip(signals, 0.0, 1.0)

    def _finish(self, episode: Episode) -> None:
        findings = self.assumptions.check(episode)
        self._learn(episode)
        if self.folder is not None:
            _append(self.folder / JOURNAL, self.episodes, episode)
            if self.episodes % _EPISODES_PER_CHECKPOINT == 0:
                self._checkpoint(self.folder)
        self._begin()
        for text in findings:  # last: a warning may be turned into an error
            warnings.warn(text, AssumptionWarning, stacklevel=3)

    def _learn(self, episode: Episode) -> None:
        self.learner.propose()
        self.learner.learn(episode)
        self.totals += episode.signals.sum(axis=1)
        self.episodes += 1

    # Saving -----------------------------------------------------------------------------------------------------------

    def _identity(self) -> dict[str, Any]:
        """Return what must be the same when an agent is made again."""
        told = facts_of(self, self.task)  # type: ignore[arg-type]
        settings = {name: getattr(self.config, name) for name in ("algorithm", "preset", "seed")}
        identity: dict[str, Any] = plain({**told, **settings, "planned_episodes": self.task.episodes})
        return identity

    def _checkpoint(self, folder: Path) -> None:
        """Write the learner; then empty the journal, as all its episodes are in the learner."""
        arrays = {"totals": self.totals.copy(), "episodes": np.array(self.episodes)}
        meta = {"kind": KIND, "identity": self._identity()}
        arrays |= prefixed("learner.", self.learner.state()) | prefixed("assumptions.", self.assumptions.state())
        write_arrays(folder / AGENT, meta, arrays)
        write_whole(folder / JOURNAL, b"")

    def _resume(self, folder: Path) -> None:
        path = folder / AGENT
        if not os.path.exists(path):
            if _journal_entries(folder / JOURNAL, 0):
                raise OpdopError(f"{printable(str(folder))} has the journal of an agent, {JOURNAL}, but no {AGENT}.")
            self._checkpoint(folder)
            return
        meta, arrays = read_arrays(path, kind=KIND)
        theirs, ours = meta.get("identity"), self._identity()
        if theirs != ours:
            odd = next((key for key in ours if not isinstance(theirs, dict) or theirs.get(key) != ours[key]), "")
            found = theirs.get(odd) if isinstance(theirs, dict) else theirs
            raise InvalidParameterError(
                f"{printable(str(folder))} holds another agent: "
                f"{difference(odd, found, ours.get(odd), self.display.quantities)}. Use the same arguments, or another "
                "folder."
            )
        try:
            self.totals[:] = fitting(arrays, "totals", self.totals)
            self.learner.restore(under(arrays, "learner."))
            self.assumptions.restore(under(arrays, "assumptions."))
            self.episodes = int(fitting(arrays, "episodes", np.array(0)))
            for entry in _journal_entries(folder / JOURNAL, self.episodes):
                episode = self.task.checked(entry)
                self.assumptions.check(episode)  # warned of before
                self._learn(episode)
        except Exception as error:  # a whole file need not hold this learner
            raise damaged(path, KIND, error) from error
        self._checkpoint(folder)
        self._begin()


def _append(path: Path, number: int, episode: Episode) -> None:
    """Write an episode to the end of a journal and to the disk; raises OpdopError if that fails."""
    arrays = {name: getattr(episode, name).tolist() for name in ("states", "actions", "signals")}
    text = json.dumps({"episode": number, **arrays}).encode()
    line = text + b" %08x\n" % zlib.crc32(text)
    try:
        with open(path, "ab") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise OpdopError(f"{printable(str(path))} cannot be written: {error.strerror or error}.") from error


def _journal_entries(path: Path, after: int) -> list[Episode]:
    """Return the episodes of a journal that follow a number; a last line that was not written whole is left out."""
    if not os.path.exists(path):
        return []
    with open_regular(path) as file:
        if os.fstat(file.fileno()).st_size > _LARGEST_JOURNAL:
            raise OpdopError("its journal is too large.")
        lines = file.read().split(b"\n")[:-1]  # what follows the last end of a line was cut off
    found: list[Episode] = []
    for line in lines:
        text, _, check = line.rpartition(b" ")
        if check != b"%08x" % zlib.crc32(text):
            raise OpdopError(f"the checksum of line {len(found) + 1} of its journal is wrong.")
        entry = parse_json(text.decode())
        if entry["episode"] <= after:
            continue
        if entry["episode"] != after + 1 + len(found):
            raise OpdopError(f"its journal jumps to episode {entry['episode']}.")
        arrays = np.array(entry["states"]), np.array(entry["actions"]), np.array(entry["signals"], dtype=np.float64)
        found.append(Episode(*arrays))
    return found


def _read_problem(problem: Any, config: RunConfig, display: Display | None) -> tuple[Task, Display]:
    """Return what a learner is told of a problem, and its words and units."""
    if isinstance(problem, Task):
        task = task_of(config.but(episodes=1), problem, problem, 0)  # type: ignore[arg-type]
        if display is not None and len(display.quantities) != 1 + task.num_constraints:
            raise InvalidParameterError(
                f"display has {len(display.quantities)} quantities; expected {1 + task.num_constraints}."
            )
        return task, display or Display.plain(task.num_constraints)
    if display is not None:
        raise InvalidParameterError("display belongs to a Task; a problem has its own.")
    if isinstance(problem, Problem) and not isinstance(problem, type):
        task = Task.of(
            problem,
            episodes=config.episodes,
            failure_probability=config.failure_probability,
            slater_gap=config.slater_gap,
            baseline=find(config.algorithm).needs_baseline,
        )
        if task.is_continuous:
            raise InvalidParameterError("the problem has continuous states; expected finitely many, as bins have.")
        return task, problem.display
    if isinstance(problem, DescribedSimulator):
        task = task_of(config, problem, None, 0)
        return as_task(task), display_of(problem, task)
    raise InvalidParameterError(f"problem is {shown(problem)}; expected a Task, a problem, or a described simulator.")


def _stage_map(quantity: Any, horizon: int) -> tuple[float, float]:
    """Return offset and scale of a quantity in one stage: own = offset + scale * signal."""
    if quantity.scale == 0.0:
        raise InvalidParameterError(f"the scale of {quantity.name!r} is 0; expected another number.")
    return quantity.offset / horizon, quantity.scale
