"""Public functions document what they take, return and raise."""

import ast
import dataclasses
import importlib
import inspect
import pkgutil
import re
import textwrap
from collections.abc import Callable
from typing import Any

import pytest

import opdop
from opdop.model import validation

# A docstring may refer to that of another function: "see `OPDOP.run_compiled` for the arguments".
ELSEWHERE = re.compile(r"(see `[\w.]+` for|the (other )?arguments( and the| and) errors are those of) ?", re.IGNORECASE)
RETURNS = re.compile(r"\b(returns?|yields?)\b", re.IGNORECASE)
RAISES = re.compile(r"\braises?\b|\band errors\b", re.IGNORECASE)
CHECKS = {name for name in vars(validation) if name.startswith(("as_", "check"))}  # they raise what is wrong


def public_objects() -> dict[str, Any]:
    """Return the functions and classes that packages list in `__all__`, by their full names."""
    below = pkgutil.walk_packages(opdop.__path__, "opdop.")
    packages = ["opdop", *(module.name for module in below if module.ispkg)]
    found: dict[Any, str] = {}
    for package in packages:
        module = importlib.import_module(package)
        for name in getattr(module, "__all__", []):
            value = getattr(module, name)
            if (inspect.isfunction(value) or inspect.isclass(value)) and value.__module__.startswith("opdop"):
                found.setdefault(value, f"{package}.{name}")
    return {name: value for value, name in found.items()}


def public_functions() -> dict[str, tuple[Callable[..., Any], str]]:
    """Return public functions, methods, and constructors other than those of dataclasses, with their docstrings."""
    found: dict[str, tuple[Callable[..., Any], str]] = {}
    for name, value in public_objects().items():
        if inspect.isfunction(value):
            found[name] = value, value.__doc__ or ""
            continue
        members = {key: getattr(member, "__func__", member) for key, member in vars(value).items()}
        if inspect.isfunction(start := members.get("__init__")) and not (
            dataclasses.is_dataclass(value) or getattr(value, "_is_protocol", False)
        ):
            found[name] = start, (value.__doc__ or "") + (start.__doc__ or "")
        for key, member in members.items():
            if not key.startswith("_") and inspect.isfunction(member):
                found[f"{name}.{key}"] = member, member.__doc__ or ""
    return found


def missing(function: Callable[..., Any], text: str) -> list[str]:
    """Return what the docstring of a function leaves out."""
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(node, ast.FunctionDef)
    left_out = []
    if not ELSEWHERE.search(text):
        names = [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]
        left_out += [f"argument {name}" for name in names if not re.search(rf"\b{name}\b", text)]
    returned = ast.unparse(node.returns) if node.returns else "None"
    if returned != "None" and not RETURNS.search(text):
        left_out.append("what it returns")
    if _raises(node) and not RAISES.search(text):
        left_out.append("what it raises")
    return left_out


def _raises(function: ast.FunctionDef) -> bool:
    """Whether a function has a `raise` of its own, or calls a function that checks an argument."""
    return any(
        isinstance(node, ast.Raise) or (isinstance(node, ast.Call) and getattr(node.func, "id", "") in CHECKS)
        for node in ast.walk(function)
    )


def test_public_functions_document_arguments_returns_and_errors() -> None:
    functions = public_functions()
    left_out = {name: found for name, (function, text) in functions.items() if (found := missing(function, text))}
    assert len(functions) > 150
    assert left_out == {}


def test_public_classes_have_docstrings() -> None:
    classes = {name: value for name, value in public_objects().items() if inspect.isclass(value)}
    assert len(classes) > 50
    assert [name for name, value in classes.items() if not (vars(value).get("__doc__") or "").strip()] == []


@pytest.mark.parametrize(
    ("text", "left_out"),
    [
        ("Return the list of names.", ["argument limit", "what it raises"]),
        ("Print names up to a limit.", ["what it returns", "what it raises"]),
        ("Return names up to a limit; raises ValueError if it is negative.", []),
        ("Return names; see `sorted` for the arguments and errors.", []),
    ],
)
def test_missing_parts_of_a_docstring_are_found(text: str, left_out: list[str]) -> None:
    def example(names: list[str], limit: int) -> list[str]:
        if limit < 0:
            raise ValueError
        return names[:limit]

    assert missing(example, text) == left_out
