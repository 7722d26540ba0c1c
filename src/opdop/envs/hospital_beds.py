"""A hospital ward that admits planned patients and must have room for emergencies; of our own design."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from opdop.envs.costs import Cost
from opdop.envs.registry import Parameter, environment
from opdop.model import Display, InvalidParameterError, Quantity, TabularCMDP


@environment("hospital-beds", summary="Admit planned patients, and keep beds free for emergencies.")
def hospital_beds(
    *,
    beds: Annotated[int, Parameter("beds in the ward", low=1, high=300)] = 12,
    stages: Annotated[int, Parameter("days in one episode", low=1, high=10_000)] = 14,
    planned: Annotated[int, Parameter("most planned patients that can be called in for a day", low=1, high=100)] = 3,
    emergencies: Annotated[float, Parameter("emergencies on an average day", above=0, high=300)] = 1.5,
    stay: Annotated[float, Parameter("days that an average patient stays", low=1, high=1000)] = 4.0,
    turned_away: Annotated[
        float, Parameter("emergencies that may be turned away in one episode, on average", low=0, high=1e6)
    ] = 2.0,
    occupied: Annotated[int, Parameter("beds occupied on the first morning", low=0, high=300)] = 8,
) -> TabularCMDP:
    """Every morning a bed manager of a ward of 12 beds sees how many are occupied, and calls in planned patients.

    Then some patients go home: each with the same chance, so that an average stay lasts 4 days. The planned patients
    who were called take free beds; those who find none go home untreated. During the day emergencies arrive, 1.5 on
    average and Poisson, and those who find no bed are turned away to another hospital. The aim is to treat as many
    planned patients as possible in two weeks; the constraint is to turn away at most 2 emergencies, on average. The
    manager has to learn how long patients stay and how many emergencies come. Rewards and costs are the expected
    numbers of patients, given the beds occupied in the morning and the patients called in.
    """
    if occupied > beds:
        raise InvalidParameterError(f"occupied is {occupied}; expected at most the number of beds, {beds}.")
    from scipy import stats  # late: the list of problems imports this file, and this takes 0.25 s

    S, A = beds + 1, planned + 1
    arrivals = stats.poisson(emergencies)
    treated, refused = np.zeros((S, A)), np.zeros((S, A))  # by beds that stay occupied, then by those of the morning
    kernel = np.zeros((S, A, S))
    for staying in range(S):
        for called in range(A):
            admitted = min(called, beds - staying)
            free = beds - staying - admitted
            counts = np.arange(free)
            chances = arrivals.pmf(counts)
            kernel[staying, called, staying + admitted + counts] = chances
            kernel[staying, called, beds] += max(1.0 - chances.sum(), 0.0)
            treated[staying, called] = admitted
            refused[staying, called] = max(emergencies - free + ((free - counts) * chances).sum(), 0.0)
    remain = stats.binom.pmf(np.arange(S), np.arange(S)[:, None], 1.0 - 1.0 / stay)  # [morning, staying]
    remain /= remain.sum(axis=1, keepdims=True)
    refusals = Cost("emergencies turned away", "patients", most=emergencies, stages=stages)
    kernel = np.einsum("xs,say->xay", remain, kernel)
    display = Display(
        "hospital-beds",
        quantities=(Quantity("planned patients treated", "patients", scale=float(planned)), refusals.quantity),
        state_names=tuple(f"{x} beds occupied" for x in range(S)),
        action_names=tuple(f"call in {a}" for a in range(A)),
    )
    return TabularCMDP(
        kernel / kernel.sum(axis=2, keepdims=True),
        np.clip(remain @ treated / planned, 0.0, 1.0),
        np.clip(refusals.signal(remain @ refused), 0.0, 1.0),
        refusals.threshold(turned_away),
        occupied,
        horizon=stages,
        display=display,
    )
