"""The Python functions that kernels are compiled from."""

from __future__ import annotations

from types import FunctionType
from typing import Any


def source_of(function: Any) -> Any:
    """Return the source of a kernel, or a plain function that calls the sources of its kernels."""
    if hasattr(function, "py_func"):
        return function.py_func
    called = {name: function.__globals__.get(name) for name in function.__code__.co_names}
    sources = {name: value.py_func for name, value in called.items() if hasattr(value, "py_func")}
    assert sources, f"{function.__name__} calls no kernel"
    return FunctionType(function.__code__, {**function.__globals__, **sources}, function.__name__)
