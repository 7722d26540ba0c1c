"""Figures for a page, a slide or a column; drawn without pyplot, so that no global state changes."""

from opdop.report.figures.certificates import certificate_figure, has_trail
from opdop.report.figures.groups import metric_figure, multiplier_figure
from opdop.report.figures.paths import Ground, View, close, ground, path_figure, whole
from opdop.report.figures.problem import frontier, occupancy_map, picture
from opdop.report.figures.realised import realised_figure
from opdop.report.figures.realised_groups import moving_figure, realised_multiplier_figure
from opdop.report.figures.run import run_figure
from opdop.report.figures.style import KINDS, check_target, save

__all__ = [
    "KINDS",
    "Ground",
    "View",
    "certificate_figure",
    "check_target",
    "close",
    "frontier",
    "ground",
    "has_trail",
    "metric_figure",
    "moving_figure",
    "multiplier_figure",
    "occupancy_map",
    "path_figure",
    "picture",
    "realised_figure",
    "realised_multiplier_figure",
    "run_figure",
    "save",
    "whole",
]
