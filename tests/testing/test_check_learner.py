"""`opdop.testing.check_learner`: every registered algorithm passes, and every mistake is named with its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import opdop
from opdop import Counts, Episode, InvalidParameterError, OpdopError, Task
from opdop.testing import LearnerCheckError, check_learner
from opdop.testing.cases import names
from opdop.testing.checks import CHECKS

ALGORITHMS = sorted(opdop.algorithms())
UNABLE = {"uniform"}
ONE = ["one constraint"]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_registered_algorithm_passes(name: str):
    report = check_learner(name, learning=name not in UNABLE)
    assert not report.failed
    checked = {case for case, _ in report.passed} - {"easy problem"}
    refused = {case for case, _ in report.refused}
    assert checked | refused == set(names())
    assert len(report.passed) == len(checked) * len(CHECKS) + (name not in UNABLE)


class Base(opdop.OPDOP):
    """A right learner; each class below makes one mistake."""

    def __init__(self, task: Task) -> None:
        constants = {"step_size": 0.1, "dual_step_size": 0.1, "mixing": 0.01, "dual_bound": 10.0}
        super().__init__(task, Counts(task, radius=0.1), **constants)


class LearnsUnasked(Base):
    def learn(self, episode: Episode) -> None:
        self.propose()
        super().learn(episode)


class ProposesNegative(Base):
    def propose(self) -> Any:
        table = super().propose().table.copy()
        table[0, 0, :2] += (0.5, -0.5) if self.episodes > 3 else (0.0, 0.0)
        return opdop.TabularPolicy.trusted(table)


class ProposesMore(Base):
    def propose(self) -> Any:
        return opdop.TabularPolicy.trusted(1.01 * super().propose().table)


class ChangesItsMind(Base):
    def propose(self) -> Any:
        self.calls = getattr(self, "calls", 0) + 1
        table = np.zeros_like(super().propose().table)
        table[:, :, self.calls % 2] = 1.0
        return opdop.TabularPolicy.trusted(table)


class SharesItsPolicy(Base):
    def propose(self) -> Any:
        table = super().propose().table
        self.shared = getattr(self, "shared", table.copy())
        self.shared[:] = table
        return opdop.TabularPolicy.trusted(self.shared[:])


class SeesTheModel(Base):
    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.notes = {"plan": [lambda: model]}
        model = opdop.make("factored")


class TakesAnyEpisode(Base):
    def learn(self, episode: Episode) -> None:
        try:
            super().learn(episode)
        except opdop.InvalidModelError:
            self.dual += 0.1


class DependsOnTheTime(Base):
    stream = np.random.default_rng(0)

    def learn(self, episode: Episode) -> None:
        super().learn(episode)
        self.dual += self.stream.random()


class ForgetsItsMultipliers(Base):
    def restore(self, state: Any) -> None:
        super().restore(state)
        self.dual[:] = self.integral[:] = 5.0


class LendsItsState(Base):
    def state(self) -> Any:
        return {**super().state(), "dual": self.dual}


class TakesAnyState(Base):
    def restore(self, state: Any) -> None:
        if state:
            super().restore({**self.state(), **{name: state[name] for name in self.state() if name in state}})
        else:
            super().restore(state)


class ReportsNothing(Base):
    def diagnostics(self) -> Any:
        return {**super().diagnostics(), "estimated_reward": np.nan if self.episodes > 5 else 0.0}


class ReportsTooLittle(Base):
    def diagnostics(self) -> Any:
        return {"episodes": float(self.episodes)}


class ForgetsData(Base):
    def observations(self) -> Any:
        return Counts(self.task, radius=opdop.algorithms.BallRadius(0.0)).observations()


class CompilesDifferently(Base):
    def run_compiled(self, model: Any, uniforms: Any, record: Any) -> int:
        done = super().run_compiled(model, uniforms, record)
        record.dual[:done] += 1e-9
        return done


class StopsTooEarly(Base):
    def state(self) -> Any:
        return {**super().state(), "scales": np.ones(2)} if self.episodes else super().state()

    def restore(self, state: Any) -> None:
        super().restore(state)
        self.episodes = 0


WRONG: dict[type[Base], tuple[str, str]] = {
    LearnsUnasked: ("needs a proposal", "learn() before propose() is not refused"),
    ProposesNegative: ("proposes distributions", "the policy of episode 5 has probabilities below 0"),
    ProposesMore: ("proposes distributions", "miss a sum of 1 by 1.0e-02"),
    ChangesItsMind: ("needs a proposal", "a second propose() without learn() gives another policy"),
    SharesItsPolicy: ("keeps what it proposed", "the policy of episode 1 was changed by later learning"),
    SeesTheModel: ("sees no model", "learner.notes['plan'][0]'s closure is TabularCMDP"),
    TakesAnyEpisode: ("refuses foreign episodes", "with a state that does not exist is not refused"),
    DependsOnTheTime: ("same seed gives the same bits", "the same seed gives another policy in episode 3"),
    ForgetsItsMultipliers: ("restores its state", "the restored learner differs in episode 7"),
    LendsItsState: ("restores its state", "learning has changed 'dual' of a state"),
    TakesAnyState: ("refuses damaged states", "restore() without 'episodes' is not refused"),
    ReportsNothing: ("reports finite numbers", "'estimated_reward' of diagnostics() is nan after episode 6"),
    ReportsTooLittle: (
        "reports finite numbers",
        "diagnostics() lacks ['dual_0', 'estimated_reward', 'estimated_utility_0']",
    ),
    ForgetsData: ("keeps its data", "observations() has 0 steps after 48 were played"),
    CompilesDifferently: ("compiles to the same bits", "the compiled loop has dual_0"),
    StopsTooEarly: ("trains on", ""),
}


def test_the_learner_that_the_wrong_ones_are_made_from_passes():
    assert not check_learner(Base, only=ONE).failed


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.__name__)
def test_a_mistake_is_named_with_the_check_and_the_case(wrong: type[Base]):
    check, words = WRONG[wrong]
    with pytest.raises(LearnerCheckError) as caught:
        check_learner(wrong, only=ONE)
    found = {name: what for case, name, what in caught.value.report.failed}
    assert check in found, caught.value
    assert words in found[check]
    assert f"FAILED   one constraint: {check}: " in str(caught.value)


def test_a_class_that_cannot_be_built_is_a_failure_in_every_case():
    with pytest.raises(LearnerCheckError, match="is built from a task: TypeError") as caught:
        check_learner(lambda: None)
    assert len(caught.value.report.failed) == len(names())


def test_a_missing_method_is_named():
    class Half:
        def propose(self) -> None: ...

    with pytest.raises(LearnerCheckError, match=r"has the methods: .* is not a learner: it has no learn"):
        check_learner(lambda task: Half(), only=ONE)


def test_refusals_are_reported_with_their_reason_unless_the_case_is_needed():
    report = check_learner("triple-q", only=["three constraints"])
    ((case, why),) = report.refused
    assert (case, report.passed) == ("three constraints", ())
    assert "proven for one constraint, and this task has 3" in why
    with pytest.raises(LearnerCheckError, match="three constraints: covers: it is refused"):
        check_learner("triple-q", only=["three constraints"], covers=["three constraints"])


def test_a_refusal_without_a_reason_is_a_failure():
    def build(task: Task) -> Any:
        raise OpdopError("")

    with pytest.raises(LearnerCheckError, match="it is refused without a message"):
        check_learner(build, only=["one stage"])


def test_a_ready_learner_is_checked_in_its_own_sizes_and_left_as_it_was():
    cmdp = opdop.make("factored")
    learner = Base(Task.of(cmdp, episodes=30))
    report = check_learner(learner)
    assert {case for case, _ in report.passed} == {"the learner's own task"}
    assert len(report.passed) == len(CHECKS)
    assert learner.episodes == 0


def test_a_learner_that_does_not_learn_is_noticed_where_it_is_asked():
    with pytest.raises(LearnerCheckError, match="easy problem: learns: late episodes cost"):
        check_learner("uniform", only=ONE, learning=True)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"learner": "opdo"}, "Did you mean 'opdop'"),
        ({"learner": 3}, "learner is 3; expected a function that makes a learner"),
        ({"learner": "opdop", "preset": "papr"}, "Did you mean 'paper'"),
        ({"learner": "opdop", "only": ["one stag"]}, "Did you mean 'one stage'"),
        ({"learner": "opdop", "only": "one stage"}, "expected a list of names"),
        ({"learner": "opdop", "covers": ["two"]}, "there is no case 'two'"),
        ({"learner": "opdop", "learning": 1.5}, "learning is 1.5"),
    ],
)
def test_wrong_arguments_are_refused_in_words(given: dict[str, Any], said: str):
    with pytest.raises(InvalidParameterError, match=said):
        check_learner(given.pop("learner"), **given)


def test_the_checks_have_a_sentence_each():
    functions: dict[str, Callable[..., None]] = dict(CHECKS)
    assert all((function.__doc__ or "").endswith(".") for function in functions.values())
