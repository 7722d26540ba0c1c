"""The guarantee card of a run: what its constants promise, how surely, and what that assumes; or that nothing is."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opdop.algorithms.constants import Constants, SelfNormalisedRadius, WeissmanRadius
from opdop.algorithms.task import Task
from opdop.model.validation import Floats
from opdop.planning import Optimum
from opdop.theory import bounds
from opdop.theory.bounds import Bound, Setting

_RULES: dict[str, Callable[[], Any]] = {"WeissmanRadius": WeissmanRadius, "SelfNormalisedRadius": SelfNormalisedRadius}


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
    """What a promise rests on; `met` is None where nobody can know."""

    words: str
    met: bool | None


@dataclass(frozen=True, eq=False)
class Guarantee:
    """What a run is promised. Bounds are None where nothing is promised, and `why` says why not."""

    preset: str
    probability: float | None
    assumptions: tuple[Assumption, ...]
    why: str
    phases: tuple[tuple[Setting, int], ...]  # the plans of the run and how many episodes each played
    constraints: bool  # whether anything is promised about them

    @property
    def promised(self) -> bool:
        """Whether anything is."""
        return self.probability is not None

    def regret(self, episodes: int | None = None) -> float:
        """Return the bound on the regret after so many episodes; all of them if not said."""
        return math.fsum(bounds.regret(setting, played).total for setting, played in self._played(episodes))

    def violation(self, episodes: int | None = None) -> float:
        """Return the bound on the violation of the worst constraint after so many episodes."""
        return math.fsum(bounds.violation(setting, played).total for setting, played in self._played(episodes))

    @property
    def episodes(self) -> int:
        """How many were played."""
        return sum(played for _, played in self.phases)

    @property
    def trivial(self) -> float:
        """What needs no proof: K H."""
        return float(self.episodes) * self.phases[0][0].task.horizon

    def useful_from(self, bound: str) -> int | None:
        """Return the K from which a plan's bound, "regret" or "violation", says more than K H."""
        formula = {"regret": bounds.regret, "violation": bounds.violation}[bound]
        return bounds.useful_from(self.phases[-1][0], formula)

    def terms(self, bound: str) -> dict[str, float]:
        """Return the terms of a bound, added up over the plans."""
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
) -> Guarantee:
    """Read from a run's stored constants what it is promised.

    shape is (H, S, A) and failure_probability that that was asked for, of all plans together. Of a learner
    that was not built for this run (`own_learner`) nobody knows what it was told, so it is promised nothing.
    """
    preset = str(constants.get("preset", "none"))
    why = _why_not(preset, constants)
    if not why and own_learner:
        why = "the learner was built elsewhere, and a run does not store what it was told of the problem"
    phases = () if why else _phases(constants, shape, thresholds, episodes, failure_probability, noisy)
    if not why and phases[-1][1] > phases[-1][0].task.episodes:
        planned = phases[-1][0].task.episodes
        why = f"{episodes:,} episodes were played, and the constants are certified for {planned:,}"
    if why:
        return Guarantee(preset, None, (), why, (), False)
    chi = float(constants["dual_bound"])
    constraints = chi > 0.0 and float(constants["dual_step_size"]) > 0.0
    assumptions = [
        Assumption(
            "rewards and utilities are in [0, 1]" + (", drawn anew at each visit" if noisy else " and not random"), True
        ),
        _model_assumption(constants, shape),
    ]
    if constraints:
        assumptions.append(_multiplier_assumption(chi, constants, optimum))
        constraints = assumptions[-1].met is not False
    return Guarantee(preset, 1.0 - failure_probability, tuple(assumptions), "", phases, constraints)


