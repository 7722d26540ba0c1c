"""Compare least squares with counts as the number of states grows: `python -m studies.states [EPISODES MODELS]`.

Learns random mixtures of 4 kernels with 100, 1,000 and 10,000 states, by least squares and by counts. Draws regret and
hard violation per episode so far, averaged over several models of each size: docs/studies/states.svg. With `defaults`
as the last argument it uses the default parameters of the preset `scaled`, and only prints.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.style import context as style_context
from rich.progress import Progress

import opdop
from opdop.report.figures import save
from opdop.report.figures.style import BLUE, GREEN, GREY, LOOK, ORANGE, WIDTH, log_episodes
from studies.common import numbers_from

SIZES = {100: BLUE, 1_000: GREEN, 10_000: ORANGE}
ALGORITHMS = {"opdop-lstd": ("least squares", "-"), "opdop": ("counts", (0, (3, 1.5)))}
DIMENSION = 4
# Nearer to `certified` than the defaults of `scaled`: then results depend less on which model was drawn.
PARAMETERS = {"radius_scale": 0.03, "step_scale": 30.0, "dual_step_scale": 3.0, "ridge_scale": 1.0}
MEASURES = {
    "regret": "Regret, points per episode so far",
    "hard_violation": "Hard violation, points per episode so far",
}
FIGURE = Path(__file__).parents[1] / "docs" / "studies" / "states.svg"

Curves = dict[tuple[str, int], dict[str, np.ndarray]]


def learn(algorithm: str, states: int, episodes: int, model: int, parameters: dict[str, float]) -> opdop.Run:
    """Return one run; every fifth episode is measured, and its measures count for the four after it as well."""
    cmdp = opdop.make("random-mixture", states=states, dimension=DIMENSION, seed=model)
    return opdop.train(
        cmdp,
        algorithm,
        episodes=episodes,
        seed=model,
        preset="scaled",
        parameters=parameters,
        measure_every=5,
        records=200,
    )


@style_context(LOOK)
def draw(curves: Curves, episodes: np.ndarray, title: str) -> Figure:
    """Draw both measures for all sizes."""
    figure = Figure(figsize=(2 * WIDTH, 0.85 * WIDTH), layout="constrained")
    for axes, (name, heading) in zip(figure.subplots(1, 2), MEASURES.items(), strict=True):
        axes.axhline(0.0, color=GREY, linewidth=0.6)
        for (algorithm, states), found in curves.items():
            label, line = ALGORITHMS[algorithm]
            axes.plot(episodes, found[name], color=SIZES[states], linestyle=line, label=f"{label}, {states:,} states")
        log_episodes(axes, int(episodes[-1]))
        axes.set_title(heading)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False, title=title)
    return figure


def main() -> None:
    """Run the study, print its table and save its figure."""
    own = sys.argv[-1] == "defaults"
    parameters = {} if own else PARAMETERS
    total, models = numbers_from([text for text in sys.argv[1:] if text != "defaults"], [3000, 4])
    curves: Curves = {}
    rows = []
    with Progress(transient=True) as progress:
        bar = progress.add_task("mixtures", total=len(ALGORITHMS) * sum(SIZES) * models)
        for algorithm in ALGORITHMS:
            for states in SIZES:
                runs = []
                for model in range(models):
                    runs.append(learn(algorithm, states, total, model, parameters))
                    progress.advance(bar, states)
                episodes = runs[0].episodes
                curves[algorithm, states] = {
                    name: np.mean([run.history[name].to_numpy() / episodes for run in runs], axis=0)
                    for name in MEASURES
                }
                last = np.array([[run.history[name][-1] / total for name in MEASURES] for run in runs])
                pace = np.mean([run.seconds / total for run in runs])
                rows.append((ALGORITHMS[algorithm][0], states, last.mean(axis=0), last.std(axis=0), pace))
    scales = ", ".join(f"{name} {value:g}" for name, value in parameters.items()) or "its default parameters"
    setup = f"d = {DIMENSION}, preset scaled with {scales}; mean of {models} models"
    print(f"random-mixture, {total} episodes, {setup}; points per episode (spread over models)\n")
    print("| learner | states | regret | hard violation | ms per episode |")
    print("|---|--:|--:|--:|--:|")
    for learner, states, mean, spread, pace in rows:
        cells = " | ".join(f"{mean[i]:.3f} ({spread[i]:.3f})" for i in range(2))
        print(f"| {learner} | {states:,} | {cells} | {pace * 1e3:.2f} |")
    if not own:
        save(draw(curves, episodes, setup), FIGURE)


if __name__ == "__main__":
    main()
