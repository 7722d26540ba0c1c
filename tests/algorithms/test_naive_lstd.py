"""The naive loop of the benchmarks gives the numbers of `train`: it is the same job, and a fair standard."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.bench_naive_lstd import learner, mixture, one_hot_model, run_naive
from opdop.runs import train


@pytest.mark.parametrize("form", ["lists", "one-hot"])
def test_the_naive_loop_with_least_squares_gives_the_numbers_of_train(form: str):
    cmdp = mixture(20, 5, 4) if form == "lists" else one_hot_model()
    # Few episodes: the multiplier's step is 158, so each episode multiplies differences of rounding.
    run, naive = train(cmdp, learner(cmdp, 40), episodes=40, seed=0), run_naive(cmdp, 40, compiled=False)
    totals = np.column_stack([run.history["reward"], run.history["utility_0"]])
    np.testing.assert_allclose(naive["totals"], totals, rtol=0, atol=1e-9)
    np.testing.assert_allclose(naive["dual"], run.history["dual_0"], rtol=0, atol=158 * 1e-9)
    assert np.ptp(totals[:, 0]) > 1e-3  # the policy moves, so that estimates matter
