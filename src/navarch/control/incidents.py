"""The incident reconciler: closes what is over, and forgets what is long past."""

from datetime import datetime, timedelta

from navarch.control.agenda import Agenda
from navarch.core.event import Event, about
from navarch.core.fleet import Change
from navarch.core.ids import IncidentId, NodeId
from navarch.core.incident import Incident, IncidentState
from navarch.health.incidents.ending import ended, quiet_at
from navarch.ports.clock import Clock
from navarch.ports.store import Committed, Store

KEEP = timedelta(days=30)
"""How long an incident that is over can still be listed. The journal tells of it for longer."""

CLOSED_MAX = 10_000
"""So many are kept at most, the latest of them: a storm must not fill the memory."""

LOOK_AGAIN = timedelta(minutes=1)
"""How soon to look again at one that is quiet but not over."""


class IncidentReconciler:
    """Gives every incident an end."""

    name = "incidents"

    def __init__(self, clock: Clock, store: Store) -> None:
        self._clock = clock
        self._store = store
        self._agenda: Agenda[IncidentId] = Agenda()
        self._on_node: dict[NodeId, dict[IncidentId, None]] = {}
        self._closed: dict[IncidentId, None] = {}
        for incident in store.fleet().incidents.values():
            self._note(incident)
        store.subscribe(self._changed)

    async def reconcile(self) -> datetime | None:
        """Close and forget what is due."""
        now = self._clock.now()
        due = self._agenda.due(now)
        if due:
            await self._settle(due, now)
            self._agenda.done(due)
        return self._agenda.next_at()

    async def _settle(self, due: list[IncidentId], now: datetime) -> None:
        fleet = self._store.fleet()
        over: list[Incident] = []
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
            after = ended(incident, fleet.nodes, now=now)
            if after is None:
                self._agenda.wake(name, max(quiet_at(incident), now + LOOK_AGAIN))
                continue
            over.append(after)
            events.append(_closed_event(after, now))
        if over or past:
            change = Change(incidents=over, forget_incidents=past, events=events)
            await self._store.commit(change, based_on=fleet.revision)

    def _note(self, incident: Incident) -> None:
        if incident.is_open:
            self._agenda.wake(incident.id, quiet_at(incident))
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
        self._agenda.wake(incident.id, incident.closed_at + KEEP)
        while len(self._closed) > CLOSED_MAX:
            oldest = next(iter(self._closed))
            del self._closed[oldest]
            self._agenda.note(oldest)

    def _changed(self, committed: Committed) -> None:
        for incident in committed.change.incidents:
            self._note(incident)
        for name in committed.change.forget_incidents:
            self._closed.pop(name, None)
            self._agenda.wake(name, None)
        for node in committed.change.nodes:
            # Something may have been taken back, or the machine may be gone.
            for name in self._on_node.get(node.id, ()):
                self._agenda.note(name)


def _closed_event(incident: Incident, now: datetime) -> Event:
    return Event(
        at=now,
        about=about("incident", incident.id),
        kind="incident.closed",
        reason=incident.note,
        because=(about("node", incident.node),),
        facts={"kind": str(incident.kind), "state": str(IncidentState.RESOLVED)},
    )
