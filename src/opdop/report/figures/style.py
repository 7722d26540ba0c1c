"""How figures look and how they are saved: colours, sizes, letters, and the same bytes every time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.style import context as style_context

from opdop.model import InvalidParameterError, Quantity
from opdop.report.answer import better

KINDS = (".svg", ".png", ".pdf")
WIDTH = 80 / 25.4  # inches
OUTDENT = 0.36  # inches from a panel's left edge to where its title begins

# Okabe and Ito's colours, told apart with any kind of colour vision.
BLUE, VERMILION, GREEN, ORANGE, PURPLE = "#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7"
SKY, PEACH = "#A6CEE9", "#F6CDA8"
DASHED: dict[str, Any] = {"linewidth": 0.9, "linestyle": (0, (4, 2)), "zorder": 4}
DUALS = (PURPLE, GREEN, ORANGE, BLUE, VERMILION)
INK, GREY, PALE = "#222222", "#8A8A8A", "#E9ECEF"
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
    """Save a figure as .svg, .png or .pdf; the same figure gives the same bytes."""
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
    if not file.absolute().parent.is_dir():
        raise InvalidParameterError(f"cannot write {str(file)!r}: there is no folder {str(file.parent)!r}.")
    return file


def axis_label(quantity: Quantity) -> str:
    """Return what an axis says of a quantity: its name, its unit, and which way is better."""
    unit = "" if not quantity.unit or quantity.unit in quantity.name else f", {quantity.unit}"
    return f"{quantity.name}{unit} ({better(quantity)} is better)"


def per(what: str, unit: str, each: str) -> str:
    """Return a title such as "Regret, steps per episode"."""
    return f"{what}, {unit} per {each}" if unit else f"{what} per {each}"
