"""Contradictions of what a learner was told are found, once each, and false alarms are as rare as stated."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opdop import Agent, Episode, OpdopError, Task
from opdop.runs import AssumptionWarning
from opdop.runs.assumptions import Assumptions

H, S, A = 4, 3, 2


def told(**changes: Any) -> Task:
    settings = {"stationary": True, "noisy": True, "slater_gap": 0.5, "failure_probability": 0.05, **changes}
    return Task(H, S, A, np.array([1.0]), np.eye(S)[0], 10_000, **settings)


def kernel(seed: int, stages: int) -> Any:
    return np.random.default_rng(seed).dirichlet(np.ones(S), size=(stages, S, A))


def play(rows: Any, rng: np.random.Generator, count: int) -> list[Episode]:
    """Return episodes of random actions; rows [H or 1, S, A, S]."""
    episodes = []
    for _ in range(count):
        states, actions = np.zeros(H + 1, dtype=np.int64), rng.integers(0, A, H)
        for h in range(H):
            states[h + 1] = rng.choice(S, p=rows[h % len(rows), states[h], actions[h]])
        episodes.append(Episode(states, actions, rng.random((2, H))))
    return episodes


def findings(checker: Assumptions, episodes: list[Episode]) -> list[str]:
    return [text for episode in episodes for text in checker.check(episode)]


def test_kernel_that_differs_by_stage_refutes_that_it_is_stationary():
    rng, rows = np.random.default_rng(0), kernel(1, H)
    episodes = play(rows, rng, 400)
    (text,) = findings(Assumptions(told()), episodes)
    assert "at other stages, but the task says that the kernel is stationary; expected stationary=False" in text
    assert findings(Assumptions(told(stationary=False)), episodes) == []


def test_kernel_that_changes_between_episodes_is_found():
    rng = np.random.default_rng(0)
    for stationary in (True, False):
        checker = Assumptions(told(stationary=stationary))
        assert findings(checker, play(kernel(1, 1), rng, 500)) == []
        (text,) = findings(checker, play(kernel(7, 1), rng, 600))
        assert "since episode 512 and before, but a learner assumes that the kernel does not change" in text
        assert ("at stage" in text) == (not stationary)


def test_false_alarms_are_as_rare_as_stated():
    # 60 runs with a failure probability of 0.5: 30 are allowed on average, and far fewer occur.
    alarms = 0
    for seed in range(60):
        checker = Assumptions(told(failure_probability=0.5))
        alarms += bool(findings(checker, play(kernel(seed, 1), np.random.default_rng(seed), 120)))
    assert alarms <= 5


def test_saved_findings_go_on_as_if_never_stopped():
    rng = np.random.default_rng(3)
    episodes = play(kernel(1, H), rng, 300)
    whole, first = Assumptions(told()), Assumptions(told())
    expected = findings(whole, episodes)
    early = findings(first, episodes[:100])
    second = Assumptions(told())
    second.restore(first.state())
    assert len(early + findings(second, episodes[100:])) == len(expected) == 1
    assert second.episodes == 300
    with pytest.raises(OpdopError, match="warned"):
        second.restore({**first.state(), "warned": np.zeros(7)})
    with pytest.raises(OpdopError, match="negative"):
        second.restore({**first.state(), "time.all": np.full((1, 3), -1)})


def drive(agent: Agent, rows: Any, rng: np.random.Generator, last: int, paid: Any = None) -> None:
    while agent.episodes < last:
        state = 0
        for h in range(H):
            action = agent.act(state)
            state = int(rng.choice(S, p=rows[h % len(rows), state, action]))
            reward = rng.random() if paid is None else paid(h)
            agent.observe(reward, [0.5], state)


def test_agent_warns_of_a_kernel_that_is_not_stationary_once_and_remembers_it(tmp_path: Path):
    rng, rows = np.random.default_rng(0), kernel(1, H)
    with Agent(told(), tmp_path, algorithm="opdop") as agent, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        drive(agent, rows, rng, 300)
    assert [warning.category for warning in caught] == [AssumptionWarning]
    assert caught[0].filename == __file__
    with Agent(told(), tmp_path, algorithm="opdop") as again:
        drive(again, rows, rng, 350)  # a second warning would be an error here
        assert again.assumptions.warned["stages"]


def test_warning_that_is_an_error_loses_no_episode():
    rng, rows = np.random.default_rng(0), kernel(1, H)
    agent = Agent(told(), algorithm="opdop")
    with pytest.raises(AssumptionWarning, match="the kernel is stationary"):
        drive(agent, rows, rng, 400)
    found = agent.episodes
    assert agent.stage == 0
    drive(agent, rows, rng, found + 3)
    assert agent.episodes == found + 3


def test_signal_that_differs_by_stage_refutes_that_all_stages_are_alike():
    rng, rows = np.random.default_rng(0), kernel(1, 1)
    with pytest.warns(AssumptionWarning, match="expected noisy=True, or signals that differ by stage"):
        drive(Agent(told(noisy=False, stationary_signals=True), algorithm="opdop"), rows, rng, 20, lambda h: h / H)
    drive(Agent(told(noisy=False), algorithm="opdop"), rows, rng, 20, lambda h: h / H)
