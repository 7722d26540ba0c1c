"""README.md and docs agree with the code; their examples are run as doctests."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import opdop
from opdop.cli.problems import ALGORITHMS_FORMAT, ENVS_FORMAT, problem_record
from opdop.report.summary.run_summary import RUN_FORMAT, RunSummary
from opdop.report.summary.solution import SOLVE_FORMAT, Solution, solution_of
from opdop.report.terminal import tables
from tools import gallery, site_hooks

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = sorted((ROOT / "docs").rglob("*.md"))
RENEW = "renew it with: make gallery"
COURSE_PICTURE = "factored-certified.svg"  # docs/tutorials/course.md has the command that draws it
RUN_PICTURE = "media-streaming-run.svg"  # README.md has the command that draws it
PATH_PICTURE = "media-streaming-path.svg"  # docs/report.md has the commands that draw it
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def solutions() -> list[Solution]:
    return [solution_of(entry.build()) for entry in opdop.environments().values()]


def keys(record: Any) -> Iterator[str]:
    """Return the keys at every depth, but not the names of parameters."""
    for key, value in record.items() if isinstance(record, dict) else ():
        yield key
        for part in value if isinstance(value, list) else [value]:
            if key != "parameters":
                yield from keys(part)


def test_page_of_problems_is_up_to_date(solutions: list[Solution]) -> None:
    assert (ROOT / "docs" / "problems.md").read_text(encoding="utf-8") == gallery.page(solutions), RENEW


def test_table_of_problems_in_the_readme_is_up_to_date(solutions: list[Solution]) -> None:
    assert gallery.with_table(README, solutions) == README, RENEW


def test_every_problem_has_its_pictures(solutions: list[Solution]) -> None:
    expected = {file for each in solutions for file in gallery.pictures(each)}
    drawn = {file.name for file in (ROOT / "docs" / "images").iterdir()}
    assert drawn == expected | {RUN_PICTURE, PATH_PICTURE, COURSE_PICTURE}, RENEW


def test_gallery_writes_page_pictures_and_table(
    tmp_path: Path, solutions: list[Solution], monkeypatch: pytest.MonkeyPatch
) -> None:
    few = {"factored": opdop.environments()["factored"]}
    monkeypatch.setattr(gallery, "environments", lambda: few)
    (tmp_path / "README.md").write_text("<!-- problems -->\nold\n<!-- end of problems -->\n", encoding="utf-8")
    assert gallery.main([str(tmp_path / "docs")]) == 0
    assert "# The problems that ship" in (tmp_path / "docs" / "problems.md").read_text(encoding="utf-8")
    assert (tmp_path / "docs" / "images" / "factored-plane.svg").is_file()
    renewed = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "| `factored` | 3 | 2 | 6 | 2.0000 points | 0.6667 | 3 | yes |" in renewed
    assert gallery.with_table(renewed, solutions[:1]) == renewed
    assert gallery.main([]) == 2


def test_readme_without_marks_is_refused(solutions: list[Solution]) -> None:
    with pytest.raises(opdop.InvalidParameterError, match="no table to renew"):
        gallery.with_table("# other", solutions)


def leads_somewhere(target: Path) -> bool:
    """Whether a file exists, or is a page that the site makes when it is built."""
    return target.exists() or target.resolve() == ROOT / "docs" / site_hooks.CLI_PAGE


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_examples_end_with_an_empty_line(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    targets = [*re.findall(r"\]\(([^)#:]+)\)", text), *re.findall(r'src="([^":]+)"', text)]
    assert [target for target in targets if not leads_somewhere(page.parent / target)] == []
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        assert ">>>" not in block or block.endswith("\n\n"), "a doctest needs an empty line before the closing fence"


def test_readme_names_the_commands_and_opens_with_ten_lines_of_code_and_a_picture() -> None:
    assert all(command in README for command in ("make run", "make test", "opdop envs", "opdop solve", "opdop run"))
    opening = README.split("##")[0]
    assert opening.count("```python") == 1
    assert "<img" in opening
    code = opening.split("```python\n")[1].split("```")[0]
    assert len(code.strip().splitlines()) <= 10


def test_readme_uses_the_words_of_the_field() -> None:
    words = (
        "constraint", "utility", "threshold", "cost", "budget", "multiplier", "Slater gap", "regret", "violation",
        "hard violation", "average policy", "final policy", "failure probability", "guarantee", "check", "vacuous",
    )  # fmt: skip
    assert [word for word in words if word not in README] == []


def test_make_gallery_renews_every_generated_page_and_picture() -> None:
    recipe = MAKEFILE.split("\ngallery:")[1].split("\n\n")[0]
    assert "-m tools.gallery docs" in recipe
    assert f"docs/images/{RUN_PICTURE}" in recipe
    assert f"media-streaming-plane.svg docs/images/{PATH_PICTURE}" in recipe
    course = (ROOT / "docs" / "tutorials" / "course.md").read_text(encoding="utf-8")
    command = f"opdop run factored --preset certified --episodes 2e5 --bound --figure docs/images/{COURSE_PICTURE}"
    assert command in course
    assert command in recipe


def test_functions_named_beside_the_paper_lines_exist() -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "algorithms").glob("*.md"))
    rows = re.findall(r"^\| (?:[\d, ]+|-) \|.*\|(.*)\|$", text, re.MULTILINE)
    named = {name.split(".")[-1] for row in rows for name in re.findall(r"`([A-Za-z_.]+)`", row)}
    source = "\n".join(file.read_text(encoding="utf-8") for file in (ROOT / "src" / "opdop").rglob("*.py"))
    assert len(rows) > 20
    assert {name for name in named if not re.search(rf"^ *(def|class) {name}\b", source, re.MULTILINE)} == set()


def test_readme_explains_every_preset_as_the_command_line_does() -> None:
    assert all(f"| `{name}` |" in README for name in tables.preset_parameters())


def test_picture_of_a_run_is_made_by_the_command_in_the_readme() -> None:
    assert f"--figure docs/images/{RUN_PICTURE}" in README
    drawn = (ROOT / "docs" / "images" / RUN_PICTURE).read_text(encoding="utf-8")
    assert "<!-- media-streaming: replan, preset practical, 200,000 episodes, seed 0 -->" in drawn
    assert MAKEFILE.count("opdop run media-streaming --episodes 2e5 --figure") == 2  # make run, make gallery


def test_picture_of_the_path_is_made_by_the_commands_in_the_docs() -> None:
    text = (ROOT / "docs" / "report.md").read_text(encoding="utf-8")
    assert f"media-streaming-plane.svg docs/images/{PATH_PICTURE}" in text
    file = ROOT / "docs" / "images" / PATH_PICTURE
    assert "<!-- Path to the optimum -->" in file.read_text(encoding="utf-8")
    assert file.stat().st_size < 300_000


def test_every_key_of_a_runs_json_is_explained() -> None:
    text = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    explained = set(re.findall(r"`([A-Za-z0-9_]+)`", text))
    for preset, parameters in tables.preset_parameters().items():
        run = opdop.train("queue", "doubling:opdop", episodes=20, preset=preset)
        record = RunSummary(run).record()
        assert {*keys(record), *parameters} - {"rule", "scale"} - explained == set()
    assert RUN_FORMAT in text
    assert ALGORITHMS_FORMAT in text


def test_every_key_of_the_json_is_explained(solutions: list[Solution]) -> None:
    text = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    explained = set(re.findall(r"`([a-z_]+)`", text))
    record = problem_record(solutions[0])
    found = {*keys(record), *next(iter(record["parameters"].values()))}
    assert found - explained == set()
    assert SOLVE_FORMAT in text
    assert ENVS_FORMAT in text
