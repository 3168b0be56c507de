"""How the fleet's own jobs are scheduled: by which queues, plugins and bounds."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from navarch.core.queue import Queue
from navarch.scheduler.config import OWN_PLUGINS, SchedulerConfig


def own_config() -> SchedulerConfig:
    """Return how jobs are placed unless somebody lists plugins: with foresight."""
    return SchedulerConfig(plugins=OWN_PLUGINS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduling:
    """Everything that is configured about the fleet's own jobs."""

    queues: Mapping[str, Queue] = field(default_factory=dict)
    """By name. None at all: one queue without bounds, called `default`."""
    config: SchedulerConfig = field(default_factory=own_config)
