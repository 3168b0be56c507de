"""What one node lacks to take a task."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortfall:
    """What one node that nothing else speaks against lacks to take the task."""

    node: str
    lacks: str
    """In words, what the figures below say."""
    gpus: float = 0.0
    cpu_cores: float = 0.0
    memory_gb: float = 0.0
    pods: float = 0.0
