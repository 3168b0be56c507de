"""Updates of one node that are tried again after a conflict."""

from collections.abc import Callable

from navarch.core.errors import ConflictError
from navarch.core.fleet import Change, Fleet
from navarch.core.ids import NodeId
from navarch.core.node import Node
from navarch.ports.store import Store

ATTEMPTS_MAX = 20


async def update_with_retry(
    store: Store, name: NodeId, proposal: Callable[[Fleet, Node], Change | None]
) -> None:
    """Commit the change that `proposal` returns for the newest state of a node, if any.

    Only another change of the same node is a conflict, so a few attempts suffice.
    """
    for attempt in range(ATTEMPTS_MAX):
        fleet = store.fleet()
        node = fleet.nodes.get(name)
        change = None if node is None else proposal(fleet, node)
        if change is None or change.empty:
            return
        try:
            await store.commit(change, based_on=fleet.revision)
        except ConflictError:
            if attempt == ATTEMPTS_MAX - 1:
                raise
        else:
            return
