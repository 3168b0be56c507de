"""Keeping tasks of a job close to each other."""

from navarch.scheduler.plugins.topology.plugin import TopologyPlugin

__all__ = ["TopologyPlugin"]
