"""Incidents: gives each its state, closes those that are over, forgets old ones."""

from collections.abc import Sequence
from datetime import timedelta

from navarch.control.runtime.controller import Controller
from navarch.control.runtime.work_queue import WorkQueue
from navarch.core.errors import ConflictError
from navarch.core.event import Event
from navarch.core.fleet import Change, Fleet
from navarch.core.ids import IncidentId
from navarch.core.incident import Incident, IncidentKind
from navarch.core.records import evolve
from navarch.health.incidents.status import (
    incident_inputs,
    link_recoveries,
    quiet_at,
    update_incident,
)
from navarch.ports.clock import Clock
from navarch.ports.store import Committed, Store
from navarch.state.index import Index

KEEP = timedelta(days=30)
"""How long a closed incident can be listed. The journal keeps its history for longer."""

CLOSED_MAX = 10_000
"""How many closed incidents are kept, the latest ones: a storm must not fill the memory."""

AT_ONCE = 100
"""How many incidents one commit holds: a change of any of them is a conflict."""


class IncidentController(Controller):
    """Gives every incident its state, its recovery and an end."""

    name = "incidents"
    queue: WorkQueue[IncidentId]

    def __init__(self, clock: Clock, store: Store, index: Index) -> None:
        super().__init__(clock, store)
        self._index = index
        self._closed: dict[IncidentId, None] = {}
        for incident in store.fleet().incidents.values():
            self._note(incident)

    def on_commit(self, committed: Committed) -> None:
        """Queue the incidents that a commit wrote, and those of nodes and recoveries it changed."""
        change = committed.change
        for each in change.incidents:
            self._note(each)
        for past in change.forget_incidents:
            self._closed.pop(past, None)
            self.queue.drop_date(past)
        touched = [recovery.node for recovery in change.recoveries]
        for before, node in committed.moved:
            # A report may change the incidents of a node and not the node.
            if (
                change.incidents
                or before is None
                or incident_inputs(before) != incident_inputs(node)
            ):
                touched.append(node.id)
        for name in touched:
            for incident in self._index.incidents.on_node(name):
                self.queue.add(incident)

    async def reconcile(self, keys: Sequence[IncidentId]) -> None:
        """Update, close and forget the incidents that are due."""
        now = self._clock.now()
        for first in range(0, len(keys), AT_ONCE):
            some = keys[first : first + AT_ONCE]
            fleet = self._store.fleet()
            moved: list[Incident] = []
            events: list[Event] = []
            past: list[IncidentId] = []
            for name in some:
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
                if news is None and now < quiet_at(incident):
                    self.queue.add_at(name, quiet_at(incident))
            if not moved and not past:
                continue
            change = Change(
                incidents=moved,
                forget_incidents=past,
                recoveries=link_recoveries(moved, fleet.recoveries),
                events=events,
            )
            try:
                await self._store.commit(change, based_on=fleet.revision)
            except ConflictError:
                # The others need not be delayed by the one that has changed.
                for name in some:
                    self.queue.add(name)

    def hook(self, change: Change, fleet: Fleet) -> Change:
        """Return `change` of `fleet`, with what follows from it for the incidents of its nodes.

        This saves a commit. Left to the rounds of this controller are incidents of several nodes or
        of a fabric, which other reports may be changing in a storm, and those of nodes in recovery.
        """
        now = self._clock.now()
        incidents: list[Incident] = []
        events: list[Event] = []
        for node in change.nodes:
            if node.recovery is not None:
                continue
            for name in self._index.incidents.on_node(node.id):
                incident = fleet.incidents[name]
                if incident.nodes != (node.id,) or incident.kind is IncidentKind.FABRIC:
                    continue
                news = update_incident(incident, {node.id: node}, fleet.recoveries, now=now)
                if news is not None:
                    incidents.append(news[0])
                    events.append(news[1])
        if not incidents:
            return change
        return evolve(
            change,
            incidents=(*change.incidents, *incidents),
            events=(*change.events, *events),
        )

    def _note(self, incident: Incident) -> None:
        if incident.is_open:
            self.queue.add_at(incident.id, quiet_at(incident))
            return
        assert incident.closed_at is not None, incident.id
        self._closed[incident.id] = None
        self.queue.add_at(incident.id, incident.closed_at + KEEP)
        while len(self._closed) > CLOSED_MAX:
            oldest = next(iter(self._closed))
            del self._closed[oldest]
            self.queue.add(oldest)
