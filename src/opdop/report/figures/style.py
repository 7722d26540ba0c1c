"""The look of figures, and how they are saved: colours, sizes, fonts, and the same bytes every time."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.style import context as style_context
from matplotlib.ticker import FuncFormatter, NullFormatter

from opdop.model import InvalidParameterError, Quantity
from opdop.model.validation import Floats
from opdop.report.summary.solution import better

KINDS = (".svg", ".png", ".pdf")
WIDTH = 80 / 25.4  # inches
OUTDENT = 0.36  # inches from a panel's left edge to where its title begins

# Okabe and Ito's colours, told apart with any kind of colour vision.
BLUE, VERMILION, GREEN, ORANGE, PURPLE = "#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7"
SKY, PEACH = "#A6CEE9", "#F6CDA8"
GROUPS = (BLUE, ORANGE, GREEN, PURPLE, "#56B4E9", VERMILION)  # of groups of runs, in this order
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)))  # when colours are used up
DASHED: dict[str, Any] = {"linewidth": 0.9, "linestyle": (0, (4, 2)), "zorder": 4}
DUALS = (PURPLE, GREEN, ORANGE, BLUE, VERMILION)
INK, GREY, PALE = "#222222", "#8A8A8A", "#E9ECEF"
ON_LIGHT, ON_DARK = "#1E1E1E", "#FDFDFD"  # signs on shades that are the same on every page
FREE, WALL, HAZARD = "#F2F2F0", "#55585C", "#FADCC6"
FRAMES = {"start": INK, "goal": GREEN}
VISITS = LinearSegmentedColormap.from_list("visits", ["#E6F2FA", "#B5DAF0", "#6FB2DC", "#0B4F8A"])

STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",  # comes with matplotlib, so figures are the same everywhere
    "font.size": 7.0,
    "axes.titlesize": 8.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 7.0,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.formatter.useoffset": False,
    "text.color": INK,
    "text.parse_math": False,  # names of problems are text, whatever signs are in them
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 6.5,
    "ytick.labelsize": 6.5,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "legend.fontsize": 6.5,
    "legend.frameon": False,
    "legend.handlelength": 1.6,
    "legend.columnspacing": 1.2,
    "lines.linewidth": 1.4,
    "hatch.linewidth": 0.5,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "savefig.dpi": 300,
    "svg.hashsalt": "opdop",
    "svg.fonttype": "path",
    "pdf.fonttype": 42,
}
LOOK: list[str | Path | dict[str, Any]] = ["default", STYLE]


@style_context(LOOK)
def save(figure: Figure, file: str | Path) -> Path:
    """Save a figure as .svg, .png or .pdf, and return its path; the same figure gives the same bytes.

    Raises InvalidParameterError if the file has another ending or cannot be written.
    """
    path = check_target(Path(file))
    unstamped: dict[str, dict[str, Any]] = {
        ".svg": {"Date": None, "Creator": "opdop"},
        ".png": {"Software": "opdop"},
        ".pdf": {"CreationDate": None, "Creator": "opdop", "Producer": None},
    }
    try:
        figure.savefig(path, metadata=unstamped[path.suffix.lower()])
    except OSError as error:
        raise InvalidParameterError(f"cannot write {str(path)!r}: {error.strerror or error}.") from error
    return path


def check_target(file: Path) -> Path:
    """Return the file's path, or raise InvalidParameterError if no figure can be saved there."""
    if file.suffix.lower() not in KINDS:
        raise InvalidParameterError(
            f"{str(file)!r} is not a name for a figure; expected a file ending in {', '.join(KINDS)}."
        )
    if not os.path.isdir(file.absolute().parent):
        raise InvalidParameterError(f"cannot write {str(file)!r}: there is no folder {str(file.parent)!r}.")
    return file


def axis_label(quantity: Quantity) -> str:
    """Return the label of an axis: the name of a quantity, its unit, and which direction is better."""
    unit = "" if not quantity.unit or quantity.unit in quantity.name else f", {quantity.unit}"
    return f"{quantity.name}{unit} ({better(quantity)} is better)"


def per(what: str, unit: str, each: str) -> str:
    """Return a title such as "Regret, steps per episode"."""
    return f"{what}, {unit} per {each}" if unit else f"{what} per {each}"


def root(values: Floats) -> Floats:
    """Return square roots with the sign of the values: a scale on which both small and large values can be seen."""
    roots: Floats = np.sign(values) * np.sqrt(np.abs(values))
    return roots


def unroot(roots: Floats) -> Floats:
    """Return the values whose signed roots are given."""
    values: Floats = np.sign(roots) * np.square(roots)
    return values


def log_episodes(axes: Axes, last: int) -> None:
    """Let the axis below a panel go from the first to the last episode on a logarithmic scale, with plain numbers."""
    axes.set_xscale("log")
    axes.set_xlim(1, max(last, 10))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: count_text(value)))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("episode", labelpad=1.0)


def count_text(value: float) -> str:
    """Return a number for an axis: short, without powers of ten where they can be avoided.

    >>> [count_text(value) for value in (0.25, 1000.0, 20_000.0, -3e6, 1e12)]
    ['0.25', '1,000', '20k', '-3M', '1e+12']
    """
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if 10.0 * size <= abs(value) < 1e9 or (size == 1e6 and size <= abs(value) < 1e9):
            return f"{value / size:g}{letter}"
    return f"{value:,g}"


def write_title(figure: Figure, title: str) -> None:
    """Write the title of a figure of one column; a long one is smaller, and cut if it has to be."""
    width, height = figure.get_size_inches()
    most = 66
    shown = title if len(title) <= most else title[: most - 1] + "…"
    size = min(8.0, 8.0 * 46 / len(shown))
    figure.text(0.1 / width, 1.0 - 0.06 / height, shown, fontsize=size, fontweight="bold", va="top")
