"""Choosing GPUs for a task that takes only a part of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from navarch.scheduler.model.node import WHOLE_GPU

if TYPE_CHECKING:
    from navarch.scheduler.framework.session import Session
    from navarch.scheduler.model.node import Node
    from navarch.scheduler.model.task import Task


@dataclass(frozen=True, slots=True)
class GpuChoice:
    """The shared GPUs a task gets, and whether it can have them at once."""

    groups: tuple[str, ...]
    now: bool


def share_gpus(session: Session, task: Task, node: Node, *, now: bool) -> GpuChoice | None:
    """Return the best GPUs of the node for the task, or nothing if there are too few.

    With `now` unset, the choice is for once others have left.
    """
    wanted = task.request.gpu.devices
    groups: list[str] = []
    opened = 0
    for gpu in session.fitting_gpus(task, node)[:wanted]:
        if gpu == WHOLE_GPU:
            opened += 1
            groups.append(_new_group(task, node, groups))
            continue
        if node.groups[gpu].awaited:
            opened += 1  # it is only promised: a task that starts on it takes an idle GPU
        else:
            now = now and node.group_fits_now(gpu, task.request)
        groups.append(gpu)
    if len(groups) < wanted:
        return None
    return GpuChoice(tuple(groups), now and node.can_open_now(opened, task.request))


def _new_group(task: Task, node: Node, taken: list[str]) -> str:
    """Return an id no GPU of the node has; derived from names, so a replay gives the same."""
    number = 0
    while (group := f"{node.name}/{task.uid}/{number}") in node.groups or group in taken:
        number += 1
    return group
