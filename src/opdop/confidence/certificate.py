"""Certificates: what the data prove about a policy, and the best policy that they prove to keep every constraint."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from opdop.confidence.optimism import plan_optimistically
from opdop.confidence.sets import ConfidenceSet, Planner, UncertainPair
from opdop.model import Display, InfeasibleError, PolicyMixture, Quantity, TabularPolicy
from opdop.model.html_tables import html_table
from opdop.model.validation import Floats
from opdop.planning.optimum import FEASIBILITY

_CLOSE = 1e-4  # relative to the horizon: a plan whose lower bounds exceed the thresholds by no more is near enough
_BEYOND = 1.25  # a margin that was too small is raised by more than what was short, so that the next plan suffices
_ROUNDS = 5  # plans with other margins
_PAIRS = 10  # uncertain pairs that a certificate names


@dataclass(frozen=True, eq=False, repr=False)
class Certificate:
    """What holds for a policy with probability 1 - failure_probability, from data alone.

    Attributes:
        policy: the policy that this is about; a mixture draws one of its parts before each episode.
        reward_lower, reward_upper: bounds on its reward, an expected episode total like all values here.
        utility_lower, utility_upper: bounds on its utilities, [I].
        optimum_upper: no policy that keeps every constraint has a larger reward. Infinity if the data do not say;
            minus infinity if they prove that no policy keeps every constraint.
        thresholds: of the utilities, [I].
        failure_probability: the probability with which any of this may be wrong.
        display: the problem's words and units.
        basis: what the bounds rest on, in words.
        uncertain_pairs: the pairs of state and action that the data know too little about, most important first.
    """

    policy: Any
    reward_lower: float
    reward_upper: float
    utility_lower: Floats
    utility_upper: Floats
    optimum_upper: float
    thresholds: Floats
    failure_probability: float
    display: Display
    basis: str
    horizon: int
    uncertain_pairs: tuple[UncertainPair, ...] = ()

    @property
    def gap(self) -> float:
        """No policy that keeps every constraint is better by more than this."""
        return self.optimum_upper - self.reward_lower

    @property
    def slack(self) -> Floats:
        """By how much the policy keeps each constraint at least, [I]; negative: by how much it may violate it."""
        return self.utility_lower - self.thresholds

    @property
    def keeps_constraints(self) -> bool:
        """Whether the policy is certified to keep every constraint."""
        return bool((self.slack >= -FEASIBILITY * self.horizon).all())

    @property
    def proves_infeasible(self) -> bool:
        """Whether the data prove that no policy keeps every constraint."""
        return self.optimum_upper == -math.inf

    def sentences(self) -> list[str]:
        """Return the certificate in sentences, in the problem's own units; bounds are rounded to the safe side."""
        first, *others = self.statements()
        return [f"{self.lead}: {first}", *others]

    @property
    def lead(self) -> str:
        """The words before everything that the certificate states."""
        return f"With probability at least {100.0 * (1.0 - self.failure_probability):g} %"

    def statements(self, *, pairs: bool = True) -> list[str]:
        """Return the sentences without their lead; `pairs` names those that the data say too little about."""
        reward, *quantities = self.display.quantities
        bounds = [
            f"{quantity.name} {_bound(quantity, low)} per episode"
            for quantity, low in zip(quantities, self.utility_lower, strict=True)
        ]
        if self.proves_infeasible:
            return [f"{'; '.join(bounds)}; no policy keeps every constraint."]
        sentences = [f"{'; '.join([*bounds, self._optimality(reward)])}."]
        for quantity, threshold, slack in zip(quantities, self.thresholds, self.slack, strict=True):
            if slack < -FEASIBILITY * self.horizon:
                most = _rounded(abs(quantity.shown_difference(slack)), up=True)
                unit = f" {quantity.unit}".rstrip()
                sentences.append(
                    f"The constraint {quantity.constraint(threshold)} may be violated, by at most {most}{unit}."
                )
        if pairs and not self.keeps_constraints and self.uncertain_pairs:
            sentences.append(f"The data say too little about: {self._pairs()}.")
        return sentences

    def record(self) -> dict[str, Any]:
        """Return everything but the policy as plain data; an unknown or meaningless bound is None."""
        finite = {
            name: value if math.isfinite(value) else None
            for name, value in (("optimum_upper", self.optimum_upper), ("gap", self.gap))
        }
        return {
            "reward_lower": self.reward_lower,
            "reward_upper": self.reward_upper,
            "utility_lower": self.utility_lower.tolist(),
            "utility_upper": self.utility_upper.tolist(),
            **finite,
            "slack": self.slack.tolist(),
            "thresholds": self.thresholds.tolist(),
            "failure_probability": self.failure_probability,
            "keeps_constraints": self.keeps_constraints,
            "proves_infeasible": self.proves_infeasible,
            "basis": self.basis,
            "sentences": self.sentences(),
            "uncertain_pairs": [vars(pair) for pair in self.uncertain_pairs],
        }

    def __str__(self) -> str:
        return " ".join(self.sentences())

    def __repr__(self) -> str:
        kept = "keeps every constraint" if self.keeps_constraints else "not certified to keep every constraint"
        return f"Certificate({self.display.name!r}: {kept}, with probability {1.0 - self.failure_probability:g})"

    def _repr_html_(self) -> str:
        reward, *others = self.display.quantities
        rows = [[q.name, _bound(q, float(low))] for q, low in zip(others, self.utility_lower, strict=True)]
        rows.append([reward.name, _bound(reward, self.reward_lower)])
        return html_table(repr(self), rows, f"{self} From {self.basis}.", heads=("per episode", "certified"))

    def _optimality(self, reward: Quantity) -> str:
        if self.optimum_upper == math.inf:
            return f"{reward.name} {_bound(reward, self.reward_lower)} per episode"
        unit = f" {reward.unit}".rstrip()
        gap = max(abs(reward.shown_difference(self.gap)), 0.0) if self.gap > 0.0 else 0.0
        constraints = "the constraint" if len(self.thresholds) == 1 else "every constraint"
        most = _rounded(gap, up=True)
        return f"no policy that keeps {constraints} improves {reward.name} by more than {most}{unit}"

    def _pairs(self, most: int = 3) -> str:
        states, actions = self.display.state_names, self.display.action_names
        texts = []
        for pair in self.uncertain_pairs[:most]:
            state = _called("state", states, pair.state)
            action = _called("action", actions, pair.action)
            stage = "" if pair.stage is None else f" at stage {pair.stage}"
            texts.append(f"{state} with {action}{stage} ({pair.visits:,} visits)")
        return "; ".join(texts)


