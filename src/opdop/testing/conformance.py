"""Put a learner through the checks that all learners of this package pass, and say what failed, and where."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from opdop.algorithms import Task, find
from opdop.model import InvalidParameterError, OpdopError, suggestion
from opdop.model.validation import as_flag, printable, shown
from opdop.testing import cases
from opdop.testing.checks import CHECKS, Failure, Subject, learns

Build = Callable[[Task], Any]
LEARNING = "learns"


class LearnerCheckError(AssertionError):
    """A learner failed some checks; `report` has all results."""

    def __init__(self, report: LearnerReport) -> None:
        super().__init__(str(report))
        self.report = report


@dataclass(frozen=True)
class LearnerReport:
    """The results of all checks of a learner.

    `passed` are pairs of case and check, `failed` triples of case, check and what was wrong, and `refused` pairs of a
    case that the learner does not cover, and its reason.
    """

    name: str
    passed: tuple[tuple[str, str], ...] = ()
    failed: tuple[tuple[str, str, str], ...] = ()
    refused: tuple[tuple[str, str], ...] = field(default=())

    def __str__(self) -> str:
        numbers = f"{len(self.failed)} checks failed, {len(self.passed)} passed, {len(self.refused)} cases refused"
        lines = [f"{self.name}: {numbers}"]
        lines += [f"  FAILED   {case}: {check}: {what}" for case, check, what in self.failed]
        lines += [f"  refused  {case}: {why}" for case, why in self.refused]
        return "\n".join(lines)


def check_learner(
    learner: Build | str | Any,
    *,
    preset: str = "practical",
    only: Iterable[str] | None = None,
    covers: Iterable[str] = ("one constraint",),
    learning: bool = False,
) -> LearnerReport:
    """Check that a learner keeps to the protocol, in small problems of many kinds; return what was checked.

    It needs no test framework: in a test, call it and let its error fail the test.

    >>> from opdop.testing import check_learner
    >>> print(check_learner("opdop", only=["one constraint", "one stage"]))
    opdop: 0 checks failed, 26 passed, 0 cases refused

    Args:
        learner: a function that makes a learner from a `Task`, such as its class; or the name of a registered
            algorithm; or a learner that has learnt nothing yet and has a `task`. A ready learner is copied, and checked
            in one problem with the sizes of its task.
        preset: of a registered algorithm.
        only: the cases to be checked, by name; by default all: problems with one and three constraints, random signals,
            one stage, one state, one action, many states, episodes that end early, a mixture of known kernels, and a
            linear MDP.
        covers: the cases that may not be refused. In all others the function may raise an OpdopError that says why.
        learning: also check that the learner becomes better than the uniform policy on an easy problem within 2,000
            episodes.

    Raises LearnerCheckError, an AssertionError, if a check fails, and InvalidParameterError if an argument is wrong.
    """
    name, build, ready = _as_build(learner, preset)
    as_flag("learning", learning)
    wanted = (None,) if ready is not None else _as_names("only", cases.names() if only is None else only)
    needed = _as_names("covers", covers)
    passed, failed, refused = [], [], []
    for each in wanted:
        case = cases.case_of(ready) if each is None and ready is not None else cases.case(str(each))
        subject = Subject(build, case)
        try:
            subject.fresh()
        except OpdopError as error:
            why = printable(str(error)).strip()
            if case.name in needed:
                failed.append((case.name, "covers", f"it is refused: {why}"))
            elif not why:
                failed.append((case.name, "refuses with a reason", "it is refused without a message"))
            else:
                refused.append((case.name, why))
            continue
        except Exception as error:
            failed.append((case.name, "is built from a task", f"{type(error).__name__}: {error}"))
            continue
        for check, function in CHECKS.items():
            found = _result(function, subject)
            if found is None:
                passed.append((case.name, check))
            else:
                failed.append((case.name, check, found))
    if learning:
        found = _result(learns, build)
        if found is None:
            passed.append(("easy problem", LEARNING))
        else:
            failed.append(("easy problem", LEARNING, found))
    report = LearnerReport(name, tuple(passed), tuple(failed), tuple(refused))
    if failed:
        raise LearnerCheckError(report)
    return report


def _result(check: Callable[[Any], None], subject: Any) -> str | None:
    """Return what is wrong, or None."""
    try:
        check(subject)
    except Failure as failure:
        return str(failure)
    except Exception as error:  # whatever a learner raises is its failure
        return f"{type(error).__name__}: {error}"
    return None


def _as_build(learner: Any, preset: str) -> tuple[str, Build, Task | None]:
    """Return the name of a learner, a function that makes it, and its task if it is ready."""
    if isinstance(learner, str):
        algorithm = find(learner)
        chosen = algorithm.preset(preset)
        return learner, lambda task: algorithm.build(task, chosen), None
    if callable(learner):
        return str(getattr(learner, "__name__", type(learner).__name__)), learner, None
    task = getattr(learner, "task", None)
    if not isinstance(task, Task):
        raise InvalidParameterError(
            f"learner is {shown(learner)}; expected a function that makes a learner from a Task, the name of an "
            "algorithm, or a learner with a `task`."
        )
    return type(learner).__name__, lambda _: copy.deepcopy(learner), task


def _as_names(what: str, given: Any) -> tuple[str, ...]:
    if isinstance(given, str):
        raise InvalidParameterError(f"{what} is {shown(given)}; expected a list of names.")
    found = tuple(given)
    for name in found:
        if name not in cases.names():
            near = suggestion(name, cases.names())
            raise InvalidParameterError(f"there is no case {shown(name)}; there are {', '.join(cases.names())}.{near}")
    return found
