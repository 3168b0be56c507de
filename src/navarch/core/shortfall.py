"""Shortfalls: resources that one node lacks for a task."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortfall:
    """The resources that one otherwise suitable node lacks for the task."""

    node: str
    lacks: str
    """The figures below as text."""
    gpus: float = 0.0
    cpu_cores: float = 0.0
    memory_gb: float = 0.0
    pods: float = 0.0
