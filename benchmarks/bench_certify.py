"""Time of a certificate and of a recommended policy, at 100 states, 10 actions and 20 stages."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from opdop.confidence import Certificate, Certifier, Observations, TabularSet

Made = TypeVar("Made")
H, S, A = 20, 100, 10


def random_data(successors: int, *, visits: int = 10_000, seed: int = 0) -> Observations:
    """Return so many visits to every pair of a random model in which each has so many successors."""
    rng = np.random.default_rng(seed)
    rows = H * S * A
    after = np.argsort(rng.random((rows, S)), axis=1)[:, :successors]
    seen = rng.multinomial(visits, rng.dirichlet(np.ones(successors), rows))
    row, place = np.nonzero(seen)
    number = np.full(rows, visits)
    return Observations.from_rows(
        H,
        S,
        A,
        row=row,
        successor=after[row, place],
        seen=seen[row, place],
        signal_number=number,
        signal_sums=number * rng.random((2, rows)),
        thresholds=[0.6 * H],
        initial=np.eye(S)[0],
    )


def timed(make: Callable[[], Made]) -> tuple[Made, float, float]:
    """Return what a call returns, with its wall-clock and its processor time, in seconds."""
    wall, processor = time.perf_counter(), time.process_time()
    made = make()
    return made, time.perf_counter() - wall, time.process_time() - processor


def certify(data: Observations) -> tuple[Certifier, Certificate]:
    """Return the certificate of the uniform policy: the confidence set, the bound on the optimum, and the values."""
    certifier = Certifier(TabularSet(data))
    return certifier, certifier.certificate(np.full((H, S, A), 1.0 / A))


def main() -> None:
    """Print both times for short and for long lists of successors."""
    for successors in (10, 100):
        data = random_data(successors)
        certify(random_data(successors, visits=10))[0].recommend()  # compile
        (certifier, _), wall, processor = timed(lambda data=data: certify(data))
        best, wall_best, processor_best = timed(certifier.recommend)
        print(
            f"S{S} A{A} H{H}, {successors} successors ({len(data.seen):,} transitions): certificate {wall:.2f} s "
            f"({processor:.2f} s of the processor; aim below 1), recommended policy {wall_best:.2f} s more "
            f"({processor_best:.2f}); slack {best.slack[0]:.4f}, gap {best.gap:.4f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