def _called(kind: str, names: tuple[str, ...], place: int) -> str:
    """Return the name of a state or an action; the word for what it is comes first if the name is no word."""
    name = names[place] if names else str(place)
    return name if name[:1].isalpha() else f"{kind} {name}"


class Certifier:
    """Makes certificates from one confidence set; the bound on the optimum is computed once.

    `display` gives the words and units; a plain one if it is None.
    """

    def __init__(self, confidence: ConfidenceSet, display: Display | None = None) -> None:
        self.confidence = confidence
        self.display = display or Display.plain(len(confidence.thresholds))
        try:
            self.optimum_upper = plan_optimistically(confidence.optimist()).upper
        except InfeasibleError:
            self.optimum_upper = -math.inf

    def certificate(self, policy: Any) -> Certificate:
        """Return what the data prove about a policy: a table [H, S, A], a PolicyMixture, or any `Policy`.

        Raises InvalidModelError if it does not fit the data.
        """
        confidence = self.confidence
        low, up = self._lower(policy), _of_parts(confidence.upper, policy)
        return Certificate(
            policy=policy if isinstance(policy, TabularPolicy | PolicyMixture) else TabularPolicy(policy),
            reward_lower=float(low[0]),
            reward_upper=float(up[0]),
            utility_lower=low[1:],
            utility_upper=up[1:],
            optimum_upper=self.optimum_upper,
            thresholds=np.array(confidence.thresholds),
            failure_probability=confidence.failure_probability,
            display=self.display,
            basis=confidence.basis,
            horizon=confidence.horizon,
            uncertain_pairs=confidence.uncertain_pairs(_heaviest(policy), _PAIRS),
        )

    @staticmethod
    def keeps(confidence: ConfidenceSet, policy: Any) -> bool:
        """Return whether a confidence set certifies that a policy keeps every constraint."""
        slack = _of_parts(confidence.lower, policy)[1:] - confidence.thresholds
        return bool((slack >= -FEASIBILITY * confidence.horizon).all())

    def recommend(self, candidates: Iterable[Any] = ()) -> Certificate:
        """Return the certificate of the best policy that is certified to keep every constraint.

        It is the one with the largest lower bound on the reward among `candidates` and plans on the data. If none is
        certified to keep every constraint, it is the one that comes nearest. The bounds hold for all policies at once,
        so choosing one by its bounds costs nothing.
        """
        thresholds, tolerance = self.confidence.thresholds, FEASIBILITY * self.confidence.horizon
        best, best_rank = None, (-1.0, -math.inf)
        for policy, low in (*((policy, self._lower(policy)) for policy in candidates), *self._plans()):
            slack = float((low[1:] - thresholds).min())
            rank = (1.0, float(low[0])) if slack >= -tolerance else (0.0, slack)
            if rank > best_rank:
                best, best_rank = policy, rank
        return self.certificate(best)

    def _lower(self, policy: Any) -> Floats:
        return _of_parts(self.confidence.lower, policy)

    def _plans(self) -> Iterator[tuple[Any, Floats]]:
        """Yield plans and their lower bounds [1+I]: the safest one, and those of `_raised` for each planner."""
        safest = self.confidence.safest()
        yield safest, self._lower(safest)
        for planner in self.confidence.planners():
            yield from self._raised(planner)

    def _raised(self, planner: Planner) -> Iterator[tuple[Any, Floats]]:
        """Yield plans for raised thresholds; their lower bounds approach the thresholds.

        A plan's lower bounds are below its values on the data by some margin. The thresholds are raised by it, again
        and again, since another plan has another margin.
        """
        b, H = self.confidence.thresholds, self.confidence.horizon
        reached, margin = np.zeros(len(b)), np.zeros(len(b))
        for _ in range(_ROUNDS):
            plan = planner(b + margin)
            if plan is None:
                margin = (reached + margin) / 2.0
                continue
            low = self._lower(plan)
            yield plan, low
            short = b - low[1:]
            aim = np.maximum(margin + np.where(short > 0.0, _BEYOND * short, short), 0.0)
            if (short <= 0.0).all() and (np.abs(aim - margin) <= _CLOSE * H).all():
                return
            reached, margin = margin, aim


