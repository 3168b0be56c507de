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
    had = [node for node in before.in_pool(name).values() if not node.gone]
    has = [node for node in after.in_pool(name).values() if not node.gone]
    machines_max = max(pool.nodes_max, len(had))
    assert len(has) <= machines_max, f"{name}: {len(has)} of {pool.nodes_max} nodes"
    if any(x.retiring and x.retiring.surplus and _stayed(before, x) for x in has):
        served, serving = (sum(node.serving for node in nodes) for nodes in (had, has))
        assert serving >= min(served, pool.size), f"{name} shrank to {serving} serving nodes"
    staying = sum(node.counts for node in has)
    assert staying <= machines_max, f"{name} wants {staying} of {pool.nodes_max}"


def _stayed(before: Fleet, node: Node) -> bool:
    return before.nodes[node.id].retiring is None
