"""A sweep takes models as objects: their runs are those of `train`, in the model's own units."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import opdop
from opdop import InvalidParameterError, TabularCMDP
from tests.support.bakery import make_bakery


def make_shop(budget: float = 5.0) -> TabularCMDP:
    return TabularCMDP(
        np.full((2, 2, 2), 0.5),
        rewards=[[0.0, 30.0], [0.0, 10.0]],
        costs={"work": [[0.0, 3.0], [0.0, 3.0]]},
        budgets={"work": budget},
        horizon=4,
        units={"reward": ("profit", "dollars"), "work": "hours"},
    )


def make_spec(*problems: Any) -> dict[str, Any]:
    return {"episodes": 40, "seeds": 2, "problem": list(problems)}


def test_runs_of_a_given_model_are_those_of_train_in_its_units(tmp_path: Path) -> None:
    made = opdop.sweep(make_spec(make_shop(), {"name": make_shop(6.0)}, "factored"), tmp_path, workers=1)
    assert (len(made.failed), len(made.missing), len(made.keys)) == (0, 0, 6)
    table = made.table()
    assert table["optimum"].to_list()[:3] == pytest.approx([50.0, 60.0, 2.0])  # dollars, dollars, points
    assert table["reward_unit"].to_list()[0] == "dollars"
    assert table["utility_0_unit"].to_list()[0] == "hours"
    for job, run in made.runs():
        if job.problem.startswith(str(tmp_path / "models")):
            cmdp = opdop.load_model(job.problem)
            np.testing.assert_array_equal(run.regret, opdop.train(cmdp, episodes=40, seed=job.seed).regret)


def test_second_call_with_the_same_models_continues_the_first(tmp_path: Path) -> None:
    first = opdop.sweep(make_spec(make_shop()), tmp_path, workers=1)
    again = opdop.sweep(make_spec(make_shop(), make_shop(6.0)), tmp_path, workers=1)
    assert set(first.keys) < set(again.keys)
    assert len(list((tmp_path / "models").iterdir())) == 2


@pytest.mark.parametrize("other", [make_bakery(), opdop.make("random-mixture"), opdop.make("reservoir"), object()])
def test_what_no_file_can_hold_is_refused_in_one_line(other: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidParameterError, match=r"expected a name or a TabularCMDP.*FILE\.py:FUNCTION") as refused:
        opdop.sweep(make_spec(other), tmp_path / "out", workers=1)
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "out").exists()
