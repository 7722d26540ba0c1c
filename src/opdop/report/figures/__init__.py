"""Figures for a page, a slide or a column; drawn without pyplot, so nothing global changes."""

from opdop.report.figures.problem import frontier, occupancy_map, picture
from opdop.report.figures.run import run_figure
from opdop.report.figures.style import KINDS, check_target, save

__all__ = ["KINDS", "check_target", "frontier", "occupancy_map", "picture", "run_figure", "save"]
