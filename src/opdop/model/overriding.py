"""Whether an object still has the methods that its class was written with."""

from __future__ import annotations

import inspect
from collections.abc import Mapping


def originals(owner: type, *names: str) -> Mapping[str, object]:
    """Return some methods and properties of a class, to be compared later with those of an object."""
    return {name: inspect.getattr_static(owner, name) for name in names}


def has_originals(instance: object, methods: Mapping[str, object]) -> bool:
    """Return whether an object has these methods: no subclass overrides them, and nobody replaced them later.

    A compiled loop may only replace methods that are the original ones.
    """
    return all(inspect.getattr_static(instance, name) is method for name, method in methods.items())
