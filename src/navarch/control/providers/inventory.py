"""Inventory: compares what one provider lists with the nodes of the fleet.

It adopts machines of this cluster, records those that are gone, reports foreign machines, and ends
orphans: only with proof that they belong to this cluster, and after several listings showed them.
"""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

from navarch.control.providers.guard import GuardedProvider
from navarch.control.runtime.controller import CommitHook, Controller, no_hook
from navarch.control.runtime.operations import OperationRunner
from navarch.control.runtime.work_queue import WorkQueue
from navarch.core.errors import InstanceNotFoundError
from navarch.core.event import Event, about
from navarch.core.fleet import Change
from navarch.core.ids import NodeId, ProviderName, Token
from navarch.core.instance import Instance
from navarch.core.node import Node, Phase
from navarch.core.ownership import Owner
from navarch.fleet.instance_state import Listing
from navarch.fleet.inventory_reconciliation import InventoryReconciliation, Seen
from navarch.fleet.listing_diff import ListingDiff
from navarch.ports.agents import Liveness
from navarch.ports.clock import Clock
from navarch.ports.store import Committed, Store


@dataclass(slots=True)
class PendingObservations:
    """Observations and answers, shared by the controllers that call providers."""

    started_at: datetime
    """Calls before this time were made by an earlier process."""
    listed_at: dict[ProviderName, datetime] = field(default_factory=dict)
    """When the newest complete listing that was acted on began."""
    unsure_since: dict[Token, datetime] = field(default_factory=dict)
    """Launches that may have had an effect, with the time of the last call."""
    shared: set[Token] = field(default_factory=set)
    """Launches whose last call was for several launches."""
    stopped_at: dict[NodeId, datetime] = field(default_factory=dict)
    """When the provider first accepted to end a node's machine."""
    seen: dict[ProviderName, Seen] = field(default_factory=dict)
    """What the listings have shown."""

    def forget(self, node: NodeId, token: Token | None) -> None:
        """Drop what is kept about a node that is gone."""
        self.stopped_at.pop(node, None)
        if token is not None:
            self.settle(token)

    def settle(self, token: Token) -> None:
        """Record that the outcome of a launch is known."""
        self.unsure_since.pop(token, None)
        self.shared.discard(token)


QUIET = timedelta(minutes=1)
"""Between listings while no change is expected."""

BUSY = timedelta(seconds=10)
"""Between listings while a machine is expected to appear, to get an address or to disappear."""


PROMPT = timedelta(seconds=2)
"""After a change that a listing should soon confirm; most clouds answer within seconds."""


