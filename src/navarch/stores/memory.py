"""A store that forgets when the process ends: for tests, the simulator and a first try."""

from collections.abc import Callable, Sequence

from navarch.core.event import Recorded, Subject
from navarch.core.fleet import Change, Fleet
from navarch.core.ids import NodeId, PoolName, Token
from navarch.core.inventory import Inventory
from navarch.core.launch import Launch
from navarch.core.ownership import Cluster
from navarch.ports.store import Committed
from navarch.stores.head import Head


class MemoryStore:
    """Keeps everything in attributes."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._head = Head(Fleet())
        self._journal: list[Recorded] = []
        self._by_subject: dict[Subject, list[Recorded]] = {}
        self._launches: dict[tuple[Token, str], Launch] = {}
        self._inventories: dict[NodeId, Inventory] = {}

    def fleet(self) -> Fleet:
        """Return the newest fleet."""
        return self._head.fleet

    async def commit(self, change: Change, *, based_on: int) -> Fleet:
        """Write `change`, or raise ConflictError."""
        self._head.check(change, based_on)
        revision = self._head.fleet.revision + 1
        for event in change.events:
            entry = Recorded(number=len(self._journal) + 1, revision=revision, event=event)
            self._journal.append(entry)
            self._by_subject.setdefault(event.about, []).append(entry)
        for launch in change.launches:
            self._launches[launch.token, launch.instance or ""] = launch
        self._inventories.update(change.inventories)
        for node in change.forget_nodes:
            self._inventories.pop(node, None)
        return self._head.advance(change)

    def subscribe(self, listener: Callable[[Committed], None]) -> Callable[[], None]:
        """Call `listener` after each commit."""
        return self._head.subscribe(listener)

    async def events(
        self, *, after: int = 0, about: Subject | None = None, limit: int = 1000
    ) -> Sequence[Recorded]:
        """Return a piece of the journal."""
        if about is None:
            return self._journal[after : after + limit]
        mine = self._by_subject.get(about, [])
        return [entry for entry in mine if entry.number > after][:limit]

    async def launches(self, *, pool: PoolName | None = None) -> Sequence[Launch]:
        """Return the launches that are over."""
        past = sorted(self._launches.items(), key=lambda item: (item[1].asked_at, item[0]))
        return [launch for _, launch in past if pool is None or launch.pool == pool]

    async def inventory(self, node: NodeId) -> Inventory | None:
        """Return what the agent of `node` found."""
        return self._inventories.get(node)
