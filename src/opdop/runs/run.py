"""The result of training: history, policies and the optimum; saved without pickle."""

from __future__ import annotations

import importlib
import io
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from opdop.algorithms.saved_state import fitting, prefixed, under
from opdop.confidence import Certificate, Evaluation
from opdop.confidence.data import Data, data_of_arrays
from opdop.model import (
    Display,
    Geometry,
    InvalidParameterError,
    OpdopError,
    PolicyMixture,
    Quantity,
    Simulator,
    Space,
    TabularPolicy,
)
from opdop.model.html_tables import html_table
from opdop.model.validation import Floats, shown
from opdop.planning import Optimum, Values
from opdop.runs import trail
from opdop.runs.config import RunConfig
from opdop.runs.files import Arrays, as_folder, damaged, plain, read_arrays, write_arrays, write_whole
from opdop.runs.goal import goal_of
from opdop.runs.recorder import columns, describe_columns
from opdop.runs.summary_text import summary_text

RUN = "run.npz"
HISTORY = "history.parquet"
KIND = "an opdop run of format 2"
_OF_HISTORY = "history."
_OF_DATA = "observed."
_OF_CERTIFICATES = "certificates."


@dataclass(frozen=True, eq=False, repr=False)
class Run:
    """The result of `opdop.train`.

    `policy` is the final policy. `mixture` is the average policy, which the theorem is about: where the model is known,
    one Markov policy with exactly the average occupancy of all episodes' policies; otherwise a uniform sample of them.
    `average` are the true values averaged over all episodes, hence those of the average policy. Where the model is not
    known they are realised totals, and the columns of the history say so in their names.
    """

    history: pl.DataFrame
    policy: TabularPolicy
    mixture: TabularPolicy | PolicyMixture
    optimum: Optimum | None  # None where the model is not known
    last: Values | None  # true values of the final policy
    average: Values
    thresholds: Floats  # [I]
    display: Display
    config: RunConfig  # problem, algorithm, seed, episodes, ...
    origin: Mapping[str, Any]  # fingerprint of the model, or facts about an unknown one; error of a discretisation
    constants: Mapping[str, Any]  # every constant used, and the preset
    seconds: float
    snapshot: tuple[dict[str, Any], Arrays] | None = field(default=None, repr=False)  # to train on from here
    observations: Data | None = field(default=None, repr=False)  # from which certificates are made
    certificates: pl.DataFrame | None = field(default=None, repr=False)  # as the data grew; None if not asked for
    evaluation: Evaluation | None = field(default=None, repr=False)  # fresh episodes of the final policy, if asked for
    simulator: Simulator | None = field(default=None, repr=False)  # that played the episodes; not saved

    @property
    def episodes(self) -> NDArray[np.int64]:
        """The recorded episodes, [K']."""
        return self.history["episode"].to_numpy()

    @property
    def regret(self) -> Floats:
        """Regret up to each recorded episode, [K']; NaN where the model is not known."""
        return self._measured("regret")

    @property
    def violation(self) -> Floats:
        """The paper's violation up to each recorded episode (slack cancels), of the worst constraint, [K'].

        It is NaN where the model is not known; the history then has realised shortfalls instead.
        """
        return self._measured("violation")

    @property
    def hard_violation(self) -> Floats:
        """Hard violation up to each recorded episode (slack never cancels), [K']; NaN where the model is not known."""
        return self._measured("hard_violation")

    def _measured(self, column: str) -> Floats:
        if column not in self.history.columns:
            return np.full(len(self.history), np.nan)
        return self.history[column].to_numpy()

    def summary(self) -> str:
        """Return the run in a few lines, in the problem's own units.

        Where the model is not known, these are realised totals with intervals over batches, as `opdop.runs.realised`
        describes.
        """
        return summary_text(self)

    def __repr__(self) -> str:
        played = f"{int(self.episodes[-1]):,} episodes of {self.config.algorithm}"
        model = "" if self.optimum is not None else ", model not known"
        return f"Run({self.display.name!r}: {played}, seed {self.config.seed}{model})"

    def _repr_html_(self) -> str:
        first, *lines = self.summary().splitlines()
        rows = [line.split(": ", 1) for line in lines if ": " in line]
        notes = " ".join(line for line in lines if ": " not in line)
        return html_table(first, rows, notes)

    @property
    def certified_at(self) -> int | None:
        """The episode at which a policy was certified to be as good as `until` asks; None if that did not happen."""
        table = self.certificates
        if table is None or self.config.until is None or not len(table):
            return None
        goal = goal_of(self.config.until, self.policy.table.shape[0], self.display.quantities[0])
        last = table.row(-1, named=True)
        met = last["keeps_constraints"] and last["optimum_upper"] - last["reward_lower"] <= goal
        return int(last["episode"]) if met else None

    def certificate(
        self,
        policy: Any = "recommended",
        *,
        failure_probability: float = 0.05,
        stationary: bool | None = None,
    ) -> Certificate:
        """Return what the run's data alone prove about a policy; the model is not used.

        Args:
            policy: "final", "average" or "recommended", or any policy. The recommended one is the best that is
                certified to keep every constraint.
            failure_probability: the probability with which the certificate may be wrong.
            stationary: whether the kernel is the same at every stage; by default as the run's task says.

        Raises InvalidParameterError if there is no such policy, or if the run kept no data.
        """
        from opdop.runs.certification import certify

        return certify(self, policy, failure_probability=failure_probability, stationary=stationary)

    def plot(self, file: str | Path | None = None) -> Any:
        """Draw the run in the problem's own units, and return the matplotlib `Figure`; a notebook shows it.

        Where the model is known: regret, violation, multipliers and estimates. Where it is not: realised totals with
        moving averages, and multipliers. In both cases also the certified bounds, if the run has recorded them.

        Args:
            file: where to save it too: .svg, .png or .pdf.

        Raises InvalidParameterError if the file cannot be written.

        >>> import opdop
        >>> opdop.train("factored", episodes=50).plot()
        <Figure size ...>
        """
        figures = importlib.import_module("opdop.report.figures")  # a face of the run, from a package above this one
        figure = figures.realised_figure(self) if self.optimum is None else figures.run_figure(self)
        if file is not None:
            figures.save(figure, file)
        return figure

    @property
    def recommended(self) -> TabularPolicy | PolicyMixture:
        """The best policy that the run's data certify to keep every constraint, or the one that comes nearest.

        `certificate()` says which of the two it is. Raises InvalidParameterError if the run kept no data.
        """
        policy: TabularPolicy | PolicyMixture = self.certificate().policy
        return policy

    def policy_of(self, kind: str) -> TabularPolicy | PolicyMixture:
        """Return the "final", "average" or "recommended" policy of the run, by its name in `kind`.

        Raises InvalidParameterError for another name, or if the run kept no data from which to recommend one.
        """
        if kind == "recommended":
            return self.recommended
        if not isinstance(kind, str) or kind not in ("final", "average"):
            raise InvalidParameterError(f"the policy is {shown(kind)}; expected final, average or recommended.")
        return self.policy if kind == "final" else self.mixture

    def evaluate_episodes(
        self,
        episodes: int,
        policy: Any = "final",
        *,
        failure_probability: float = 0.05,
        seed: int = 0,
        simulator: Any = None,
    ) -> Evaluation:
        """Play fresh episodes with a policy of the run, frozen, and return their means with intervals in own units.

        Args:
            episodes: how many.
            policy: "final", "average" or "recommended", or any policy that the simulator plays.
            failure_probability: the probability with which one of the intervals may be wrong.
            seed: of the episodes; they differ from those of training with the same seed.
            simulator: what plays them; by default the simulator or the problem of the run. A run that was loaded from
                a folder has no simulator of its own.

        Raises InvalidParameterError if there is no such policy, or nothing that plays the episodes, and
        InvalidModelError if an episode cannot be used.

        >>> import opdop
        >>> run = opdop.train("inventory", episodes=200)
        >>> print(run.evaluate_episodes(100))
        100 fresh episodes of the final policy, all intervals at once with probability at least 95 %: ...
        """
        from opdop.runs.fresh import evaluate_run

        given = {"failure_probability": failure_probability, "seed": seed, "simulator": simulator}
        return evaluate_run(self, episodes, policy, **given)

    def save(self, folder: str | Path) -> Path:
        """Write the run into a folder, and return the folder: run.npz, and history.parquet for other programs.

        Each file is written whole or not at all, and `load` reads run.npz only. Raises OpdopError if that fails.
        """
        folder = as_folder("folder", folder)
        meta = {
            "kind": KIND,
            "config": self.config.record(),
            "origin": plain(self.origin),
            "constants": plain(self.constants),
            "display": _display_data(self.display),
            "seconds": self.seconds,
            "space": None if self.policy.space is None else self.policy.space.record(),
            "optimum": None if self.optimum is None else {"method": self.optimum.method, "passes": self.optimum.passes},
            **({} if self.evaluation is None else {"evaluation": self.evaluation.record()}),
        }
        table = self.parquet()
        write_arrays(folder / RUN, meta, self._arrays())
        write_whole(folder / HISTORY, table)
        return folder

    def parquet(self) -> bytes:
        """Return the history as a Parquet file with the meaning and the unit of each column."""
        table = io.BytesIO()
        about = {
            "opdop.columns": json.dumps(describe_columns(len(self.thresholds), known=self.optimum is not None)),
            "opdop.quantities": json.dumps([asdict(quantity) for quantity in self.display.quantities]),
        }
        self.history.write_parquet(table, metadata=about)
        return table.getvalue()

    def _arrays(self) -> Arrays:
        arrays: Arrays = {
            "policy": self.policy.table,
            "average": self.average.totals,
            "thresholds": self.thresholds,
            **{f"{_OF_HISTORY}{column.name}": column.to_numpy() for column in self.history},
        }
        if isinstance(self.mixture, PolicyMixture):
            arrays["mixture_parts"] = np.array([part.table for part in self.mixture.parts])
            arrays["mixture_weights"] = self.mixture.weights
        else:
            arrays["mixture"] = self.mixture.table
        if self.last is not None:
            arrays["last"] = self.last.totals
        if self.observations is not None:
            arrays |= prefixed(_OF_DATA, self.observations.arrays())
        if self.certificates is not None:
            arrays |= {f"{_OF_CERTIFICATES}{column.name}": column.to_numpy() for column in self.certificates}
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
        """Return the run that was saved in a folder; raises DamagedFileError if it holds no whole run."""
        path = as_folder("folder", folder) / RUN
        meta, arrays = read_arrays(path, kind=KIND)
        try:
            return _run_of(meta, arrays)
        except Exception as error:  # a whole file need not hold a run
            raise damaged(path, KIND, error) from error


