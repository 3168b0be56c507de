"""Topology: keeps the tasks of a group within one domain."""

from navarch.scheduler.plugins.topology.plugin import TopologyPlugin

__all__ = ["TopologyPlugin"]
