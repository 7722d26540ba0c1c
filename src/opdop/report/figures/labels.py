"""Words beside points in a figure, placed where they hide as little as possible."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.transforms import Bbox

from opdop.model.validation import Floats

SHIFTS = ((5, 4), (5, -9), (-5, 4), (-5, -9), (0, 8), (0, -13), (10, -2), (-10, -2))  # points, where a label may be
_CROWDED = 2.0  # a label that would lie on another, or outside, is left out


class Labels:
    """The labels of a panel whose limits are set."""

    def __init__(self, axes: Axes, curves: list[Floats]) -> None:
        figure = axes.get_figure(root=True)
        assert figure is not None
        canvas: Any = FigureCanvasAgg(figure)
        self._axes, self._renderer = axes, canvas.get_renderer()
        self._boxes: list[Bbox] = []
        self._points = np.empty((0, 2))
        for curve in curves:
            self.avoid(curve)

    def avoid(self, points: Floats) -> None:
        """Keep labels off a curve through these points."""
        seen_at = self._axes.transData.transform(points)
        steps = np.linspace(0.0, 1.0, 12, endpoint=False)[:, None, None]
        between = (seen_at[:-1] + steps * np.diff(seen_at, axis=0)).reshape(-1, 2)
        self._points = np.vstack([self._points, between, seen_at])

    def write(self, words: str, *points: Floats, shifts: Any = SHIFTS, must: bool = False, **look: Any) -> None:
        """Write beside one of the points, the best of them; not at all if there is no room, unless it must be."""
        look = {"fontsize": 6.0, "zorder": 10, "textcoords": "offset points", **look}
        tried: list[tuple[float, int, Floats, tuple[float, float], str, Bbox]] = []
        for point in points:
            place = self._axes.transAxes.inverted().transform(self._axes.transData.transform(point))
            if (place < -0.001).any() or (place > 1.001).any():
                continue
            for x, y in shifts:
                side = "left" if x > 0 else "right" if x < 0 else "center"
                text = self._axes.annotate(words, (point[0], point[1]), xytext=(x, y), ha=side, **look)
                box = text.get_window_extent(self._renderer)
                text.remove()
                tried.append((self._hidden(box), len(tried), point, (x, y), side, box))
        if not tried:
            return
        hidden, _, point, shift, side, box = min(tried, key=lambda each: each[:2])
        if must or hidden < _CROWDED:
            self._boxes.append(box)
            self._axes.annotate(words, (point[0], point[1]), xytext=shift, ha=side, **look)

    def _hidden(self, box: Bbox) -> float:
        """Return how bad it is to have a label here."""
        frame = self._axes.bbox
        outside = box.x0 < frame.x0 or box.x1 > frame.x1 or box.y0 < frame.y0 or box.y1 > frame.y1
        overlaps = sum(box.overlaps(other) for other in self._boxes)
        x, y = self._points.T
        on_curves = int(((x > box.x0) & (x < box.x1) & (y > box.y0) & (y < box.y1)).sum())
        return 2.0 * bool(outside) + 2.0 * int(overlaps) + (0.5 + 0.5 * min(on_curves / 50, 1.0)) * (on_curves > 0)