def _run_of(meta: Mapping[str, Any], arrays: Arrays) -> Run:
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
    return Run(
        history=_history_of(arrays, I, known=optimum is not None),
        policy=policy,
        mixture=mixture,
        optimum=optimum,
        last=_values_of(arrays, "last", I) if "last" in arrays else None,
        average=_values_of(arrays, "average", I),
        thresholds=thresholds,
        display=display,
        config=RunConfig.of(meta["config"]),
        origin=meta["origin"],
        constants=meta["constants"],
        seconds=_number(meta["seconds"]),
        observations=_observations_of(arrays, policy, I),
        certificates=_certificates_of(arrays, I),
        evaluation=_evaluation_of(meta.get("evaluation"), thresholds, display, policy.table.shape[0]),
    )


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


def _certificates_of(arrays: Arrays, constraints: int) -> pl.DataFrame | None:
    found = under(arrays, _OF_CERTIFICATES)
    if not found:
        return None
    names = trail.columns(constraints)
    _check(list(found) == names and len({column.shape for column in found.values()}) == 1, "list of certificates")
    kinds = {"episode": np.int64, "keeps_constraints": np.bool_}
    _check(all(column.dtype == kinds.get(name, np.float64) for name, column in found.items()), "list of certificates")
    _check(found["episode"].ndim == 1 and bool((np.diff(found["episode"]) > 0).all()), "list of certificates")
    return pl.DataFrame(found)


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


