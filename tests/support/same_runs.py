"""Comparisons of runs, to the last bit."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import polars as pl

from opdop import Observations, PolicyMixture, Run, TabularPolicy, Values
from opdop.confidence import Regressions
from opdop.planning import Optimum


def columns_of(table: pl.DataFrame) -> dict[str, Any]:
    """Return the columns of a history, as a run keeps them."""
    return {column.name: column.to_numpy() for column in table}


def bits(array: Any) -> tuple[Any, ...]:
    """Return everything that tells an array from another: NaN equals NaN, and 0 is not -0."""
    array = np.asarray(array)
    return array.dtype.str, array.shape, array.tobytes()


def assert_same(one: Run, two: Run) -> None:
    """Assert that two runs are the same in every bit, but for the time they took."""
    assert one.history.columns == two.history.columns
    for name in one.history.columns:
        assert bits(one.history[name].to_numpy()) == bits(two.history[name].to_numpy()), name
    assert bits(one.policy.table) == bits(two.policy.table)
    assert isinstance(one.mixture, TabularPolicy)
    assert isinstance(two.mixture, TabularPolicy)
    assert bits(one.mixture.table) == bits(two.mixture.table)
    assert one.last is not None
    assert two.last is not None
    assert bits(one.last.totals) == bits(two.last.totals)
    assert bits(one.average.totals) == bits(two.average.totals)
    assert one.constants == two.constants
    assert one.snapshot is not None
    assert two.snapshot is not None
    (meta, arrays), (other_meta, other_arrays) = one.snapshot, two.snapshot
    timeless = {"seconds", "episodes"}  # the second says what was asked for, not what was done
    assert {k: v for k, v in meta.items() if k not in timeless} == {
        k: v for k, v in other_meta.items() if k not in timeless
    }
    assert arrays.keys() == other_arrays.keys()
    for name in arrays:
        assert bits(arrays[name]) == bits(other_arrays[name]), name


def same(one: Any, two: Any) -> bool:
    """Whether two values of a run are the same, to the last bit."""
    if isinstance(one, pl.DataFrame):
        columns = zip(one, two, strict=True)
        return one.schema == two.schema and all(same(a.to_numpy(), b.to_numpy()) for a, b in columns)
    if isinstance(one, np.ndarray):
        return bool(one.dtype == two.dtype and one.shape == two.shape and one.tobytes() == two.tobytes())
    if isinstance(one, (TabularPolicy, PolicyMixture, Values, Optimum, Observations, Regressions)):
        return type(one) is type(two) and all(same(getattr(one, f.name), getattr(two, f.name)) for f in fields(one))
    if isinstance(one, dict) and any(isinstance(each, np.ndarray) for each in one.values()):
        return list(one) == list(two) and all(same(each, two[name]) for name, each in one.items())
    if isinstance(one, tuple) and one and isinstance(one[0], TabularPolicy):
        return len(one) == len(two) and all(map(same, one, two))
    return type(one) is type(two) and bool(one == two)


def assert_same_run(one: Run, two: Run) -> None:
    """Assert that two runs have the same fields; what training on needs is not compared."""
    for field in fields(Run):
        if field.name not in ("snapshot", "simulator"):
            assert same(getattr(one, field.name), getattr(two, field.name)), field.name
