"""The incident reconciler: says what is done about each, closes what is over, forgets the past."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from navarch.control.agenda import Agenda
from navarch.core.errors import ConflictError
from navarch.core.event import Event
from navarch.core.evolve import evolve
from navarch.core.fleet import Change, Fleet
from navarch.core.ids import IncidentId, NodeId
from navarch.core.incident import Incident, IncidentKind
from navarch.core.node import Node
from navarch.health.incidents.status import (
    incident_inputs,
    link_recoveries,
    quiet_at,
    update_incident,
)
from navarch.ports.clock import Clock
from navarch.ports.store import Committed, Store

KEEP = timedelta(days=30)
"""How long an incident that is over can still be listed. The journal tells of it for longer."""

CLOSED_MAX = 10_000
"""So many are kept at most, the latest of them: a storm must not fill the memory."""

LOOK_AGAIN = timedelta(minutes=1)
"""How soon to look again at one that is quiet but not over."""


AT_ONCE = 100
"""So many are written together: any of them may be growing, and then none of them is written."""


class IncidentReconciler:
    """Gives every incident its state, its recovery and an end."""

    name = "incidents"

    def __init__(self, clock: Clock, store: Store) -> None:
        self._clock = clock
        self._store = store
        self.agenda: Agenda[IncidentId] = Agenda()
        self._on_node: dict[NodeId, dict[IncidentId, None]] = {}
        self._closed: dict[IncidentId, None] = {}
        self._settled: Sequence[Incident] = ()
        """What was last made of incidents for a change that somebody else writes down."""
        for incident in store.fleet().incidents.values():
            self._note(incident)
        store.subscribe(self._changed)

    async def reconcile(self) -> datetime | None:
        """Close and forget what is due."""
        now = self._clock.now()
        due = self.agenda.due(now)
        for first in range(0, len(due), AT_ONCE):
            some = due[first : first + AT_ONCE]
            # Done before it is looked at: what happens meanwhile is a reason to look again.
            self.agenda.done(some)
            try:
                await self._settle(some, now)
            except BaseException as error:
                for name in some:
                    self.agenda.note(name)
                # Whatever moved one of them wakes us again; the rest need not wait for that.
                if not isinstance(error, ConflictError):
                    raise
        return self.agenda.next_at()

    def follow(self, change: Change, fleet: Fleet) -> Change:
        """Return `change` of `fleet`, with what its nodes bring about for their incidents.

        That saves them a commit of their own. What is left to our own rounds is an incident of
        several nodes or of a fabric, which others may be writing in a storm, and one whose node is
        being mended.
        """
        now = self._clock.now()
        incidents: list[Incident] = []
        events: list[Event] = []
        for node in change.nodes:
            if node.recovery is not None:
                continue
            for name in self._on_node.get(node.id, ()):
                incident = fleet.incidents[name]
                if incident.nodes != (node.id,) or incident.kind is IncidentKind.FABRIC:
                    continue
                news = update_incident(incident, {node.id: node}, fleet.recoveries, now=now)
                if news is not None:
                    incidents.append(news[0])
                    events.append(news[1])
        if not incidents:
            return change
        after = evolve(
            change,
            incidents=(*change.incidents, *incidents),
            events=(*change.events, *events),
        )
        if not change.incidents:
            self._settled = after.incidents
        return after

    async def _settle(self, due: list[IncidentId], now: datetime) -> None:
        fleet = self._store.fleet()
        moved: list[Incident] = []
        events: list[Event] = []
        past: list[IncidentId] = []
        for name in due:
            incident = fleet.incidents.get(name)
            if incident is None:
                continue
            if incident.closed_at is not None:
                is_old = now >= incident.closed_at + KEEP
                if is_old or name not in self._closed:
                    past.append(name)
                continue
            news = update_incident(incident, fleet.nodes, fleet.recoveries, now=now)
            if news is not None:
                moved.append(news[0])
                events.append(news[1])
            if news is None or news[0].is_open:
                self.agenda.wake(name, max(quiet_at(incident), now + LOOK_AGAIN))
        if moved or past:
            change = Change(
                incidents=moved,
                forget_incidents=past,
                recoveries=link_recoveries(moved, fleet.recoveries),
                events=events,
            )
            await self._store.commit(change, based_on=fleet.revision)

    def _note(self, incident: Incident) -> None:
        if incident.is_open:
            self.agenda.wake(incident.id, quiet_at(incident))
            for node in incident.nodes:
                self._on_node.setdefault(node, {})[incident.id] = None
            return
        for node in incident.nodes:
            here = self._on_node.get(node, {})
            here.pop(incident.id, None)
            if not here:
                self._on_node.pop(node, None)
        assert incident.closed_at is not None, incident.id
        self._closed[incident.id] = None
        self.agenda.wake(incident.id, incident.closed_at + KEEP)
        while len(self._closed) > CLOSED_MAX:
            oldest = next(iter(self._closed))
            del self._closed[oldest]
            self.agenda.note(oldest)

    def _changed(self, committed: Committed) -> None:
        change = committed.change
        for each in change.incidents:
            self._note(each)
        for past in change.forget_incidents:
            self._closed.pop(past, None)
            self.agenda.wake(past, None)
        touched: list[NodeId] = []
        for before, node in committed.moved:
            # What is found out about a node may change its incidents and not the node.
            name = node.id
            if name in self._on_node and (change.incidents or _looks_different(before, node)):
                touched.append(name)
        if change.recoveries:
            touched += [recovery.node for recovery in change.recoveries]
        if not touched:
            return
        as_it_should_be = self._as_it_should_be(committed)
        for name in touched:
            # Something may have been taken back, begun or held, or the machine may be gone.
            for incident in self._on_node.get(name, ()):
                if incident not in as_it_should_be:
                    self.agenda.note(incident)

    def _as_it_should_be(self, committed: Committed) -> set[IncidentId]:
        """Return what was written just now and needs no look before its next date."""
        after, now = committed.after, self._clock.now()
        written = committed.change.incidents
        if written is self._settled:
            # Since then only its next date can have come, of which it has been reminded.
            return {incident.id for incident in written}
        found: set[IncidentId] = set()
        for incident in written:
            if not incident.is_open:
                continue
            if update_incident(incident, after.nodes, after.recoveries, now=now) is None:
                found.add(incident.id)
        return found


def _looks_different(before: Node | None, node: Node) -> bool:
    return before is None or incident_inputs(before) != incident_inputs(node)
