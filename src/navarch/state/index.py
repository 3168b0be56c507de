"""The index: views of the fleet that would be slow to compute anew for each decision.

It holds nothing that is not in the fleet. The law that a test checks: an index that was advanced
with any number of commits equals the index of the fleet after them.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

from navarch.core.fleet import Change, Fleet
from navarch.core.ids import CommandId, IncidentId, InstanceId, NodeId, PoolName
from navarch.core.incident import Incident
from navarch.core.node import Node
from navarch.core.recovery import Command, CommandStatus
from navarch.fleet.disruption.governor.domain_stats import DomainStats
from navarch.fleet.jobs.job_index import JobIndex
from navarch.fleet.pool_index import PoolIndex
from navarch.ports.store import Committed


class OpenCommands:
    """Commands that are neither finished nor expired, by node."""

    def __init__(self, commands: Iterable[Command]) -> None:
        self._by_node: dict[NodeId, dict[CommandId, Command]] = {}
        self.advance(Change(commands=tuple(commands)))

    def on_node(self, node: NodeId) -> Sequence[Command]:
        """Return the open commands of a node."""
        return list(self._by_node.get(node, {}).values())

    def pending(self, node: NodeId) -> Sequence[Command]:
        """Return the commands that the agent of a node has not received."""
        commands = self._by_node.get(node)
        if commands is None:
            return ()
        return [each for each in commands.values() if each.status is CommandStatus.PENDING]

    def advance(self, change: Change) -> None:
        """Take a change into account."""
        for command in change.commands:
            commands = self._by_node.setdefault(command.node, {})
            if command.over:
                commands.pop(command.id, None)
            else:
                commands[command.id] = command
            if not commands:
                del self._by_node[command.node]


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


class Index:
    """Nodes by pool and by machine, counts by domain, open incidents and commands, and jobs."""

    def __init__(self, fleet: Fleet) -> None:
        self.rebuild(fleet)

    def rebuild(self, fleet: Fleet) -> None:
        """Compute everything anew."""
        self.pools: dict[PoolName, PoolIndex] = {
            name: PoolIndex(nodes.values()) for name, nodes in fleet.by_pool.items()
        }
        self.domains = DomainStats(fleet.nodes.values(), fleet.recoveries.values())
        self.incidents = OpenIncidents(fleet.incidents.values())
        self.symptoms = SeenSymptoms(fleet.incidents.values())
        self.commands = OpenCommands(fleet.commands.values())
        self.jobs = JobIndex(fleet)
        self._nodes_of: dict[InstanceId, set[NodeId]] = {}
        """More than one node only if two providers use the same name for a machine."""
        for node in fleet.nodes.values():
            self._note_machine(None, node)

    def pool(self, name: PoolName) -> PoolIndex:
        """Return the index of a pool's nodes; an empty one if it has none."""
        return self.pools.get(name) or PoolIndex()

    def node_of(self, machine: InstanceId) -> NodeId | None:
        """Return the node of the machine with that name at its provider."""
        return min(self._nodes_of.get(machine, ()), default=None)

    def advance(self, committed: Committed) -> None:
        """Take a commit into account."""
        change = committed.change
        for recovery in change.recoveries:
            self.domains.note_recovery(recovery)
        for before, node in committed.moved:
            if before is not None and before.pool in self.pools and node.pool is None:
                self.pools[before.pool].drop(node.id)
            if node.pool is not None:
                if node.pool not in self.pools:
                    self.pools[node.pool] = PoolIndex()
                self.pools[node.pool].note(node)
            self.domains.note(node)
            self.jobs.note_node(node.id, node)
            self._note_machine(before, node)
        for node in committed.forgotten:
            if node.pool in self.pools:
                self.pools[node.pool].drop(node.id)
            self.domains.drop(node.id)
            self.jobs.note_node(node.id, None)
        self._advance_jobs(committed)
        self.incidents.advance(change)
        self.symptoms.advance(change, committed.before.incidents)
        self.commands.advance(change)

    def _advance_jobs(self, committed: Committed) -> None:
        before, after = committed.before.jobs, committed.after
        written = dict.fromkeys([job.name for job in committed.change.jobs])
        for name in written | dict.fromkeys(committed.change.forget_jobs):
            self.jobs.note_job(before.get(name), after.jobs.get(name), after.nodes)

    def _note_machine(self, before: Node | None, node: Node) -> None:
        former = None if before is None or before.gone else before.instance
        machine = None if node.gone else node.instance
        if former is not None and former != machine:
            self._nodes_of[former].discard(node.id)
            if not self._nodes_of[former]:
                del self._nodes_of[former]
        if machine is not None:
            self._nodes_of.setdefault(machine, set()).add(node.id)
