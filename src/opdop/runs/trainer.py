"""The state of a run while it is made: learner, simulator and recorder; it plays, measures and makes the result."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from opdop.algorithms import CompiledLearner, Learner, Task, find
from opdop.algorithms.constants import ZERO_VIOLATION
from opdop.algorithms.sizes import as_learner, check_room
from opdop.algorithms.task import Observing, by_action, swapped
from opdop.confidence import Certificate, Certifier, Observations, Regressions
from opdop.confidence.data import Data, confidence_set
from opdop.confidence.first_state import add_visits
from opdop.envs.own_problems import is_code
from opdop.kernels import loops
from opdop.kernels.simd import LANES
from opdop.model import (
    CompiledSimulator,
    Episode,
    InvalidModelError,
    InvalidParameterError,
    KnownSimulator,
    PolicyMixture,
    Problem,
    ReseedableSimulator,
    Simulator,
    Space,
    TabularCMDP,
    TabularPolicy,
    as_tabular,
)
from opdop.model.features import one_hot
from opdop.model.policy import fitting_table
from opdop.model.validation import Floats, call, first_index, number, shown
from opdop.planning import Optimum, Values, evaluate, policy_with_occupancy, refine, solve
from opdop.runs.checkpoint import (
    CHECKPOINT,
    ResumableSimulator,
    facts_of,
    fingerprint,
    stream_seed,
)
from opdop.runs.config import RunConfig
from opdop.runs.files import (
    write_arrays,
)
from opdop.runs.interrupts import Interrupts
from opdop.runs.progress import Progress
from opdop.runs.recorder import Recorder
from opdop.runs.run import Run
from opdop.runs.snapshots import save, snapshot_of
from opdop.runs.trail import Trail, trail_columns
from opdop.runs.unknown_model import build_growing, display_of, task_of

_WAITING_BYTES = 256 * 2**20
_SECONDS_PER_PIECE = 0.1
_MOST_SECONDS_PER_PIECE = 2.0


class Trainer:
    """The state of a run while it is made; `opdop.runs.snapshots` saves and restores it."""

    most_sampled = 64  # policies sampled for the average where the model is not known

    def __init__(
        self,
        config: RunConfig,
        problem: Problem | Simulator,
        learner: Learner | None,
        task: Task | None,
        before: int,
        compiled: bool,
        optimum: Optimum | None = None,
    ) -> None:
        if isinstance(problem, type) or not (isinstance(problem, Problem) or callable(getattr(problem, "play", None))):
            raise InvalidParameterError(
                f"problem is {shown(problem)}; expected the name of a problem, a problem, or a simulator with play()."
            )
        known = problem if isinstance(problem, Problem) else None
        if isinstance(problem, KnownSimulator) and isinstance(problem.problem, Problem):
            known, config = problem.problem, config.but(noisy=problem.noisy)
        self.simulator: Simulator
        if isinstance(problem, Problem):
            make_simulator = partial(problem.simulator, seed=config.seed, noisy=config.noisy)
            self.simulator = call("simulator() of the problem", make_simulator)
        else:
            self.simulator = problem
        self.space: Space | None = getattr(known or problem, "space", None)  # how observations are numbered
        self.cmdp: TabularCMDP | None = None if known is None else as_tabular(known)
        self.optimum: Optimum | None = None if known is None else (optimum or solve(known))
        self.origin: dict[str, Any] = {"model": None if known is None else fingerprint(known), "task": None}
        if known is not None and self.optimum is not None:
            self.display = known.display
            task = Task.of(
                known,
                episodes=config.planned_episodes or before + config.episodes,
                failure_probability=config.failure_probability,
                slater_gap=config.slater_gap or self.optimum.slater_gap or None,
                noisy=config.noisy,
                stationary=config.stationary,
                baseline=learner is None and find(config.algorithm).needs_baseline,
            )
            if (refinement := refine(known)) is not None:
                self.origin["discretisation"] = refinement.record()
        else:
            asked, task = task, task_of(config, self.simulator, task, before)
            if asked is not None:
                stated = {name: getattr(task, name) for name in ("slater_gap", "failure_probability", "noisy")}
                config = config.but(**stated)
            self.display = display_of(self.simulator, task)
            self.origin["task"] = facts_of(self.simulator, task)
        self.task = task
        # A function's parameters stay as they were given: its defaults are known only to who runs it.
        given = config.problem == self.display.name and is_code(config.problem)
        parameters = config.problem_parameters if given else self.display.parameters
        self.config = config.but(
            problem=self.display.name, problem_parameters=parameters, planned_episodes=task.episodes
        )
        check_room(task, 3.0, "the policies of the run")
        self.learner: Any = self._build() if learner is None else as_learner(learner, task)
        self.compiled = compiled and _compiles(self.simulator, CompiledSimulator)
        self.compiled = self.compiled and _compiles(self.learner, CompiledLearner)
        self.target = before + config.episodes
        optimal_value = np.nan if self.optimum is None else self.optimum.value
        self.recorder = Recorder(task.thresholds, optimal_value, task.episodes, config.records)
        self.first_visits = None if task.first_visits is None else np.zeros_like(task.first_visits)  # of the episodes
        self.occupancy = np.zeros((task.horizon, task.num_states, task.num_actions))
        self.waiting: Floats | None = None  # room for policies that will be measured together
        self.reservoir: list[Floats] = []
        self.reservoir_stream = np.random.default_rng(np.random.SeedSequence(config.seed).spawn(1)[0])
        self.policy = np.full(self.occupancy.shape, 1.0 / task.num_actions)  # of the last episode
        reward = self.display.quantities[0]
        planned, I = task.episodes, task.num_constraints
        self.trail = Trail.of(config.until, config.certificates, planned, task.horizon, reward, I)
        if self.trail.is_on and self.observations() is None:
            raise InvalidParameterError(
                f"{self.config.algorithm} keeps no data from which a certificate can be made; leave out "
                f"{'until' if config.until else 'certificates'}, or use another algorithm."
            )
        self.seconds = 0.0
        self.guarded, self.before = False, None  # whether states of the simulator are kept, and that of this episode
        self.resumed: list[int] = []  # the episodes after which the simulator's stream was begun anew
        if known is None:
            self.reseed(0)

    def reseed(self, episode: int) -> None:
        """Begin the simulator's stream that belongs to the run's seed and an episode, if it can be."""
        if isinstance(self.simulator, ReseedableSimulator):
            call("reseed() of the simulator", self.simulator.reseed, stream_seed(self.config.seed, episode))

    def _build(self) -> Any:
        config = self.config
        chosen = find(config.algorithm)
        preset = chosen.preset(str(config.preset), self._parameters(), config.dual_bound)
        if self.cmdp is None and self.task.slater_gap is None and config.dual_bound is None:
            return build_growing(config.algorithm, self.task, preset)
        learner: Learner = chosen.build(self.task, preset)
        return learner

    def _parameters(self) -> dict[str, float]:
        """Return the parameters of the preset; `zero_violation` becomes the margin that makes the violation 0."""
        config, task, parameters = self.config, self.task, dict(self.config.parameters)
        if parameters.pop(ZERO_VIOLATION, None) is None:
            return parameters
        if config.preset != "certified" or config.algorithm not in ("opdop", "opdop-lstd") or task.is_continuous:
            raise InvalidParameterError(
                f"{ZERO_VIOLATION} has no proof with preset {config.preset!r} and algorithm {config.algorithm!r} on "
                "this problem; expected preset 'certified', 'opdop' or 'opdop-lstd', and finitely many states."
            )
        if config.dual_bound is not None or parameters:
            raise InvalidParameterError(f"{ZERO_VIOLATION} chooses margin and dual_bound by itself: give neither.")
        from opdop.theory.bounds import zero_violation_margin  # late: few runs need it

        sizes = None
        if config.algorithm == "opdop-lstd":
            sizes = task.features or one_hot(task.num_states, task.num_actions)
        return {"margin": zero_violation_margin(task, sizes=sizes)}

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
        self.guarded = folder is not None
        with Interrupts() as interrupts:
            if folder is not None and not self.recorder.episodes:
                save(self, folder / CHECKPOINT)  # so that an error comes now, not hours later
            while self.recorder.episodes < self.target and not self.trail.is_met:
                tick = time.monotonic()
                count = min(size, min(self.target, self.trail.next) - self.recorder.episodes)
                try:
                    self.play(count)
                except InvalidModelError:  # an observation out of its range, or an episode that does not fit
                    if folder is not None and self._is_even():
                        meta, arrays = snapshot_of(self)
                        # As it was before the episode that failed, which is played again when the run is resumed.
                        write_arrays(folder / CHECKPOINT, meta | {"simulator": self.before}, arrays)
                    raise
                if piece is None:
                    size = next_size(size, (time.monotonic() - tick) / count)
                if self.recorder.episodes == self.trail.next:
                    self.trail.add(self.recorder.episodes, *self.certified())
                now = time.monotonic()
                self.seconds = before + now - began
                if progress is not None:
                    progress(self._progress())
                if folder is None or interrupts.pending is not None or now - saved >= checkpoint_seconds:
                    if folder is not None:
                        save(self, folder / CHECKPOINT)
                        saved = time.monotonic()
                    interrupts.answer()  # only here, where every episode has been saved
            if folder is not None:
                save(self, folder / CHECKPOINT)
        return self._result()

    def _is_even(self) -> bool:
        """Whether the learner has learnt from exactly the recorded episodes, so that the run can be saved."""
        return bool(getattr(self.learner, "episodes", -1) == self.recorder.episodes)

    def play(self, count: int) -> None:
        """Play a number of episodes."""
        if self.compiled:
            self._play_compiled(count)
            self.policy = self.learner.policy
        else:
            for _ in range(count):
                self._play_one()

    def _play_compiled(self, count: int) -> None:
        assert self.cmdp is not None
        assert isinstance(self.simulator, CompiledSimulator)
        model = loops.Model(self.cmdp.transitions, self.cmdp.signals, self.cmdp.initial, self.simulator.noisy)
        if self.waiting is None:
            count_waiting = max(1, min(LANES, _WAITING_BYTES // self.occupancy.nbytes))
            self.waiting = np.empty((count_waiting, *swapped(self.occupancy).shape))
        uniforms = self.simulator.draw(count)
        while len(uniforms):
            J = 1 + self.task.num_constraints
            record = loops.Record(
                totals=np.empty((len(uniforms), J)),
                estimates=np.empty((len(uniforms), J)),
                dual=np.empty((len(uniforms), J - 1)),
                first=self.recorder.episodes,
                measure_every=self.config.measure_every,
                waiting=self.waiting,
                occupancy=self.occupancy,
            )
            done = self.learner.run_compiled(model, uniforms, record)
            self.recorder.add(record.totals[:done], record.estimates[:done], record.dual[:done])
            uniforms = uniforms[done:]

    def _play_one(self) -> None:
        """Play one episode step by step."""
        policy = self.learner.propose()
        table = self._table(policy)
        if self.guarded and isinstance(self.simulator, ResumableSimulator):
            self.before = self.simulator.state()
        episode = self.simulator.play(policy)
        I = self.task.num_constraints
        if not isinstance(episode, Episode) or np.shape(episode.signals) != (1 + I, self.task.horizon):
            raise InvalidModelError(
                f"play() has returned {shown(episode)}; expected an opdop.Episode with signals [1+I,H] = "
                f"[{1 + I},{self.task.horizon}]."
            )
        self._check_ranges(episode)
        self.learner.learn(episode)
        if self.first_visits is not None:
            self.first_visits[int(episode.states[0])] += 1
        self.policy = table  # only now: an episode that cannot be used leaves the run as it was
        totals = self._measure(self.policy, episode)
        diagnostics = self.learner.diagnostics()
        names = ["estimated_reward", *(f"estimated_utility_{i}" for i in range(I)), *(f"dual_{i}" for i in range(I))]
        try:
            numbers = np.array([[float(diagnostics.get(name, np.nan)) for name in names]])
        except (AttributeError, TypeError, ValueError) as error:
            raise InvalidModelError(
                f"the learner's diagnostics are {shown(diagnostics)}; expected numbers by name."
            ) from error
        self.recorder.add(totals, numbers[:, : 1 + I], numbers[:, 1 + I :])

    def _check_ranges(self, episode: Episode) -> None:
        """Raise InvalidModelError, in own units, if a reward or a cost is outside the range that the units imply."""
        signals = np.asarray(episode.signals)
        if signals.dtype.kind not in "iuf" or ((signals >= 0.0) & (signals <= 1.0)).all():
            return
        bad = ~((signals >= 0.0) & (signals <= 1.0))
        j, h = first_index(bad)
        quantity = self.display.quantities[j]
        low, high = (quantity.offset / self.task.horizon + quantity.scale * end for end in (0.0, 1.0))
        value = quantity.offset / self.task.horizon + quantity.scale * float(signals[j, h])
        raise InvalidModelError(
            f"at stage {h} the {quantity.name} is {number(value)} {quantity.unit}".rstrip()
            + f" (signals[{j}, {h}] is {number(float(signals[j, h]))}); expected a number in its range, "
            f"[{number(min(low, high))}, {number(max(low, high))}]."
        )

    def _table(self, policy: Any) -> Floats:
        """Return the table [H, S, A] of a policy that a learner proposes."""
        table = getattr(policy, "table", None)
        if isinstance(table, np.ndarray) and (table.shape, table.dtype) == (self.occupancy.shape, np.float64):
            return table
        return fitting_table(policy, *self.occupancy.shape)

    def _measure(self, policy: Floats, episode: Episode) -> Floats:
        """Return the true totals [1, 1+I] of a policy, or its episode's observed ones where the model is not known."""
        totals = np.full((1, 1 + self.task.num_constraints), np.nan)
        if self.cmdp is None:
            self._sample(policy)
            totals[0] = episode.signals.sum(axis=1)
        elif self.recorder.episodes % self.config.measure_every == 0:
            model = loops.Model(self.cmdp.transitions, self.cmdp.signals, self.cmdp.initial, False)
            loops.measure(model, by_action(policy)[None], float(self.config.measure_every), self.occupancy, totals)
        return totals

    def _sample(self, table: Floats) -> None:
        """Add a policy to a uniform sample of all policies so far (reservoir sampling)."""
        place = int(self.reservoir_stream.integers(self.recorder.episodes + 1))
        if len(self.reservoir) < self.most_sampled:
            self.reservoir.append(table)
        elif place < self.most_sampled:
            self.reservoir[place] = table

    def _progress(self) -> Progress:
        record = self.recorder
        dual = np.array([record.current(f"dual_{i}") for i in range(self.task.num_constraints)])
        names = "regret", "violation", "hard_violation"
        regret, violation, hard = (np.nan if self.cmdp is None else record.current(name) for name in names)
        each = (None, None) if self.cmdp is None else record.violations()
        certified = self.trail.gap, self.trail.keeps_constraints
        return Progress(record.episodes, self.target, regret, violation, hard, dual, *certified, *each)

    def certified(self) -> tuple[Certificate, Floats | None]:
        """Return the certificate of the recommended policy, and the true values of that policy if they are known."""
        data = self.observations()
        assert data is not None
        confidence = confidence_set(data.as_declared(), self.config.failure_probability)
        certificate = Certifier(confidence, self.display).recommend([TabularPolicy.trusted(self.policy)])
        return certificate, None if self.cmdp is None else evaluate(self.cmdp, certificate.policy).totals

    def _certificates(self) -> dict[str, Any] | None:
        """Return the columns of the certificates, the last one at the last episode; None if none were asked for."""
        if not self.trail.is_on:
            return None
        rows, played = list(self.trail.rows), self.recorder.episodes
        if not rows or rows[-1][0] != played:
            rows.append(self.trail.row(played, *self.certified()))
        return trail_columns(np.array(rows), self.trail.columns)

    def _result(self) -> Run:
        policy = TabularPolicy.trusted(self.policy.copy(), self.space)
        mixture: TabularPolicy | PolicyMixture
        if self.cmdp is not None:
            mixture = policy_with_occupancy(self.occupancy, unvisited=policy.table).with_space(self.space)
        else:
            mixture = PolicyMixture(self.reservoir).with_space(self.space)
        sums = self.recorder.sums.sums[: 1 + self.task.num_constraints]
        run = Run(
            columns=self.recorder.history(),
            policy=policy,
            mixture=mixture,
            optimum=self.optimum,
            last=None if self.cmdp is None else evaluate(self.cmdp, policy),
            average=Values.of(sums / self.recorder.episodes, self.display.quantities),
            thresholds=np.array(self.task.thresholds),
            display=self.display,
            config=self.config.but(episodes=self.target),
            origin={**self.origin, **({"resumed": list(self.resumed)} if self.resumed else {})},
            constants=dict(getattr(self.learner, "constants", {})),
            seconds=self.seconds,
            snapshot=snapshot_of(self),
            observations=self.observations(),
            trail=self._certificates(),
            simulator=self.simulator,
        )
        if wanted := self.config.evaluation_episodes:
            run = replace(run, evaluation=run.evaluate_episodes(wanted, seed=self.config.seed))
        return run

    def observations(self) -> Data | None:
        """Return the learner's data, with what the task declares about them."""
        own = getattr(self.learner, "observations", None)  # a learner of the user's may have anything of this name
        data = own() if isinstance(self.learner, Observing) and callable(own) else None
        if not isinstance(data, Observations | Regressions):
            return None
        first = add_visits(self.task.first_visits, self.first_visits)
        if isinstance(data, Regressions):
            return replace(data, first_visits=first)
        # Nobody has checked that the signals of a simulator whose model is not known are always the same.
        noisy = data.noisy or self.cmdp is None
        stationary, alike = self.task.stationary, self.task.stationary_signals
        return replace(data, noisy=noisy, stationary=stationary, stationary_signals=alike, first_visits=first)


def _compiles(part: object, protocol: type[CompiledLearner] | type[CompiledSimulator]) -> bool:
    return isinstance(part, protocol) and part.compiles


def next_size(size: int, seconds: float) -> int:
    """Return how many episodes to play before the time is checked again, if the last `size` took `seconds` each.

    They are enough to be measured together, unless that takes more than two seconds.
    """
    each = max(seconds, 1e-9)
    least = min(max(1, int(_MOST_SECONDS_PER_PIECE / each)), LANES)
    return min(max(least, int(_SECONDS_PER_PIECE / each)), 8 * size, 2**16)
