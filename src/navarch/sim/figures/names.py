"""The names under which assertions ask for figures."""

from navarch.sim.figures.figures import Figures, flatten

FIGURE_NAMES = tuple(flatten(Figures()))
