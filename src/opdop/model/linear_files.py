"""Linear models as arrays for .npz files: features in the form in which they are used, and weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from opdop.kernels.features import Embedded, Form, Listed, Table
from opdop.model.display import Display
from opdop.model.errors import InvalidModelError
from opdop.model.features import Features
from opdop.model.linear import LinearCMDP
from opdop.model.validation import as_floats, shown

FORMS: dict[str, type[Any]] = {"table": Table, "lists": Listed, "embedding": Embedded}
WEIGHTS = ("kernel_weights", "reward_weights", "utility_weights")
ARRAYS = frozenset({"varphi", *WEIGHTS, *(f"psi_{part}" for form in FORMS.values() for part in form._fields)})
_FIELDS = ("name", "num_states", "num_actions", "kernel_dim", "signal_dim", "kernel_norm", "signal_norm")
_ONE_HOT = "one-hot"
_WHOLE = {"starts": np.dtype(np.int64), "successors": np.dtype(np.int32)}  # the others are floats


def linear_record(cmdp: LinearCMDP) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what the header of a file says of the features, and the arrays of features and weights."""
    features = cmdp.learner_features
    assert features is not None
    form = _ONE_HOT if features.form is None else next(n for n, k in FORMS.items() if isinstance(features.form, k))
    about = {**{name: getattr(features, name) for name in _FIELDS}, "form": form}
    theta = cmdp.kernel_weights
    arrays: dict[str, Any] = {
        "varphi": features.varphi,
        "kernel_weights": theta[0] if len(theta) == 1 else theta,
        "reward_weights": cmdp.signal_weights[:1],
        "utility_weights": cmdp.signal_weights[1:],
    }
    if features.form is not None:
        arrays |= {f"psi_{part}": getattr(features.form, part) for part in features.form._fields}
    return about, arrays


def linear_model(about: Any, arrays: Mapping[str, Any], arguments: Mapping[str, Any], display: Display) -> LinearCMDP:
    """Return the linear model of a header's features, their arrays, and thresholds, initial and horizon.

    Raises InvalidModelError if they do not fit, and KeyError if one is missing.
    """
    if not isinstance(about, Mapping) or set(about) != {*_FIELDS, "form"}:
        raise InvalidModelError(f"features are {shown(about)}; expected {', '.join((*_FIELDS, 'form'))}")
    fields = {name: about[name] for name in _FIELDS}
    varphi = as_floats("varphi", arrays["varphi"], "[d2,A*S]")
    features = Features(**fields, form=_form(about["form"], arrays), varphi=varphi)
    weights = {name: arrays[name] for name in WEIGHTS}
    return LinearCMDP(features, **weights, **arguments, display=display)


def _form(name: Any, arrays: Mapping[str, Any]) -> Form | None:
    """Return psi in its form, with the types that compiled code takes."""
    if name == _ONE_HOT:
        return None
    if not isinstance(name, str) or name not in FORMS:
        raise InvalidModelError(f"the form of psi is {shown(name)}; expected {', '.join((_ONE_HOT, *FORMS))}")
    parts = []
    for part in FORMS[name]._fields:
        array = arrays[f"psi_{part}"]
        if part in _WHOLE and array.dtype != _WHOLE[part]:
            raise InvalidModelError(f"psi_{part} are {array.dtype}; expected {_WHOLE[part]}")
        parts.append(array if part in _WHOLE else as_floats(f"psi_{part}", array, "numbers"))
    form: Form = FORMS[name](*parts)
    return form
