"""What has been told of before: the dates of what happened, by node and check."""

from datetime import datetime

from navarch.core.ids import NodeId
from navarch.core.incident import Incident
from navarch.ports.store import Committed, Matter, Store


class SeenSymptoms:
    """The symptoms of all incidents on file, open or over.

    What passes leaves no condition behind, so only its incident says that it is known. It is
    known for as long as the incident is on file.
    """

    def __init__(self, store: Store) -> None:
        self._events: dict[NodeId, dict[tuple[str, datetime], None]] = {}
        for incident in store.fleet().incidents.values():
            self._note(incident)
        store.subscribe(self._changed, about=[Matter.INCIDENTS])

    def knows(self, node: NodeId, check: str, at: datetime) -> bool:
        """Return whether what happened at that moment on a node is on file."""
        return (check, at) in self._events.get(node, {})

    def _note(self, incident: Incident) -> None:
        for symptom in incident.symptoms:
            events = self._events.setdefault(symptom.node, {})
            events[symptom.check, symptom.last_at] = None

    def _forget(self, incident: Incident) -> None:
        for symptom in incident.symptoms:
            events = self._events.get(symptom.node, {})
            events.pop((symptom.check, symptom.last_at), None)
            if not events:
                self._events.pop(symptom.node, None)

    def _changed(self, committed: Committed) -> None:
        change, known = committed.change, committed.before.incidents
        for name in change.forget_incidents:
            if name in known:
                self._forget(known[name])
        # Most of what becomes of an incident is no news of its symptoms.
        told_more: list[Incident] = []
        for incident in change.incidents:
            before = known.get(incident.id)
            if before is None or before.symptoms is not incident.symptoms:
                told_more.append(incident)
                if before is not None:
                    self._forget(before)
        for incident in told_more:
            self._note(incident)
