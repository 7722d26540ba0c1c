"""What is asked of every algorithm: the compiled loop, no linear program, clear refusals, no backward pass anew."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import scipy.optimize

import opdop
from opdop import InvalidParameterError, Task, train
from opdop.algorithms import CompiledLearner, find
from opdop.planning.lp import solve_lp
from opdop.runs.trainer import Trainer

NAMES = sorted(opdop.algorithms())
PRESETS = [(name, preset) for name in NAMES for preset in find(name).presets.makes]

# What the theory of each algorithm needs; all others are for any number of constraints, and need to know nothing.
ONE_CONSTRAINT = {"triple-q", "linear-primal-dual", "dope", "optpess-lp", "optpess-primal-dual"}
MULTIPLIERS = {"opdop", "opdop-lstd", "opt-primal-dual", "regularised-primal-dual", "linear-primal-dual"}
SLATER_GAP = MULTIPLIERS | {"optpess-primal-dual"}
BASELINE = {"dope", "optpess-lp"}
CONTINUOUS = {"opdop", "opdop-lstd", "oppo"}


def forbidden(*arguments: Any, **options: Any) -> None:
    raise AssertionError("this must not be called")


@pytest.mark.parametrize(("name", "preset"), PRESETS)
def test_episodes_are_played_in_the_compiled_loop_and_without_a_linear_program(
    name: str, preset: str, monkeypatch: pytest.MonkeyPatch
):
    cmdp = opdop.make("random-tabular")
    learner = find(name).build(Task.of(cmdp, episodes=30, baseline=True), preset)
    assert isinstance(learner, CompiledLearner)
    assert learner.compiles
    monkeypatch.setattr(scipy.optimize, "linprog", forbidden)
    monkeypatch.setattr(Trainer, "_play_one", forbidden)
    assert train(cmdp, name, preset=preset, episodes=30).episodes[-1] == 30


def test_both_that_are_forbidden_above_would_be_noticed(monkeypatch: pytest.MonkeyPatch):
    cmdp = opdop.make("random-tabular")
    monkeypatch.setattr(scipy.optimize, "linprog", forbidden)
    with pytest.raises(AssertionError, match="must not be called"):
        solve_lp(cmdp)
    monkeypatch.setattr(Trainer, "_play_one", forbidden)
    with pytest.raises(AssertionError, match="must not be called"):
        train(cmdp, episodes=3, compiled=False)


def refusal(name: str, task: Task) -> str:
    """Return why an algorithm refuses a task; "" if it does not."""
    try:
        find(name).build(task)
    except InvalidParameterError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", NAMES)
def test_what_the_theory_does_not_cover_is_refused_with_what_is_missing(name: str):
    tabular = Task.of(opdop.make("factored"), episodes=5, baseline=True)
    assert refusal(name, tabular) == ""
    several = refusal(name, Task.of(opdop.make("queue"), episodes=5, baseline=True))
    assert several.startswith(
        f"`{name}` is proven for one constraint, and this task has 2" if name in ONE_CONSTRAINT else ""
    )
    assert bool(several) == (name in ONE_CONSTRAINT)
    unknown = refusal(name, replace(tabular, slater_gap=None))
    assert bool(unknown) == (name in SLATER_GAP)
    assert "slater_gap=" in unknown or "Slater gap" in unknown or not unknown
    alone = refusal(name, replace(tabular, baseline=None))
    assert bool(alone) == (name in BASELINE)
    assert "give the task baseline=opdop.Baseline(policy, slack)" in alone or not alone
    continuous = refusal(name, Task.of(opdop.make("reservoir"), episodes=5))
    assert bool(continuous) == (name not in CONTINUOUS)
    assert "finitely many states" in continuous or not continuous


def goes_down(loop: ast.For) -> bool:
    """Return whether a loop's range ends with the step -1, or is reversed."""
    over = loop.iter
    if not isinstance(over, ast.Call) or not isinstance(over.func, ast.Name):
        return False
    if over.func.id == "reversed":
        return True
    return over.func.id in ("range", "prange") and len(over.args) == 3 and ast.unparse(over.args[2]).startswith("-")


def loops_over_stages_downwards(source: str) -> list[str]:
    """Return the loops that go down over h, or from H or a horizon or a number of stages."""
    loops = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.For) and goes_down(node)]
    heads = [f"for {ast.unparse(loop.target)} in {ast.unparse(loop.iter)}" for loop in loops]
    stage = re.compile(r"for (h|stage|step|back|t)\b|\bH\b|horizon|stages|policy\.shape\[0\]")
    return [head for head in heads if stage.search(head)]


def test_one_backward_pass_is_in_the_whole_package():
    # Whoever needs values gives `walk_back` a look-ahead and a choice, and writes no recursion over the stages.
    source = Path(opdop.__file__).parent
    found = {
        path.relative_to(source).as_posix(): loops
        for path in source.rglob("*.py")
        if (loops := loops_over_stages_downwards(path.read_text(encoding="utf-8")))
    }
    assert found == {"kernels/backward_pass.py": ["for h in range(H - 1, -1, -1)"]}


@pytest.mark.parametrize(
    "loop",
    [
        "for h in range(H - 1, -1, -1): pass",
        "for h in reversed(range(4)): pass",
        "for k in range(cmdp.horizon - 1, -1, -1): pass",
        "for n in reversed(range(task.horizon)): pass",
        "def f():\n    for stage in range(n, -1, -1): pass",
    ],
)
def test_a_second_backward_pass_would_be_found(loop: str):
    assert len(loops_over_stages_downwards(loop)) == 1


def test_oppo_is_optimistic_and_nears_the_optimum_without_constraints():
    # Cai et al. (2020): with the proven bonus no policy is worth more than its estimate, and regret is O(sqrt(K)).
    run = train("media-streaming", "oppo", episodes=500, preset="certified", records=500)
    assert (run.history["estimated_reward"] >= run.history["reward"]).all()
    short, long = (train("media-streaming", "oppo", episodes=episodes) for episodes in (500, 8000))
    best = long.optimum.unconstrained.reward
    lost = [best - run.average.reward for run in (short, long)]
    assert 0.0 <= lost[1] < 0.5 * lost[0]


@pytest.mark.parametrize("name", NAMES)
def test_runs_of_every_algorithm_have_the_same_measures_certificate_and_report(name: str, tmp_path: Path):
    run = train("factored", name, episodes=60)
    assert {"regret", "violation", "hard_violation"} <= set(run.history.columns)
    assert float(run.history["regret"][-1]) == pytest.approx(
        60 * (run.optimum.value - run.average.reward), rel=1e-9, abs=1e-9
    )
    certificate = run.certificate("final")
    values = opdop.evaluate(opdop.make("factored"), run.policy)
    assert certificate.reward_lower <= values.reward
    assert certificate.optimum_upper >= run.optimum.value
    page = opdop.report(run, tmp_path / "run.html").read_text(encoding="utf-8")
    assert name in page
    assert "certificate" in page.lower()
