"""Packages that import their names when these are first used (PEP 562), so that importing the package is quick."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import sys
from collections.abc import Callable
from typing import Any


def late_names(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the functions `__getattr__` and `__dir__` for a package whose imports stand under `if TYPE_CHECKING:`.

    Type checkers and editors see these imports; at run time each is made when its name is first used. They are read
    from the source of the package, so that no name has to be listed a second time. Modules of the package are imported
    in the same way.

    Args:
        package: the full name of the package: `__name__` in its `__init__.py`.

    >>> get, names = late_names("opdop.model")
    >>> get("Quantity").__module__, "Quantity" in names()
    ('opdop.model.display', True)
    """
    this = sys.modules[package]
    places: dict[str, tuple[str, str]] = {}
    for block in ast.parse(this.__loader__.get_source(package)).body:  # type: ignore[union-attr]
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING":
            for line in block.body:
                if isinstance(line, ast.ImportFrom) and line.module not in (None, package):  # these are its modules
                    places |= {alias.asname or alias.name: (str(line.module), alias.name) for alias in line.names}

    def get(name: str) -> Any:
        if name not in places:
            if name.startswith("_") or importlib.util.find_spec(f"{package}.{name}") is None:
                raise AttributeError(f"module {package!r} has no attribute {name!r}")
            return importlib.import_module(f"{package}.{name}")  # opdop.report can be called too
        module, original = places[name]
        value = getattr(importlib.import_module(module), original)
        value = sys.modules.get(f"{package}.{name}", value)  # a module keeps its name: opdop.algorithms can be called
        setattr(this, name, value)
        return value

    return get, lambda: sorted({*vars(this), *places})
