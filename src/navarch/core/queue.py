"""Queues: who shares the GPUs, and how much of them each is promised."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """One queue of jobs. Jobs are in those that have none below them."""

    name: str
    parent: str | None = None
    priority: int = 100
    quota: float = 0.0
    """How many GPUs it is promised."""
    limit: float | None = None
    """How many it may have at most."""
    weight: float = 1.0
    """Its share of what is left over."""
