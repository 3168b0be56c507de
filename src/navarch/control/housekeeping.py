"""Controllers that clean up and take snapshots."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

from navarch.control.runtime.controller import Controller
from navarch.control.runtime.work_queue import WorkQueue
from navarch.core.fleet import Change, Fleet
from navarch.core.ids import NodeId
from navarch.fleet.host_retention import forget_silent_hosts, silent_since
from navarch.ports.clock import Clock
from navarch.ports.store import Committed, Store

KEEP = timedelta(hours=24)
"""How long a node that is gone can be listed. Its history stays in the journal, its cost in the
ledger."""


class HousekeepingController(Controller):
    """Keeps the fleet the size of what exists."""

    name = "housekeeping"
    queue: WorkQueue[NodeId]

    def __init__(self, clock: Clock, store: Store) -> None:
        super().__init__(clock, store)
        for node in store.fleet().nodes.values():
            if node.gone:
                self.queue.add_at(node.id, node.since + KEEP)

    def on_commit(self, committed: Committed) -> None:
        """Queue the nodes that are gone for the time when they are forgotten."""
        for node in committed.change.nodes:
            if node.gone:
                self.queue.add_at(node.id, node.since + KEEP)

    async def reconcile(self, keys: Sequence[NodeId]) -> None:
        """Forget the nodes that are due."""
        now, fleet = self._clock.now(), self._store.fleet()
        # The agent of a forgotten host may have registered a new node of the same name.
        known = [fleet.nodes[name] for name in keys if name in fleet.nodes]
        gone = [node for node in known if node.gone]
        past = [node.id for node in gone if now >= node.since + KEEP]
        for node in gone:
            if node.id not in past:
                self.queue.add_at(node.id, node.since + KEEP)
        if past:
            await self._store.commit(Change(forget_nodes=past), based_on=fleet.revision)


RETENTION_CHECK_EVERY = timedelta(hours=1)
"""A shorter retention in a reloaded configuration is applied this much late at worst."""

HOSTS = "hosts"


class HostRetentionController(Controller):
    """Forgets self-registered nodes whose hosts have been silent for too long."""

    name = "host-retention"

    def __init__(
        self, clock: Clock, store: Store, retention: Callable[[], timedelta | None]
    ) -> None:
        """`retention` returns how long silent hosts are kept; None for ever."""
        super().__init__(clock, store)
        self._retention = retention
        # After a restart every host has this long to report before it may be forgotten.
        self._look_again(store.fleet())

    def on_commit(self, committed: Committed) -> None:
        """Queue a round when a host has become silent."""
        if any(silent_since(node) is not None for node in committed.change.nodes):
            self.queue.add_by(HOSTS, self._clock.now() + RETENTION_CHECK_EVERY)

    async def reconcile(self, _keys: Sequence[str]) -> None:
        """Forget the hosts that are due, and look again when the next one may be."""
        now, fleet, retention = self._clock.now(), self._store.fleet(), self._retention()
        forgotten = forget_silent_hosts(fleet.nodes.values(), retention, now=now)
        if forgotten:
            change = Change(
                nodes=[node for node, _ in forgotten], events=[event for _, event in forgotten]
            )
            fleet = await self._store.commit(change, based_on=fleet.revision)
        self._look_again(fleet)

    def _look_again(self, fleet: Fleet) -> None:
        """Queue the next round if there is a silent host."""
        if any(silent_since(node) is not None for node in fleet.nodes.values()):
            self.queue.add_at(HOSTS, self._clock.now() + RETENTION_CHECK_EVERY)


SNAPSHOT_EVERY = timedelta(seconds=10)
"""How much of the nodes' readings a crash may cost. Everything that decides is durable at once."""

READINGS = "readings"


class SnapshotController(Controller):
    """Saves the readings of all nodes every few seconds."""

    name = "snapshots"

    def __init__(self, clock: Clock, store: Store, save: Callable[[], Awaitable[None]]) -> None:
        super().__init__(clock, store)
        self._save = save
        self.queue.add_at(READINGS, clock.now() + SNAPSHOT_EVERY)

    async def reconcile(self, _keys: Sequence[str]) -> None:
        """Save the readings."""
        await self._save()
        self.queue.add_at(READINGS, self._clock.now() + SNAPSHOT_EVERY)
