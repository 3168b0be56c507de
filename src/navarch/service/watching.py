"""A watch: every revision after a given one, without gaps."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence

from navarch.core.errors import NotPossibleError
from navarch.core.event import Recorded
from navarch.core.fleet import Fleet
from navarch.core.ids import NodeId, PoolName
from navarch.ports.api import NodeView, PoolView, Update
from navarch.ports.store import Store

PAGE = 1_000
"""How many events a watcher reads at a time."""


class Watching:
    """Follows the store for one watcher."""

    def __init__(
        self,
        store: Store,
        *,
        show_node: Callable[[Fleet, NodeId], NodeView | None],
        show_pool: Callable[[Fleet, PoolName], PoolView | None],
    ) -> None:
        self._store = store
        self._show_node = show_node
        self._show_pool = show_pool

    async def updates(self, after_revision: int | None) -> AsyncGenerator[Update, None]:
        """Yield past revisions from the journal, then new ones as they are committed."""
        now = self._store.fleet().revision
        start = now if after_revision is None else after_revision
        if start > now:
            raise NotPossibleError(f"revision {start} is in the future: the store is at {now}")
        changed = asyncio.Event()
        leave = self._store.subscribe(lambda _: changed.set())
        try:
            last = start
            while True:
                changed.clear()
                async for update in self._between(last, self._store.fleet().revision):
                    yield update
                    last = update.revision
                await changed.wait()
        finally:
            leave()

    def _check_reach(self, revision: int) -> None:
        """Raise NotPossibleError if the journal no longer holds what follows `revision`."""
        start = self._store.journal_start
        if revision < start:
            raise NotPossibleError(
                f"revision {revision} is too old: the journal begins at {start}; "
                "list what you need and watch from the revision of the list"
            )

    async def _between(self, last: int, newest: int) -> AsyncIterator[Update]:
        """Yield the revisions after `last` up to `newest`, including those without events."""
        revision = last + 1
        entries: list[Recorded] = []
        async for entry in self._entries(last, newest):
            while revision < entry.revision:
                yield self._update(revision, entries)
                revision, entries = revision + 1, []
            entries.append(entry)
        while revision <= newest:
            yield self._update(revision, entries)
            revision, entries = revision + 1, []

    async def _entries(self, last: int, newest: int) -> AsyncIterator[Recorded]:
        page = await self._store.events(after_revision=last, limit=PAGE)
        self._check_reach(last)
        while page:
            for entry in page:
                if entry.revision > newest:
                    return
                yield entry
            if len(page) < PAGE:
                return
            last = page[-1].revision
            page = await self._store.events(after=page[-1].number, limit=PAGE)
            # The rest of that revision may have been pruned meanwhile.
            self._check_reach(last - 1)

    def _update(self, revision: int, entries: Sequence[Recorded]) -> Update:
        fleet = self._store.fleet()
        events = tuple(entries)
        nodes: dict[str, NodeView] = {}
        pools: dict[str, PoolView] = {}
        for entry in events:
            kind, _, name = entry.event.about.partition("/")
            if kind == "node" and (node := self._show_node(fleet, NodeId(name))):
                nodes[name] = node
                if node.pool and (pool := self._show_pool(fleet, node.pool)):
                    pools[node.pool] = pool
            elif kind == "pool" and (pool := self._show_pool(fleet, PoolName(name))):
                pools[name] = pool
        return Update(
            revision=revision,
            events=events,
            nodes=tuple(nodes.values()),
            pools=tuple(pools.values()),
        )
