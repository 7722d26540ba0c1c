"""Facts about specs: what they ask for, and how every mistake in them is told at once."""

import contextlib
import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opdop import environments
from opdop.model import InvalidParameterError
from opdop.sweeps.spec import MOST_RUNS, InvalidSpecError, Job, Settings, Spec, job_of

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
    assert len({job.key for job in jobs}) == len(jobs)
    assert {job.settings for job in jobs} == {Settings(episodes=20000)}
    kinds = {
        (job.problem, *job.problem_parameters.values(), job.algorithm, job.preset, *job.parameters.values())
        for job in jobs
    }
    problems = [("media-streaming",), *(("random-tabular", seed) for seed in range(3))]
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
    assert jobs[3] == Job("factored", {}, "opdop", "practical", {}, 3, Settings())


def test_all_mistakes_are_told_at_once_with_their_places() -> None:
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
    places = [error.partition(":")[0] for error in found]
    wrong = """
        episodess seeds[1] records noisy failure_probability dual_bound
        problem[0].sizee problem[0].size[0] problem[0].size[1] problem[1].name problem[2].name
        algorithm[0].name algorithm[0].preset algorithm[0].parameters.C1 algorithm[0].parameters.C1
        algorithm[1].presets algorithm[1].parameters
    """
    assert sorted(places) == sorted(wrong.split())
    told = "\n".join(found)
    for words in (
        "episodess: unknown; did you mean episodes?",
        "problem[0].sizee: unknown; did you mean size?",
        "problem[1].name: there is no problem 'factorde'; did you mean factored?",
        "algorithm[0].name: there is no algorithm 'oppop'; did you mean oppo?",
        "algorithm[0].preset: there is no preset 'papr'; did you mean paper?",
        "algorithm[0].parameters.C1: preset 'certified' has no such parameter; it has none",
        "algorithm[1].presets: unknown; did you mean preset?",
    ):
        assert words in told


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "problem: none is named"),
        ("x = [", "it is not TOML"),
        ("problem = 3", "expected tables"),
        ("algorithm = 3", "expected tables"),
        ('seeds = 0\n[[problem]]\nname = "factored"', "seeds: found 0"),
        ('seeds = []\n[[problem]]\nname = "factored"', "seeds: found []"),
        ('seeds = [1, 2, 1]\n[[problem]]\nname = "factored"', "seeds: 1 is there more than once"),
        ('[[problem]]\nname = "factored"\nstages = []', "problem[0].stages: found []"),
        ('[[problem]]\nname = "factored"\n[[algorithm]]\npreset = []', "algorithm[0].preset: found []"),
        ('[[problem]]\nname = "factored"\n[[algorithm]]\nknobs = {step_scale = []}', "parameters.step_scale: found []"),
        (
            '[[problem]]\nname = "factored"\n[[algorithm]]\nknobs = {step_scale = nan}',
            "parameters.step_scale: found nan",
        ),
        (
            '[[problem]]\nname = "factored"\n[[problem]]\nname = "factored"\nstages = [5, 6]',
            "twice: factored (stages=6)",
        ),
        ('episodes = 1.5\n[[problem]]\nname = "factored"', "episodes: found 1.5"),
        ('seeds = 100001\n[[problem]]\nname = "factored"', f"at most {MOST_RUNS}"),
        ('seeds = 1000000000000\n[[problem]]\nname = "factored"', f"at most {MOST_RUNS}"),
    ],
)
def test_a_mistake_is_told(text: str, words: str) -> None:
    assert any(words in error for error in mistakes(text))


def test_a_key_does_not_depend_on_how_the_spec_is_written() -> None:
    plain, wordy = (
        next(iter(Spec.parse(text).jobs()))
        for text in (
            '[[problem]]\nname = "factored"',
            '[[problem]]\nname = "factored"\nstages = 6\nmoves = 3\n[[algorithm]]\nname = "opdop"',
        )
    )
    assert plain.key == wordy.key == "factored-opdop-practical-0"
    assert wordy.group == "factored (stages=6, moves=3), opdop, practical"
    unusual = [job.key for job in Spec.parse('[[problem]]\nname = "factored"\nstages = [7, 8]\n').jobs()][:2]
    assert len({*unusual, plain.key}) == 3
    assert all(key.startswith("factored-") and key.endswith("-opdop-practical-0") for key in unusual)


def test_keys_stay_what_they_are() -> None:
    job = Job("factored", {"stages": 7}, "oppo", "practical", {"radius_scale": 0.1}, 5)
    assert job.key == "factored-1f5eb0a7-oppo-practical-f5540a4b-5"


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
        assert job_of(job.record()) == job


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
def test_any_data_are_a_spec_or_told_to_be_none(data: dict[str, object]) -> None:
    with contextlib.suppress(InvalidSpecError):
        assert 0 < len(Spec.of(data)) <= MOST_RUNS
