"""`opdop.verify`: the checks of the paper's statements on problems that are given by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from opdop.envs import make
from opdop.model import DescribedSimulator, InvalidParameterError, Problem
from opdop.model.validation import shown
from opdop.theory.simulation import Simulation
from opdop.theory.verification import (
    CoverageStudy,
    Verification,
    coverage,
    coverage_simulations,
    standard_simulations,
    verify,
)


def verify_problems(
    problems: str | Problem | Iterable[str | Problem] = (),
    *,
    seeds: int | None = None,
    episodes: int | None = None,
    preset: str = "certified",
    algorithm: str | None = None,
    problem_parameters: Mapping[str, Any] | None = None,
    noisy: bool = False,
    failure_probability: float = 0.05,
    only_optimism: bool = False,
    progress: Callable[[], None] = lambda: None,
) -> Verification | CoverageStudy:
    """Check every inequality of the paper on real runs, and return how often each held.

    Args:
        problems: problems or their names; by default small ones that reach every check.
        seeds: runs of each problem; by default 3, or 25 with `only_optimism`.
        episodes: of each run; by default 300, or 2000 with `only_optimism`.
        preset: the constants; "certified" has guarantees.
        algorithm: opdop or opdop-lstd; by default the latter for models with features.
        problem_parameters: of the one problem that is named.
        noisy: whether signals are random.
        failure_probability: with which the guarantee may fail.
        only_optimism: only count how often estimates are optimistic, over many runs.
        progress: called after every episode.

    Raises InvalidParameterError if a name or a number is wrong.

    >>> found = verify_problems("factored", seeds=1, episodes=20)
    >>> found.failed
    0
    """
    if isinstance(problems, DescribedSimulator):
        raise InvalidParameterError(
            f"{shown(problems)} is a simulator, whose model is not known; expected a model, because the "
            "statements are about true values."
        )
    chosen = [problems] if isinstance(problems, (str, Problem)) else list(problems)
    runs = seeds if seeds is not None else (25 if only_optimism else 3)
    length = episodes if episodes is not None else (2000 if only_optimism else 300)
    given = chosen_simulations(chosen, problem_parameters or {}, algorithm, preset, noisy, only_optimism)
    numbers: Any = {"seeds": runs, "episodes": length, "failure_probability": failure_probability}
    return (coverage if only_optimism else verify)(given, progress=progress, **numbers)


def chosen_simulations(
    problems: list[str | Problem],
    parameters: Mapping[str, Any],
    algorithm: str | None,
    preset: str,
    noisy: bool,
    only_optimism: bool,
) -> list[Simulation]:
    """Return what is verified; see `verify_problems` for the arguments, of which `parameters` are the problem's.

    Raises InvalidParameterError if they do not go together.
    """
    if only_optimism and preset != "certified":
        raise InvalidParameterError(
            f"--coverage checks a guarantee, and preset {preset!r} does not guarantee optimism; expected certified."
        )
    if problems:
        if parameters and (len(problems) > 1 or not isinstance(problems[0], str)):
            raise InvalidParameterError("--set needs one problem; expected opdop verify NAME --set KEY=VALUE.")
        models = [make(each, **parameters) if isinstance(each, str) else each for each in problems]
        return [Simulation.of(model, algorithm=algorithm, noisy=noisy, preset=preset) for model in models]
    given = {"--set": bool(parameters), "--algorithm": algorithm is not None, "--noisy": noisy}
    for option in (option for option, there in given.items() if there):
        raise InvalidParameterError(f"{option} needs a problem; expected opdop verify NAME {option}.")
    return coverage_simulations() if only_optimism else standard_simulations(preset)
