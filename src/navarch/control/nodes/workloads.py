"""The workload system, called through the guard of extensions."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from navarch.control.runtime.extensions import Extension, ExtensionGuard, ExtensionKind, name_of
from navarch.core.event import about
from navarch.core.ids import NodeId
from navarch.ports.notifier import WorkloadNotifier

T = TypeVar("T")


class GuardedWorkloads:
    """A workload notifier that always answers in time, or raises ExtensionFailedError.

    A failure concerns one node. Whether that node may go without an answer is for the rules of
    drains to decide.
    """

    def __init__(self, guard: ExtensionGuard, notifier: WorkloadNotifier) -> None:
        self._guard = guard
        self._notifier = notifier
        self.name = name_of(notifier)

    async def cordon(self, node: NodeId, reason: str) -> None:
        """Start no new work on `node`."""
        await self._call(node, lambda: self._notifier.cordon(node, reason))

    async def uncordon(self, node: NodeId) -> None:
        """Start work on `node` again."""
        await self._call(node, lambda: self._notifier.uncordon(node))

    async def drain(self, node: NodeId, reason: str) -> None:
        """Move the work on `node` elsewhere."""
        await self._call(node, lambda: self._notifier.drain(node, reason))

    async def is_drained(self, node: NodeId) -> bool:
        """Return whether no work is left on `node`."""

        async def query() -> bool:
            answer: object = await self._notifier.is_drained(node)
            if not isinstance(answer, bool):
                # Something that is merely true must not end a machine with work on it.
                raise TypeError(f"is_drained returned {answer!r}, which is neither true nor false")
            return answer

        return await self._call(node, query)

    async def _call(self, node: NodeId, call: Callable[[], Awaitable[T]]) -> T:
        extension = Extension(
            kind=ExtensionKind.WORKLOAD_NOTIFIER, name=self.name, subject=about("node", node)
        )
        return await self._guard.wait_for(extension, self._notifier, call)
