"""The journal of extensions: when one begins to fail on a subject, and when it ceases to."""

from collections.abc import Sequence

from navarch.control.runtime.controller import Controller
from navarch.control.runtime.extensions import MEANWHILE, ExtensionGuard, ExtensionKind
from navarch.core.event import Event, Subject
from navarch.core.fleet import Change, Fleet
from navarch.core.ids import NodeId, PoolName
from navarch.ports.clock import Clock
from navarch.ports.store import Store

ALL_EXTENSIONS = "all extensions"


class ExtensionNewsController(Controller):
    """Records the beginning and the end of each failure, and nothing in between.

    After a restart, a failure that goes on is recorded anew.
    """

    name = "extensions"

    def __init__(self, clock: Clock, store: Store, guard: ExtensionGuard) -> None:
        super().__init__(clock, store)
        self._guard = guard
        self._recorded: set[tuple[ExtensionKind, str, Subject]] = set()
        guard.on_change = lambda: self.queue.add(ALL_EXTENSIONS)

    async def reconcile(self, _keys: Sequence[str]) -> None:
        """Record what has changed."""
        look_again_at = self._guard.forget_old()
        if look_again_at is not None:
            self.queue.add_by(ALL_EXTENSIONS, look_again_at)
        now, fleet, news = self._clock.now(), self._store.fleet(), self._guard.news()
        events: list[Event] = []

        def record(what: str, kind: ExtensionKind, name: str, subject: Subject, why: str) -> None:
            facts = {"extension": name, "kind": str(kind)}
            events.append(Event(at=now, about=subject, kind=what, reason=why, facts=facts))

        for kind, name, subject in sorted(self._recorded - news.keys()):
            if _exists(fleet, subject):
                why = f"{kind.words} {name} no longer fails"
                record("extension.recovered", kind, name, subject, why)
        for (kind, name, subject), failure in news.items():
            if (kind, name, subject) not in self._recorded:
                why = f"{failure.because}; until it works again, {MEANWHILE[kind]}"
                record("extension.failed", kind, name, subject, why)
        if events:
            await self._store.commit(Change(events=events), based_on=fleet.revision)
        self._recorded = set(news)


def _exists(fleet: Fleet, subject: Subject) -> bool:
    """Return whether `subject` is no node or pool that is gone."""
    kind, _, name = subject.partition("/")
    if kind == "node":
        node = fleet.nodes.get(NodeId(name))
        return node is not None and not node.gone
    if kind == "pool":
        pool = fleet.pools.get(PoolName(name))
        return pool is not None and not pool.deleted
    return True
