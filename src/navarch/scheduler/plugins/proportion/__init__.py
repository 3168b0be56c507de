"""Proportion: quotas, limits, and division of the surplus by weight."""

from navarch.scheduler.plugins.proportion.plugin import Proportion

__all__ = ["Proportion"]