def _why_not(preset: str, constants: Mapping[str, Any]) -> str:
    """Return why nothing is promised, or nothing."""
    if preset == "practical":
        scale = constants.get("radius_scale")
        return (
            f"`practical` multiplies the certified radius by {scale:g}, so its estimates need not be optimistic, and "
            "the theorem says nothing of its regret or violation"
        )
    if preset == "paper":
        return (
            f"the theorem holds for a large enough C1, which the paper does not give; for C1 = {constants.get('C1'):g} "
            "nobody has proved it"
        )
    if preset != "certified":
        return "its constants come from no preset"
    radius = constants.get("radius")
    if not isinstance(radius, Mapping) or radius.get("rule") not in _RULES or radius.get("scale") != 1.0:
        return "its confidence rule is not a certified one"
    if radius["rule"] == "SelfNormalisedRadius" and "kernel_dim" not in constants:
        return "the sizes of its features were not stored"
    if constants.get("reevaluate_at_growth") is not None:
        return (
            f"`reevaluate_at_growth` = {constants['reevaluate_at_growth']:g} leaves evaluations out; between them V^k "
            "is not <Q^k, pi^k>, on which the proof rests"
        )
    if "nodes" in constants:
        return (
            "its states are continuous, and the theorem is proved for finitely many: the certified radius does not "
            f"cover the error of integrals on {constants['nodes']} nodes"
        )
    return ""


def _phases(
    constants: Mapping[str, Any],
    shape: Sequence[int],
    thresholds: Floats,
    episodes: int,
    failure_probability: float,
    noisy: bool,
) -> tuple[tuple[Setting, int], ...]:
    """Return the plans that a run went through; without doubling there is one."""
    H, S, A = shape
    sizes = None
    if "kernel_dim" in constants:
        names = "kernel_dim", "signal_dim", "kernel_norm", "signal_norm", "signal_length", "feature_blocks"
        sizes = StoredSizes(*(constants[name] for name in names))

    def setting(planned: int, share: float, numbers: dict[str, Any]) -> Setting:
        gap = constants.get("slater_gap")
        initial = np.full(S, 1.0 / S)  # no bound depends on it
        task = Task(H, S, A, thresholds, initial, planned, share, gap, noisy)
        rule = _RULES[constants["radius"]["rule"]]()
        return Setting(task, Constants("certified", radius=rule, ridge=float(constants["ridge"]), **numbers), sizes)

    own: dict[str, Any] = {
        name: float(constants[name]) for name in ("step_size", "dual_step_size", "mixing", "dual_bound")
    }
    if "doubling_phase" not in constants:
        return ((setting(int(constants["planned_episodes"]), failure_probability, own), episodes),)
    first, phases, left = int(constants["doubling_first"]), list[tuple[Setting, int]](), episodes
    last = int(constants["doubling_phase"])
    for phase in range(last + 1):
        longer = 2.0 ** (last - phase)  # this plan is shorter by that
        numbers: dict[str, Any] = {
            "step_size": own["step_size"] * math.sqrt(longer),
            "dual_step_size": own["dual_step_size"] * math.sqrt(longer),
            "mixing": own["mixing"] * longer,
            "dual_bound": own["dual_bound"],
        }
        planned = first * 2**phase
        played = left if phase == last else planned
        phases.append((setting(planned, failure_probability / ((phase + 1) * (phase + 2)), numbers), played))
        left -= played
    return tuple(phases)


def _model_assumption(constants: Mapping[str, Any], shape: Sequence[int]) -> Assumption:
    if "kernel_dim" not in constants or constants["feature_blocks"] > 1:
        return Assumption(
            f"there are {shape[1]:,} states, and the next one depends on state, action and stage only", True
        )
    norms = (
        f"weights of norm at most {constants['kernel_norm']:.3g} (kernel) and {constants['signal_norm']:.3g} (signals)"
    )
    lengths = f"features of norm at most sqrt({constants['kernel_dim']}) H and {constants['signal_length']:.3g}"
    # LinearCMDP checks both when a model is made; a simulator's features are taken at their word.
    return Assumption(f"kernel and signals are linear in the known features, with {norms}; {lengths}", None)


def _multiplier_assumption(chi: float, constants: Mapping[str, Any], optimum: Optimum | None) -> Assumption:
    gap = constants.get("slater_gap")
    if optimum is None:
        rest, met = "", None
    else:
        size = 2.0 * float(optimum.dual.sum())
        rest, met = f" = {size:.4g}", size <= chi * (1.0 + 1e-9)
    because = f", as it is if some policy has {gap:.4g} to spare in every promise (Slater gap)" if gap else ""
    return Assumption(f"chi = {chi:.4g} is at least 2 |Y*|_1{rest}{because}", met)
