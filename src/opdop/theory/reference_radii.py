"""The confidence radii of every preset, written a second time from docs/guarantees.md.

Nothing here calls the code that it checks, `opdop.algorithms.constants`. A wrong radius, plan or failure share there
makes the estimates of a learner differ from those of `opdop.theory.reference_evaluators`.
"""

from __future__ import annotations

import math

import numpy as np

from opdop.algorithms.constants import Constants
from opdop.algorithms.radius_rules import FeatureSizes
from opdop.algorithms.task import Task
from opdop.model import InvalidParameterError
from opdop.model.validation import Floats


def ridge_of(constants: Constants) -> float:
    """Return the ridge that the preset must have: 1, times `ridge_scale` in `scaled`."""
    return 1.0 * constants.parameters["ridge_scale"] if constants.preset == "scaled" else 1.0


def count_bonus(task: Task, constants: Constants) -> Floats:
    """Return 2 radius_h of Algorithm 3, [H]: its bonus is this divided by sqrt(n + ridge)."""
    H, S, A, K, p = task.horizon, task.num_states, task.num_actions, task.episodes, task.failure_probability
    if constants.preset == "paper":
        beta = constants.parameters["C1"] * H * math.sqrt(S * (math.log(S * A) + math.log(H * K) - math.log(p)))
        return np.full(H, 2.0 * beta)
    root = math.sqrt(ridge_of(constants))
    events = H * S * A * K  # stages, pairs, and numbers of visits 1, ..., K
    for_kernels = p / 4.0 if task.noisy else p / 2.0
    subsets = 2**S - 2  # of the successors that Weissman's inequality is a union over; with one state, none
    kernel_noise = math.sqrt((math.log(subsets) + math.log(events) - math.log(for_kernels)) / 2.0) if subsets else 0.0
    signal_noise = 0.0
    if task.noisy:
        both_sides = 2 * (1 + task.num_constraints) * events
        signal_noise = math.sqrt((math.log(both_sides) - math.log(p / 4.0)) / 2.0)
    values_after = [float(H - h) for h in range(1, H + 1)]  # the largest value after each stage
    bonus = [R * kernel_noise + R * root + root + signal_noise for R in values_after]
    return _scale(constants) * np.array(bonus)


def ball_logarithms(task: Task) -> tuple[float, float]:
    """Return log(sets / delta) of one row's ball and of one random signal's mean, for the preset `certified`.

    A row has 2^(S-1) - 1 pairs of a set of successors and its complement; with one successor there is none, and the
    first is -inf. Signals that are not random have no width: the second is -inf.
    """
    S, pairs, p = task.num_states, task.num_states * task.num_actions, task.failure_probability
    for_kernels = p / 4.0 if task.noisy else p / 2.0
    rows = pairs if task.stationary else task.horizon * pairs
    subsets = 2 ** (S - 1) - 1
    kernel = math.log(subsets) + math.log(rows) - math.log(for_kernels) if subsets else -math.inf
    if not task.noisy:
        return kernel, -math.inf
    means = (1 + task.num_constraints) * (pairs if task.stationary_signals else task.horizon * pairs)
    return kernel, math.log(means) - math.log(p / 4.0)


def mean_widths(visits: Floats, logarithm: float) -> Floats:
    """Return sqrt((n+1)/2 log(sqrt(n+1) sets / delta)) / n for every n of at least 1, and 1 for n = 0; at most 1."""
    n = np.maximum(visits, 1.0)
    if logarithm == -math.inf:
        return np.where(visits > 0.0, 0.0, 1.0)
    inside = (n + 1.0) / 2.0 * (np.log(np.sqrt(n + 1.0)) + logarithm)
    return np.where(visits > 0.0, np.minimum(np.sqrt(inside) / n, 1.0), 1.0)


def unvisited_bonus(task: Task, constants: Constants) -> Floats:
    """Return the bonus of a pair before its first visit, [H]; at least `optimistic_init` (H - h) in `scaled`."""
    bonus = count_bonus(task, constants) / math.sqrt(ridge_of(constants))
    largest = np.arange(task.horizon, 0, -1.0)
    wanted: Floats = np.maximum(bonus, constants.parameters.get("optimistic_init", 0.0) * largest)
    return wanted


def kernel_radii(task: Task, constants: Constants, sizes: FeatureSizes, information: Floats) -> Floats:
    """Return Algorithm 2's radius of every kernel regression, from the information [J, H, blocks] that it has."""
    if constants.preset == "paper":
        return np.full_like(information, _paper_radius(task, constants, sizes))
    H = task.horizon
    half_ranges = np.array([(H - 1 - h) / 2.0 for h in range(H)])[None, :, None]
    noise = half_ranges * np.sqrt(2.0 * _log_inverse_delta(task, sizes) + information)
    radii: Floats = _scale(constants) * (noise + math.sqrt(ridge_of(constants)) * sizes.kernel_norm)
    return radii


def signal_radii(task: Task, constants: Constants, sizes: FeatureSizes, information: Floats) -> Floats:
    """Return Algorithm 2's radius of every signal regression, from the information [H, blocks] that it has."""
    if constants.preset == "paper":
        return np.full_like(information, _paper_radius(task, constants, sizes))
    half_range = 0.5 if task.noisy else 0.0
    noise = half_range * np.sqrt(2.0 * _log_inverse_delta(task, sizes) + information)
    radii: Floats = _scale(constants) * (noise + math.sqrt(ridge_of(constants)) * sizes.signal_norm)
    return radii


def _log_inverse_delta(task: Task, sizes: FeatureSizes) -> float:
    """Return log(1 / delta) of one regression: one signal, one stage and, for one-hot features, one pair."""
    share = task.failure_probability / 4.0 if task.noisy else task.failure_probability / 2.0
    regressions = (1 + task.num_constraints) * task.horizon * sizes.blocks
    return math.log(regressions) - math.log(share)


def _paper_radius(task: Task, constants: Constants, sizes: FeatureSizes) -> float:
    d, H, T = max(sizes.kernel_dim, sizes.signal_dim), task.horizon, task.horizon * task.episodes
    logarithm = math.log(d) + math.log(T) - math.log(task.failure_probability)
    return constants.parameters["C1"] * H * math.sqrt(d * logarithm)


def _scale(constants: Constants) -> float:
    """Return the factor of the certified radius: 1, unless a parameter of the preset is another number."""
    if constants.preset not in ("certified", "scaled"):
        raise InvalidParameterError(f"there is no reference radius for preset {constants.preset!r}.")
    return 1.0 if constants.preset == "certified" else constants.parameters["radius_scale"]
