"""Queues: the shares of jobs in the GPUs of the fleet."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """One queue. Only queues without child queues contain jobs."""

    name: str
    parent: str | None = None
    priority: int = 100
    quota: float = 0.0
    """The number of GPUs it is guaranteed."""
    limit: float | None = None
    """The largest number of GPUs it may have."""
    weight: float = 1.0
    """Its weight in the division of GPUs beyond all quotas."""
