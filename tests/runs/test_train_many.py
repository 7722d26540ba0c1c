"""Several seeds of one problem in threads give the runs that `train` gives one by one."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import opdop
from opdop.model import InvalidModelError, InvalidParameterError


def numbers(run: opdop.Run) -> list[bytes]:
    return [run.history.to_numpy().tobytes(), run.policy.table.tobytes(), run.mixture.table.tobytes()]


@pytest.mark.parametrize("algorithm", ["opdop", "replan"])
def test_runs_are_those_of_train_whatever_the_number_of_workers(algorithm: str):
    alone = [numbers(opdop.train("factored", algorithm, episodes=400, seed=seed)) for seed in (0, 1, 2)]
    for workers in (1, 2, 3):
        together = opdop.train_many("factored", algorithm, seeds=3, workers=workers, episodes=400)
        assert [numbers(run) for run in together] == alone


def test_runs_are_in_the_order_of_the_seeds():
    cmdp = opdop.make("factored")
    runs = opdop.train_many(cmdp, seeds=[7, np.int64(3)], workers=2, episodes=50)
    assert [run.config.seed for run in runs] == [7, 3]


def test_two_runs_are_made_at_the_same_time():
    both = threading.Barrier(2, timeout=60.0)
    first = threading.local()

    def meet(_: object) -> None:
        if not hasattr(first, "met"):
            first.met = True
            both.wait()  # raises unless the other run is being made too

    opdop.train_many("factored", seeds=2, workers=2, episodes=400, progress=meet)


def test_a_run_that_fails_ends_the_others():
    began = []

    def refuse(at: opdop.runs.Progress) -> None:
        began.append(at.episode)
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        opdop.train_many("factored", seeds=50, workers=2, episodes=10_000, progress=refuse)
    assert len(began) < 50


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"problem": "factored", "seeds": []}, InvalidParameterError, "no seeds"),
        ({"problem": "factored", "seeds": 0}, InvalidModelError, "seeds"),
        ({"problem": "factored", "seeds": None}, InvalidParameterError, "expected a number, or a list"),
        ({"problem": "factored", "seeds": ["one"]}, InvalidParameterError, "seed"),
        ({"problem": "factored", "seeds": 2, "workers": -1}, InvalidModelError, "workers"),
        ({"problem": "factored", "seeds": 2, "seed": 3}, InvalidParameterError, "belongs to one run"),
        ({"problem": "factored", "seeds": 2, "checkpoint": "x"}, InvalidParameterError, "belongs to one run"),
        ({"problem": None, "seeds": 2}, InvalidParameterError, "expected a name or a problem"),
        ({"problem": "factored", "algorithm": object(), "seeds": 2}, InvalidParameterError, "one run only"),
    ],
)
def test_wrong_arguments_are_answered(arguments: dict[str, object], error: type[Exception], message: str):
    with pytest.raises(error, match=message):
        opdop.train_many(**arguments, episodes=10)


def test_a_simulator_is_refused():
    simulator = opdop.ModelSimulator(opdop.make("factored"), seed=0)
    with pytest.raises(InvalidParameterError, match="one run at a time"):
        opdop.train_many(simulator, seeds=2, episodes=10)
