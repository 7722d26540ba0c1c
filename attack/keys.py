"""Keys of runs: different configurations have different keys, equal ones have equal keys."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import opdop
from attack.sandbox import Wrong
from opdop.sweeps import key_of

SEEDS_THAT_COLLIDED = (13156, 32433)  # with digests of 32 bits


def prepare(folder: Path) -> dict[str, str]:
    """Return the keys seen so far."""
    return {}


def probe(seen: dict[str, str], case: int) -> str:
    """Make the keys of a few hundred runs, and look for two that are alike."""
    random = np.random.default_rng([5, case])
    seeds = sorted({int(seed) for seed in random.integers(0, 2**62, 100)} | {2**53, 2**53 + 1, *SEEDS_THAT_COLLIDED})
    spec = {
        "seeds": [0, 2**53, 2**53 + 1],
        "episodes": 10 + case,
        "problem": [{"name": "random-tabular", "seed": seeds}],
        "algorithm": [{"name": "opdop", "parameters": {"step_scale": [1.0, float(np.nextafter(1.0, 2.0)), 2.0]}}],
    }
    jobs = list(opdop.Spec.of(spec).jobs())
    keys = {key_of(job) for job in jobs}
    if len(keys) != len(jobs):
        raise Wrong(f"{len(jobs)} runs have {len(keys)} keys")
    if keys & seen.keys():
        raise Wrong("two specifications with different numbers of episodes share keys")
    if {key_of(job) for job in opdop.Spec.of(spec).jobs()} != keys:
        raise Wrong("the same specification has other keys the second time")
    seen.update(dict.fromkeys(keys, ""))
    return "right"
