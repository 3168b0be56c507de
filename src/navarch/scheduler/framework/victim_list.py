"""Jobs that would be taken from a queue, one after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

if TYPE_CHECKING:
    from navarch.scheduler.model.job import Job


class VictimList(Sequence["Job"]):
    """Those taken `before`, in a list that only grows, and the next one."""

    __slots__ = ("before", "following")

    def __init__(self, before: list[Job], following: Job) -> None:
        self.before = before
        self.following = following

    def __len__(self) -> int:
        return len(self.before) + 1

    @overload
    def __getitem__(self, index: int) -> Job: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Job]: ...

    def __getitem__(self, index: int | slice) -> Job | Sequence[Job]:
        return [*self.before, self.following][index]
