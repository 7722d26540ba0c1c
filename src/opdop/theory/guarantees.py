"""The guarantee card of a run: its bounds, their probability and their assumptions; or why it has no guarantee."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opdop.algorithms.constants import Preset
from opdop.algorithms.doubling import phase_task, phases
from opdop.algorithms.radius_rules import BallRadius, linear_rule
from opdop.algorithms.task import Task
from opdop.kernels.lstd import kernel_radius, signal_radius
from opdop.model.validation import Floats
from opdop.planning import Optimum
from opdop.theory import bounds
from opdop.theory.bounds import Bound, Setting

CERTIFIED_RULES = "BallRadius", "SelfNormalisedRadius"


@dataclass(frozen=True)
class StoredSizes:
    """Sizes of features as a run stores them."""

    kernel_dim: int
    signal_dim: int
    kernel_norm: float
    signal_norm: float
    signal_length: float
    blocks: int


@dataclass(frozen=True)
class Assumption:
    """What a guarantee rests on; `met` is None where it cannot be checked."""

    words: str
    met: bool | None


@dataclass(frozen=True, eq=False)
class Guarantee:
    """The guarantee of a run. Without one, `probability` is None, `phases` is empty, and `why` says why."""

    preset: str
    probability: float | None
    assumptions: tuple[Assumption, ...]
    why: str
    phases: tuple[tuple[Setting, int], ...]  # the setting of each phase, and the episodes that it played
    constraints: bool  # whether the violation has a bound too

    @property
    def certified(self) -> bool:
        """Whether the run has a guarantee."""
        return self.probability is not None

    def regret(self, episodes: int | None = None) -> float:
        """Return the bound on the regret after so many episodes; by default, after all."""
        return math.fsum(bounds.regret(setting, played).total for setting, played in self._played(episodes))

    @property
    def zero_violation(self) -> bool:
        """Whether the bound on the violation after all episodes is 0, because of a margin."""
        return self.constraints and self.violation() == 0.0

    @property
    def margin(self) -> float:
        """What was added to every threshold, in model units."""
        return self.phases[0][0].constants.margin if self.phases else 0.0

    def violation(self, episodes: int | None = None) -> float:
        """Return the bound on the violation of the worst constraint after so many episodes."""
        return math.fsum(bounds.violation(setting, played).total for setting, played in self._played(episodes))

    @property
    def episodes(self) -> int:
        """How many episodes were played."""
        return sum(played for _, played in self.phases)

    @property
    def trivial(self) -> float:
        """K H, the trivial bound: it needs no proof."""
        return float(self.episodes) * self.phases[0][0].task.horizon

    def useful_from(self, bound: str) -> int | None:
        """Return the K from which on a plan's bound, "regret" or "violation", is below K H; None if beyond 10^60."""
        formula = {"regret": bounds.regret, "violation": bounds.violation}[bound]
        return bounds.useful_from(self.phases[-1][0], formula)

    def terms(self, bound: str) -> dict[str, float]:
        """Return the terms of a bound, "regret" or "violation", added up over the phases."""
        formula = {"regret": bounds.regret, "violation": bounds.violation}[bound]
        each: list[Bound] = [formula(setting, played) for setting, played in self.phases]
        return {name: math.fsum(part.terms[name] for part in each) for name in each[0].terms}

    def _played(self, episodes: int | None) -> list[tuple[Setting, int]]:
        left, parts = self.episodes if episodes is None else episodes, []
        for setting, played in self.phases:
            parts.append((setting, min(played, left)))
            left -= parts[-1][1]
        return [part for part in parts if part[1] > 0]


