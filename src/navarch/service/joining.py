"""Join tokens: each lets one machine join as one node."""

from collections.abc import Callable, Sequence

from navarch.control.runtime.controller import retried
from navarch.core.bringup import BringUpLog
from navarch.core.errors import NotFoundError, NotPossibleError, UnauthenticatedError
from navarch.core.event import Event, about
from navarch.core.fleet import Change
from navarch.core.ids import NodeId, Token
from navarch.core.ownership import (
    HOST_PREFIX,
    Joiner,
    join_token,
    read_host_credential,
    read_join_token,
)
from navarch.core.records import evolve
from navarch.ports.agents import Registration
from navarch.ports.clock import Clock
from navarch.ports.shell import BringUpLogs
from navarch.ports.store import Store


class JoinService:
    """Binds machines to nodes by their join tokens."""

    def __init__(
        self, clock: Clock, store: Store, *, agent_token: Callable[[], str | None] = lambda: None
    ) -> None:
        """`agent_token` returns the token of the hosts that register by themselves, if any."""
        self._clock = clock
        self._store = store
        self._agent_token = agent_token

    def recognize(self, shown: str) -> Joiner:
        """Return the node and launch of a token; UnauthenticatedError if it is not valid."""
        if shown.startswith(HOST_PREFIX):
            return self._recognize_host(shown)
        joiner = read_join_token(self._store.cluster, shown)
        if joiner is None:
            raise UnauthenticatedError("invalid join token")
        if not joiner.machine:
            raise UnauthenticatedError("a join token needs the machine's own key beside it")
        self.check_expected(joiner)
        return joiner

    def check_expected(self, joiner: Joiner) -> None:
        """Raise UnauthenticatedError unless the machine of a join token is still expected."""
        node = self._store.fleet().nodes.get(joiner.node)
        if node is None or node.gone or node.launch is None or node.launch.token != joiner.launch:
            raise UnauthenticatedError("the join token is for a machine that is no longer expected")
        if node.machine and node.machine != joiner.machine:
            raise UnauthenticatedError("the join token was used by another machine")

    def _recognize_host(self, shown: str) -> Joiner:
        joiner = read_host_credential(self._agent_token() or "", shown)
        if joiner is None:
            raise UnauthenticatedError("invalid agents' token")
        node = self._store.fleet().nodes.get(joiner.node)
        if node is None or (node.gone and node.self_registered):
            return joiner
        if node.launch is not None:
            raise UnauthenticatedError("the agents' token is not for machines that Navarch bought")
        if node.gone or (node.machine and node.machine != joiner.machine):
            raise UnauthenticatedError(f"node {node.id} is bound to another machine")
        return joiner

    async def admit(self, joiner: Joiner, registration: Registration) -> Registration:
        """Bind the node to the machine; return the registration with the launch that it proves."""
        node = self._store.fleet().nodes.get(joiner.node)
        if joiner.launch or (node is not None and not node.gone):
            await self.bind(joiner)
            # The token proves its launch, whichever launch the registration names.
            return evolve(registration, token=joiner.launch or None)
        # An empty token is that of no launch: the host cannot take the place of a bought machine
        # by its name at the provider.
        return evolve(registration, token=Token(""))

    @retried
    async def bind(self, joiner: Joiner) -> None:
        """Bind the node to the machine that has joined, before any other request of it."""
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
            reason="its machine has joined; no other machine can join as it now",
            because=(about("launch", joiner.launch),) if joiner.launch else (),
        )
        change = Change(nodes=[evolve(node, machine=joiner.machine)], events=[event])
        await self._store.commit(change, based_on=fleet.revision)

    @retried
    async def issue_join_token(self, node: NodeId, *, again: bool = False, reason: str = "") -> str:
        """Return the token of a node's present launch; with `again`, unbind the present machine."""
        fleet = self._store.fleet()
        found = fleet.nodes.get(node)
        if found is None:
            raise NotFoundError(f"node not found: {node}")
        if found.gone or found.retiring is not None:
            raise NotPossibleError(f"node {node} is being terminated; no machine may join it")
        if found.launch is None:
            raise NotPossibleError(
                f"no machine was bought for node {node}; its agent needs the token of the "
                "agents (server.agent_token)"
            )
        if found.machine and not again:
            raise NotPossibleError(
                f"the machine of node {node} has joined already; with --again another machine, "
                "or the same one after a new installation, may replace it"
            )
        if found.machine:
            why = reason.strip() or "by hand"
            event = Event(
                at=self._clock.now(),
                about=about("node", node),
                kind="node.join_reopened",
                reason=f"the next machine that uses its join token replaces this one: {why}",
            )
            change = Change(nodes=[evolve(found, machine="")], events=[event])
            await self._store.commit(change, based_on=fleet.revision)
        return join_token(self._store.cluster, node, found.launch.token)


class BringUpService:
    """Serves the bring-up logs of machines."""

    def __init__(self, store: Store, logs: BringUpLogs) -> None:
        self._store = store
        self._logs = logs

    async def list_bringups(self, node: NodeId) -> Sequence[BringUpLog]:
        """Return every attempt on a node's machine, also of a node that is gone."""
        kept = await self._logs.list(node)
        if not kept and node not in self._store.fleet().nodes:
            raise NotFoundError(f"no node {node}")
        return kept
