"""The documentation's site: it builds without warnings and without the network, and leaves out no public name."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import opdop
from opdop.cli.application import COMMANDS
from tools import cli_reference, site_hooks
from tools.formulas import formulas_as_text

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
NAMES = DOCS / "reference" / "api"
DIRECTIVE = re.compile(r"^::: opdop\.(?:[a-z_.]+\.)?(\w+)$", re.MULTILINE)
LOADED = re.compile(r"""<(?:script|img|link|iframe|source)\b[^>]*(?:src|href)=["']?((?:https?:)?//[^"'\s>]+)""")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site as `make docs` does; any warning of MkDocs is an error: dead links, pages outside the menu."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_site_builds_without_warnings_and_has_every_page(site: Path) -> None:
    pages = [page.relative_to(DOCS).with_suffix(".html") for page in DOCS.rglob("*.md")]
    assert len(pages) > 80
    assert [str(page) for page in pages if not (site / page).is_file()] == []


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    assert LOADED.findall('<script src="https://example.org/x.js"></script>') == ["https://example.org/x.js"]
    loaded = {url for page in site.rglob("*.html") for url in LOADED.findall(page.read_text(encoding="utf-8"))}
    assert loaded == set()
    assert "@import" not in (site / "site.css").read_text(encoding="utf-8")


def test_search_works_without_a_server(site: Path) -> None:
    index = (site / "search" / "search_index.js").read_text(encoding="utf-8")
    assert index.startswith("var __index = ")
    assert "hard violation" in index
    assert '<script src="../iframe-worker.js">' in (site / "howto" / "resume.html").read_text(encoding="utf-8")


def test_make_docs_builds_the_site_strictly() -> None:
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").split("\ndocs:")[1].split("\n\n")[0]
    assert "mkdocs build --strict" in recipe
    assert "docs-site: docs" in (ROOT / "Makefile").read_text(encoding="utf-8")


def test_every_public_name_has_one_page_with_an_example() -> None:
    """Pages are doctested like all of docs, so the examples are run."""
    found: dict[str, list[str]] = {}
    for page in NAMES.glob("*.md"):
        text = page.read_text(encoding="utf-8")
        for name in DIRECTIVE.findall(text):
            found.setdefault(name, []).append(page.name)
            lines = [line for line in text.splitlines() if line.startswith((">>> ", "... "))]
            assert any(re.search(rf"\b{name}\b", line) for line in lines), page.name
            assert text.startswith(f"# {name}\n"), page.name
    assert {name: pages for name, pages in found.items() if len(pages) > 1} == {}
    assert set(found) == set(opdop.__all__), "write docs/reference/api/NAME.md, and link it in index.md"


def test_overview_of_the_reference_links_every_name() -> None:
    linked = set(re.findall(r"\[(\w+)\]\(", (NAMES / "index.md").read_text(encoding="utf-8")))
    assert set(opdop.__all__) - linked == set()


def test_reference_shows_signatures_and_examples(site: Path) -> None:
    text = (site / "reference" / "api" / "train.html").read_text(encoding="utf-8")
    assert 'id="opdop.train"' in text
    assert all(name in text for name in ("planned_episodes", "failure_probability", "checkpoint_seconds"))
    run = (site / "reference" / "api" / "Run.html").read_text(encoding="utf-8")
    assert "None where the model is not known" in run  # the comment behind a field
    assert 'id="opdop.Run.certificate"' in run


def test_every_algorithm_has_a_page() -> None:
    pages = {page.stem for page in (DOCS / "algorithms").glob("*.md")}
    assert {*opdop.algorithms(), "doubling"} - pages == set(), "write docs/algorithms/NAME.md"


def test_every_command_is_in_the_reference(site: Path) -> None:
    text = cli_reference.page()
    built = (site / "reference" / "cli.html").read_text(encoding="utf-8")
    for name in COMMANDS:
        assert f"## opdop {name}\n" in text
        assert f'id="opdop-{name}"' in built
    options = re.findall(r"^  (?:-\w, )?(--[a-z-]+)", cli_reference.help_of("run"), re.MULTILINE)
    assert {"--episodes", "--seed", "--resume"} <= set(options)


def test_glossary_has_the_words_of_the_field() -> None:
    text = (DOCS / "glossary.md").read_text(encoding="utf-8")
    entries = " ".join(line.split("|")[1] for line in text.splitlines() if line.startswith("| "))
    words = (
        "constraint", "cost", "budget", "utility", "threshold", "multiplier", "Slater gap", "violation",
        "hard violation", "average policy", "final policy", "recommended policy", "certificate", "guarantee",
        "check", "vacuous", "parameter", "failure probability", "regret", "preset", "task",
    )  # fmt: skip
    assert [word for word in words if word not in entries] == []


def test_pages_of_a_folder_are_listed_by_title(tmp_path: Path) -> None:
    (tmp_path / "howto").mkdir()
    for name, title in (("b", "Apples"), ("a", "Pears"), ("index", "All")):
        (tmp_path / "howto" / f"{name}.md").write_text(f"# {title}\n", encoding="utf-8")
    nav = [{"How to": ["howto/index.md", "howto/*"]}]
    expected = [{"How to": ["howto/index.md", "howto/b.md", "howto/a.md"]}]
    assert site_hooks.expanded(nav, tmp_path, site_hooks.named(nav)) == expected


def test_examples_of_pages_are_shown_as_sessions() -> None:
    assert site_hooks.on_page_markdown("```python\n>>> 1\n1\n```") == "```pycon\n>>> 1\n1\n```"
    assert site_hooks.on_page_markdown("```python\nx = 1\n```") == "```python\nx = 1\n```"


def test_formulas_are_shown_as_text(site: Path) -> None:
    shown = site_hooks.on_page_markdown("V(pi*) = D(Y*), <rho, V>, *all*, `<Q, pi>`, <img src='x'>\n    <Q, pi>")
    assert shown == "V(pi\\*) = D(Y\\*), &lt;rho, V>, *all*, `<Q, pi>`, <img src='x'>\n    <Q, pi>"
    page = (site / "algorithms" / "opdop.html").read_text(encoding="utf-8")
    assert "eta (b_i - &lt;rho, V_gi&gt;)" in page
    assert formulas_as_text("S*A rows, V*_b") == "S\\*A rows, V\\*\\_b"
    assert "[S*A, S]" in (site / "models.html").read_text(encoding="utf-8")
    assert "scipy.sparse [S*A, S]" in (site / "reference/api/TabularCMDP.html").read_text(encoding="utf-8")
    assert not [page for page in site.rglob("*.html") if "<blockquote" in page.read_text(encoding="utf-8")]
