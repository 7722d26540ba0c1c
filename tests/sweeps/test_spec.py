"""Facts about specs: the runs that they ask for, and the errors that name every mistake at once."""

import contextlib
import itertools
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opdop import environments
from opdop.model import InvalidParameterError
from opdop.runs import RunConfig, settings
from opdop.sweeps import InvalidSpecError, Spec, group_of, key_of
from opdop.sweeps.spec import MOST_RUNS, shared_settings

EXAMPLE = """
episodes = 20000
seeds = 10
[[problem]]
name = "media-streaming"
[[problem]]
name = "random-tabular"
seed = [0, 1, 2]
[[algorithm]]
name = "opdop"
preset = ["certified", "practical"]
[[algorithm]]
name = "oppo"
parameters = {radius_scale = [0.03, 0.1]}
"""


def mistakes(text: str) -> tuple[str, ...]:
    with pytest.raises(InvalidSpecError) as refused:
        Spec.parse(text)
    return refused.value.errors


def test_a_spec_is_the_product_of_its_parts() -> None:
    spec = Spec.parse(EXAMPLE)
    jobs = list(spec.jobs())
    assert len(spec) == len(jobs) == (1 + 3) * (2 + 2) * 10
    assert len({key_of(job) for job in jobs}) == len(jobs)
    assert spec.settings() == {name: getattr(RunConfig(episodes=20000), name) for name in spec.settings()} | {
        "planned_episodes": 20000
    }
    kinds = {
        (job.problem, job.problem_parameters.get("seed", ()), job.algorithm, job.preset, *job.parameters.values())
        for job in jobs
    }
    problems = [("media-streaming", ()), *(("random-tabular", seed) for seed in range(3))]
    constants = [
        ("opdop", "certified"),
        ("opdop", "practical"),
        ("oppo", "practical", 0.03),
        ("oppo", "practical", 0.1),
    ]
    assert kinds == {(*problem, *chosen) for problem, chosen in itertools.product(problems, constants)}


def test_only_the_problem_is_needed() -> None:
    jobs = list(Spec.parse('[[problem]]\nname = "factored"').jobs())
    assert [job.seed for job in jobs] == list(range(10))
    parameters = {"states": 3, "stages": 6, "moves": 3.0}
    assert jobs[3] == RunConfig(problem="factored", problem_parameters=parameters, planned_episodes=100_000, seed=3)


def test_all_mistakes_are_reported_at_once_with_their_places() -> None:
    text = """
    episodess = 3
    seeds = [1, "a"]
    records = 1
    noisy = 3
    failure_probability = 2
    dual_bound = -1
    [[problem]]
    name = "gridworld"
    sizee = 3
    size = [0, "x"]
    [[problem]]
    name = "factorde"
    [[problem]]
    [[algorithm]]
    name = "oppop"
    preset = ["papr", "certified"]
    parameters = {C1 = -1}
    [[algorithm]]
    presets = 3
    parameters = 4
    """
    found = mistakes(text)
    places = [re.split("[: ]", error)[0] for error in found]
    wrong = """
        episodess seeds[1] records noisy failure_probability dual_bound
        problem[0].sizee problem[0].size[0] problem[0].size[1] problem[1].name problem[2].name
        algorithm[0].name algorithm[0].preset[0] algorithm[0].parameters.C1 algorithm[0].parameters.C1
        algorithm[1].presets algorithm[1].parameters
    """
    assert sorted(places) == sorted(wrong.split())
    reported = "\n".join(found)
    for words in (
        "episodess is unknown. Did you mean 'episodes'?",
        "problem[0].sizee is unknown. Did you mean 'size'?",
        "problem[1].name is 'factorde'; expected one of ",
        "Did you mean 'factored'?",
        "problem[2].name is missing; expected one of ",
        "algorithm[0].name: there is no algorithm 'oppop'; there are dope, linear-primal-dual, opdop, ",
        "Did you mean 'oppo'?",
        "algorithm[0].preset[0] is 'papr'; expected one of paper, certified, practical, scaled. Did you mean 'paper'?",
        "algorithm[0].parameters.C1 is unknown; preset 'certified' has margin, zero_violation.",
        "algorithm[1].presets is unknown. Did you mean 'preset'?",
    ):
        assert words in reported


def test_every_setting_of_a_run_has_one_check_and_one_error_text() -> None:
    for name in shared_settings():
        with pytest.raises(InvalidParameterError) as refused:
            settings()[name].check(name, "wrong")
        assert mistakes(f'{name} = "wrong"\n[[problem]]\nname = "factored"') == (str(refused.value),)
    varied = {"problem", "problem_parameters", "algorithm", "preset", "parameters", "seed"}
    assert {*shared_settings()} | varied == settings().keys()


