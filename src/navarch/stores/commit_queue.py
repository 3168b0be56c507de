"""Commits in batches: changes that arrive while the disk is busy share one transaction."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence, Set
from contextlib import asynccontextmanager
from dataclasses import dataclass

from navarch.core.errors import StoreError, SupersededError
from navarch.core.fleet import Change, Fleet
from navarch.stores.state_cache import StateCache

BATCH_MAX = 256
"""The most changes in one transaction: the first of them waits for the last."""


class InDoubtError(StoreError):
    """The connection was lost during a transaction, which may be durable."""


@dataclass(slots=True)
class _Pending:
    """A change that is to be written, and the future of its caller."""

    change: Change
    based_on: int
    written: asyncio.Future[Fleet]
    claims: Set[str] = frozenset()
    """The names of what it writes, once it is accepted."""

    def fail(self, error: BaseException) -> None:
        if not self.written.done():
            self.written.set_exception(error)


class CommitQueue:
    """Writes changes in the order of their calls, and advances the state once they are durable."""

    def __init__(
        self,
        state: StateCache,
        write: Callable[[Sequence[Change], int], Awaitable[None]],
        stored_revision: Callable[[], Awaitable[int]] | None = None,
    ) -> None:
        """`write` makes changes durable as one revision each, from a revision on: all or none.

        It may raise InDoubtError. `stored_revision` then returns the newest durable revision, or
        raises while that cannot be known; nothing else is written until it has returned.
        """
        self._turn = asyncio.Lock()
        self._state = state
        self._write = write
        self._stored_revision = stored_revision
        self._queue: list[_Pending] = []
        self._in_doubt: list[_Pending] = []
        self._writing: asyncio.Task[None] | None = None

    async def add(self, change: Change, based_on: int) -> Fleet:
        """Return the fleet after `change`, which is durable then, or raise ConflictError."""
        # A caller may be cancelled while the disk works. Memory must follow the disk all the
        # same, so the write is a separate task and the caller only waits for its result.
        loop = asyncio.get_running_loop()
        pending = _Pending(change, based_on, loop.create_future())
        self._queue.append(pending)
        if self._writing is None or self._writing.done():
            self._writing = loop.create_task(self._write_queue())
        return await asyncio.shield(pending.written)

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Keep commits waiting for the block, and begin it with no transaction in doubt."""
        async with self._turn:
            await self._settle()
            yield

    async def _write_queue(self) -> None:
        while self._queue:
            async with self._turn:
                batch, self._queue = self._queue[:BATCH_MAX], self._queue[BATCH_MAX:]
                try:
                    await self._settle()
                    accepted = list(self._accepted(batch))
                    if accepted:
                        await self._write_batch(accepted)
                except BaseException as error:
                    for pending in batch:
                        pending.fail(error)
                    if not isinstance(error, Exception):
                        raise

    async def _write_batch(self, accepted: list[_Pending], *, again: bool = True) -> None:
        changes = [pending.change for pending in accepted]
        try:
            await self._write(changes, self._state.fleet.revision + 1)
        except InDoubtError as error:
            self._in_doubt = accepted
            try:
                durable = await self._settle()
            except SupersededError:
                raise
            except StoreError as unsettled:
                raise error from unsettled
            if durable:
                return
            if not again:
                raise
            await self._write_batch(accepted, again=False)
        else:
            self._advance(accepted)

    async def _settle(self) -> bool:
        """Return whether the batch in doubt, if there is one, turned out to be durable."""
        if not self._in_doubt:
            return False
        assert self._stored_revision is not None
        stored, known = await self._stored_revision(), self._state.fleet.revision
        if stored not in (known, known + len(self._in_doubt)):
            raise SupersededError(
                f"the database is at revision {stored}, this server at {known}: it was restored or "
                "has lost commits; this server stops"
            )
        batch, self._in_doubt = self._in_doubt, []
        if stored > known:
            self._advance(batch)
        return stored > known

    def _advance(self, written: Iterable[_Pending]) -> None:
        for pending in written:
            # An error of a listener goes to the caller of this change only: the other changes of
            # the batch are just as durable.
            try:
                fleet = self._state.advance(pending.change, pending.claims)
            except Exception as error:  # noqa: BLE001 - the caller receives it
                pending.fail(error)
                continue
            if not pending.written.done():
                pending.written.set_result(fleet)

    def _accepted(self, batch: Iterable[_Pending]) -> Iterator[_Pending]:
        """Yield the changes of a batch that do not conflict; fail the others."""
        claimed: set[str] = set()
        for pending in batch:
            try:
                pending.claims = self._state.check(
                    pending.change, pending.based_on, pending=claimed
                )
            except Exception as error:  # noqa: BLE001 - the caller receives it
                pending.fail(error)
                continue
            claimed |= pending.claims
            yield pending