class InventoryController(Controller):
    """Keeps the fleet equal to what one provider lists."""

    queue: WorkQueue[ProviderName]

    def __init__(
        self,
        clock: Clock,
        store: Store,
        provider: GuardedProvider,
        liveness: Liveness,
        operations: OperationRunner,
        observations: PendingObservations,
        *,
        hook: CommitHook = no_hook,
    ) -> None:
        """`hook` adds to a change what follows from it for incidents and for bad hosts."""
        self.name = f"observation/{provider.name}"
        super().__init__(clock, store, [provider.name])
        self._provider = provider
        self._liveness = liveness
        self._operations = operations
        self._observations = observations
        self._hook = hook
        self._expected: dict[NodeId, None] = {}
        """The nodes of machines that are expected to appear, get an address or disappear."""
        nodes = list(store.fleet().nodes.values())
        self._diff = ListingDiff(provider.name, nodes)
        for node in nodes:
            self._note_expected(node)

    async def reconcile(self, _keys: Sequence[ProviderName]) -> None:
        """List the machines, and record what is different."""
        begun_at = self._clock.now()
        self.queue.add_at(self._provider.name, begun_at + QUIET)
        listed = await self._provider.list_instances()
        fleet = self._store.fleet()
        delta = self._diff.diff(listed)
        listing = Listing(
            provider=self._provider.name, begun_at=begun_at, instances=delta.instances
        )
        findings = InventoryReconciliation(
            fleet,
            self._store.cluster,
            listing,
            missing=delta.missing,
            node_of=self._diff.node_of,
            before=self._observations.seen.get(listing.provider, Seen()),
            stopped_at=self._observations.stopped_at,
            is_silent=lambda node: self._liveness.silent_since(node) is not None,
            lag=self._provider.listing_lag,
            now=self._clock.now(),
        ).reconcile()
        if not findings.change.empty:
            change = await self._hook(findings.change, fleet)
            await self._store.commit(change, based_on=fleet.revision)
        # What was observed is kept once what follows from it is committed.
        unsettled = {*findings.seen.foreign, *findings.seen.orphans}
        self._diff.mark_processed(unsettled=unsettled)
        self._observations.listed_at[listing.provider] = listing.begun_at
        self._observations.seen[listing.provider] = findings.seen
        for node in findings.change.nodes:
            if node.gone:
                self._observations.forget(node.id, node.launch.token if node.launch else None)
            elif node.launch is not None and not node.launch.open:
                self._observations.settle(node.launch.token)
        for instance, owner in findings.to_terminate:
            key = f"orphan/{instance.id}"
            if not self._operations.busy(key):
                terminate = partial(self._terminate_orphan, instance, owner)
                self._operations.send(key, terminate, system=self._provider.name)
        nodes = self._store.fleet().nodes
        if any(self._expects_change(nodes[name]) for name in self._expected):
            self.queue.add_by(self._provider.name, begun_at + BUSY)

    async def _terminate_orphan(self, instance: Instance, owner: Owner) -> None:
        event = Event(
            at=self._clock.now(),
            about=about("launch", owner.token),
            kind="stray.terminating",
            reason=f"{instance.id} carries labels signed by this cluster, but belongs to no node",
            because=(about("node", owner.node),),
            facts={"instance": instance.id, "provider": instance.provider},
        )
        await self._store.commit(Change(events=[event]), based_on=self._store.fleet().revision)
        with contextlib.suppress(InstanceNotFoundError):
            await self._provider.terminate(instance.id)

    def on_commit(self, committed: Committed) -> None:
        """Queue a listing soon after a change that it should confirm."""
        for before, node in committed.moved:
            self._diff.changed(before, node)
            self._note_expected(node)
        for node in committed.forgotten:
            self._expected.pop(node.id, None)
        pauses = [self._pause_after(before, node) for before, node in committed.moved]
        soonest = min((pause for pause in pauses if pause is not None), default=None)
        if soonest is not None:
            self.queue.add_by(self._provider.name, self._clock.now() + soonest)

    def _pause_after(self, before: Node | None, node: Node) -> timedelta | None:
        """Return how soon a listing should confirm the change of a node; None if it needs none."""
        if self._has_come_up(before, node):
            return PROMPT
        if not self._expects_change(node):
            return None
        # Clouds report addresses some seconds after the launch, and many machines may boot.
        return BUSY if self._needs_address(node) else PROMPT

    def _note_expected(self, node: Node) -> None:
        launch, phase = node.launch, node.phase
        is_launching = launch is not None and launch.open and not node.gone
        if is_launching or phase in (Phase.BOOTING, Phase.TERMINATING):
            self._expected[node.id] = None
        else:
            self._expected.pop(node.id, None)

    def _expects_change(self, node: Node) -> bool:
        """Return whether the machine of `node` is about to appear, get an address or disappear."""
        launch = node.launch
        if node.gone or launch is None or node.provider != self._provider.name:
            return False
        is_unsure = launch.open and launch.token in self._observations.unsure_since
        return node.phase is Phase.TERMINATING or is_unsure or self._needs_address(node)

    def _needs_address(self, node: Node) -> bool:
        """Return whether the machine of `node` boots, and its provider has reported no address."""
        launch = node.launch
        if launch is None or node.phase is not Phase.BOOTING:
            return False
        return not (launch.public_address or launch.private_address)

    def _has_come_up(self, before: Node | None, node: Node) -> bool:
        """Return whether `node` has just booted, and has no public address yet."""
        if node.launch is None or node.launch.public_address:
            return False
        booted = before is not None and before.phase is Phase.BOOTING and node.phase is Phase.READY
        return booted and node.provider == self._provider.name
