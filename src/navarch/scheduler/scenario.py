"""A simulated outcome that plugins are asked to judge."""

from collections.abc import Mapping
from dataclasses import dataclass

from navarch.scheduler.state.job import Job
from navarch.scheduler.state.task import Task


@dataclass(frozen=True, slots=True)
class Victim:
    """A job that tasks were taken from in the simulation, and which."""

    job: Job
    tasks: tuple[Task, ...]
    """Live: one that is Releasing would be stopped, Pipelined moved, otherwise left alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """For whom, at whose cost."""

    preemptor: Job
    """The part of the pending job that this scenario places."""
    victims: Mapping[str, Victim]
