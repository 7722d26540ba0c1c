"""The loop for production: it learns as `train` would, and loses no finished episode when it is killed."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import opdop
from opdop import Agent, Episode, InvalidModelError, InvalidParameterError, OpdopError, Task
from opdop.runs import AssumptionWarning
from tests.support.agent_child import play_episodes

ROOT = Path(__file__).parents[2]


def two_states(**changes: Any) -> Task:
    settings = {"absorbing": 2, "rest": np.zeros(2), "slater_gap": 0.5, **changes}
    return Task(3, 3, 2, np.array([1.0]), np.eye(3)[0], 50, **settings)


def abandon(agent: Agent) -> None:
    """End an agent as a kill does: the system gives its folder free, and nothing is saved."""
    agent._owner.close()


def test_agent_learns_exactly_as_the_learner_it_contains() -> None:
    cmdp = opdop.make("factored")
    episodes: list[Episode] = []
    agent = Agent(cmdp, algorithm="opdop", episodes=30)
    learn = agent.learner.learn
    agent.learner.learn = lambda episode: (episodes.append(episode), learn(episode))[1]
    play_episodes(agent, 30)
    other = opdop.algorithms()["opdop"].build(Task.of(cmdp, episodes=30))
    for episode in episodes:
        other.propose()
        other.learn(episode)
    np.testing.assert_array_equal(agent.policy.table, other.propose().table)
    totals = np.mean([episode.signals.sum(axis=1) for episode in episodes], axis=0)
    assert list(agent.averages().values()) == pytest.approx(
        [q.shown(total) for q, total in zip(cmdp.display.quantities, totals, strict=True)]
    )


def test_abandoned_between_any_two_calls_it_goes_on_as_if_never_stopped(tmp_path: Path) -> None:
    whole = Agent(opdop.make("factored"))
    play_episodes(whole, 4)

    class Stop(Exception):
        """Stands for a kill."""

    for calls in range(1, 40, 5):
        folder = tmp_path / str(calls)
        left = calls

        def count(_: str) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                raise Stop

        agent = Agent(opdop.make("factored"), folder)
        with contextlib.suppress(Stop):
            play_episodes(agent, 4, count)
        finished = agent.episodes
        abandon(agent)
        with Agent(opdop.make("factored"), folder) as again:
            assert again.episodes == finished
            play_episodes(again, 4)
            np.testing.assert_array_equal(again.policy.table, whole.policy.table)
            np.testing.assert_array_equal(again.totals, whole.totals)


def test_killed_process_has_saved_every_episode_that_it_finished(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.support.agent_child", str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        told = [child.stdout.readline() for _ in range(50)]
        child.send_signal(signal.SIGKILL)
        told += child.stdout.readlines()
    finished = max(int(word.split()[1]) for word in told if word.startswith("observed"))
    assert finished >= 1
    with Agent(opdop.make("factored"), tmp_path) as agent:
        assert agent.episodes in (finished, finished + 1)  # it may have been killed before it could say so
        number = agent.episodes
        whole = Agent(opdop.make("factored"))
        play_episodes(whole, number)
        np.testing.assert_array_equal(agent.policy.table, whole.policy.table)


def test_half_a_line_of_the_journal_is_an_unfinished_episode(tmp_path: Path) -> None:
    agent = Agent(opdop.make("factored"), tmp_path)
    play_episodes(agent, 3)
    abandon(agent)
    journal = tmp_path / "episodes.jsonl"
    data = journal.read_bytes()
    journal.write_bytes(data[:-5])
    again = Agent(opdop.make("factored"), tmp_path)
    assert again.episodes == 2
    abandon(again)
    line = b'{"episode": 9}'
    for check, words in (
        (zlib.crc32(line), "jumps to episode 9"),
        (0, "the checksum of line 1 of its journal is wrong"),
    ):
        journal.write_bytes(line + b" %08x\n" % check)
        with pytest.raises(OpdopError, match=words):
            Agent(opdop.make("factored"), tmp_path)
    journal.write_bytes(data)
    (tmp_path / "agent.npz").unlink()
    with pytest.raises(OpdopError, match=r"has the journal of an agent, episodes.jsonl, but no agent.npz"):
        Agent(opdop.make("factored"), tmp_path)


def test_episode_that_terminates_rests_in_the_absorbing_state() -> None:
    agent, seen = Agent(two_states(), algorithm="opdop"), []
    agent.learner.learn = seen.append
    agent.act(0)
    agent.observe(1.0, [0.5], None, terminated=True)
    assert (agent.stage, agent.episodes) == (0, 1)
    np.testing.assert_array_equal(seen[0].states, [0, 2, 2, 2])
    np.testing.assert_array_equal(seen[0].signals, [[1.0, 0.0, 0.0], [0.5, 0.0, 0.0]])


def test_varying_signals_are_warned_of_once() -> None:
    agent = Agent(two_states(), algorithm="opdop")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        vary(agent)
        vary(Agent(two_states(noisy=True), algorithm="opdop"))
    assert [warning.category for warning in caught] == [AssumptionWarning]
    assert "at stage 0, state 0, action" in str(caught[0].message)


def vary(agent: Agent) -> None:
    for k in range(12):
        agent.act(0)
        agent.observe(k / 12, [0.5], None, terminated=True)


def test_numbers_out_of_range_and_calls_out_of_order_are_refused() -> None:
    agent = Agent(opdop.make("inventory"))
    with pytest.raises(InvalidParameterError, match=r"expected act\(\) first"):
        agent.observe(0.0, [0.0], 0)
    first = agent.act(0)
    assert agent.act(0) == first
    with pytest.raises(InvalidParameterError, match="twice with different observations"):
        agent.act(1)
    with pytest.raises(
        InvalidModelError, match=r"the orders and storage is 20; expected a number in its range, \[0, 19"
    ):
        agent.observe(5.0, [20.0], 1)
    with pytest.raises(InvalidModelError, match=r"costs have shape \[2\]; expected \[1\]"):
        agent.observe(5.0, [1.0, 2.0], 1)
    with pytest.raises(InvalidModelError, match="the task has no absorbing state"):
        agent.observe(5.0, [1.0], 1, terminated=True)
    agent.observe(5.0, [19.0], 1)
    assert agent.stage == 1
    agent.drop()
    assert agent.stage == 0
    with pytest.raises(InvalidParameterError, match="expected a Task, a problem"):
        Agent(3)  # type: ignore[arg-type]


def test_folder_belongs_to_one_agent(tmp_path: Path) -> None:
    with Agent(two_states(), tmp_path, algorithm="opdop"):
        pass
    with pytest.raises(InvalidParameterError, match="holds another agent: its seed is 0, and now it is 1"):
        Agent(two_states(), tmp_path, algorithm="opdop", seed=1)
    with Agent(two_states(), tmp_path, algorithm="opdop") as agent:
        assert repr(agent) == "Agent('model': 0 episodes, stage 0 of 3)"


def test_an_agent_learns_with_an_algorithm_that_needs_no_number_of_episodes():
    assert Agent(two_states()).config.algorithm == "replan"
    assert Agent(two_states(), preset="certified").config.algorithm == "doubling:opdop"
