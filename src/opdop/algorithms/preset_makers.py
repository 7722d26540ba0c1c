"""The presets of an algorithm: functions that compute its constants for a task, with their parameters and defaults."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from opdop.model import InvalidParameterError, suggestion
from opdop.model.validation import as_number, shown

# (task, dual_bound, parameter=default, ...) -> the constants of a run. Without a bound on the multipliers dual_bound is
# None. The first sentence of its docstring says where the constants come from.
MakeConstants = Callable[..., Any]


@dataclass(frozen=True, eq=False)
class Presets:
    """All presets of an algorithm, by name.

    Args:
        algorithm: the algorithm's name, for errors; "" where several algorithms share the presets.
        makes: for each preset the function that computes the constants.
        continuous: parameters of every preset that only problems with continuous states have.
    """

    algorithm: str
    makes: Mapping[str, MakeConstants]
    continuous: tuple[str, ...] = ()

    def parameters(self, preset: str) -> dict[str, float]:
        """Return the parameters of a preset with their defaults."""
        found = list(inspect.signature(self.makes[preset]).parameters.values())[2:]
        return {parameter.name: parameter.default for parameter in found}

    def summary(self, preset: str) -> str:
        """Return in words where the constants of a preset come from."""
        return " ".join((inspect.getdoc(self.makes[preset]) or "").split("\n\n")[0].split()).removesuffix(".")

    def check(self, preset: Any, parameters: Any) -> None:
        """Raise InvalidParameterError, with the nearest name, unless there is such a preset with such parameters.

        Parameters are positive numbers; one whose default is 0 may be 0.
        """
        if not isinstance(preset, str) or preset not in self.makes:
            has = f"`{self.algorithm}` has no preset {shown(preset)}; it has"
            if not self.algorithm:
                has = f"there is no preset {shown(preset)}; there are"
            raise InvalidParameterError(f"{has} {', '.join(self.makes)}.{suggestion(preset, self.makes)}")
        if not isinstance(parameters, Mapping):
            raise InvalidParameterError(f"parameters are {shown(parameters)}; expected names with numbers.")
        known = self.parameters(preset)
        for name, value in parameters.items():
            if name not in (*known, *self.continuous):
                has = f"it has {', '.join(known)}" if known else "it has no parameters, so that its guarantee holds"
                whose = f" of `{self.algorithm}`" if self.algorithm else ""
                raise InvalidParameterError(
                    f"preset {preset!r}{whose} has no parameter {shown(name)}; {has}.{suggestion(name, known)}"
                )
            if not (value == 0.0 and known.get(name) == 0.0):
                check_positive(name, value)


def check_positive(name: str, value: Any) -> None:
    """Raise InvalidParameterError unless a value is a positive number."""
    if as_number(name, value, "a positive number") <= 0.0:
        raise InvalidParameterError(f"{name} is {shown(value)}; expected a positive number.")
