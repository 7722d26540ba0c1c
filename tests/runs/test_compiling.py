"""Facts about the first start: a second process compiles what plays and learns, and nothing is left to compile."""

import json
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import opdop
from opdop.runs import compiling
from opdop.runs.config import RunConfig

KERNELS = """
import gc, json, sys
from opdop.kernels.parts import Kernel
from opdop.runs import compiling
from opdop.runs.config import RunConfig
import opdop

def compiled():
    return {(kernel.__name__, str(types)) for kernel in gc.get_objects() if isinstance(kernel, Kernel)
            for types in kernel.signatures}

problem, algorithm = sys.argv[1:]
config = RunConfig(problem=problem, algorithm=algorithm, episodes=20)
problem = opdop.make(problem)
compiling._compile_learning(compiling._shortened(config), problem)
learning = compiled()
compiling._compile_certificates(compiling._shortened(config), problem)
both = compiled()
compiling.execute(config, progress=False)
left = sorted({name for name, _ in compiled() - both})
print(json.dumps([sorted({name for name, _ in learning}), left]))
"""


@pytest.mark.parametrize(
    ("problem", "algorithm", "loop"),
    [
        ("factored", "replan", "_run_policy"),
        ("factored", "opdop", "_run_episodes"),
        ("random-mixture", "opdop-lstd", "_run_episodes"),
        ("reservoir", "opdop-lstd", "evaluate_linear"),
    ],
)
def test_two_processes_compile_what_a_run_needs(problem: str, algorithm: str, loop: str):
    command = [sys.executable, "-c", KERNELS, problem, algorithm]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    learning, left = json.loads(done.stdout)
    assert loop in learning  # this takes longest
    assert set(left) <= {"add_up", "evaluate_in", "act_greedily_in", "visit_by_actions_in"}  # to solve and to measure


@pytest.fixture
def anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if nothing had been compiled, on two cores and without other threads."""
    monkeypatch.setattr(compiling, "was_compiled", lambda *_: False)
    monkeypatch.setattr(compiling, "cores", lambda: 2)
    monkeypatch.setattr(compiling.threading, "active_count", lambda: 1)


CONFIG, PROBLEM = RunConfig(problem="factored", episodes=20), opdop.make("factored")


@pytest.mark.usefixtures("anew")
def test_a_second_process_helps_and_ends_with_the_first_start():
    before = opdop.train("factored", episodes=300)
    with compiling.helper(CONFIG, PROBLEM):
        (helper,) = multiprocessing.active_children()
        compiling.load_kernels(CONFIG, PROBLEM)
    assert not helper.is_alive()
    assert not multiprocessing.active_children()
    assert opdop.train("factored", episodes=300).history.equals(before.history)


@pytest.mark.usefixtures("anew")
def test_a_second_process_that_fails_is_silent_and_does_no_harm(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    def fail(*_: Any) -> None:
        raise ValueError("no kernel")

    monkeypatch.setattr(compiling, "_compile_learning", fail)
    with compiling.helper(CONFIG, PROBLEM):
        (helper,) = multiprocessing.active_children()
        helper.join(20)
        compiling.load_kernels(CONFIG, PROBLEM)
    assert capfd.readouterr() == ("", "")


@pytest.mark.usefixtures("anew")
def test_there_is_no_second_process_where_it_would_not_help_or_not_be_safe(monkeypatch: pytest.MonkeyPatch):
    def none_is_started(played: Any = PROBLEM) -> bool:
        with compiling.helper(CONFIG, played):
            return not multiprocessing.active_children()

    assert none_is_started(PROBLEM.simulator(seed=0))  # it would be played
    for owner, name, value in (
        (compiling, "cores", lambda: 1),
        (compiling.sys, "platform", "darwin"),
        (compiling.threading, "active_count", lambda: 2),
        (compiling, "was_compiled", lambda *_: True),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, value)
            assert none_is_started()
    assert not none_is_started()


def test_what_was_compiled_is_remembered_until_the_sources_change(tmp_path: Path):
    program = (
        "import sys; from opdop.runs import compiling\n"
        "kind = compiling._kind(compiling.RunConfig(problem='factored', episodes=1))\n"
        "print(compiling.was_compiled(*kind)); compiling.remember(*kind); print(compiling.was_compiled(*kind))\n"
        "kind[1]._cache._cache_file._source_stamp = b'another'; print(compiling.was_compiled(*kind))\n"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.split() == ["False", "True", "False"]