def _values_of(arrays: Arrays, name: str, constraints: int) -> Values:
    totals = arrays[name]
    _check(totals.dtype == np.float64 and totals.shape == (1 + constraints,), name)
    return Values.of(totals)


def _history_of(arrays: Arrays, constraints: int, *, known: bool) -> pl.DataFrame:
    found = under(arrays, _OF_HISTORY)
    episode, *others = (found[name] for name in columns(constraints, known=known))
    _check(episode.dtype == np.int64 and all(column.dtype == np.float64 for column in others), "history")
    _check(episode.ndim == 1 and all(column.shape == episode.shape for column in found.values()), "history")
    _check(episode.size > 0 and episode[0] > 0 and bool((np.diff(episode) > 0).all()), "list of episodes")
    return pl.DataFrame(found)


def _optimum_of(
    meta: Mapping[str, Any], arrays: Arrays, policy: TabularPolicy, display: Display, constraints: int
) -> Optimum:
    best = _values_of(arrays, "optimum_totals", constraints)
    return Optimum(
        value=best.reward,
        utility_values=best.utilities,
        dual=fitting(arrays, "optimum_dual", np.empty(constraints)),
        slater_gap=float(fitting(arrays, "optimum_gap", np.array(0.0))),
        active=fitting(arrays, "optimum_active", np.empty(constraints, dtype=np.bool_)),
        policy=_policy_of(fitting(arrays, "optimum_policy", policy.table)),
        unconstrained=_values_of(arrays, "optimum_unconstrained", constraints),
        slater=_values_of(arrays, "optimum_slater", constraints),
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
