"""The result of training: history, policies and what they were measured against; saved without pickle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from opdop.experiment.files import Arrays, DamagedFileError, read_arrays, write_arrays, write_whole
from opdop.model import Display, OpdopError, PolicyMixture, Quantity, TabularPolicy
from opdop.model.checks import Floats
from opdop.planning import Optimum, Values

_KIND = "an opdop run"
_MOST_BYTES = 64 * 2**30


@dataclass(frozen=True, eq=False)
class Run:
    """What came out of `opdop.train`.

    `policy` is the last policy. `mixture` is the average policy that the theorem speaks of: where the model is known,
    one Markov policy with exactly the average occupancy of all episodes' policies; otherwise a uniform sample of them.
    `average` are the true values averaged over all episodes, hence those of the mixture.
    """

    history: pl.DataFrame
    policy: TabularPolicy
    mixture: TabularPolicy | PolicyMixture
    optimum: Optimum | None  # None where the model is not known
    last: Values | None  # true values of `policy`
    average: Values
    thresholds: Floats  # [I]
    display: Display
    config: Mapping[str, Any]  # what was asked for: problem, algorithm, seed, episodes, ...
    constants: Mapping[str, Any]  # every constant used, and the preset
    seconds: float
    snapshot: tuple[dict[str, Any], Arrays] | None = field(default=None, repr=False)  # to train on from here

    @property
    def episodes(self) -> NDArray[np.int64]:
        """The recorded episodes, [K']."""
        return self.history["episode"].to_numpy()

    @property
    def regret(self) -> Floats:
        """Regret up to each recorded episode, [K']; NaN where the optimum is not known."""
        return self.history["regret"].to_numpy()

    @property
    def violation(self) -> Floats:
        """The paper's violation (slack pays back), of the worst constraint, [K']."""
        return self.history["violation"].to_numpy()

    @property
    def hard_violation(self) -> Floats:
        """Violation without paying back, [K']."""
        return self.history["hard_violation"].to_numpy()

    def save(self, folder: str | Path) -> Path:
        """Write the run into a folder: history.parquet and run.npz, each whole or not at all."""
        folder = Path(folder)
        write_whole(folder / "history.parquet", self.history.write_parquet)
        meta = {
            "kind": _KIND,
            "config": dict(self.config),
            "constants": dict(self.constants),
            "display": _display_data(self.display),
            "seconds": self.seconds,
            "optimum": None if self.optimum is None else {"method": self.optimum.method, "passes": self.optimum.passes},
            "has_last": self.last is not None,
        }
        write_arrays(folder / "run.npz", meta, self._arrays())
        return folder

    def _arrays(self) -> Arrays:
        arrays: Arrays = {
            "policy": self.policy.table,
            "average": self.average.totals,
            "thresholds": self.thresholds,
        }
        if isinstance(self.mixture, PolicyMixture):
            arrays["mixture_parts"] = np.array([part.table for part in self.mixture.parts])
            arrays["mixture_weights"] = self.mixture.weights
        else:
            arrays["mixture"] = self.mixture.table
        if self.last is not None:
            arrays["last"] = self.last.totals
        if self.optimum is not None:
            best = self.optimum
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

    @classmethod
    def load(cls, folder: str | Path) -> Run:
        """Read a run that was saved; a broken or foreign folder gives one clear error."""
        folder = Path(folder)
        meta, arrays = read_arrays(folder / "run.npz", kind=_KIND, most_bytes=_MOST_BYTES)
        try:
            history = pl.read_parquet(folder / "history.parquet")
        except Exception as error:  # polars raises errors of its own for each way a file can be broken
            raise DamagedFileError(f"{folder / 'history.parquet'} cannot be read: {str(error)[:200]}") from error
        try:
            mixture: TabularPolicy | PolicyMixture
            if "mixture" in arrays:
                mixture = TabularPolicy(arrays["mixture"])
            else:
                mixture = PolicyMixture(list(arrays["mixture_parts"]), arrays["mixture_weights"])
            missing = {"episode", "regret", "violation", "hard_violation"} - set(history.columns)
            if missing:
                raise OpdopError(f"the history lacks {sorted(missing)}")
            return cls(
                history=history,
                policy=TabularPolicy(arrays["policy"]),
                mixture=mixture,
                optimum=None if meta["optimum"] is None else _optimum_of(meta["optimum"], arrays),
                last=Values.of(arrays["last"]) if meta["has_last"] else None,
                average=Values.of(arrays["average"]),
                thresholds=arrays["thresholds"],
                display=_display_of(meta["display"]),
                config=meta["config"],
                constants=meta["constants"],
                seconds=float(meta["seconds"]),
            )
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, OpdopError) as error:
            raise DamagedFileError(f"{folder} is not a whole opdop run: {error}") from error


def _optimum_of(meta: Mapping[str, Any], arrays: Arrays) -> Optimum:
    totals = arrays["optimum_totals"]
    return Optimum(
        value=float(totals[0]),
        utility_values=totals[1:],
        dual=arrays["optimum_dual"],
        slater_gap=float(arrays["optimum_gap"]),
        active=arrays["optimum_active"],
        policy=TabularPolicy(arrays["optimum_policy"]),
        unconstrained=Values.of(arrays["optimum_unconstrained"]),
        slater=Values.of(arrays["optimum_slater"]),
        method=str(meta["method"]),
        passes=int(meta["passes"]),
    )


def _display_data(display: Display) -> dict[str, Any]:
    return {
        "name": display.name,
        "summary": display.summary,
        "quantities": [asdict(quantity) for quantity in display.quantities],
        "parameters": dict(display.parameters),
    }


def _display_of(data: Mapping[str, Any]) -> Display:
    return Display(
        name=str(data["name"]),
        summary=str(data["summary"]),
        quantities=tuple(Quantity(**quantity) for quantity in data["quantities"]),
        parameters=dict(data["parameters"]),
    )
