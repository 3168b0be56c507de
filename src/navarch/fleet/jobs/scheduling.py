"""The configuration of the scheduler for the fleet's own jobs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from navarch.core.job import Queue
from navarch.scheduler.config import OWN_PLUGINS, SchedulerConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduling:
    """The configured queues and scheduler of the fleet's own jobs."""

    queues: Mapping[str, Queue] = field(default_factory=dict)
    """By name. Empty: one queue without bounds, named `default`."""
    config: SchedulerConfig = field(default_factory=partial(SchedulerConfig, plugins=OWN_PLUGINS))
    """By default it places jobs with foresight."""
