"""Reports: an outcome, or two side by side, as one page that needs nothing but a browser."""

from navarch.sim.report.comparison import render_comparison_html
from navarch.sim.report.page import render_html

__all__ = ["render_comparison_html", "render_html"]
