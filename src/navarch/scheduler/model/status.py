"""The states of a task, and the groups of states that rules refer to."""

from enum import IntEnum


class TaskStatus(IntEnum):
    """One state of a task. Values are bits, so a group of states is a plain integer mask."""

    PENDING = 1
    GATED = 2
    ALLOCATED = 4
    PIPELINED = 8
    BINDING = 16
    BOUND = 32
    RUNNING = 64
    RELEASING = 128
    SUCCEEDED = 256
    FAILED = 512
    UNKNOWN = 1024
    DELETED = 2048

    @property
    def title(self) -> str:
        """The spelling used in files: `Pending`, `Running`, ..."""
        return self.name.capitalize()


ALLOCATED_MASK = (
    TaskStatus.ALLOCATED.value
    | TaskStatus.BINDING.value
    | TaskStatus.BOUND.value
    | TaskStatus.RUNNING.value
)
"""Holds resources of a node now."""

ACTIVE_ALLOCATED_MASK = ALLOCATED_MASK | TaskStatus.PIPELINED.value
"""Holds resources now, or will once a leaving task has gone."""

ACTIVE_USED_MASK = ACTIVE_ALLOCATED_MASK | TaskStatus.RELEASING.value
"""Also counts a task on its way out."""

ALIVE_MASK = ACTIVE_ALLOCATED_MASK | TaskStatus.PENDING.value | TaskStatus.GATED.value
"""May still do work."""

ANY_MASK = (1 << len(TaskStatus)) - 1
"""Every state there is."""

STATUS_BY_TITLE = {status.title: status for status in TaskStatus}
