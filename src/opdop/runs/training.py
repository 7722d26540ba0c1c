"""Train a learner on a problem, measure every episode exactly, and never lose what was done.

Two ways, one set of kernels: step by step against any simulator, and compiled for a known finite model. Where states
are continuous, episodes are played on the exact model and measured on its discretisation. The same seed gives bitwise
the same run either way, in pieces of any size, interrupted and resumed or not.
"""

from __future__ import annotations

import os
import reprlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from opdop.algorithms import OPDOP, CompiledEvaluator, Doubling, Learner, Task, find
from opdop.algorithms.task import by_action, fitting, swapped
from opdop.envs import make
from opdop.kernels import loops
from opdop.kernels.simd import LANES
from opdop.model import (
    ContinuousCMDP,
    ContinuousSimulator,
    Display,
    Episode,
    InvalidParameterError,
    ModelSimulator,
    OpdopError,
    PolicyMixture,
    Simulator,
    TabularCMDP,
    TabularPolicy,
)
from opdop.model.validation import MOST_EPISODES, Floats
from opdop.planning import Optimum, Values, evaluate, refine, solve
from opdop.runs.checkpoint import (
    CHECKPOINT,
    KIND,
    can_snapshot,
    facts_of,
    fingerprint,
    restore_simulator,
    simulator_state,
    under,
)
from opdop.runs.config import RunConfig, settings, whole
from opdop.runs.files import Arrays, damaged, plain, read_arrays, write_arrays
from opdop.runs.interrupts import Interrupts
from opdop.runs.recorder import Recorder
from opdop.runs.run import Run

_WAITING_BYTES = 256 * 2**20
_RESERVOIR = 64  # policies sampled for the average where the model is not known
_SECONDS_PER_PIECE = 0.1
_MOST_SECONDS_PER_PIECE = 2.0

Problem = str | TabularCMDP | ContinuousCMDP | Simulator


@dataclass(frozen=True)
class Progress:
    """Where a run is; given to the `progress` callback about ten times a second."""

    episode: int
    episodes: int
    regret: float
    violation: float
    hard_violation: float
    dual: Floats  # [I]


def train(
    problem: Problem,
    algorithm: str | Learner = "opdop",
    *,
    episodes: int,
    seed: int = 0,
    preset: str = "practical",
    parameters: Mapping[str, float] | None = None,
    planned_episodes: int | None = None,
    failure_probability: float = 0.05,
    slater_gap: float | None = None,
    dual_bound: float | None = None,
    noisy: bool = False,
    task: Task | None = None,
    measure_every: int = 1,
    records: int = 1000,
    checkpoint: str | Path | None = None,
    checkpoint_seconds: float = 10.0,
    start: Run | None = None,
    progress: Callable[[Progress], None] | None = None,
    compiled: bool = True,
    piece: int | None = None,
) -> Run:
    """Learn a policy over a number of episodes, and return what was learnt and how well it went.

    Args:
        problem: a shipped problem's name, a model, or a simulator. A simulator whose model is not known needs `task`;
            one that is given plays on with its own random stream.
        algorithm: a name from `opdop.algorithms()`, or a learner of your own. "doubling:opdop" restarts `opdop` with
            twice the plan whenever the plan ends, for an unknown number of episodes.
        episodes: how many to play now.
        seed: the same seed gives the same run, bit for bit.
        preset: where the constants come from; `parameters` are the preset's own named fields.
        planned_episodes: K in the constants, if it is not `episodes`.
        failure_probability: probability with which the preset's guarantee may fail.
        slater_gap: a lower bound on it; without one a known model's exact gap is used. `dual_bound` replaces both.
        noisy: observe signals of 0 or 1 with the model's means, instead of the means.
        measure_every: measure one episode in so many, and let its values stand for the others: faster, and the sums are
            then no longer exact. 1 is exact.
        records: how many episodes the history keeps; the sums contain all.
        checkpoint: a folder. A run is saved there every `checkpoint_seconds`, and when it is interrupted; called again
            with the same arguments it goes on from there, however it ended, and nothing in the result tells of it.
            Ctrl-C and SIGTERM are answered at the end of an episode, after a save. If the folder cannot be written, the
            run ends with an error and the last save stays. Two processes in one folder do each other no harm: each save
            replaces the file as a whole, and the last one stays. They play the same episodes if their arguments are the
            same; otherwise whoever starts later is told so, and they should have folders of their own.
        start: a run to go on from; a checkpoint in the folder comes first.
        progress: called about ten times a second.
        compiled: False plays a model step by step too; the result is the same.
        piece: episodes between two looks at the clock; by default as many as take a tenth of a second.

    >>> run = train("factored", episodes=2000)
    >>> run.episodes[-1], run.constants["preset"]
    (np.int64(2000), 'practical')
    """
    asked = dict(locals())
    given = {name: asked[name] for name in settings() if name not in ("problem", "problem_parameters", "algorithm")}
    how = _How(task, checkpoint, checkpoint_seconds, start, progress, compiled, piece)
    return _train(problem, algorithm, given, how)