def test_doubling_is_an_algorithm_by_name() -> None:
    (kind,) = Spec.of({"problem": "factored", "algorithm": "doubling:opdop"}).kinds
    assert kind.algorithm == "doubling:opdop"
    assert key_of(kind).startswith("factored-doubling-opdop-practical-0-")
    (error,) = mistakes('[[problem]]\nname = "factored"\n[[algorithm]]\nname = "doubling:opdopp"')
    assert error.startswith("algorithm[0].name: there is no algorithm 'opdopp'")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "problem is missing"),
        ("x = [", "It is not TOML"),
        ("problem = 3", "expected tables"),
        ("algorithm = 3", "expected tables"),
        ('seeds = 0\n[[problem]]\nname = "factored"', "seeds is 0"),
        ('seeds = []\n[[problem]]\nname = "factored"', "seeds is []"),
        ('seeds = [1, 2, 1]\n[[problem]]\nname = "factored"', "seeds has 1 more than once"),
        ('[[problem]]\nname = "factored"\nstages = []', "problem[0].stages is []"),
        ('[[problem]]\nname = "factored"\n[[algorithm]]\npreset = []', "algorithm[0].preset is []"),
        (
            '[[problem]]\nname = "factored"\n[[algorithm]]\nparameters = {step_scale = []}',
            "parameters.step_scale is []",
        ),
        (
            '[[problem]]\nname = "factored"\n[[algorithm]]\nparameters = {step_scale = nan}',
            "parameters.step_scale is nan",
        ),
        (
            '[[problem]]\nname = "factored"\n[[problem]]\nname = "factored"\nstages = [5, 6]',
            "more than once for factored, opdop, practical.",
        ),
        ('episodes = 1.5\n[[problem]]\nname = "factored"', "episodes is 1.5"),
        ('seeds = 100001\n[[problem]]\nname = "factored"', f"at most {MOST_RUNS}"),
        ('seeds = 1000000000000\n[[problem]]\nname = "factored"', f"at most {MOST_RUNS}"),
    ],
)
def test_a_mistake_is_reported(text: str, words: str) -> None:
    assert any(words in error for error in mistakes(text))


def test_a_parameter_at_its_default_is_the_same_run() -> None:
    plain, wordy = (
        Spec.parse(text).kinds
        for text in (
            '[[problem]]\nname = "factored"',
            '[[problem]]\nname = "factored"\nstages = 6\nmoves = 3\n[[algorithm]]\nname = "opdop"\n'
            "parameters = {step_scale = 1, optimistic_init = 1.0}",
        )
    )
    assert plain == wordy
    assert [group_of(kind) for kind in wordy] == ["factored, opdop, practical"]
    unusual = Spec.parse('[[problem]]\nname = "factored"\nstages = [7, 8]\n').kinds
    assert len({key_of(kind) for kind in (*unusual, *plain)}) == 3
    assert [group_of(kind) for kind in unusual] == [f"factored (stages={n}), opdop, practical" for n in (7, 8)]


def test_keys_stay_what_they_are() -> None:
    (kind,) = Spec.of(
        {
            "seeds": [5],
            "problem": {"name": "factored", "stages": 7},
            "algorithm": {"name": "oppo", "parameters": {"radius_scale": 0.1}},
        }
    ).kinds
    assert key_of(kind) == "factored-oppo-practical-5-1fafe97fbdc4f1c9de251a333d891dac"


def test_a_key_covers_every_setting_exactly() -> None:
    plain = RunConfig(problem="random-tabular", problem_parameters={"seed": 2**53})
    others = [
        plain.but(problem_parameters={"seed": 2**53 + 1}),
        plain.but(seed=2**62),
        plain.but(seed=2**62 + 1),
        plain.but(episodes=99_999),
        plain.but(parameters={"step_scale": 300.0000000000001}),
        plain.but(noisy=True),
        plain.but(records=999),
    ]
    keys = [key_of(config) for config in (plain, *others)]
    assert len({*keys}) == len(keys)
    assert all(re.fullmatch("random-tabular-opdop-practical-[0-9]+-[0-9a-f]{32}", key) for key in keys)
    assert len({key_of(plain.but(problem_parameters={"seed": seed})) for seed in (13156, 32433)}) == 2


def test_a_parameter_that_is_a_list_makes_a_grid_of_lists() -> None:
    name, parameter = next(
        (entry.name, key)
        for entry in environments().values()
        for key, found in entry.parameters.items()
        if found.type is tuple
    )
    default = list(environments()[name].parameters[parameter].default)
    one = Spec.of({"seeds": 1, "problem": {"name": name, parameter: default}})
    two = Spec.of({"seeds": 1, "problem": {"name": name, parameter: [default, default[::-1]]}})
    assert [job.problem_parameters[parameter] for job in one.jobs()] == [tuple(default)]
    assert [job.problem_parameters[parameter] for job in two.jobs()] == [tuple(default), tuple(default[::-1])]


def test_data_make_the_same_spec_as_toml() -> None:
    data = {
        "episodes": 20000,
        "seeds": 10,
        "problem": ["media-streaming", {"name": "random-tabular", "seed": [0, 1, 2]}],
        "algorithm": [
            {"name": "opdop", "preset": ["certified", "practical"]},
            {"name": "oppo", "parameters": {"radius_scale": [0.03, 0.1]}},
        ],
    }
    assert list(Spec.of(data).jobs()) == list(Spec.parse(EXAMPLE).jobs())
    with pytest.raises(InvalidSpecError, match="of type object"):
        Spec.of({"problem": "factored", "episodes": object()})


def test_jobs_come_back_from_their_records() -> None:
    for job in Spec.parse(EXAMPLE).jobs():
        assert RunConfig.of(json.loads(json.dumps(job.record()))) == job


def test_a_file_that_cannot_be_read_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameterError, match="cannot be read"):
        Spec.read(tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidSpecError, match="not UTF-8"):
        Spec.read(tmp_path / "bytes.toml")


@given(
    st.dictionaries(
        st.sampled_from(["episodes", "seeds", "problem", "algorithm", "noisy", "é\n"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "parameters", "x"]), inner)
            ),
            max_leaves=6,
        ),
    )
)
def test_any_data_give_a_spec_or_an_invalid_spec_error(data: dict[str, object]) -> None:
    with contextlib.suppress(InvalidSpecError):
        assert 0 < len(Spec.of(data)) <= MOST_RUNS
