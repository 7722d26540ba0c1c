"""Facts about `opdop certify`: what it says of runs, of logs and of fresh episodes, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner, Result

import opdop
from opdop.cli import app

TASK = """
horizon = 10
states = 10
actions = ["slow", "fast"]
initial = 0
stationary = true

[reward]
range = [-1, 0]

[[constraint]]
column = "services"
budget = 5
unit = "services"
"""
OPTIONS = [
    "--horizon",
    "10",
    "--states",
    "10",
    "--actions",
    "slow,fast",
    "--budget",
    "services=5",
    "--range",
    "reward=-1:0",
    "--stationary",
]


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(each) for each in arguments], env={"COLUMNS": "80"})


def answered(*arguments: object, status: int = 0) -> str:
    result = run(*arguments)
    assert result.exit_code == status, result.output
    assert not isinstance(result.exception, Exception)  # which also has status 1
    assert result.stderr == ""
    return result.stdout


def refused(*arguments: object) -> str:
    """Return the one line that a mistake is answered with."""
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("error: ")
    return result.stderr


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run."""
    return opdop.train("media-streaming", episodes=2000, seed=1).save(tmp_path_factory.mktemp("runs") / "one")


def table(episodes: int) -> pl.DataFrame:
    """Return a log of random actions in the media streaming problem, in units of its own."""
    model = opdop.make("media-streaming").tabular()
    H, S, A = model.horizon, model.num_states, model.num_actions
    simulator = model.simulator(seed=7)
    played = [simulator.play(np.full((H, S, A), 1.0 / A)) for _ in range(episodes)]
    return pl.DataFrame(
        {
            "episode": np.repeat(np.arange(episodes), H),
            "stage": np.tile(np.arange(H), episodes),
            "state": np.concatenate([each.states[:-1] for each in played]),
            "action": [("slow", "fast")[a] for each in played for a in each.actions],
            "reward": np.concatenate([each.signals[0] - 1.0 for each in played]),
            "services": np.concatenate([1.0 - each.signals[1] for each in played]),
            "next_state": np.concatenate([each.states[1:] for each in played]),
        }
    )


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a long log, a short one, and what they are about."""
    folder = tmp_path_factory.mktemp("logs")
    log = table(1500)
    log.write_parquet(folder / "long.parquet")
    log.head(200).write_csv(folder / "short.csv")
    (folder / "task.toml").write_text(TASK, encoding="utf-8")
    return folder


# Runs


def test_run_has_the_certificates_of_its_three_policies(kept: Path) -> None:
    words = " ".join(answered("certify", kept).split())
    found = opdop.Run.load(kept)
    for name in ("final", "average", "recommended"):
        assert f"{name} policy: {found.certificate(name).statements()[0]}" in words
    record = json.loads(answered("certify", kept, "--json"))
    assert record["format"] == "opdop.certify/1"
    assert list(record["certificates"]) == ["final", "average", "recommended"]
    assert record["certificates"]["final"]["gap"] == found.certificate("final").gap
    services = found.display.quantities[1]
    own = record["certificates"]["recommended"]["own"]
    assert own["constraints"] == [services.shown(found.certificate().utility_lower[0])]


def test_failure_probability_budget_and_pooling_can_be_changed(kept: Path) -> None:
    def recommended(*options: object) -> dict[str, float]:
        record = json.loads(answered("certify", kept, "--policy", "recommended", "--json", *options))
        return dict(record["certificates"]["recommended"])

    usual = recommended()
    assert recommended("--delta", "0.001")["gap"] > usual["gap"]
    assert recommended("--budget", "6")["thresholds"] == [pytest.approx(4.0)]
    assert recommended("--budget", "fast services=6")["reward_lower"] > usual["reward_lower"]


def test_stages_can_be_pooled_that_were_counted_apart(tmp_path: Path) -> None:
    opdop.train("factored", episodes=300, stationary=False).save(tmp_path)
    apart, pooled = (
        json.loads(answered("certify", tmp_path, "--json", way)) for way in ("--per-stage", "--stationary")
    )
    gaps = [each["certificates"]["final"]["gap"] for each in (apart, pooled)]
    assert gaps[1] < gaps[0]
    assert json.loads(answered("certify", tmp_path, "--json"))["certificates"]["final"]["gap"] == gaps[0]


def test_policy_that_is_not_certified_has_status_1_and_an_estimate(kept: Path) -> None:
    words = " ".join(answered("certify", kept, "--policy", "final", "--budget", "5.5", status=1).split())
    assert "The data do not suffice to certify a policy that keeps every constraint." in words
    assert "An estimate: about" in words
    assert "0 packets" in words
    words = " ".join(answered("certify", kept, "--policy", "final", "--budget", "1", status=1).split())
    assert "An estimate: more episodes like these would not certify this policy." in words


def test_saved_policy_is_certified_again_and_by_fresh_episodes(kept: Path, tmp_path: Path) -> None:
    file = tmp_path / "best.json"
    assert f"policy saved to {file}" in answered("certify", kept, "--policy", "recommended", "--out", file).replace(
        "\n", ""
    )
    expected = opdop.Run.load(kept).certificate().record()
    record = json.loads(answered("certify", kept, "--policy", file, "--json"))["certificates"][str(file)]
    assert record["slack"] == pytest.approx(expected["slack"])
    fresh = json.loads(answered("certify", kept, "--policy", file, "--episodes", "300", "--json"))
    played = fresh["certificates"][str(file)]
    assert played["basis"] == "300 fresh episodes"
    assert played["optimum_upper"] is None
    assert played["keeps_constraints"]
    again = json.loads(answered("certify", kept, "--episodes", "300", "--json"))["certificates"]["recommended"]
    assert again["utility_lower"] == played["utility_lower"]


# Logs


def test_log_gives_a_policy_with_its_certificate(logs: Path, tmp_path: Path) -> None:
    file = tmp_path / "best.npz"
    text = answered("certify", logs / "long.parquet", "--task", logs / "task.toml", "--out", file)
    assert "services <= 5.00 services per episode" in " ".join(text.split())
    policy = opdop.load_policy(file)
    true = opdop.evaluate(opdop.make("media-streaming"), policy)
    assert true.utilities[0] >= 5.0
    record = json.loads(answered("certify", logs / "long.parquet", "--task", logs / "task.toml", "--json"))
    assert record["episodes"] == 1500
    found = record["certificates"]["recommended"]
    assert found["reward_lower"] <= true.reward
    assert found["own"]["reward"] == pytest.approx(found["reward_lower"] - 10.0)
    stated = [*OPTIONS, "--initial", "0"]
    other = json.loads(answered("certify", logs / "long.parquet", *stated, "--json"))["certificates"]["recommended"]
    assert other["gap"] == found["gap"]
    unknown = json.loads(answered("certify", logs / "long.parquet", *OPTIONS, "--json"))["certificates"]["recommended"]
    assert unknown["gap"] > found["gap"]
    assert unknown["basis"].endswith("first state from 1,500 observed")


def test_short_log_names_the_pairs_that_it_says_too_little_about(logs: Path, tmp_path: Path) -> None:
    text = answered("certify", logs / "short.csv", "--task", logs / "task.toml", "--out", tmp_path / "no.npz", status=1)
    assert "The data do not suffice" in text
    assert "state  action  visits" in text
    assert "no policy is saved" in text
    assert not (tmp_path / "no.npz").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("horizon = 10", "horizon = 0"), "task.toml: horizon is 0; expected at least 1"),
        (("horizon = 10", "horizn = 10"), "has the key 'horizn'"),
        (("states = 10", "states = 2"), "expected a whole number, 0 to 1"),
        (('"slow", "fast"', '"slow", "slow"'), "actions has a name twice"),
        (('"slow", "fast"', '"slow", "quick"'), "action is 'fast'; expected one of its names"),
        (("budget = 5", "budget = 50"), "the limit of 'services' is 50; expected one between 0 and 10"),
        (("budget = 5", ""), "constraint[0] has no limit; expected a budget or a threshold"),
        (("range = [-1, 0]", "range = [0]"), "the range of 'reward' is [0]; expected two numbers"),
        (("range = [-1, 0]", ""), "reward is -1; expected 0 to 1 a stage"),
        (('column = "services"', 'column = "servces"'), "the log has no column 'servces'; it has episode"),
        (("initial = 0", "initial = 12"), "the first state is 12; expected a state, 0 to 9"),
        (("initial = 0", "initial = 3"), "begins in state 0, which has probability 0"),
        (("initial = 0", "initial = [0.5]"), "initial has shape [1]"),
        (("initial = 0", "initial = {}"), "initial is {}; expected a state"),
        (("stationary = true", 'stationary = "no"'), "stationary is 'no'"),
        (("[[constraint]]", "[constraint]"), "expected [[constraint]] tables"),
        (("[reward]", "[reward"), "cannot be read as TOML"),
    ],
)
def test_wrong_task_is_answered_in_one_line(logs: Path, tmp_path: Path, change: tuple[str, str], message: str) -> None:
    assert change[0] in TASK
    (tmp_path / "task.toml").write_text(TASK.replace(*change, 1), encoding="utf-8")
    assert message in refused("certify", logs / "short.csv", "--task", tmp_path / "task.toml")


@pytest.mark.parametrize(
    "content", [b"", b"\xff\xfe\x00", b"episode,stage\n0,0\n", b"PAR1", "état,étape\n\x1b[31m,2\n".encode()]
)
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_files_that_are_no_logs_are_answered_in_one_line(
    logs: Path, tmp_path: Path, content: bytes, ending: str
) -> None:
    file = tmp_path / f"log.{ending}"
    file.write_bytes(content)
    assert "\x1b" not in refused("certify", file, "--task", logs / "task.toml")


def test_options_that_do_not_fit_the_data_are_refused(kept: Path, logs: Path, tmp_path: Path) -> None:
    log, task = logs / "short.csv", logs / "task.toml"
    for message, *arguments in (
        ("leave out --task: ", kept, "--task", task),
        ("leave out --horizon: ", kept, "--horizon", 5),
        ("leave out --episodes: ", log, "--task", task, "--episodes", 5),
        ("leave out --budget: --task says that", log, "--task", task, "--budget", 5),
        ("a log needs --task FILE.toml, or --horizon", log),
        ("--policy is final, which only a run has", log, "--task", task, "--policy", "final"),
        ("expected a file in .npz or .json", kept, "--policy", "best"),
        ("there is no file", kept, "--policy", "best.json"),
        ("--out is 'x.txt'; expected a file in .npz or .json", kept, "--out", "x.txt"),
        ("sets no limit of this run; expected NAME=NUMBER", kept, "--budget", "fats services=5"),
        ("has no number at its end", kept, "--budget", "much"),
        ("failure_probability is 1.0", kept, "--delta", 1),
        ("--range is 'reward'; expected COLUMN=LOW:HIGH", log, *OPTIONS, "--range", "reward"),
        ("which is neither the reward nor a column with a limit", log, *OPTIONS, "--range", "cost=0:1"),
        ("there is no constraint", log, "--horizon", 10, "--states", 10, "--actions", "slow,fast"),
        ("no .parquet and no .csv", tmp_path / "nothing"),
        ("there is no file", tmp_path),
    ):
        extra = ("--task", task) if arguments == [tmp_path / "nothing"] else ()
        assert message in refused("certify", *arguments, *extra)


def test_help_teaches_with_examples() -> None:
    text = answered("certify", "--help")
    assert "opdop certify log.csv --task task.toml --out best.npz" in text
    assert max(map(len, text.splitlines())) <= 80
    assert "certify" in answered("--help")
