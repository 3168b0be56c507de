"""The index: views of the fleet that would be slow to compute anew for each decision.

It holds nothing that is not in the fleet. The law that a test checks: an index that was advanced
with any number of commits equals the index of the fleet after them.
"""

from navarch.core.fleet import Fleet
from navarch.core.ids import InstanceId, NodeId, PoolName
from navarch.core.node import Node
from navarch.fleet.disruption.governor.domain_stats import DomainStats
from navarch.fleet.pool_index import PoolIndex
from navarch.ports.store import Committed
from navarch.state.commands import OpenCommands
from navarch.state.incidents import OpenIncidents, SeenSymptoms


class Index:
    """Nodes by pool and by machine, counts by domain, open incidents and commands."""

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
            self._note_node(before, node)
        for node in committed.forgotten:
            self._forget_node(node)
        self.incidents.advance(change)
        self.symptoms.advance(change, committed.before.incidents)
        self.commands.advance(change)

    def _note_node(self, before: Node | None, node: Node) -> None:
        if node.pool is not None:
            if node.pool not in self.pools:
                self.pools[node.pool] = PoolIndex()
            self.pools[node.pool].note(node)
        self.domains.note(node)
        self._note_machine(before, node)

    def _forget_node(self, node: Node) -> None:
        if node.pool in self.pools:
            self.pools[node.pool].drop(node.id)
        self.domains.drop(node.id)

    def _note_machine(self, before: Node | None, node: Node) -> None:
        former = None if before is None or before.gone else before.instance
        machine = None if node.gone else node.instance
        if former is not None and former != machine:
            self._nodes_of[former].discard(node.id)
            if not self._nodes_of[former]:
                del self._nodes_of[former]
        if machine is not None:
            self._nodes_of.setdefault(machine, set()).add(node.id)
