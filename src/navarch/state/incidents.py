"""Open incidents by node and domain, and the symptoms of every recorded incident."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TypeVar

from navarch.core.fleet import Change, Fleet
from navarch.core.ids import IncidentId, NodeId
from navarch.core.incident import Incident

K = TypeVar("K", bound=str)


class OpenIncidents:
    """The incidents that are open, by node and by NVLink domain."""

    def __init__(self, incidents: Iterable[Incident]) -> None:
        self._by_node: dict[NodeId, dict[IncidentId, None]] = {}
        self._by_domain: dict[str, dict[IncidentId, None]] = {}
        self.advance(Change(incidents=tuple(incidents)))

    def on_node(self, node: NodeId) -> Iterable[IncidentId]:
        """Return the open incidents of a node."""
        return tuple(self._by_node.get(node, ()))

    def around(self, fleet: Fleet, node: NodeId, domains: Iterable[str]) -> list[Incident]:
        """Return the open incidents of a node, and of these NVLink domains."""
        names = dict(self._by_node.get(node, {}))
        for domain in domains:
            names |= self._by_domain.get(domain, {})
        return [fleet.incidents[name] for name in names if name in fleet.incidents]

    def advance(self, change: Change) -> None:
        """Take a change into account. Only closed incidents are ever forgotten."""
        for incident in change.incidents:
            for node in incident.nodes:
                _keep_if_open(self._by_node, node, incident)
            if incident.domain:
                _keep_if_open(self._by_domain, incident.domain, incident)


def _keep_if_open(index: dict[K, dict[IncidentId, None]], name: K, incident: Incident) -> None:
    kept = index.setdefault(name, {})
    if incident.is_open:
        kept[incident.id] = None
        return
    kept.pop(incident.id, None)
    if not kept:
        del index[name]


class SeenSymptoms:
    """The symptoms of all recorded incidents, open or closed.

    An event that leaves no condition behind is only known by its incident, for as long as the
    incident is recorded.
    """

    def __init__(self, incidents: Iterable[Incident]) -> None:
        self._events: dict[NodeId, Counter[tuple[str, datetime]]] = {}
        """How many incidents record each event, by node."""
        for incident in incidents:
            self._count(incident, 1)

    def contains(self, node: NodeId, check: str, at: datetime) -> bool:
        """Return whether an incident records that event."""
        return (check, at) in self._events.get(node, ())

    def advance(self, change: Change, before: Mapping[IncidentId, Incident]) -> None:
        """Take a change of incidents that were `before` into account."""
        written = {*change.forget_incidents, *(incident.id for incident in change.incidents)}
        for name in written:
            if name in before:
                self._count(before[name], -1)
        for incident in change.incidents:
            self._count(incident, 1)

    def _count(self, incident: Incident, change: int) -> None:
        for symptom in incident.symptoms:
            event = (symptom.check, symptom.last_at)
            events = self._events.setdefault(symptom.node, Counter())
            events[event] += change
            if not events[event]:
                del events[event]
            if not events:
                del self._events[symptom.node]
