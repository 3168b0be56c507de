"""Boot times: learned from every commit, and read from the ledger at the start."""

from navarch.control.pools.ledger import PAGE
from navarch.core.launch import Launch
from navarch.fleet.boot_times import BootTimes, BootWatch
from navarch.ports.clock import Clock
from navarch.ports.store import Committed, Store


class BootMemory:
    """Holds what the store records about boots."""

    def __init__(self, clock: Clock, store: Store) -> None:
        self._store = store
        self._read = False
        self.watch = BootWatch(times=BootTimes(), started_at=clock.now())
        for node in store.fleet().nodes.values():
            self.watch.times.note_node(node)

    async def begin_round(self) -> None:
        """Read the ledger once: it holds the boots of machines that the fleet has forgotten."""
        after: Launch | None = None
        while not self._read:
            page = await self._store.launches(after=after, limit=PAGE)
            for launch in page:
                self.watch.times.note(launch, registered_at=launch.registered_at)
            self._read = len(page) < PAGE
            after = page[-1] if page else None

    def on_commit(self, committed: Committed) -> None:
        """Note the machines that registered or were given up."""
        for before, node in committed.moved:
            known = before is not None and before.registered_at == node.registered_at
            if not known or before is None or node.retiring is not before.retiring:
                self.watch.times.note_node(node)
        for node in committed.forgotten:
            self.watch.times.forget(node)
