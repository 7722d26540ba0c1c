"""What least-squares learners know about a linear kernel: the regressions of each stage, and their features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opdop.confidence.first_state import add_visits, as_first_visits
from opdop.confidence.row_lists import scalar
from opdop.kernels.features import Embedded, Form, Listed, Table
from opdop.model import Features, InvalidModelError
from opdop.model.validation import Floats, as_flag, as_floats, as_number, as_size, check_distributions

_FORMS: tuple[type | None, ...] = (None, Table, Listed, Embedded)
_OF_FORM = "form."


@dataclass(frozen=True, eq=False, kw_only=True)
class Regressions:
    """Gram matrices and targets of a linear kernel with d weights at each stage, and of the signals with d2 weights.

    Each of the J = 1 + I signals has its own regression for the kernel, since each has its own value functions; all are
    about the same weights. With one-hot features there is one of S weights for each pair a*S + x.

    Attributes:
        features: psi and varphi, and bounds on the norms of the weights.
        horizon: H.
        thresholds: of the utilities, [I].
        initial: the distribution of the first state, [S].
        noisy: whether signals are random.
        ridge: of all regressions.
        gram: [J, H, d, d]; one-hot [J, H, A*S, S, S].
        target: sums of phi^tau V^tau(next), [J, H, d]; one-hot [J, H, A*S, S].
        signal_gram: [H, d2, d2]; one-hot: numbers of visits [H, A*S].
        signal_target: [J, H, d2]; one-hot: sums of the signals [J, H, A*S].
        first_visits: how often each state was observed as a first state, [S], if `initial` is not known; None if it is.

    Raises InvalidModelError if the arrays do not fit each other.
    """

    features: Features
    horizon: int
    thresholds: Floats
    initial: Floats
    ridge: float
    gram: Floats
    target: Floats
    signal_gram: Floats
    signal_target: Floats
    noisy: bool = False
    first_visits: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "horizon", as_size("horizon", self.horizon))
        object.__setattr__(self, "noisy", as_flag("noisy", self.noisy))
        ridge = as_number("ridge", self.ridge, "a positive number", error=InvalidModelError)
        object.__setattr__(self, "ridge", ridge)
        for name in ("thresholds", "initial", "gram", "target", "signal_gram", "signal_target"):
            array = as_floats(name, getattr(self, name), "the arrays of regressions")
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        features, H, J = self.features, self.horizon, 1 + self.thresholds.size
        S, P = features.num_states, features.num_states * features.num_actions
        lead, d = ((J, H, P), S) if features.form is None else ((J, H), features.kernel_dim)
        d2 = features.signal_dim
        shapes = {
            "thresholds": (J - 1,),
            "initial": (S,),
            "gram": (*lead, d, d),
            "target": (*lead, d),
            "signal_gram": (H, P) if features.form is None else (H, d2, d2),
            "signal_target": (J, H, P) if features.form is None else (J, H, d2),
        }
        for name, shape in shapes.items():
            if getattr(self, name).shape != shape:
                found = list(getattr(self, name).shape)
                raise InvalidModelError(f"{name} of the regressions has shape {found}; expected {list(shape)}.")
        check_distributions("initial", np.array(self.initial))
        object.__setattr__(self, "first_visits", as_first_visits(self.first_visits, S))
        if not ridge > 0.0:
            raise InvalidModelError(f"ridge is {ridge:g}; expected a positive number.")

    @property
    def num_constraints(self) -> int:
        """I, the number of constraints."""
        return len(self.thresholds)

    @property
    def num_states(self) -> int:
        """S."""
        return self.features.num_states

    @property
    def num_actions(self) -> int:
        """A."""
        return self.features.num_actions

    def with_thresholds(self, thresholds: Any) -> Regressions:
        """Return the same data with other thresholds, [I] or one number.

        Raises InvalidModelError if they are not numbers.
        """
        bounds = np.broadcast_to(as_floats("thresholds", thresholds, "[I]"), self.thresholds.shape)
        return replace(self, thresholds=bounds)

    def as_declared(self, stationary: bool | None = None) -> Regressions:
        """Return the data as they are: the regressions of different stages are never pooled.

        Raises InvalidModelError if `stationary` is True.
        """
        if stationary:
            raise InvalidModelError("the regressions of a linear kernel are not pooled over stages.")
        return self

    def merged(self, other: Regressions) -> Regressions:
        """Return the regressions on these data and the `other`; raises InvalidModelError if they do not fit."""
        mine, theirs = self.arrays(), other.arrays()
        changing = {"gram", "target", "signal_gram", "signal_target", "first_visits"}
        if mine.keys() != theirs.keys() or any(
            not np.array_equal(mine[name], theirs[name]) for name in mine.keys() - changing
        ):
            raise InvalidModelError("the two data sets do not fit together: their features or sizes differ.")
        start = self.ridge * np.eye(self.gram.shape[-1])
        signal_start = 0.0 if self.features.form is None else self.ridge * np.eye(self.signal_gram.shape[-1])
        return replace(
            self,
            gram=self.gram + other.gram - start,
            target=self.target + other.target,
            signal_gram=self.signal_gram + other.signal_gram - signal_start,
            signal_target=self.signal_target + other.signal_target,
            first_visits=add_visits(self.first_visits, other.first_visits),
        )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the data as named arrays, for a file; `from_arrays` is the way back."""
        features, form = self.features, self.features.form
        sizes = [features.num_states, features.num_actions, features.kernel_dim, features.signal_dim]
        return {
            "horizon": np.array(self.horizon),
            "noisy": np.array(self.noisy),
            "ridge": np.array(self.ridge),
            "sizes": np.array([*sizes, _FORMS.index(None if form is None else type(form))]),
            "norms": np.array([features.kernel_norm, features.signal_norm]),
            "varphi": features.varphi,
            **{f"{_OF_FORM}{name}": array for name, array in (form._asdict() if form is not None else {}).items()},
            **{name: getattr(self, name) for name in _ARRAYS},
            **({} if self.first_visits is None else {"first_visits": self.first_visits}),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Regressions:
        """Return the data of named arrays; raises InvalidModelError if one is missing or does not fit."""
        try:
            S, A, d1, d2, kind = (int(size) for size in arrays["sizes"])
            kernel_norm, signal_norm = (float(norm) for norm in arrays["norms"])
            form_class: Any = _FORMS[kind]
            form: Form | None = None
            if form_class is not None:
                form = form_class(*(arrays[f"{_OF_FORM}{name}"] for name in form_class._fields))
            features = Features("stored", S, A, d1, d2, kernel_norm, signal_norm, form, arrays["varphi"])
            known = {name: arrays[name] for name in _ARRAYS}
            first: Any = arrays.get("first_visits")
            horizon, noisy, ridge = scalar("horizon", arrays["horizon"]), arrays["noisy"], float(arrays["ridge"])
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise InvalidModelError(f"the stored regressions cannot be used: {error}.") from error
        return cls(features=features, horizon=horizon, noisy=bool(noisy), ridge=ridge, **known, first_visits=first)


_ARRAYS = ("thresholds", "initial", "gram", "target", "signal_gram", "signal_target")
