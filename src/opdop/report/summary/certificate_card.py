"""The certificates of a run in words and as data: what its data alone prove about its policies."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from opdop.confidence import Certificate, Certifier, Observations
from opdop.confidence.data import confidence_set
from opdop.confidence.forecast import episodes_until_gap, episodes_until_kept
from opdop.model import OpdopError
from opdop.model.rounding import short_number
from opdop.runs import Run

POLICIES = ("final", "average", "recommended")
NEAR = 0.1  # share of the reward range: a gap above it is followed by an estimate of when it will be below
_NO_DATA = "the learner keeps no data from which one can be made, or the run was saved by an earlier version"


@dataclass(frozen=True, eq=False)
class CertificateCard:
    """The certificates of a run's policies, each computed once; `why_not` says why there are none."""

    run: Run

    @property
    def certificates(self) -> Mapping[str, Certificate]:
        """The certificates of the final, average and recommended policy; empty if there are none."""
        return self._found[0]

    @property
    def why_not(self) -> str:
        """Why there are no certificates; empty if there are."""
        return self._found[1]

    @cached_property
    def _found(self) -> tuple[dict[str, Certificate], str]:
        run = self.run
        if run.observations is None:
            return {}, _NO_DATA
        try:
            data = run.observations.as_declared()
            certifier = Certifier(confidence_set(data, run.config.failure_probability), run.display)
            final, average = certifier.certificate(run.policy), certifier.certificate(run.mixture)
            best = certifier.recommend([run.policy, run.mixture])
        except (OpdopError, ArithmeticError, ValueError) as error:
            return {}, str(error).rstrip(".")
        return dict(zip(POLICIES, (final, average, best), strict=True)), ""

    @property
    def recommended(self) -> Certificate | None:
        """The certificate of the recommended policy, if there is one."""
        return self.certificates.get("recommended")

    @cached_property
    def expected_episodes(self) -> dict[str, int | None]:
        """About how many episodes in all certify more, by what they certify; empty if nothing is missing.

        `kept`: that a policy keeps every constraint. `near`: that it is within a tenth of the reward range of the best.
        """
        best, run = self.recommended, self.run
        if best is None or not math.isfinite(best.gap):
            return {}
        played = int(run.episodes[-1])
        if best.keeps_constraints:
            goal = NEAR * best.horizon
            return {} if best.gap <= goal else {"near": episodes_until_gap(best, goal, played)}
        data = run.observations
        return {"kept": episodes_until_kept(data.as_declared(), best, played)} if isinstance(data, Observations) else {}

    def lines(self) -> list[tuple[str, str]]:
        """Return the certificates as lines of a label and a text; a label is empty where it repeats."""
        if not self.certificates:
            return [("certificate", f"none: {self.why_not}.")]
        best = self.certificates["recommended"]
        lines = [("certificate", f"{best.lead}, from data alone ({best.basis}):")]
        for name, certificate in self.certificates.items():
            words = " ".join(certificate.statements(pairs=name == "recommended"))
            lines.append(("", f"{name} policy: {words}"))
        return [*lines, *(("", f"estimate: {words}") for words in self.estimates())]

    def estimates(self) -> list[str]:
        """Return in words how many episodes to expect until more is certified."""
        words = []
        for what, number in self.expected_episodes.items():
            if number is None:
                words.append(
                    "more episodes like these would not certify a policy that keeps every constraint; the pairs named "
                    "above have to be visited."
                )
            elif what == "kept":
                words.append(
                    f"about {rounded_count(number)} episodes like these certify a policy that keeps every constraint."
                )
            else:
                words.append(
                    f"about {rounded_count(number)} episodes certify a policy within {self._near()}, as the gap falls "
                    "with 1/√episodes."
                )
        return words

    def record(self) -> dict[str, Any]:
        """Return the certificates as plain data; docs/command-line.md explains every key."""
        return {
            **{name: certificate_record(each) for name, each in self.certificates.items()},
            "why_not": self.why_not or None,
            "expected_episodes": dict(self.expected_episodes),
            "certified_at": self.run.certified_at,
        }

    def _near(self) -> str:
        reward = self.run.display.quantities[0]
        own = short_number(NEAR * self.run.policy.table.shape[0] * abs(reward.scale))
        return f"{own} {reward.unit}".rstrip() + f" of the best ({NEAR:.0%} of the reward range)"


def certificate_record(certificate: Certificate) -> dict[str, Any]:
    """Return a certificate as plain data in model units, and its bounds in own units under `own`."""
    reward, *others = certificate.display.quantities
    record = certificate.record()
    gap = None if record["gap"] is None else abs(reward.scale) * certificate.gap
    optimum = None if record["optimum_upper"] is None else reward.shown(certificate.optimum_upper)
    bounds = [q.shown(float(low)) for q, low in zip(others, certificate.utility_lower, strict=True)]
    own = {"reward": reward.shown(certificate.reward_lower), "optimum": optimum, "gap": gap, "constraints": bounds}
    return {**record, "own": own}


def rounded_count(number: int) -> str:
    """Return a number of episodes with two digits.

    >>> rounded_count(123456), rounded_count(7), rounded_count(3 * 10**9)
    ('120,000', '7', '3e+09')
    """
    return f"{float(f'{number:.2g}'):,.0f}" if number < 1e9 else f"{number:.2g}"
