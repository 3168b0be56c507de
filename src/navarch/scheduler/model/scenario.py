"""A simulated outcome, which plugins accept or refuse."""

from collections.abc import Mapping
from typing import NamedTuple

from navarch.scheduler.model.job import Job, Task


class Victim(NamedTuple):
    """A job that tasks were taken from in the simulation, and which."""

    job: Job
    tasks: tuple[Task, ...]
    """Live: one that is Releasing would be stopped, Pipelined moved, otherwise left alone."""


class Scenario(NamedTuple):
    """A job that would be placed, and its victims."""

    preemptor: Job
    """The part of the pending job that this scenario places."""
    victims: Mapping[str, Victim]
