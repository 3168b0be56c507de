"""Recovery: climbs the ladder of each recovery, one committed step at a time."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

from navarch.control.health.remediation import recovery_context
from navarch.control.nodes.drain import WORKLOADS
from navarch.control.providers.guard import Providers
from navarch.control.runtime.controller import Controller
from navarch.control.runtime.operations import OperationRunner
from navarch.control.runtime.work_queue import WorkQueue
from navarch.core.errors import OutcomeUnknownError, ProviderError, TransientError
from navarch.core.event import Event, about
from navarch.core.fleet import Change, Fleet
from navarch.core.ids import CommandId, NodeId, RecoveryId
from navarch.core.node import Node, NotifiedState, Phase
from navarch.core.recovery import Recovery, RecoveryState, RecoveryStep
from navarch.fleet.recovery.ladder import Transition, advance, look_again_at
from navarch.ports.clock import Clock, Entropy
from navarch.ports.notifier import WorkloadNotifier
from navarch.ports.store import Committed, Store

KEEP = timedelta(days=8)
"""How long a recovery that is over is kept: a day longer than budgets look back."""

POLL = timedelta(seconds=10)
"""How often the workload system is queried about one node."""


class RecoveryController(Controller):
    """Makes the next transition of every recovery that has one.

    A command to an agent is committed together with the state that expects its result, so a crash
    can neither lose nor repeat it. A call to a provider follows the commit, at most once. If a
    crash loses that call, the step's deadline passes and the next step follows; a machine is never
    rebooted twice to be sure.
    """

    name = "recoveries"
    queue: WorkQueue[RecoveryId]

    def __init__(
        self,
        clock: Clock,
        entropy: Entropy,
        store: Store,
        providers: Providers,
        notifier: WorkloadNotifier,
        operations: OperationRunner,
    ) -> None:
        super().__init__(clock, store, store.fleet().recoveries)
        self._entropy = entropy
        self._providers = providers
        self._notifier = notifier
        self._operations = operations
        self._uncalled: set[RecoveryId] = set()
        """Recoveries with a call to the provider that is committed and not made yet."""
        self._refused: dict[RecoveryId, str] = {}
        self._drained: set[NodeId] = set()
        self._polled_at: dict[NodeId, datetime] = {}

    def on_commit(self, committed: Committed) -> None:
        """Queue the recoveries that a commit concerns."""
        change = committed.change
        for recovery in change.recoveries:
            self.queue.add(recovery.id)
        for node in change.nodes:
            if node.recovery is not None:
                self.queue.add(node.recovery)
        for command in change.commands:
            name = command.parameters.get("recovery")
            if name is not None:
                self.queue.add(RecoveryId(name))

    async def reconcile(self, keys: Sequence[RecoveryId]) -> None:
        """Make the next transition of each recovery that has one."""
        now = self._clock.now()
        for name in keys:
            fleet = self._store.fleet()
            recovery = fleet.recoveries.get(name)
            due = None if recovery is None else await self._advance(fleet, recovery, now)
            self.queue.reschedule(name, due)

    async def _advance(self, fleet: Fleet, recovery: Recovery, now: datetime) -> datetime | None:
        node = fleet.nodes.get(recovery.node)
        if recovery.over or node is None:
            ended_at = recovery.ended_at or now
            if node is None or now >= ended_at + KEEP:
                change = Change(forget_recoveries=[recovery.id])
                await self._store.commit(change, based_on=fleet.revision)
                return None
            return ended_at + KEEP
        context = recovery_context(fleet, node, self._providers, now=now)
        context = replace(
            context,
            command=fleet.commands.get(recovery.command) if recovery.command else None,
            drained=node.id in self._drained,
            refused=self._refused.get(recovery.id, ""),
            others=[each for each in context.others if each.id != recovery.id],
        )
        transition = advance(
            recovery, node, context, lambda: CommandId(self._entropy.new_id("command"))
        )
        if transition is not None:
            await self._commit(transition, fleet, node, now)
            return now
        due = [look_again_at(recovery)]
        if recovery.state is RecoveryState.WAITING and node.phase is Phase.DRAINING:
            due.append(self._watch_drain(recovery.id, node, now))
        key = f"recovery/{recovery.id}"
        is_uncalled = recovery.state is RecoveryState.ORDERED and recovery.id in self._uncalled
        if is_uncalled and not self._operations.busy(key):
            call = partial(self._call_provider, recovery, node)
            look_again = partial(self.queue.add, recovery.id)
            system = node.provider or ""
            due.append(self._operations.send(key, call, then=look_again, system=system))
        return min((moment for moment in due if moment is not None), default=None)

    async def _commit(
        self, transition: Transition, fleet: Fleet, before: Node, now: datetime
    ) -> None:
        event = Event(
            at=now,
            about=about("node", transition.node.id),
            kind=transition.kind,
            reason=transition.reason,
            facts={
                "phase": str(transition.node.phase),
                "health": str(transition.node.health),
                "recovery": transition.recovery.id,
                "step": str(transition.recovery.step),
            },
        )
        change = Change(
            recoveries=[transition.recovery],
            nodes=[] if transition.node == before else [transition.node],
            commands=[] if transition.command is None else [transition.command],
            events=[event],
        )
        if transition.ask_provider:
            self._uncalled.add(transition.recovery.id)
        try:
            await self._store.commit(change, based_on=fleet.revision)
        except BaseException:
            self._uncalled.discard(transition.recovery.id)
            raise
        self._refused.pop(transition.recovery.id, None)
        if transition.recovery.over:
            self._drained.discard(transition.node.id)
            self._polled_at.pop(transition.node.id, None)

    def _watch_drain(self, name: RecoveryId, node: Node, now: datetime) -> datetime | None:
        """Query whether work has left, once the workload system was notified."""
        key = f"emptied/{node.id}"
        if node.notified is not NotifiedState.DRAINING or self._operations.busy(key):
            return None
        polled_at = self._polled_at.get(node.id)
        if polled_at is not None and now < polled_at + POLL:
            return polled_at + POLL

        async def poll() -> None:
            try:
                if await self._notifier.is_drained(node.id):
                    self._drained.add(node.id)
            finally:
                self._polled_at[node.id] = self._clock.now()

        then = partial(self.queue.add, name)
        return self._operations.send(key, poll, then=then, system=WORKLOADS)

    async def _call_provider(self, recovery: Recovery, node: Node) -> None:
        """Call the provider; only a call that certainly had no effect is repeated."""
        newest = self._store.fleet()
        known = newest.recoveries.get(recovery.id)
        running = newest.nodes.get(node.id)
        is_current = known is not None and (known.step, known.state, known.since) == (
            recovery.step,
            recovery.state,
            recovery.since,
        )
        stale = not is_current or running is None or running.boot_id != recovery.ordered_boot
        if stale or node.provider is None or node.instance is None:
            self._uncalled.discard(recovery.id)
            return
        try:
            provider = self._providers.get(node.provider)
            if recovery.step is RecoveryStep.POWER_CYCLE:
                await provider.power_cycle(node.instance)
            else:
                await provider.reboot(node.instance)
        except TransientError:
            raise
        except ProviderError as error:
            # A call of unknown outcome may have happened: a new boot will show it, or the
            # deadline passes.
            if not isinstance(error, OutcomeUnknownError):
                self._refused[recovery.id] = str(error)
        self._uncalled.discard(recovery.id)
