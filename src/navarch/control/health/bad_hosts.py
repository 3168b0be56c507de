"""Bad hosts: remembers broken machines, and recognises them when they are sold again."""

from collections.abc import Sequence
from datetime import datetime

from navarch.control.runtime.controller import Controller
from navarch.control.runtime.journal import read_journal
from navarch.control.runtime.work_queue import WorkQueue
from navarch.core.event import Event, about
from navarch.core.fleet import Change, Fleet
from navarch.core.health import Condition
from navarch.core.ids import NodeId
from navarch.core.instance import Inventory
from navarch.core.node import Node
from navarch.core.records import evolve
from navarch.fleet.verdicts import with_results
from navarch.health.conditions import explain
from navarch.health.learning.lemons import (
    ReturnedMachine,
    blamed_identities,
    find_returned,
    hardware_faults,
    identities,
)
from navarch.ports.clock import Clock
from navarch.ports.store import Committed, Store

SUBJECT = about("machines", "given-back")
GIVEN_BACK = "machine.given_back"
RETURNED = "machine.returned"

JOURNAL = NodeId("")
"""The key that has the journal read at the start, which no node has."""


class BadHostController(Controller):
    """Keeps what it learns in the journal, under one subject, as far back as that reaches."""

    name = "bad_hosts"
    queue: WorkQueue[NodeId]

    def __init__(self, clock: Clock, store: Store) -> None:
        super().__init__(clock, store, [JOURNAL])
        self._known: dict[str, ReturnedMachine] = {}
        self._blamed: set[str] = set()
        self._warned: set[str] = set()
        """Nodes on bad hosts that have their condition. An operator overrules it by declaring
        the node healthy."""
        self._read = False
        """Whether the journal was read."""
        for node in store.fleet().nodes.values():
            self._note(node)

    def on_commit(self, committed: Committed) -> None:
        """Queue nodes that registered, were located or began to leave."""
        for event in committed.change.events:
            if event.about == SUBJECT:
                self._learn(event)
        for before, node in committed.moved:
            if (
                before is None
                or before.registered_at != node.registered_at
                # A provider may report the location of a machine later than its agent registers.
                or before.topology != node.topology
                or (node.retiring is not None and before.retiring is None)
            ):
                self._note(node)

    async def reconcile(self, keys: Sequence[NodeId]) -> None:
        """Record the machines that leave broken, and recognise those that are back."""
        if not self._read:
            for entry in await read_journal(self._store, about=SUBJECT):
                self._learn(entry.event)
            self._read = True
        for name in keys:
            fleet = self._store.fleet()
            node = fleet.nodes.get(name)
            if node is not None:
                await self._look_at(fleet, node)

    async def hook(self, change: Change, fleet: Fleet) -> Change:
        """Return `change` of `fleet`, with an event about every broken machine that it gives back.

        Both are then written in one commit. Machines that are given back by other changes get
        their event in a round of this controller.
        """
        now = self._clock.now()
        events: list[Event] = []
        for node in change.nodes:
            before = fleet.nodes.get(node.id)
            if node.retiring is not None and (before is None or before.retiring is None):
                guilty = hardware_faults(node) if node.registered_at is not None else []
                inventory = await self._store.inventory(node.id) if guilty else None
                if inventory is not None:
                    events.append(_given_back(node, guilty, inventory, now=now))
        return evolve(change, events=(*change.events, *events)) if events else change

    def _learn(self, event: Event) -> None:
        node = event.facts.get("node", "")
        if event.kind == RETURNED:
            self._warned.add(node)
            return
        self._blamed.add(node)
        for name in event.facts.get("machine", "").split():
            self._known[name] = ReturnedMachine(node=node, at=event.at, reason=event.reason)

    async def _look_at(self, fleet: Fleet, node: Node) -> None:
        guilty = hardware_faults(node) if node.id not in self._blamed else []
        newcomer = self._known and node.id not in self._warned and node.retiring is None
        if not guilty and not newcomer:
            return
        inventory = await self._store.inventory(node.id)
        if inventory is None:
            return
        now = self._clock.now()
        if guilty:
            event = _given_back(node, guilty, inventory, now=now)
            await self._store.commit(Change(events=[event]), based_on=self._store.fleet().revision)
            return
        found = find_returned(identities(inventory, node), self._known, node, now=now)
        if found is None:
            return
        after, events = with_results(node, [found], now=now)
        event = Event(
            at=now,
            about=SUBJECT,
            kind=RETURNED,
            reason=f"{node.id}: {found.reason}",
            because=(about("node", node.id),),
            facts={"node": str(node.id)},
        )
        change = Change(nodes=[after], events=[*events, event])
        await self._store.commit(change, based_on=fleet.revision)

    def _note(self, node: Node) -> None:
        if node.registered_at is None:
            return
        if node.retiring is not None:
            is_due = node.id not in self._blamed
        else:
            # Without known bad hosts, no machine can be recognised.
            may_be_known = bool(self._known) or not self._read
            is_due = may_be_known and not node.gone and node.id not in self._warned
        if is_due:
            self.queue.add(node.id)


def _given_back(
    node: Node, guilty: Sequence[Condition], inventory: Inventory, *, now: datetime
) -> Event:
    """Return the event about a broken machine: why it leaves, and its names."""
    names = blamed_identities(guilty, identities(inventory, node))
    facts = {"node": str(node.id), "machine": " ".join(names)}
    return Event(at=now, about=SUBJECT, kind=GIVEN_BACK, reason=explain(guilty), facts=facts)