def guarantee(
    constants: Mapping[str, Any],
    *,
    shape: Sequence[int],
    thresholds: Floats,
    episodes: int,
    failure_probability: float,
    noisy: bool,
    optimum: Optimum | None,
    own_learner: bool = False,
    checked: bool = False,
) -> Guarantee:
    """Return the guarantee that a run has by its stored constants.

    They must be those that the preset `certified` gives for the run's task, of every phase if it is a doubling run.

    Args:
        constants: the constants as the run stores them.
        shape: (H, S, A).
        thresholds: [I].
        episodes: how many were played.
        failure_probability: p of the whole run, with all phases together.
        noisy: whether observed signals are random.
        optimum: the exact optimum, if it is known.
        own_learner: whether the learner was not built for this run. Then it has no guarantee, as a run does not store
            what such a learner was told.
        checked: whether a declaration that kernel or signals are the same at every stage came from the model itself.
    """
    preset = str(constants.get("preset", "none"))
    why = _why_not(preset, constants)
    if not why and own_learner:
        why = "the learner was built elsewhere, and a run does not store what it was told of the problem"
    if why:
        return Guarantee(preset, None, (), why, (), False)
    H, S, A = shape
    chi, planned, gap = float(constants["dual_bound"]), int(constants["planned_episodes"]), constants.get("slater_gap")
    initial = np.full(S, 1.0 / S)  # no bound depends on it
    pooled, together = (bool(constants.get(name, False)) for name in ("stationary", "stationary_signals"))
    task = Task(H, S, A, thresholds, initial, planned, failure_probability, gap, noisy, None, pooled, together)
    stored, plans = task, [(task, episodes)]
    if "doubling_phase" in constants:
        first = int(constants["doubling_first"])
        stored, plans = phase_task(task, int(constants["doubling_phase"]), first), phases(task, episodes, first)
    why = _difference(_setting(stored, constants), constants)
    if not why and plans[-1][1] > plans[-1][0].episodes:
        why = f"{episodes:,} episodes were played, and the constants are certified for {planned:,}"
    if why:
        return Guarantee(preset, None, (), why, (), False)
    constraints = chi > 0.0 and float(constants["dual_step_size"]) > 0.0
    assumptions = [
        Assumption(
            "rewards and utilities are in [0, 1]" + (", drawn anew at each visit" if noisy else " and not random"), True
        ),
        _model_assumption(constants, shape, checked),
    ]
    if constraints:
        assumptions.append(_multiplier_assumption(chi, constants, optimum, H))
        constraints = assumptions[-1].met is not False
    played = tuple((_setting(plan, constants), number) for plan, number in plans)
    return Guarantee(preset, 1.0 - failure_probability, tuple(assumptions), "", played, constraints)


def _why_not(preset: str, constants: Mapping[str, Any]) -> str:
    """Return why there is no guarantee, or "" if the preset and the confidence rule have one."""
    if "planner" in constants:
        return "no bound for its planner is proved here; what its data prove is in its certificate"
    if "source" in constants:
        return (
            f"the bound in {constants['source']} is not the one of Algorithm 1 and is not computed here; what its data "
            "prove is in its certificate"
        )
    if preset == "practical":
        return (
            "the steps of `practical` follow the ranges of its estimates, which need not be optimistic, and the "
            "theorem does not bound its regret or violation"
        )
    if preset == "scaled":
        scale = constants.get("radius_scale")
        return (
            f"`scaled` multiplies the certified radius by {scale:g}, so its estimates need not be optimistic, and "
            "the theorem does not bound its regret or violation"
        )
    if preset == "paper":
        return (
            f"the theorem holds for a large enough C1, which the paper does not give; for C1 = {constants.get('C1'):g} "
            "there is no proof"
        )
    if preset != "certified":
        return "its constants come from no preset"
    radius = constants.get("radius")
    if not isinstance(radius, Mapping) or radius.get("rule") not in CERTIFIED_RULES or radius.get("scale") != 1.0:
        return "its confidence rule is not a certified one"
    if radius["rule"] == "SelfNormalisedRadius" and "kernel_dim" not in constants:
        return "the sizes of its features were not stored"
    if constants.get("reevaluate_at_growth") is not None:
        return (
            f"`reevaluate_at_growth` = {constants['reevaluate_at_growth']:g} leaves evaluations out; between them V^k "
            "is not <Q^k, pi^k>, which the proof needs"
        )
    if "nodes" in constants:
        return (
            "its states are continuous, and the theorem is proved for finitely many: the certified radius does not "
            f"cover the error of integrals on {constants['nodes']} nodes"
        )
    return ""


