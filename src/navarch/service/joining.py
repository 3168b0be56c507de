"""Letting machines in that were bought: each once, and as nobody but themselves."""

from dataclasses import replace

from navarch.core.errors import NotPossibleError, UnauthenticatedError
from navarch.core.event import Event, about
from navarch.core.fleet import Change
from navarch.core.joining import Joiner, read_join_token
from navarch.ports.clock import Clock
from navarch.ports.store import Store
from navarch.service.attempts import until_no_conflict


class JoinService:
    """Knows which machine each node has."""

    def __init__(self, clock: Clock, store: Store) -> None:
        self._clock = clock
        self._store = store

    def recognize(self, shown: str) -> Joiner:
        """Return who shows that token; UnauthenticatedError where it does not hold (any more)."""
        joiner = read_join_token(self._store.cluster, shown)
        if joiner is None:
            raise UnauthenticatedError("invalid join token")
        if not joiner.machine:
            raise UnauthenticatedError("a join token goes with the machine's own key")
        node = self._store.fleet().nodes.get(joiner.node)
        if node is None or node.launch is None or node.launch.token != joiner.launch:
            raise UnauthenticatedError("the join token is for a machine that is not wanted")
        if node.machine and node.machine != joiner.machine:
            raise UnauthenticatedError("the join token was used by another machine")
        return joiner

    async def bind(self, joiner: Joiner) -> None:
        """Bind the node to the machine that has come, before anything else is done for it."""

        async def attempt() -> None:
            fleet = self._store.fleet()
            node = fleet.nodes.get(joiner.node)
            if node is None or node.gone:
                raise NotPossibleError(f"node {joiner.node} is gone")
            if node.machine == joiner.machine:
                return
            if node.machine:
                raise UnauthenticatedError("the join token was used by another machine")
            event = Event(
                at=self._clock.now(),
                about=about("node", joiner.node),
                kind="node.joined",
                reason="its machine showed the join token; no other machine can use it now",
                because=(about("launch", joiner.launch),),
            )
            change = Change(nodes=[replace(node, machine=joiner.machine)], events=[event])
            await self._store.commit(change, based_on=fleet.revision)

        await until_no_conflict(attempt)
