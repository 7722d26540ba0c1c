"""A sweep takes models as objects: their runs are those of `train`, in the model's own units."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import opdop
from opdop import InvalidParameterError, TabularCMDP
from opdop.sweeps.given_models import with_names
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


def linear_model() -> opdop.LinearCMDP:
    return cast(opdop.LinearCMDP, opdop.make("random-mixture", states=5, stages=2))


def continuous_model() -> opdop.ContinuousCMDP:
    return cast(opdop.ContinuousCMDP, opdop.make("reservoir"))


def cart_pole() -> Any:
    """A simulator of Gymnasium with a function of the user's."""
    return opdop.from_gymnasium(
        "CartPole-v1", horizon=10, budgets=5, cost=lambda step: abs(step.next_observation[0]) > 0.02,
        reward_range=(0, 1), bins=[[], [0.0], [-0.02, 0.02], []],
    )  # fmt: skip


def test_runs_of_a_linear_model_are_made_by_workers_with_its_features(tmp_path: Path) -> None:
    made = opdop.sweep({**make_spec(linear_model()), "algorithm": [{"name": "opdop-lstd"}]}, tmp_path, workers=2)
    assert not made.failed
    for job, run in made.runs():
        assert type(opdop.load_model(job.problem)) is opdop.LinearCMDP
        whole = opdop.train(linear_model(), "opdop-lstd", episodes=40, seed=job.seed)
        np.testing.assert_array_equal(run.regret, whole.regret)


@pytest.mark.parametrize("make", [make_bakery, cart_pole, continuous_model])
def test_problems_with_functions_are_learnt_in_this_process_as_train_does(make: Any, tmp_path: Path) -> None:
    problem = make()
    episodes = 3 if make is continuous_model else 40
    spec = {**make_spec(problem), "episodes": episodes}
    name = problem.display.name
    made = opdop.sweep(spec, tmp_path)
    assert (len(made.failed), len(made.missing), len(made.keys)) == (0, 0, 2)
    assert problem.display.name == name  # the object stays as it was
    for job, run in made.runs():
        alone = opdop.train(make(), episodes=episodes, seed=job.seed)
        np.testing.assert_array_equal(run.policy.table, alone.policy.table)
        assert run.policy.space == alone.policy.space
        assert run.display.quantities == alone.display.quantities
    again = opdop.sweep({**spec, "seeds": 3}, tmp_path, workers=1)  # a new object, and one more seed
    assert set(made.keys) < set(again.keys)
    page = opdop.report(tmp_path, tmp_path / "report.html").read_text()
    assert run.display.quantities[0].name in page


def test_compare_takes_problems_as_objects(tmp_path: Path) -> None:
    found = opdop.compare(make_bakery(), ("opdop", "uniform"), seeds=2, episodes=30, out=tmp_path)
    assert found.runs.total_runs == 4
    assert "dollars" in str(found)


def test_interrupted_sweep_of_an_object_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = make_bakery()
    played = problem.play
    left = [60]

    def play(self: Any, policy: Any) -> Any:
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt
        return played(policy)

    monkeypatch.setattr(type(problem), "play", play)
    with pytest.raises(KeyboardInterrupt):
        opdop.sweep(make_spec(problem), tmp_path)
    monkeypatch.undo()
    made = opdop.sweep(make_spec(make_bakery()), tmp_path)
    assert (len(made.failed), len(made.missing)) == (0, 0)


def test_problems_with_functions_are_refused_where_other_processes_would_need_them(tmp_path: Path) -> None:
    refusal = r"has functions of yours, which other processes cannot get.*FILE\.py:FUNCTION"
    with ThreadPoolExecutor(1) as executor:
        for options in ({"workers": 2}, {"executor": executor}, {"scheduler": "tcp://127.0.0.1:1"}):
            with pytest.raises(InvalidParameterError, match=refusal) as refused:
                opdop.sweep(make_spec(make_bakery()), tmp_path / "out", **options)  # type: ignore[arg-type]
            assert "\n" not in str(refused.value)
    assert not (tmp_path / "out").exists()
    with pytest.raises(InvalidParameterError, match=r"problem sets demand of .*; an object has no parameters"):
        opdop.sweep(make_spec({"name": make_bakery(), "demand": 4}), tmp_path / "out")
    name = next(iter(with_names(make_spec(make_bakery()), tmp_path)[1]))
    with pytest.raises(InvalidParameterError, match="call that function again with the object"):
        opdop.make(name)


class Unseeded:
    """A simulator whose runs would depend on their order: it cannot be seeded."""

    def __init__(self) -> None:
        vars(self).update({name: value for name, value in vars(make_bakery()).items() if not name.startswith("_")})

    def play(self, policy: Any) -> Any:
        raise NotImplementedError


@pytest.mark.parametrize("other", [object(), TabularCMDP, Unseeded()])
def test_what_is_no_problem_is_refused_in_one_line(other: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidParameterError, match=r"expected a name, a problem such as a TabularCMDP") as refused:
        opdop.sweep(make_spec(other), tmp_path / "out", workers=1)
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "out").exists()
