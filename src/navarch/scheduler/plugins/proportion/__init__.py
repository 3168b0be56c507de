"""Fairness between queues: quotas, limits, and what is left by weight."""

from navarch.scheduler.plugins.proportion.plugin import Proportion

__all__ = ["Proportion"]
