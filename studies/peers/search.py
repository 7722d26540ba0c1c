"""Search for the `practical` constants of an algorithm on the training half, the same way for every peer.

    python -m studies.peers.search triple-q optpess-primal-dual

The search begins with the settings of `search.toml` and moves one parameter at a time: by a factor of 10, of 3 and of
1.7, up and down, until nothing is better or enough settings were tried. `growth`, how often a planner plans, is not
moved: a tenth of it takes ten times the time and costs 5 % less. Nor is a parameter moved below what `least` says.
Settings are judged by the criterion of `studies.general` after 4,000 episodes. The best ones are then run with both
numbers of episodes of that study and two seeds, and the first row of their table is the choice. Every setting is named
by all of its parameters, so that a table stays true when defaults change. Runs are kept in
FOLDER/ALGORITHM/training.jsonl.
"""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import opdop
from studies.general.cases import cases
from studies.general.runs import Results
from studies.general.settings import Setting
from studies.general.tables import Table

SPEC = Path(__file__).parent / "search.toml"
FOLDER = Path(__file__).parents[1] / "results"
Parameters = dict[str, float]


def named(algorithm: str, parameters: Mapping[str, float]) -> Setting:
    """Return the setting of an algorithm with all its parameters."""
    return Setting(",".join([algorithm, *(f"{name}={value:.3g}" for name, value in parameters.items())]))


class Search:
    """The search for one algorithm; runs that were made before are not made again."""

    def __init__(self, algorithm: str, spec: Mapping[str, Any], folder: Path) -> None:
        self.algorithm, self.spec = algorithm, spec
        self.results = Results(folder / algorithm / "training.jsonl")
        self.cases = cases("training")
        self.tried: dict[str, float] = {}  # the criterion of each setting, in the order of the search

    def cost(self, parameters: Parameters) -> float:
        """Return the criterion of a setting after the number of episodes of the search."""
        setting = named(self.algorithm, parameters)
        if setting.text not in self.tried:
            length = int(self.spec["episodes"])
            self.fill(setting, (length,), (0,))
            self.tried[setting.text] = self.table((length,), (0,)).overall(setting)
        return self.tried[setting.text]

    def fill(self, setting: Setting, lengths: tuple[int, ...], seeds: tuple[int, ...]) -> None:
        """Make the runs of a setting that are missing, on the problems that the algorithm covers."""
        for case in self.cases:
            for seed in seeds:
                try:
                    self.results.fill(setting, case, case.lengths(lengths), seed)
                except opdop.InvalidParameterError:
                    break

    def table(self, lengths: tuple[int, ...], seeds: tuple[int, ...]) -> Table:
        """Return the table of some runs."""
        return Table(self.results, self.cases, lengths, seeds)

    def run(self) -> None:
        """Move until nothing is better, or enough settings were tried."""
        best: Parameters = dict(self.spec["start"][self.algorithm])
        for factor in self.spec["factors"]:
            moved = True
            while moved and len(self.tried) < self.spec["tries"]:
                moved = False
                for name in best:
                    for candidate in self._neighbours(best, name, factor):
                        if len(self.tried) < self.spec["tries"] and self.cost(candidate) < self.cost(best):
                            best, moved = candidate, True
                            break

    def _neighbours(self, parameters: Parameters, name: str, factor: float) -> Iterator[Parameters]:
        least = self.spec.get("least", {}).get(self.algorithm, {}).get(name, 0.0)
        if name not in self.spec.get("fixed", ()):
            for value in (parameters[name] * factor, parameters[name] / factor):
                if value >= least:
                    yield {**parameters, name: float(f"{value:.3g}")}

    def finish(self) -> None:
        """Run the best settings for both numbers of episodes with all seeds."""
        for setting in self.finalists():
            self.fill(setting, tuple(self.spec["lengths"]), tuple(self.spec["seeds"]))

    def finalists(self) -> list[Setting]:
        """Return the best settings of the search."""
        first = sorted(self.tried, key=lambda text: self.tried[text])[: self.spec["finalists"]]
        return [Setting(text) for text in first]

    def print_table(self) -> None:
        """Print the finalists, the best first."""
        start = named(self.algorithm, self.spec["start"][self.algorithm])
        print(
            f"\n{len(self.tried)} settings were tried; `{start.text}` was the first, with {self.tried[start.text]:.3f}."
        )
        self.table(tuple(self.spec["lengths"]), tuple(self.spec["seeds"])).print_settings(self.finalists())


def main(arguments: list[str] | None = None) -> None:
    """Search for the constants of some algorithms and print their tables."""
    parser = argparse.ArgumentParser(prog="python -m studies.peers.search", description=__doc__.splitlines()[0])
    parser.add_argument("algorithms", nargs="*", help="all of the specification by default")
    parser.add_argument("--spec", type=Path, default=SPEC)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    given = parser.parse_args(arguments)
    spec = tomllib.loads(given.spec.read_text(encoding="utf-8"))
    for algorithm in given.algorithms or spec["start"]:
        search = Search(algorithm, spec, given.folder)
        search.run()
        search.finish()
        search.print_table()


if __name__ == "__main__":
    main()