def execute(
    config: RunConfig,
    problem: Problem | None = None,
    *,
    checkpoint: str | Path | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Run:
    """Make the run that a configuration describes, and return it; `train` explains the arguments.

    Without `problem` the configuration must name a shipped one.
    """
    given = {name: value for name, value in vars(config).items() if name not in ("problem", "problem_parameters")}
    made = make(config.problem, **config.problem_parameters) if problem is None else problem
    return _train(made, given.pop("algorithm"), given, _How(checkpoint=checkpoint, progress=progress))


@dataclass(frozen=True)
class _How:
    """How a run is made: nothing here changes a number of it."""

    task: Task | None = None
    checkpoint: str | Path | None = None
    checkpoint_seconds: float = 10.0
    start: Run | None = None
    progress: Callable[[Progress], None] | None = None
    compiled: bool = True
    piece: int | None = None


def _train(problem: Problem, algorithm: str | Learner, given: dict[str, Any], how: _How) -> Run:
    if not how.checkpoint_seconds >= 0.0:
        raise InvalidParameterError(f"checkpoint_seconds is {how.checkpoint_seconds!r}; expected a number, at least 0.")
    before = 0 if how.start is None else int(how.start.episodes[-1])
    trainer = _Trainer(problem, algorithm, given, how.task, before, how.compiled)
    folder = None if how.checkpoint is None else Path(how.checkpoint)
    if folder is not None and os.path.exists(folder / CHECKPOINT):
        trainer.load(folder / CHECKPOINT)
    elif how.start is not None:
        if how.start.snapshot is None:
            raise InvalidParameterError("this run was loaded from a folder and cannot be trained on; use a checkpoint.")
        trainer.restore(*how.start.snapshot, origin="the run to go on from")
    piece = None if how.piece is None else whole(1, MOST_EPISODES)("piece", how.piece)
    return trainer.run(folder, how.checkpoint_seconds, how.progress, piece)


class _Trainer:
    """One run in the making."""

    def __init__(
        self,
        problem: Problem,
        algorithm: str | Learner,
        given: dict[str, Any],
        task: Task | None,
        before: int,
        compiled: bool,
    ) -> None:
        if isinstance(problem, str):
            problem = make(problem)
        elif isinstance(problem, ContinuousCMDP):
            problem = problem.tabular()
        self.cmdp: TabularCMDP | None = None
        self.optimum: Optimum | None = None
        if isinstance(problem, (ModelSimulator, ContinuousSimulator)):
            self.cmdp, given["noisy"] = problem.cmdp, problem.noisy
        elif isinstance(problem, TabularCMDP):
            self.cmdp = problem
        named = isinstance(algorithm, str)
        if not named and (given["parameters"] or given["dual_bound"] is not None):
            raise InvalidParameterError("parameters and dual_bound belong to algorithms chosen by name.")
        config = RunConfig(
            **{
                **given,
                "algorithm": algorithm if named else type(algorithm).__name__,
                "preset": given["preset"] if named else None,
            }
        )
        planned = config.planned_episodes or before + config.episodes
        if self.cmdp is not None:
            own = None if isinstance(problem, TabularCMDP) else problem
            plays = ModelSimulator if self.cmdp.continuous is None else ContinuousSimulator
            self.simulator: Simulator = own or plays(self.cmdp, seed=config.seed, noisy=config.noisy)
            self.optimum = solve(self.cmdp)
            self.display = self.cmdp.display
            gap = config.slater_gap if config.slater_gap is not None else self.optimum.slater_gap or None
            task = _task_of(self.cmdp, planned, config.failure_probability, gap, config.noisy)
        elif task is None:
            raise InvalidParameterError(
                f"{type(problem).__name__} is a simulator whose model is not known: say what is known of it with "
                "task=opdop.Task(horizon, num_states, num_actions, thresholds, initial, episodes, ...)."
            )
        else:
            assert not isinstance(problem, (str, TabularCMDP))
            self.simulator, self.display = problem, Display.plain(task.num_constraints)
        self.task = task
        self.config = config.but(
            problem=self.display.name, problem_parameters=self.display.parameters, planned_episodes=task.episodes
        )
        self.learner = self._learner(algorithm)
        self.compiled = compiled and isinstance(self.simulator, ModelSimulator)
        self.compiled = self.compiled and isinstance(self.learner, (OPDOP, Doubling))
        if self.compiled and isinstance(self.learner, OPDOP):
            self.compiled = isinstance(self.learner.evaluator, CompiledEvaluator)
        self.target = before + config.episodes
        value = self.optimum.value if self.optimum is not None else np.nan
        self.recorder = Recorder(task.thresholds, value, task.episodes, config.records)
        self.occupancy = np.zeros((task.horizon, task.num_states, task.num_actions))
        self.waiting: Floats | None = None  # room for policies that will be measured together
        self.reservoir: list[Floats] = []
        self.reservoir_stream = np.random.default_rng(np.random.SeedSequence(config.seed).spawn(1)[0])
        self.policy = np.full(self.occupancy.shape, 1.0 / task.num_actions)  # the last one played
        self.seconds = 0.0
        self.origin: dict[str, Any] = {
            "model": None if self.cmdp is None else fingerprint(self.cmdp),
            "task": None if self.cmdp is not None else facts_of(self.simulator, task),
        }
        if self.cmdp is not None and self.cmdp.continuous is not None:
            self.origin["discretisation"] = refine(self.cmdp).record()

    def _learner(self, algorithm: str | Learner) -> Any:
        config = self.config
        if isinstance(algorithm, str):
            build = find(algorithm).build
            return build(self.task, config.preset, dual_bound=config.dual_bound, **config.parameters)
        if isinstance(algorithm, (OPDOP, Doubling)):
            _check_sizes(algorithm.task, self.task)
        return algorithm

    # Running ---------------------------------------------------------------------------------------------------------

    def run(
        self,
        folder: Path | None,
        checkpoint_seconds: float,
        progress: Callable[[Progress], None] | None,
        piece: int | None,
    ) -> Run:
        """Play until the target, with checkpoints and progress; return the run."""
        began = saved = time.monotonic()
        before = self.seconds
        size = piece or 1
        with Interrupts() as interrupts:
            if folder is not None and not self.recorder.episodes:
                self.save(folder / CHECKPOINT)  # say now, not hours later, if that cannot be done
            while self.recorder.episodes < self.target:
                tick = time.monotonic()
                count = min(size, self.target - self.recorder.episodes)
                self._play(count)
                now = time.monotonic()
                self.seconds = before + now - began
                if piece is None:
                    size = next_size(count, (now - tick) / count)
                if progress is not None:
                    progress(self._progress())
                if folder is None or interrupts.pending is not None or now - saved >= checkpoint_seconds:
                    if folder is not None:
                        self.save(folder / CHECKPOINT)
                        saved = time.monotonic()
                    interrupts.answer()  # only here, where nothing is lost
            if folder is not None:
                self.save(folder / CHECKPOINT)
        return self._result()

    def _play(self, count: int) -> None:
        """Play a number of episodes."""
        if self.compiled:
            self._play_compiled(count)
            self.policy = self.learner.policy
        else:
            for _ in range(count):
                self._play_one()

    def _play_compiled(self, count: int) -> None:
        assert self.cmdp is not None
        assert isinstance(self.simulator, ModelSimulator)
        model = loops.Model(self.cmdp.transitions, self.cmdp.signals, self.cmdp.initial, self.simulator.noisy)
        if self.waiting is None:
            count_waiting = max(1, min(LANES, _WAITING_BYTES // self.occupancy.nbytes))
            self.waiting = np.empty((count_waiting, *swapped(self.occupancy).shape))
        uniforms = self.simulator.generator.random((count, self.simulator.uniforms_per_episode))
        while len(uniforms):
            J = 1 + self.task.num_constraints
            record = loops.Record(*(np.empty((len(uniforms), n)) for n in (J, J, J - 1)))
            done = self.learner.run_compiled(
                model,
                uniforms,
                first=self.recorder.episodes,
                measure_every=self.config.measure_every,
                waiting=self.waiting,
                occupancy=self.occupancy,
                record=record,
            )
            self.recorder.add(record.totals[:done], record.estimates[:done], record.dual[:done])
            uniforms = uniforms[done:]

    def _play_one(self) -> None:
        """Play one episode step by step."""
        policy = self.learner.propose()
        self.policy = policy.table
        episode = self.simulator.play(policy)
        self.learner.learn(episode)
        totals = self._measure(policy, episode)
        diagnostics = self.learner.diagnostics()
        I = self.task.num_constraints
        names = ["estimated_reward", *(f"estimated_utility_{i}" for i in range(I)), *(f"dual_{i}" for i in range(I))]
        believed = np.array([[diagnostics.get(name, np.nan) for name in names]])
        self.recorder.add(totals, believed[:, : 1 + I], believed[:, 1 + I :])

    def _measure(self, policy: TabularPolicy, episode: Episode) -> Floats:
        """Return the true totals [1, 1+I] of a policy, or what was seen in its episode where no model is known."""
        totals = np.full((1, 1 + self.task.num_constraints), np.nan)
        if self.cmdp is None:
            self._sample(policy.table)
            totals[0] = episode.signals.sum(axis=1)
        elif self.recorder.episodes % self.config.measure_every == 0:
            model = loops.Model(self.cmdp.transitions, self.cmdp.signals, self.cmdp.initial, False)
            loops.measure(
                model, by_action(policy.table)[None], float(self.config.measure_every), self.occupancy, totals
            )
        return totals

    def _sample(self, table: Floats) -> None:
        """Keep a uniform sample of all policies so far (reservoir sampling)."""
        place = int(self.reservoir_stream.integers(self.recorder.episodes + 1))
        if len(self.reservoir) < _RESERVOIR:
            self.reservoir.append(table)
        elif place < _RESERVOIR:
            self.reservoir[place] = table

    def _progress(self) -> Progress:
        record = self.recorder
        dual = np.array([record.current(f"dual_{i}") for i in range(self.task.num_constraints)])
        return Progress(
            record.episodes,
            self.target,
            record.current("regret"),
            record.current("violation"),
            record.current("hard_violation"),
            dual,
        )

    def _result(self) -> Run:
        policy = TabularPolicy.trusted(self.policy.copy())
        mixture: TabularPolicy | PolicyMixture
        if self.cmdp is not None:
            visits = self.occupancy.sum(axis=2, keepdims=True)
            share = self.occupancy / np.where(visits > 0.0, visits, 1.0)
            mixture = TabularPolicy(np.where(visits > 0.0, share, policy.table))
        else:
            mixture = PolicyMixture(self.reservoir)
        sums = self.recorder.sums.sums[: 1 + self.task.num_constraints]
        return Run(
            history=self.recorder.history(),
            policy=policy,
            mixture=mixture,
            optimum=self.optimum,
            last=None if self.cmdp is None else evaluate(self.cmdp, policy),
            average=Values.of(sums / self.recorder.episodes),
            thresholds=np.array(self.task.thresholds),
            display=self.display,
            config=self.config.but(episodes=self.recorder.episodes),
            origin=dict(self.origin),
            constants=dict(getattr(self.learner, "constants", {})),
            seconds=self.seconds,
            snapshot=self.snapshot() if can_snapshot(self.simulator) else None,
        )

    # Saving ----------------------------------------------------------------------------------------------------------

    def snapshot(self) -> tuple[dict[str, Any], Arrays]:
        """Return all that the rest of the run depends on."""
        meta = {
            "kind": KIND,
            "config": self.config.but(episodes=self.target).record(),
            "origin": plain(self.origin),
            "seconds": self.seconds,
            "reservoir_stream": self.reservoir_stream.bit_generator.state,
            "simulator": simulator_state(self.simulator),
        }
        arrays: Arrays = {"occupancy": self.occupancy.copy(), "policy": self.policy.copy()}
        arrays |= {f"learner.{name}": value for name, value in self.learner.state().items()}
        arrays |= {f"recorder.{name}": value for name, value in self.recorder.state().items()}
        if self.reservoir:
            arrays["reservoir"] = np.array(self.reservoir)
        return meta, arrays

    def save(self, path: Path) -> None:
        """Write a checkpoint."""
        write_arrays(path, *self.snapshot())

    def load(self, path: Path) -> None:
        """Go on from a checkpoint."""
        meta, arrays = read_arrays(path, kind=KIND)
        self.restore(meta, arrays, origin=str(path))

    def restore(self, meta: Mapping[str, Any], arrays: Arrays, *, origin: str) -> None:
        """Go back to a snapshot of the same run."""
        try:
            theirs = RunConfig.of(meta["config"]).record() | {"origin": meta["origin"]}
        except (KeyError, InvalidParameterError) as error:
            raise damaged(origin, KIND, error) from error
        ours = self.config.record() | {"origin": plain(self.origin)}
        for name in ours.keys() - {"episodes"}:
            if theirs[name] != ours[name]:
                raise InvalidParameterError(
                    f"{origin} is of another run: its {name} is {reprlib.repr(theirs[name])}, and now it is "
                    f"{reprlib.repr(ours[name])}. Use the same arguments, or another folder."
                )
        try:
            self._restore(meta, arrays)
        except Exception as error:  # learners and simulators raise what they like
            raise damaged(origin, KIND, error) from error

    def _restore(self, meta: Mapping[str, Any], arrays: Arrays) -> None:
        self.occupancy[:] = fitting(arrays, "occupancy", self.occupancy)
        self.policy = fitting(arrays, "policy", self.occupancy)
        TabularPolicy(self.policy)  # raises unless it is one
        self.learner.restore(under(arrays, "learner."))
        self.recorder.restore(under(arrays, "recorder."))
        episodes = self.recorder.episodes
        if episodes < 0 or episodes != getattr(self.learner, "episodes", episodes):
            raise OpdopError("learner and history are not at the same episode.")
        if self.cmdp is None and episodes:
            sampled = (min(episodes, _RESERVOIR), *self.occupancy.shape)
            self.reservoir = list(fitting(arrays, "reservoir", np.empty(sampled)))
            PolicyMixture(self.reservoir)
        seconds = meta["seconds"]
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0.0 <= seconds < np.inf:
            raise OpdopError("the time it took is not a number of seconds.")
        self.seconds = float(seconds)
        self.reservoir_stream.bit_generator.state = meta["reservoir_stream"]
        restore_simulator(self.simulator, meta["simulator"])


def _task_of(cmdp: TabularCMDP, planned: int, failure_probability: float, gap: float | None, noisy: bool) -> Task:
    sizes = cmdp.horizon, cmdp.num_states, cmdp.num_actions
    return Task(*sizes, cmdp.thresholds, cmdp.initial, planned, failure_probability, gap, noisy, cmdp.features)


def _check_sizes(theirs: Task, ours: Task) -> None:
    for name in ("horizon", "num_states", "num_actions", "num_constraints"):
        if getattr(theirs, name) != getattr(ours, name):
            raise InvalidParameterError(
                f"the learner is for another task: its {name} is {getattr(theirs, name)}, "
                f"the problem's is {getattr(ours, name)}."
            )


def next_size(size: int, seconds: float) -> int:
    """Return how many episodes to play before looking up again, when the last `size` took so many seconds each.

    Enough to be measured together, if that does not keep anybody waiting.
    """
    each = max(seconds, 1e-9)
    least = min(max(1, int(_MOST_SECONDS_PER_PIECE / each)), LANES)
    return min(max(least, int(_SECONDS_PER_PIECE / each)), 8 * size, 2**16)
