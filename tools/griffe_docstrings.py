"""Show docstrings in the reference as they are written: examples as sessions, comments of fields as their meaning.

Griffe, which reads the source for mkdocstrings, loads this extension; `mkdocs.yml` names this file.
"""

from __future__ import annotations

import ast
import re
from typing import Any

import griffe

from tools.formulas import formulas_as_text

_COMMENT = re.compile(r"#\s(.+)$")


def with_fences(text: str) -> str:
    """Return a docstring in which each run of doctests, with its outputs, is a fenced block; formulas are escaped.

    >>> print(with_fences("Add.\\n\\n>>> 1 + 1\\n2\\n\\nMore."))
    Add.
    <BLANKLINE>
    ```pycon
    >>> 1 + 1
    2
    ```
    <BLANKLINE>
    More.
    """
    lines: list[str] = []
    inside = False
    for line in text.splitlines():
        if not inside and line.lstrip().startswith(">>> "):
            indent = line[: len(line) - len(line.lstrip())]
            lines += [f"{indent}```pycon"]
            inside = True
        elif inside and not line.strip():
            lines.append(f"{indent}```")
            inside = False
        lines.append(line if inside else formulas_as_text(line))
    return "\n".join([*lines, f"{indent}```"] if inside else lines)


class Docstrings(griffe.Extension):
    """Rewrites docstrings after they were read."""

    def on_instance(self, *, obj: Any, **_: Any) -> None:
        """Fence the examples of a docstring."""
        if obj.docstring is not None:
            obj.docstring.value = with_fences(obj.docstring.value)

    def on_attribute_instance(self, *, node: Any, attr: Any, **_: Any) -> None:
        """Use the comment behind a field as its docstring."""
        if attr.docstring is not None or not isinstance(node, ast.AnnAssign) or attr.name.startswith("_"):
            return
        line = attr.lines_collection[attr.filepath][node.end_lineno - 1]
        if comment := _COMMENT.search(line[node.end_col_offset or 0 :]):
            words = comment[1]
            attr.docstring = griffe.Docstring(formulas_as_text(words[0].upper() + words[1:]), parent=attr)
