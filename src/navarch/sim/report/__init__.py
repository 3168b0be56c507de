"""Reports: self-contained HTML pages about one outcome, or two side by side."""

from navarch.sim.report.comparison import render_comparison_html
from navarch.sim.report.page import render_html

__all__ = ["render_comparison_html", "render_html"]