def _setting(task: Task, constants: Mapping[str, Any]) -> Setting:
    """Return the setting of the preset `certified` for a task, with what the run stored of features and chi."""
    sizes = None
    if "kernel_dim" in constants:
        names = "kernel_dim", "signal_dim", "kernel_norm", "signal_norm", "signal_length", "feature_blocks"
        sizes = StoredSizes(*(constants[name] for name in names))
    chi = float(constants["dual_bound"])
    margin = {"margin": constants["margin"]} if constants.get("margin") else {}
    preset = Preset("certified", margin, dual_bound=chi or 1.0)
    return Setting.of(task, preset=preset, sizes=sizes, constrained=chi > 0.0)


def _difference(setting: Setting, constants: Mapping[str, Any]) -> str:
    """Return which stored constant is not the one that the preset gives for the task, or "" if all are."""
    task, c = setting.task, setting.constants
    expected = {"step_size": c.step_size, "dual_step_size": c.dual_step_size, "mixing": c.mixing}
    if c.dual_total < math.inf:
        expected["dual_total"] = c.dual_total
    if setting.sizes is None:
        assert isinstance(c.radius, BallRadius)
        log_sets, signal_log_sets = c.radius.log_sets(task)
        expected |= {"signal_log_sets": signal_log_sets} | ({"log_sets": log_sets} if task.num_states > 1 else {})
    else:
        expected["ridge"] = c.ridge
        linear = linear_rule(c.radius).linear_radii(task, setting.sizes, c.ridge)
        first, last = (float(kernel_radius(linear, h, 0.0)) for h in (0, task.horizon - 1))
        expected |= {"first_radius": first, "last_radius": last, "signal_radius": float(signal_radius(linear, 0.0))}
    for name, value in expected.items():
        found = constants.get(name)
        if not (isinstance(found, (int, float)) and math.isclose(found, value, rel_tol=1e-9)):
            return (
                f"its {name}, {found}, is not a certified one: the preset gives {value:.6g} for {task.episodes:,} "
                f"episodes and failure probability {task.failure_probability:g}"
            )
    return ""


def _model_assumption(constants: Mapping[str, Any], shape: Sequence[int], checked: bool) -> Assumption:
    if "kernel_dim" not in constants and constants.get("stationary"):
        also = ", and so do rewards and utilities" if constants.get("stationary_signals") else ""
        words = f"the next one depends on state and action only, at every stage in the same way{also}"
        return Assumption(f"there are {shape[1]:,} states, and {words}", True if checked else None)
    if "kernel_dim" not in constants or constants["feature_blocks"] > 1:
        return Assumption(
            f"there are {shape[1]:,} states, and the next one depends on state, action and stage only", True
        )
    norms = (
        f"weights of norm at most {constants['kernel_norm']:.3g} (kernel) and {constants['signal_norm']:.3g} (signals)"
    )
    lengths = f"features of norm at most sqrt({constants['kernel_dim']}) H and {constants['signal_length']:.3g}"
    # LinearCMDP checks both when a model is made; those of a simulator cannot be checked.
    return Assumption(f"kernel and signals are linear in the known features, with {norms}; {lengths}", None)


def _multiplier_assumption(
    chi: float, constants: Mapping[str, Any], optimum: Optimum | None, horizon: int
) -> Assumption:
    gap = constants.get("slater_gap")
    if margin := constants.get("margin"):
        return Assumption(
            f"chi = {chi:.4g} is at least 2 |Y*|_1 of the thresholds plus margin {margin:.4g}, as 2 H / (gap - margin) "
            "is",
            _covers_margin(chi, gap, margin, optimum, horizon),
        )
    if optimum is None:
        rest, met = "", None
    else:
        size = 2.0 * float(optimum.dual.sum())
        rest, met = f" = {size:.4g}", size <= chi * (1.0 + 1e-9)
    because = f", as it is if some policy has slack {gap:.4g} in every constraint (Slater gap)" if gap else ""
    return Assumption(f"chi = {chi:.4g} is at least 2 |Y*|_1{rest}{because}", met)


def _covers_margin(chi: float, gap: float | None, margin: float, optimum: Optimum | None, horizon: int) -> bool | None:
    """Return whether chi >= 2 H / (gap - margin) with a true lower bound of the Slater gap; None if it is not known."""
    nearly = 1.0 - 1e-9
    if gap is None:
        return None
    if chi * (gap - margin) < 2.0 * horizon * nearly:
        return False
    return None if optimum is None else optimum.slater_gap >= gap * nearly
