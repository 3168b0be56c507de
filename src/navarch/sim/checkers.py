"""Laws of the fleet, watched at every revision of the store."""

from dataclasses import dataclass, field

from navarch.core.fleet import Fleet
from navarch.core.health import Health
from navarch.core.ids import NodeId, PoolName
from navarch.core.node import NEXT_PHASES, Node, Phase
from navarch.ports.store import Committed


@dataclass(slots=True)
class Checkers:
    """Raises AssertionError at the first revision that breaks a law."""

    may_be_retired: set[NodeId] = field(default_factory=set)
    """Nodes that the story itself asked to be given back, or whose machines it took away."""
    born: dict[NodeId, object] = field(default_factory=dict)

    def watch(self, committed: Committed) -> None:
        """Check one revision against the one before."""
        before, after = committed.before, committed.after
        assert after.revision == before.revision + 1, "a revision was skipped"
        for node in committed.change.nodes:
            old = before.nodes.get(node.id)
            self._check_birth(node)
            if old is not None:
                _check_move(old, node)
                self._check_disturbance(old, node, after)
        for pool in {node.pool for node in committed.change.nodes if node.pool is not None}:
            _check_size(before, after, pool)
        for node in committed.change.nodes:
            assert committed.change.events, f"{node.id} was changed without a reason"

    def _check_birth(self, node: Node) -> None:
        born = self.born.setdefault(node.id, node.created_at)
        assert born == node.created_at, f"the name {node.id} was used twice"

    def _check_disturbance(self, old: Node, new: Node, after: Fleet) -> None:
        if new.retiring is None or old.retiring is not None or new.retiring.surplus:
            return
        broken = old.health is Health.UNHEALTHY or old.phase in (Phase.REQUESTED, Phase.BOOTING)
        noticed = new.retiring.urgent
        succeeded = any(
            node.replaces == new.id and node.serving
            for node in (after.in_pool(new.pool).values() if new.pool else ())
        )
        assert broken or noticed or succeeded or new.id in self.may_be_retired, (
            f"{new.id} was {old.health} and {old.phase}, but is given back: {new.retiring.reason}"
        )


def _check_move(old: Node, new: Node) -> None:
    moved = old.phase is not new.phase
    assert not moved or new.phase in NEXT_PHASES[old.phase], f"{new.id}: {old.phase}->{new.phase}"
    assert old.retiring is None or new.retiring is not None, f"{new.id} was given back and kept"
    if old.registered_at is not None:
        assert new.registered_at == old.registered_at, f"{new.id} was born again"


def _check_size(before: Fleet, after: Fleet, name: PoolName) -> None:
    pool = after.pools[name]
    machines = sum(not node.gone for node in after.in_pool(name).values())
    had = sum(not node.gone for node in before.in_pool(name).values())
    assert machines <= max(pool.nodes_max, had), f"{name}: {machines} of {pool.nodes_max} nodes"
    leaving = [
        node
        for node in after.in_pool(name).values()
        if node.retiring and node.retiring.surplus and before.nodes[node.id].retiring is None
    ]
    if leaving:
        served = sum(node.serving for node in before.in_pool(name).values())
        serving = sum(node.serving for node in after.in_pool(name).values())
        assert serving >= min(served, pool.size), f"{name} shrank to {serving} serving nodes"
    staying = sum(node.counts for node in after.in_pool(name).values())
    assert staying <= max(pool.nodes_max, had), f"{name} wants {staying} of {pool.nodes_max}"
