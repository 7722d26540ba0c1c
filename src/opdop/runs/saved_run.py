"""A run as its file keeps it: what is written of a run, and how it is read back and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from opdop.algorithms.saved_state import fitting, prefixed, under
from opdop.confidence import Evaluation
from opdop.confidence.data import Data, data_of_arrays
from opdop.model import Display, Geometry, OpdopError, PolicyMixture, Quantity, Space, TabularPolicy
from opdop.model.validation import Floats
from opdop.planning import Optimum, Values
from opdop.runs import trail
from opdop.runs.config import RunConfig
from opdop.runs.files import Arrays, plain
from opdop.runs.recorder import columns, hard_columns

if TYPE_CHECKING:
    from opdop.runs.run import Run

KIND = "an opdop run of format 2"
_OF_HISTORY = "history."
_OF_DATA = "observed."
_OF_CERTIFICATES = "certificates."


def meta_of(run: Run) -> dict[str, Any]:
    """Return everything about a run that is no array, as its file keeps it."""
    return {
        "kind": KIND,
        "config": run.config.record(),
        "origin": plain(run.origin),
        "constants": plain(run.constants),
        "display": _display_data(run.display),
        "seconds": run.seconds,
        "space": None if run.policy.space is None else run.policy.space.record(),
        "optimum": None if run.optimum is None else {"method": run.optimum.method, "passes": run.optimum.passes},
        **({} if run.evaluation is None else {"evaluation": run.evaluation.record()}),
    }


def arrays_of(run: Run) -> Arrays:
    """Return the arrays of a run, as its file keeps them."""
    arrays: Arrays = {
        "policy": run.policy.table,
        "average": run.average.totals,
        "thresholds": run.thresholds,
        **prefixed(_OF_HISTORY, run.columns),
    }
    if isinstance(run.mixture, PolicyMixture):
        arrays["mixture_parts"] = np.array([part.table for part in run.mixture.parts])
        arrays["mixture_weights"] = run.mixture.weights
    else:
        arrays["mixture"] = run.mixture.table
    if run.last is not None:
        arrays["last"] = run.last.totals
    if run.observations is not None:
        arrays |= prefixed(_OF_DATA, run.observations.arrays())
    if run.trail is not None:
        arrays |= prefixed(_OF_CERTIFICATES, run.trail)
    if run.optimum is not None:
        best = run.optimum
        arrays |= {
            "optimum_totals": np.concatenate([[best.value], best.utility_values]),
            "optimum_dual": best.dual,
            "optimum_active": best.active,
            "optimum_gap": np.array(best.slater_gap),
            "optimum_policy": best.policy.table,
            "optimum_unconstrained": best.unconstrained.totals,
            "optimum_slater": best.slater.totals,
        }
    return arrays


def fields_of(meta: Mapping[str, Any], arrays: Arrays) -> dict[str, Any]:
    """Return the fields of a run that was saved; raises any error if they are not those of a run."""
    space = None if meta["space"] is None else Space.of(meta["space"])
    policy = _policy_of(arrays["policy"]).with_space(space)
    thresholds = arrays["thresholds"]
    I = fitting(arrays, "thresholds", np.empty(thresholds.size)).size
    mixture: TabularPolicy | PolicyMixture
    if "mixture" in arrays:
        mixture = _policy_of(fitting(arrays, "mixture", policy.table)).with_space(space)
    else:
        parts = fitting(arrays, "mixture_parts", np.empty((len(arrays["mixture_parts"]), *policy.table.shape)))
        mixture = PolicyMixture([_policy_of(part).with_space(space) for part in parts], arrays["mixture_weights"])
    display = _display_of(meta["display"])
    optimum = None if meta["optimum"] is None else _optimum_of(meta["optimum"], arrays, policy, display, I)
    for name in ("origin", "constants"):
        _check(isinstance(meta[name], dict), name)
    return {
        "columns": _history_of(arrays, I, known=optimum is not None),
        "policy": policy,
        "mixture": mixture,
        "optimum": optimum,
        "last": _values_of(arrays, "last", I, display) if "last" in arrays else None,
        "average": _values_of(arrays, "average", I, display),
        "thresholds": thresholds,
        "display": display,
        "config": RunConfig.of(meta["config"]),
        "origin": meta["origin"],
        "constants": meta["constants"],
        "seconds": _number(meta["seconds"]),
        "observations": _observations_of(arrays, policy, I),
        "trail": _certificates_of(arrays, I),
        "evaluation": _evaluation_of(meta.get("evaluation"), thresholds, display, policy.table.shape[0]),
    }


def _evaluation_of(data: Any, thresholds: Floats, display: Display, horizon: int) -> Evaluation | None:
    if data is None:  # not asked for, or the run was saved by an earlier version
        return None
    means, lower, upper = (np.array([_number(each) for each in data[key]]) for key in ("mean", "lower", "upper"))
    _check(means.shape == lower.shape == upper.shape == (1 + thresholds.size,), "evaluation")
    return Evaluation(
        name=_text(data["policy"]),
        episodes=_whole(data["episodes"]),
        means=means,
        lower=lower,
        upper=upper,
        thresholds=thresholds,
        failure_probability=_number(data["failure_probability"]),
        display=display,
        horizon=horizon,
    )


def _certificates_of(arrays: Arrays, constraints: int) -> Arrays | None:
    found = under(arrays, _OF_CERTIFICATES)
    if not found:
        return None
    names = trail.columns(constraints)
    _check(list(found) == names and len({column.shape for column in found.values()}) == 1, "list of certificates")
    kinds = {"episode": np.int64, "keeps_constraints": np.bool_}
    _check(all(column.dtype == kinds.get(name, np.float64) for name, column in found.items()), "list of certificates")
    _check(found["episode"].ndim == 1 and bool((np.diff(found["episode"]) > 0).all()), "list of certificates")
    return found


def _observations_of(arrays: Arrays, policy: TabularPolicy, constraints: int) -> Data | None:
    found = under(arrays, _OF_DATA)
    if not found:  # the learner kept none, or the run was saved by an earlier version
        return None
    data = data_of_arrays(found)
    sizes = data.horizon, data.num_states, data.num_actions, data.num_constraints
    _check(sizes == (*policy.table.shape, constraints), "observations")
    return data


def _check(fine: bool, what: str) -> None:
    if not fine:
        raise OpdopError(f"its {what} is wrong.")


def _number(value: Any) -> float:
    _check(isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < np.inf, "number")
    return float(value)


def _text(value: Any) -> str:
    _check(isinstance(value, str), "text")
    return str(value)


def _whole(value: Any) -> int:
    _check(isinstance(value, int) and not isinstance(value, bool), "whole number")
    return int(value)


def _policy_of(table: NDArray[Any]) -> TabularPolicy:
    """Return a policy with exactly these bits; raises an error if they are not probabilities."""
    _check(table.dtype == np.float64, "policy")
    TabularPolicy(table)
    return TabularPolicy.trusted(table)


def _values_of(arrays: Arrays, name: str, constraints: int, display: Display) -> Values:
    totals = arrays[name]
    _check(totals.dtype == np.float64 and totals.shape == (1 + constraints,), name)
    return Values.of(totals, display.quantities)


def _history_of(arrays: Arrays, constraints: int, *, known: bool) -> Arrays:
    found = under(arrays, _OF_HISTORY)
    later = [] if found.keys() & {*hard_columns(constraints)} else hard_columns(constraints)  # an earlier version's run
    episode, *others = (found[name] for name in columns(constraints, known=known) if name not in later)
    _check(episode.dtype == np.int64 and all(column.dtype == np.float64 for column in others), "history")
    _check(episode.ndim == 1 and all(column.shape == episode.shape for column in found.values()), "history")
    _check(episode.size > 0 and episode[0] > 0 and bool((np.diff(episode) > 0).all()), "list of episodes")
    return found


def _optimum_of(
    meta: Mapping[str, Any], arrays: Arrays, policy: TabularPolicy, display: Display, constraints: int
) -> Optimum:
    best = _values_of(arrays, "optimum_totals", constraints, display)
    return Optimum(
        value=best.reward,
        utility_values=best.utilities,
        dual=fitting(arrays, "optimum_dual", np.empty(constraints)),
        slater_gap=float(fitting(arrays, "optimum_gap", np.array(0.0))),
        active=fitting(arrays, "optimum_active", np.empty(constraints, dtype=np.bool_)),
        policy=_policy_of(fitting(arrays, "optimum_policy", policy.table)),
        unconstrained=_values_of(arrays, "optimum_unconstrained", constraints, display),
        slater=_values_of(arrays, "optimum_slater", constraints, display),
        method=_text(meta["method"]),
        passes=_whole(meta["passes"]),
        quantities=display.quantities if len(display.quantities) == 1 + constraints else (),
        thresholds=arrays["thresholds"],
    )


def _display_data(display: Display) -> dict[str, Any]:
    place = display.geometry
    return {
        "name": display.name,
        "summary": display.summary,
        "quantities": [asdict(quantity) for quantity in display.quantities],
        "state_names": display.state_names,
        "action_names": display.action_names,
        "geometry": None if place is None else {**vars(place), "marks": list(place.marks.items())},
        "parameters": plain(display.parameters),
    }


def _display_of(data: Mapping[str, Any]) -> Display:
    return Display(
        name=_text(data["name"]),
        summary=_text(data["summary"]),
        quantities=tuple(
            Quantity(_text(each["name"]), _text(each["unit"]), _number(each["scale"]), _number(each["offset"]))
            for each in data["quantities"]
        ),
        state_names=tuple(_text(name) for name in data["state_names"]),
        action_names=tuple(_text(name) for name in data["action_names"]),
        geometry=None if data["geometry"] is None else _geometry_of(data["geometry"]),
        parameters={
            name: tuple(value) if isinstance(value, list) else value for name, value in dict(data["parameters"]).items()
        },
    )


def _geometry_of(data: Mapping[str, Any]) -> Geometry:
    return Geometry(
        cells=tuple(None if cell is None else _pair(cell) for cell in data["cells"]),
        marks={_whole(state): _text(mark) for state, mark in data["marks"]},
        walls=tuple(_pair(cell) for cell in data["walls"]),
        arrows=tuple(_pair(step) for step in data["arrows"]),
        row_label=_text(data["row_label"]),
        column_label=_text(data["column_label"]),
    )


def _pair(values: Any) -> tuple[int, int]:
    row, column = values
    return _whole(row), _whole(column)
