"""Facts about the first start: a second process compiles what plays and learns, and nothing is left to compile."""

import json
import os
import subprocess
import sys
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
compiling._compile_learning(config)
learning = compiled()
compiling._compile_planning(compiling._shortened(config), opdop.make(problem))
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
    assert set(left) <= {"add_up", "evaluate_in"}  # of the end of a run, which that of `load_kernels` compiles


def test_a_second_process_is_started_if_nothing_was_compiled(monkeypatch: pytest.MonkeyPatch):
    started = []

    class Popen(subprocess.Popen):
        def __init__(self, command: list[str], **options: Any):
            started.append(command)
            super().__init__(command, **options)

    monkeypatch.setattr(subprocess, "Popen", Popen)
    config, problem = RunConfig(problem="factored", episodes=20), opdop.make("factored")
    compiling.load_kernels(config, problem)
    assert not started  # the line above has compiled all, if it was not there
    monkeypatch.setattr(compiling, "_is_first_start", lambda: True)
    monkeypatch.setattr(compiling, "cores", lambda: 2)
    compiling.load_kernels(config, problem)
    assert [command[1:] for command in started] == [["-m", "opdop.runs.compiling"]]


def test_a_second_process_that_fails_is_no_harm(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(compiling, "_is_first_start", lambda: True)
    monkeypatch.setattr(compiling, "cores", lambda: 2)
    monkeypatch.setattr(sys, "executable", "/bin/false")
    compiling.load_kernels(RunConfig(problem="factored", episodes=20), opdop.make("factored"))


def test_there_is_no_second_process_for_problems_of_ones_own_or_on_one_core(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(subprocess, "Popen", None)
    with compiling._helper(RunConfig(problem="mine.py:make", episodes=20)) as helped:
        assert helped is False
    monkeypatch.setattr(compiling, "cores", lambda: 1)
    with compiling._helper(RunConfig(problem="factored", episodes=20)) as helped:
        assert helped is False


def test_the_first_start_is_known_by_the_cache(tmp_path: Any):
    program = "from opdop.runs import compiling; print(compiling._is_first_start())"
    for folder, said in ((str(tmp_path), "True"), (None, "False")):
        environment = {**os.environ, **({} if folder is None else {"NUMBA_CACHE_DIR": folder})}
        opdop.evaluate(opdop.make("factored"), opdop.solve(opdop.make("factored")).policy)
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True
        )
        assert done.stdout.strip() == said
