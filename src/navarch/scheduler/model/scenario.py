"""A simulated outcome that plugins are asked to judge."""

from collections.abc import Mapping
from typing import NamedTuple

from navarch.scheduler.model.job import Job
from navarch.scheduler.model.task import Task


class Victim(NamedTuple):
    """A job that tasks were taken from in the simulation, and which."""

    job: Job
    tasks: tuple[Task, ...]
    """Live: one that is Releasing would be stopped, Pipelined moved, otherwise left alone."""


class Scenario(NamedTuple):
    """For whom, at whose cost."""

    preemptor: Job
    """The part of the pending job that this scenario places."""
    victims: Mapping[str, Victim]
