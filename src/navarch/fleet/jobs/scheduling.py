"""The configuration of the scheduler for the fleet's own jobs."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from navarch.core.job import Queue
from navarch.scheduler.config import OWN_PLUGINS, SchedulerConfig


def own_config() -> SchedulerConfig:
    """Return the default configuration, which places jobs with foresight."""
    return SchedulerConfig(plugins=OWN_PLUGINS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduling:
    """The configured queues and scheduler of the fleet's own jobs."""

    queues: Mapping[str, Queue] = field(default_factory=dict)
    """By name. Empty: one queue without bounds, named `default`."""
    config: SchedulerConfig = field(default_factory=own_config)
