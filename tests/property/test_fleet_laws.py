"""The fleet after a change, and the nodes that the change moved."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from navarch.core.fleet import Change, Fleet, apply, forgotten, moved, pools_touched
from navarch.core.ids import NodeId, PoolName
from navarch.core.node import Node, Phase
from navarch.core.records import evolve
from navarch.testing.worlds import a_node

POOL_OF = {"a-0": "a", "a-1": "a", "a-2": "a", "b-0": "b", "alone": None}
NAMES = [NodeId(name) for name in POOL_OF]


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    name = draw(st.sampled_from(NAMES))
    pool = POOL_OF[name]
    node = a_node(name, phase=draw(st.sampled_from([Phase.READY, Phase.DRAINING, Phase.GONE])))
    return evolve(node, pool=None if pool is None else PoolName(pool))


# One change may write a node twice, or write and forget it: the last write counts.
changes = st.builds(
    Change,
    nodes=st.lists(nodes(), max_size=4),
    forget_nodes=st.lists(st.sampled_from(NAMES), max_size=3),
)


@given(st.lists(changes, max_size=10))
def test_a_fleet_holds_the_last_version_of_each_record(history: Sequence[Change]) -> None:
    fleet = Fleet()
    known: dict[NodeId, Node] = {}
    for change in history:
        before, was = fleet, dict(known)
        known |= {node.id: node for node in change.nodes}
        for name in change.forget_nodes:
            known.pop(name, None)
        moves, gone = moved(before, change), forgotten(before, change)
        fleet = apply(before, change)

        assert fleet.revision == before.revision + 1
        assert fleet.nodes == known
        for pool in ("a", "b"):
            members = [node for node in known.values() if node.pool == pool]
            assert {*fleet.in_pool(PoolName(pool))} == {node.id for node in members}
            assert list(fleet.in_pool(PoolName(pool)).values()) == [
                node for node in fleet.nodes.values() if node.pool == pool
            ]
            assert fleet.present_in(PoolName(pool)) == sum(not node.gone for node in members)
        written = {node.id for node in change.nodes} - {*change.forget_nodes}
        assert {node.id: (old, node) for old, node in moves} == {
            name: (was.get(name), known[name]) for name in written
        }
        assert len(moves) == len(written), "each once"
        assert [node.id for node in gone] == [
            name for name in dict.fromkeys(change.forget_nodes) if name in was
        ]
        assert all(node is was[node.id] for node in gone)
        touched = {node.pool for node in (*change.nodes, *gone)} - {None}
        assert set(pools_touched(before, change)) == touched
