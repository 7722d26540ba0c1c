"""Fit how regret and violation grow with K: `python -m studies.rates [PROBLEM PRESET SEEDS LARGEST_K]`.

Each K is a run of its own, because the constants depend on K. Prints a table and the slope of log(measure) over log(K)
with its interval, and draws the measures beside the certified bound: docs/studies/rates-PROBLEM-PRESET.svg.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.style import context as style_context
from matplotlib.ticker import FuncFormatter, NullFormatter
from rich.progress import Progress
from scipy import stats

import opdop
from opdop.report.figures import save
from opdop.report.figures.style import BLUE, DASHED, GREY, LOOK, ORANGE, VERMILION, WIDTH, count_text
from opdop.theory import Setting, bounds

PLANS = {
    "certified": [10**3 * 2**n for n in range(14)] + [10**7],
    "paper": [10**4, 10**5, 10**6, 10**7, 10**8],
}
MEASURES = {"regret": BLUE, "violation": VERMILION, "hard_violation": ORANGE}
LAST = 6  # the slope is also fitted to this many of the largest K
FIGURE = Path(__file__).parents[1] / "docs" / "studies" / "rates-{}-{}.svg"


def slope(episodes: list[int], values: np.ndarray) -> tuple[float, float]:
    """Return the slope of log(values [seeds, K']) over log(K) and half of its 95 % interval.

    Both are NaN if a value is not above 0. With several seeds it is the mean of their slopes with its t interval, with
    one seed the slope and interval of the regression.
    """
    if (values <= 0.0).any():
        return math.nan, math.nan
    fits = [stats.linregress(np.log(episodes), np.log(row)) for row in values]
    if len(fits) == 1:
        return fits[0].slope, fits[0].stderr * float(stats.t.ppf(0.975, len(episodes) - 2))
    slopes = np.array([fit.slope for fit in fits])
    return float(slopes.mean()), float(stats.sem(slopes) * stats.t.ppf(0.975, len(slopes) - 1))


def interval(episodes: list[int], values: np.ndarray) -> str:
    """Return a slope as text; for a measure that is always below 0, the slope of its absolute value."""
    below = bool((values < 0.0).all())
    middle, half = slope(episodes, -values if below else values)
    if math.isnan(middle):
        return "no slope, as its sign changes,"
    return f"slope {middle:.3f} ± {half:.3f}" + (" (of its size: it is negative)" if below else "")


@style_context(LOOK)
def draw(
    problem: str, preset: str, plans: list[int], found: dict[str, np.ndarray], certified: dict[str, list[float]]
) -> Figure:
    """Draw the mean of each measure over seeds where it is above 0, and the certified bounds."""
    figure = Figure(figsize=(2 * WIDTH, 0.75 * WIDTH), layout="constrained")
    axes = figure.subplots()
    for name, colour in MEASURES.items():
        mean = found[name].mean(axis=0)
        above = mean > 0.0
        label = name.replace("_", " ")
        axes.plot(np.array(plans)[above], mean[above], color=colour, marker="o", markersize=3, label=label)
        if name in certified:
            axes.plot(plans, certified[name], color=colour, label=f"bound on {label}", **DASHED)
    trivial = [opdop.make(problem).horizon * K for K in plans]
    axes.plot(plans, trivial, color=GREY, linewidth=0.8, label="K H: needs no proof")
    for axis in (axes.xaxis, axes.yaxis):
        axis.axes.set(**{f"{axis.axis_name}scale": "log"})
        axis.set_major_formatter(FuncFormatter(lambda value, _: count_text(value)))
        axis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("episodes K")
    axes.set_title(f"{problem}, preset {preset}: sums over K episodes, in model units")
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    return figure


def main() -> None:
    """Run the study, print its table and save its figure."""
    defaults = ["factored", "certified", "3", "1e7"]
    problem, preset, count, largest = [*sys.argv[1:], *defaults[len(sys.argv) - 1 :]][:4]
    plans, seeds = [K for K in PLANS[preset] if float(largest) >= K], range(int(count))
    cmdp = opdop.make(problem)
    runs: dict[tuple[int, int], opdop.Run] = {}
    with Progress(transient=True) as progress:
        bar = progress.add_task(f"{problem}, {preset}", total=sum(plans) * len(seeds))
        for K in plans:
            for seed in seeds:
                runs[K, seed] = opdop.train(cmdp, episodes=K, seed=seed, preset=preset, records=2)
                progress.advance(bar, K)
    found = {name: np.array([[runs[K, s].history[name][-1] for K in plans] for s in seeds]) for name in MEASURES}
    certified: dict[str, list[float]] = {}
    if preset == "certified":
        settings = [Setting.of(opdop.Task.of(cmdp, episodes=K)) for K in plans]
        certified = {
            "regret": [bounds.regret(setting).total for setting in settings],
            "violation": [bounds.violation(setting).total for setting in settings],
        }
    seconds = sum(run.seconds for run in runs.values())
    print(
        f"{problem}, preset {preset}, {len(seeds)} seed{'s' * (len(seeds) > 1)}, {seconds:.0f} s of learning; ", end=""
    )
    print("means per episode, in model units\n")
    print("| K | regret | violation | hard violation |")
    print("|--:|--:|--:|--:|")
    for n, K in enumerate(plans):
        cells = (f"{found[name][:, n].mean() / K:.4f}" for name in MEASURES)
        print(f"| {K:,} | {' | '.join(cells)} |")
    print()
    for name in MEASURES:
        whole, late = interval(plans, found[name]), interval(plans[-LAST:], found[name][:, -LAST:])
        print(f"- {name.replace('_', ' ')}: {whole} over all K, {late} over the last {min(LAST, len(plans))}")
    save(draw(problem, preset, plans, found, certified), Path(str(FIGURE).format(problem, preset)))


if __name__ == "__main__":
    main()
