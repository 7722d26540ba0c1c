"""Hooks of the documentation's site: the page of the command line, folders in the navigation, and Python sessions.

MkDocs calls the functions whose names begin with `on_`; `mkdocs.yml` names this file.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

from tools import cli_reference
from tools.formulas import formulas_as_text

CLI_PAGE = "reference/cli.md"
_SESSION = re.compile(r"^```python\n(?=>>> )", re.MULTILINE)
_TITLE = re.compile(r"^# (.+)$", re.MULTILINE)


def on_config(config: Any) -> Any:
    """Replace each `folder/*` of the navigation by the pages of that folder, and return the configuration."""
    docs = Path(config["docs_dir"])
    config["nav"] = expanded(config["nav"], docs, named(config["nav"]))
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the page of the command line, made from the help of the commands, and return the files of the site."""
    files.append(File.generated(config, CLI_PAGE, content=cli_reference.page()))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return the text of a page with its doctests marked as Python sessions, and its formulas as text.

    Marked sessions have coloured prompts. Python-Markdown takes `<rho, V>` for a tag of HTML and the stars of
    `V(pi*) = D(Y*)` for emphasis, where GitHub shows both as they are.
    """
    lines, fenced = [], False
    for line in _SESSION.sub("```pycon\n", markdown).split("\n"):
        fenced ^= line.lstrip().startswith("```")
        lines.append(line if fenced or line.startswith("    ") else formulas_as_text(line))
    return "\n".join(lines)


def named(nav: Any) -> set[str]:
    """Return the pages and patterns that a navigation names."""
    if isinstance(nav, str):
        return {nav}
    parts = nav.values() if isinstance(nav, dict) else nav
    return set().union(*(named(part) for part in parts))


def expanded(nav: Any, docs: Path, already: set[str]) -> Any:
    """Return a navigation with the pages of each `folder/*` that are not `already` named, in the order of titles."""
    if isinstance(nav, str):
        return nav
    if isinstance(nav, dict):
        return {title: expanded(part, docs, already) for title, part in nav.items()}
    found: list[Any] = []
    for part in nav:
        if isinstance(part, str) and part.endswith("/*"):
            folder = docs / part.removesuffix("/*")
            pages = [page for page in folder.glob("*.md") if page.relative_to(docs).as_posix() not in already]
            found += [page.relative_to(docs).as_posix() for page in sorted(pages, key=_order)]
        else:
            found.append(expanded(part, docs, already))
    return found


def title(page: Path) -> str:
    """Return the first heading of a page; its file's name if it has none."""
    heading = _TITLE.search(page.read_text(encoding="utf-8"))
    return heading[1] if heading else page.stem


def _order(page: Path) -> tuple[str, str]:
    return title(page).replace("`", "").casefold(), page.name
