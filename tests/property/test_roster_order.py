"""An ordered set of names with the index of each."""

from hypothesis import given
from hypothesis import strategies as st

from navarch.core.ids import NodeId
from navarch.sim.runner.roster import Roster

moves = st.lists(st.tuples(st.booleans(), st.sampled_from("abcdef").map(NodeId)), max_size=40)


@given(moves)
def test_names_are_in_insertion_order(moves: list[tuple[bool, NodeId]]) -> None:
    roster, known = Roster(), dict[NodeId, None]()
    for comes, name in moves:
        if comes:
            roster.add(name)
            known[name] = None
        else:
            roster.remove(name)
            known.pop(name, None)
        assert list(roster.names) == list(known)
