"""The result of training: history, policies and the optimum; saved without pickle."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from opdop.confidence import Certificate, Evaluation
from opdop.confidence.data import Data
from opdop.model import Display, InvalidParameterError, PolicyMixture, Quantity, Simulator, TabularPolicy
from opdop.model.html_tables import html_table
from opdop.model.validation import Floats, shown
from opdop.planning import Optimum, Values
from opdop.runs.config import RunConfig
from opdop.runs.files import Arrays, as_folder, damaged, read_arrays, write_arrays, write_whole
from opdop.runs.goal import goal_of
from opdop.runs.history_units import describe_columns, in_units
from opdop.runs.saved_run import KIND, arrays_of, fields_of, meta_of
from opdop.runs.summary_text import summary_text

if TYPE_CHECKING:
    import polars as pl

RUN = "run.npz"
HISTORY = "history.parquet"


@dataclass(frozen=True, eq=False, repr=False)
class Run:
    """The result of `opdop.train`.

    `policy` is the final policy. `mixture` is the average policy, which the theorem is about: where the model is known,
    one Markov policy with exactly the average occupancy of all episodes' policies; otherwise a uniform sample of them.
    `average` are the true values averaged over all episodes, hence those of the average policy. Where the model is not
    known they are realised totals, and the columns of the history say so in their names.

    The numbers of `history`, and those of `regret`, `violation` and `hard_violation`, are in model units; where signals
    are given in [0, 1] these are the problem's own. `history_in_units`, `summary` and `plot` have own units.
    """

    columns: Mapping[str, NDArray[Any]]  # of the history, each [K']
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
    trail: Mapping[str, NDArray[Any]] | None = field(default=None, repr=False)  # columns of `certificates`
    evaluation: Evaluation | None = field(default=None, repr=False)  # fresh episodes of the final policy, if asked for
    simulator: Simulator | None = field(default=None, repr=False)  # that played the episodes; not saved

    @cached_property
    def history(self) -> pl.DataFrame:
        """The recorded episodes as a table, with its columns as `history_in_units` describes them."""
        import polars as pl  # a run that prints its summary starts sooner without it

        return pl.DataFrame(self.columns)

    @cached_property
    def certificates(self) -> pl.DataFrame | None:
        """The certificates as the data grew; None if they were not asked for."""
        import polars as pl

        return None if self.trail is None else pl.DataFrame(self.trail)

    @property
    def episodes(self) -> NDArray[np.int64]:
        """The recorded episodes, [K']."""
        return self.columns["episode"]

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
        return self.columns[column] if column in self.columns else np.full(len(self.episodes), np.nan)

    def history_in_units(self) -> pl.DataFrame:
        """Return the history in the problem's own units: the same columns and rows as `history`.

        The column `utility_0` is then what the first constraint limits, so a cost if that is one, and `dual_0` is what
        one more unit of its budget is worth. `violation` and `hard_violation` may be of any constraint. If the
        constraints do not share a unit, they are in percent of a constraint's range.

        >>> import opdop
        >>> run = opdop.train("inventory", episodes=100)
        >>> run.history_in_units().columns == run.history.columns
        True
        """
        return in_units(self.history, self._quantities, self.policy.table.shape[0])

    @property
    def _quantities(self) -> tuple[Quantity, ...]:
        """The names and units of the signals; plain ones if the display does not have one for each signal."""
        own, constraints = self.display.quantities, len(self.thresholds)
        return own if len(own) == 1 + constraints else Display.plain(constraints).quantities

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
        if self.trail is None or self.config.until is None or not len(self.trail["episode"]):
            return None
        goal = goal_of(self.config.until, self.policy.table.shape[0], self.display.quantities[0])
        last = {name: column[-1] for name, column in self.trail.items()}
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
        from opdop.report import figures  # upwards, and named in the contract of imports: a face of the run

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
        table = self.parquet()
        write_arrays(folder / RUN, meta_of(self), arrays_of(self))
        write_whole(folder / HISTORY, table)
        return folder

    def parquet(self) -> bytes:
        """Return the history in own units as a Parquet file, with the meaning and the unit of each column."""
        table = io.BytesIO()
        columns = describe_columns(list(self.columns), self._quantities, self.policy.table.shape[0])
        about = {
            "opdop.columns": json.dumps(columns),
            "opdop.quantities": json.dumps([asdict(quantity) for quantity in self.display.quantities]),
        }
        self.history_in_units().write_parquet(table, metadata=about)
        return table.getvalue()

    @classmethod
    def load(cls, folder: str | Path) -> Run:
        """Return the run that was saved in a folder; raises DamagedFileError if it holds no whole run."""
        path = as_folder("folder", folder) / RUN
        meta, arrays = read_arrays(path, kind=KIND)
        try:
            return cls(**fields_of(meta, arrays))
        except Exception as error:  # a whole file need not hold a run
            raise damaged(path, KIND, error) from error
