"""Labels beside points in a figure, placed so that they overlap neither each other, nor marks, nor curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.transforms import Bbox, IdentityTransform

from opdop.model.validation import Floats
from opdop.report.figures.style import GREY

# Offsets of a label from its point, in points of 1/72 inch, and the side of the label that is there.
Shift = tuple[float, float, str]
NEAR: tuple[Shift, ...] = tuple(
    (x, y, "left" if x > 0 else "right" if x < 0 else "center")
    for x, y in ((5, 4), (5, -9), (-5, 4), (-5, -9), (0, 8), (0, -13), (10, -2), (-10, -2))
)
# Farther away, with a line to the point.
FAR: tuple[Shift, ...] = tuple(
    (round(radius * np.cos(angle), 1), round(radius * np.sin(angle) - 2.0, 1), side)
    for radius in (18, 27, 38, 50)
    for angle in np.linspace(0.0, 2.0 * np.pi, 12, endpoint=False)
    for side in ("left", "center", "right")
)
_LEADER = 14.0  # points; a label that is farther away has a line to its point
_PER_POINT = 1.0 / 60.0  # penalty of distance, so that a near place is preferred
_SPACING = 2.0  # pixels between the points of a curve that a label is kept off
_ON_CURVE = 1.0  # penalty of lying on a curve, more than that of any distance


class Labels:
    """The labels of a panel whose limits are set."""

    def __init__(self, axes: Axes, curves: list[Floats]) -> None:
        figure = axes.get_figure(root=True)
        assert figure is not None
        canvas: Any = FigureCanvasAgg(figure)
        self._axes, self._renderer = axes, canvas.get_renderer()
        self._pixels = figure.dpi / 72.0  # in a point
        self._boxes: list[Bbox] = []
        self._points = np.empty((0, 2))
        for curve in curves:
            self.avoid(curve)

    def avoid(self, points: Floats) -> None:
        """Keep labels off the curve through these points, [n, 2] in data coordinates."""
        self._avoid_pixels(self._axes.transData.transform(points))

    def block(self, point: Floats, radius: float) -> None:
        """Keep labels off a mark of this radius, in points."""
        x, y = self._axes.transData.transform(point)
        half = radius * self._pixels
        self._boxes.append(Bbox.from_extents(x - half, y - half, x + half, y + half))

    def write(
        self,
        words: str,
        *points: Floats,
        shifts: Sequence[Shift] = NEAR,
        must: bool = False,
        clean: bool = False,
        **look: Any,
    ) -> None:
        """Write beside one of the points, where least is hidden; leave the label out if there is no room.

        Args:
            words: the label.
            points: where it may be, [2] each; those outside of the panel are skipped.
            shifts: offsets to try at each point, in points.
            must: write it even where it overlaps another label.
            clean: leave it out rather than write it on a curve.
            look: properties of the text.

        """
        look = {"fontsize": 6.0, "zorder": 10, **look}
        size = self._size(words, look)
        best: tuple[float, Floats, Shift, Bbox] | None = None
        for point in points:
            place = self._axes.transAxes.inverted().transform(self._axes.transData.transform(point))
            if (place < -0.001).any() or (place > 1.001).any():
                continue
            for shift in shifts:
                box = self._moved(size, point, shift)
                penalty = self._penalty(box, must=must) + _PER_POINT * float(np.hypot(*shift[:2]))
                if penalty < (np.inf if best is None else best[0]):
                    best = penalty, point, shift, box
        if best is None or (clean and best[0] >= _ON_CURVE):
            return
        _, point, shift, box = best
        self._boxes.append(box)
        if np.hypot(*shift[:2]) > _LEADER:
            colour = look.get("color", GREY)
            look["arrowprops"] = {"arrowstyle": "-", "linewidth": 0.4, "color": colour, "shrinkA": 0, "shrinkB": 3}
            centre = np.array([(box.x0 + box.x1) / 2.0, (box.y0 + box.y1) / 2.0])
            self._avoid_pixels(np.array([centre, self._axes.transData.transform(point)]))
        self._axes.annotate(
            words, (point[0], point[1]), xytext=shift[:2], textcoords="offset points", ha=shift[2], **look
        )

    def _avoid_pixels(self, corners: Floats) -> None:
        corners = corners[np.isfinite(corners).all(axis=1)]
        if not len(corners):
            return
        lengths = np.append(0.0, np.cumsum(np.hypot(*np.diff(corners, axis=0).T)))
        along = np.linspace(0.0, lengths[-1], int(lengths[-1] / _SPACING) + 2)
        dense = np.column_stack([np.interp(along, lengths, each) for each in corners.T])
        self._points = np.vstack([self._points, dense])

    def _size(self, words: str, look: dict[str, Any]) -> Bbox:
        """Return the box of a left-aligned label relative to its anchor, in pixels."""
        text = self._axes.text(0.0, 0.0, words, transform=IdentityTransform(), **look)
        box = text.get_window_extent(self._renderer)
        text.remove()
        return box

    def _moved(self, size: Bbox, point: Floats, shift: Shift) -> Bbox:
        x, y = self._axes.transData.transform(point) + self._pixels * np.array(shift[:2])
        x -= {"left": 0.0, "center": 0.5, "right": 1.0}[shift[2]] * size.width
        return size.translated(x, y)

    def _penalty(self, box: Bbox, *, must: bool) -> float:
        """Return how much a label would hide; infinite if it overlaps another, or the panel's edge, and need not be."""
        frame = self._axes.bbox
        outside = box.x0 < frame.x0 or box.x1 > frame.x1 or box.y0 < frame.y0 or box.y1 > frame.y1
        overlaps = int(outside) + sum(box.overlaps(other) for other in self._boxes)
        if overlaps:
            return 10.0 * overlaps if must else np.inf
        x, y, box = *self._points.T, box.padded(_SPACING)
        on_curves = int(((x > box.x0) & (x < box.x1) & (y > box.y0) & (y < box.y1)).sum())
        return _ON_CURVE * (1.0 + on_curves / 50.0) * (on_curves > 0)
