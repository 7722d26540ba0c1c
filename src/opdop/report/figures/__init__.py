"""Figures for a page, a slide or a column; drawn without pyplot, so nothing global changes."""

from opdop.report.figures.groups import cost_figure, multiplier_figure
from opdop.report.figures.paths import Ground, View, close, ground, path_figure, whole
from opdop.report.figures.problem import frontier, occupancy_map, picture
from opdop.report.figures.run import run_figure
from opdop.report.figures.style import KINDS, check_target, save

__all__ = [
    "KINDS",
    "Ground",
    "View",
    "check_target",
    "close",
    "cost_figure",
    "frontier",
    "ground",
    "multiplier_figure",
    "occupancy_map",
    "path_figure",
    "picture",
    "run_figure",
    "save",
    "whole",
]
