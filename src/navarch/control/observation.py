"""The observation reconciler: what one provider lists, against what we think we have.

It adopts what is ours, notices what is gone, reports strangers, and ends machines that
leaked, but only with proof that they are ours and after having seen them several times.
"""

import contextlib
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from navarch.control.following import Follow, by_itself
from navarch.control.operations import OperationRunner
from navarch.control.pending_observations import PendingObservations
from navarch.control.providers import GuardedProvider
from navarch.core.errors import InstanceNotFoundError
from navarch.core.event import Event, about
from navarch.core.fleet import Change, Fleet
from navarch.core.ids import NodeId
from navarch.core.instance import Instance
from navarch.core.node import Node, Phase
from navarch.core.ownership import Owner
from navarch.fleet.instance_state import Listing
from navarch.fleet.inventory_reconciliation import Findings, InventoryReconciliation, Seen
from navarch.fleet.listing_diff import ListingDiff
from navarch.ports.clock import Clock
from navarch.ports.liveness import Liveness
from navarch.ports.store import Committed, Store

CALM = timedelta(minutes=1)
"""Between listings while nothing is expected to change."""

BUSY = timedelta(seconds=10)
"""Between listings while a machine's birth or death is awaited."""


PROMPT = timedelta(seconds=2)
"""After a change that a listing should soon confirm; most clouds answer within seconds."""


class ObservationReconciler:
    """Keeps our picture of one provider true."""

    def __init__(
        self,
        clock: Clock,
        store: Store,
        provider: GuardedProvider,
        liveness: Liveness,
        errands: OperationRunner,
        evidence: PendingObservations,
        *,
        follow: Follow = by_itself,
    ) -> None:
        """`follow` adds to a change what it comes to for incidents and for broken machines."""
        self.name = f"observation/{provider.name}"
        self._clock = clock
        self._store = store
        self._provider = provider
        self._liveness = liveness
        self._errands = errands
        self._evidence = evidence
        self._follow = follow
        self._due = clock.now()
        self._awaited: dict[NodeId, None] = {}
        self.on_sooner: Callable[[], None] = lambda: None
        nodes = list(store.fleet().nodes.values())
        self._familiar = ListingDiff(provider.name, nodes)
        for node in nodes:
            self._note_birth_or_death(node)
        store.subscribe(self._changed)

    async def reconcile(self) -> datetime | None:
        """List if it is time to, and write down what is different."""
        begun_at = self._clock.now()
        if begun_at < self._due:
            return self._due
        self._due = begun_at + CALM
        listed = await self._provider.list_instances()
        fleet = self._store.fleet()
        news = self._familiar.sift(listed, fleet)
        listing = Listing(provider=self._provider.name, begun_at=begun_at, instances=news.instances)
        lesson = self._compare(listing, news.missing, fleet)
        if not lesson.change.empty:
            change = await self._follow(lesson.change, fleet)
            fleet = await self._store.commit(change, based_on=fleet.revision)
        self._remember(listing, lesson, fleet)
        for instance, owner in lesson.to_terminate:
            self._end_stray(instance, owner)
        if any(self._awaits(self._store.fleet().nodes[name]) for name in self._awaited):
            self._due = min(self._due, begun_at + BUSY)
        return self._due

    def due_at(self) -> datetime | None:
        """Return from when on there is something to do."""
        return self._due

    def _compare(self, listing: Listing, missing: Sequence[NodeId], fleet: Fleet) -> Findings:
        return InventoryReconciliation(
            fleet,
            self._store.cluster,
            listing,
            missing=missing,
            before=self._evidence.seen.get(listing.provider, Seen()),
            stopped_at=self._evidence.stopped_at,
            is_silent=lambda node: self._liveness.silent_since(node) is not None,
            lag=self._provider.listing_lag,
            now=self._clock.now(),
        ).reconcile()

    def _remember(self, listing: Listing, lesson: Findings, fleet: Fleet) -> None:
        """Keep what was seen, now that what follows from it is written down."""
        unsettled = {*lesson.seen.foreign, *lesson.seen.orphans}
        self._familiar.learnt([n.id for n in lesson.change.nodes], fleet, unsettled=unsettled)
        self._evidence.listed_at[listing.provider] = listing.begun_at
        self._evidence.seen[listing.provider] = lesson.seen
        for node in lesson.change.nodes:
            if node.gone:
                self._evidence.forget(node.id, node.launch.token if node.launch else None)
            elif node.launch is not None and not node.launch.open:
                self._evidence.unsure_since.pop(node.launch.token, None)

    def _end_stray(self, instance: Instance, owner: Owner) -> None:
        key = f"stray/{instance.id}"
        if not self._errands.busy(key):
            self._errands.send(key, lambda: self._terminate_stray(instance, owner))

    async def _terminate_stray(self, instance: Instance, owner: Owner) -> None:
        event = Event(
            at=self._clock.now(),
            about=about("launch", owner.token),
            kind="stray.terminating",
            reason=f"{instance.id} is ours by its signed labels, but no node wants it",
            because=(about("node", owner.node),),
            facts={"instance": instance.id, "provider": instance.provider},
        )
        await self._store.commit(Change(events=[event]), based_on=self._store.fleet().revision)
        with contextlib.suppress(InstanceNotFoundError):
            await self._provider.terminate(instance.id)

    def _changed(self, committed: Committed) -> None:
        is_awaited = False
        for before, node in committed.moved:
            if self._familiar.changed(node, before):
                self._note_birth_or_death(node)
            if node.id in self._awaited and not is_awaited:
                is_awaited = self._awaits(node)
        for node in committed.forgotten:
            self._awaited.pop(node.id, None)
        if is_awaited:
            self._due = min(self._due, self._clock.now() + PROMPT)
            self.on_sooner()

    def _note_birth_or_death(self, node: Node) -> None:
        launch, phase = node.launch, node.phase
        is_born = launch is not None and launch.open and phase is not Phase.GONE
        if is_born or phase is Phase.TERMINATING:
            self._awaited[node.id] = None
        elif node.id in self._awaited:
            del self._awaited[node.id]

    def _awaits(self, node: Node) -> bool:
        """Return whether the machine of `node` is about to appear here, or to go."""
        if node.gone or node.launch is None or node.provider != self._provider.name:
            return False
        doubtful = node.launch.open and node.launch.token in self._evidence.unsure_since
        return node.phase is Phase.TERMINATING or doubtful
