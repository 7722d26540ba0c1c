"""How many episodes it may take until the data certify more: estimates, not bounds."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from opdop.confidence.certificate import Certificate, Certifier
from opdop.confidence.data import confidence_set
from opdop.confidence.observations import Observations

_MOST = 2**30  # times as many data as there are
_STEPS = 4  # halvings of the last factor 2, on a logarithmic scale


def episodes_until_kept(data: Observations, certificate: Certificate, episodes: int) -> int | None:
    """Return about how many episodes in all certify that the certificate's policy keeps every constraint.

    The estimate is the number m * episodes for the smallest m at which the policy is certified from m times the data:
    every count is multiplied by m, so frequencies stay and the widths shrink about as 1/sqrt(m). It assumes that later
    episodes visit states and actions in the same proportions.

    Args:
        data: what was observed in `episodes` episodes.
        certificate: of the policy, from these data.
        episodes: how many there were.

    Returns:
        The number; None if no m up to 2^30 suffices, because on the data themselves the policy violates a constraint
        or comes to pairs that were never visited.

    """
    if certificate.keeps_constraints:
        return episodes

    def is_kept(times: float) -> bool:
        found = confidence_set(_repeated(data, times), certificate.failure_probability)
        return Certifier.keeps(found, certificate.policy)

    times = 2
    while not is_kept(times):
        times *= 2
        if times > _MOST:
            return None
    low, high = math.log(times / 2), math.log(times)
    for _ in range(_STEPS):
        middle = (low + high) / 2.0
        low, high = (low, middle) if is_kept(math.exp(middle)) else (middle, high)
    return math.ceil(math.exp(high) * episodes)


def episodes_until_gap(certificate: Certificate, gap: float, episodes: int) -> int:
    """Return about how many episodes in all make the certified gap as small as `gap`, which is positive.

    The widths of confidence sets fall as 1/sqrt(visits), and so does the gap when it is small:
    episodes * (gap now / gap)^2. The certificate's gap is finite.
    """
    return math.ceil(episodes * max(certificate.gap / gap, 1.0) ** 2)


def _repeated(data: Observations, times: float) -> Any:
    """Return the data as if every step had been observed `times` times as often, at least once."""
    more = {name: (getattr(data, name) * times).astype("int64") for name in ("seen", "signal_number")}
    sums = data.signal_means() * more["signal_number"]
    first = None if data.first_visits is None else (data.first_visits * times).astype("int64")
    return replace(data, **more, signal_sums=sums, first_visits=first)