def _of_parts(bound: Any, policy: Any) -> Floats:
    """Return a bound on the values of a policy, [1+I]; of a mixture, the mean of its parts' bounds."""
    if isinstance(policy, PolicyMixture):
        return np.asarray(policy.weights @ np.array([bound(part) for part in policy.parts]))
    return np.asarray(bound(policy))


def _heaviest(policy: Any) -> Any:
    return policy.parts[int(np.argmax(policy.weights))] if isinstance(policy, PolicyMixture) else policy


def _bound(quantity: Quantity, low: float) -> str:
    """Return "<= 5.07 services", the bound that a lower bound on the value means in the quantity's own units."""
    at_most = quantity.scale < 0.0
    return f"{'<=' if at_most else '>='} {_rounded(quantity.shown(low), up=at_most)} {quantity.unit}".rstrip()


def _rounded(value: float, *, up: bool) -> str:
    """Return a number with three digits, rounded up or down."""
    if value == 0.0 or not math.isfinite(value):
        return f"{value:g}"
    digits = min(max(2 - math.floor(math.log10(abs(value))), 0), 12)
    scaled = value * 10.0**digits
    nearest = round(scaled)
    # A number that is three digits but for its rounding error keeps them.
    whole = nearest if abs(scaled - nearest) < 1e-6 else math.ceil(scaled) if up else math.floor(scaled)
    return f"{whole / 10.0**digits:.{digits}f}"
