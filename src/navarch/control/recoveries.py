"""The recovery reconciler: climbs ladders, one written-down step at a time."""

from dataclasses import replace
from datetime import datetime, timedelta

from navarch.control.agenda import Agenda
from navarch.control.operations import OperationRunner
from navarch.control.providers import Providers
from navarch.control.remediation import ground_of
from navarch.core.errors import OutcomeUnknownError, ProviderError, TransientError
from navarch.core.event import Event, about
from navarch.core.fleet import Change, Fleet
from navarch.core.ids import CommandId, NodeId, RecoveryId
from navarch.core.node import Node, NotifiedState, Phase
from navarch.core.recovery import Recovery, RecoveryState, RecoveryStep
from navarch.fleet.recovery.ladder import Transition, advance, look_again_at
from navarch.fleet.recovery.rules import RecoveryContext
from navarch.ports.clock import Clock, Entropy
from navarch.ports.notifier import WorkloadNotifier
from navarch.ports.store import Committed, Matter, Store

KEEP = timedelta(days=8)
"""How long a recovery that is over is remembered: a day longer than budgets look back."""

POLL = timedelta(seconds=10)
"""How often the workload system is asked whether a node is empty yet."""


class RecoveryReconciler:
    """Moves every recovery that can be moved.

    Orders to agents are written down together with the state that waits for them, so that a
    crash can neither lose nor repeat one. Providers have no such memory: they are asked after
    the state is written down, at most once. If that call is lost in a crash, the step's deadline
    passes and the next step follows; a machine is never rebooted twice to be sure.
    """

    name = "recoveries"

    def __init__(
        self,
        clock: Clock,
        entropy: Entropy,
        store: Store,
        providers: Providers,
        notifier: WorkloadNotifier,
        errands: OperationRunner,
    ) -> None:
        self._clock = clock
        self._entropy = entropy
        self._store = store
        self._providers = providers
        self._notifier = notifier
        self._errands = errands
        self._to_ask: set[RecoveryId] = set()
        """Orders for providers that this process has written down and not passed on yet."""
        self._refused: dict[RecoveryId, str] = {}
        self._drained: set[NodeId] = set()
        self._asked_at: dict[NodeId, datetime] = {}
        self.agenda: Agenda[RecoveryId] = Agenda()
        for name in store.fleet().recoveries:
            self.agenda.note(name)
        store.subscribe(self._changed, about=[Matter.RECOVERIES, Matter.COMMANDS])

    async def reconcile(self) -> datetime | None:
        """Make the next move of each recovery that has one."""
        now = self._clock.now()
        for name in self.agenda.due(now):
            fleet = self._store.fleet()
            recovery = fleet.recoveries.get(name)
            wake_at = None
            if recovery is not None:
                wake_at = await self._advance(fleet, recovery, now)
            self.agenda.done([name])
            self.agenda.wake(name, wake_at)
        return self.agenda.next_at()

    async def _advance(self, fleet: Fleet, recovery: Recovery, now: datetime) -> datetime | None:
        node = fleet.nodes.get(recovery.node)
        if recovery.over or node is None:
            ended_at = recovery.ended_at or now
            if node is None or now >= ended_at + KEEP:
                change = Change(forget_recoveries=[recovery.id])
                await self._store.commit(change, based_on=fleet.revision)
                return None
            return ended_at + KEEP
        move = advance(recovery, node, self._ground(fleet, recovery, node, now), self._new_command)
        if move is not None:
            await self._write_down(move, fleet, node, now)
            return now
        wakes = [look_again_at(recovery)]
        if recovery.state is RecoveryState.WAITING and node.phase is Phase.DRAINING:
            wakes.append(self._watch_drain(node, now))
        if recovery.state is RecoveryState.ORDERED and recovery.id in self._to_ask:
            wakes.append(self._ask_provider(recovery, node))
        return min((moment for moment in wakes if moment is not None), default=None)

    def _ground(
        self, fleet: Fleet, recovery: Recovery, node: Node, now: datetime
    ) -> RecoveryContext:
        ground = ground_of(fleet, node, self._providers, now=now)
        return replace(
            ground,
            command=fleet.commands.get(recovery.command) if recovery.command else None,
            drained=node.id in self._drained,
            refused=self._refused.get(recovery.id, ""),
            others=[each for each in ground.others if each.id != recovery.id],
        )

    def _new_command(self) -> CommandId:
        return CommandId(self._entropy.new_id("command"))

    async def _write_down(
        self, move: Transition, fleet: Fleet, before: Node, now: datetime
    ) -> None:
        event = Event(
            at=now,
            about=about("node", move.node.id),
            kind=move.kind,
            reason=move.reason,
            facts={
                "phase": str(move.node.phase),
                "health": str(move.node.health),
                "recovery": move.recovery.id,
                "step": str(move.recovery.step),
            },
        )
        change = Change(
            recoveries=[move.recovery],
            nodes=[] if move.node == before else [move.node],
            commands=[] if move.command is None else [move.command],
            events=[event],
        )
        if move.ask_provider:
            self._to_ask.add(move.recovery.id)
        try:
            await self._store.commit(change, based_on=fleet.revision)
        except BaseException:
            self._to_ask.discard(move.recovery.id)
            raise
        self._refused.pop(move.recovery.id, None)
        if move.recovery.over:
            self._drained.discard(move.node.id)
            self._asked_at.pop(move.node.id, None)

    def _watch_drain(self, node: Node, now: datetime) -> datetime | None:
        """Ask whether work has left, once the workload system knows that it should."""
        key = f"emptied/{node.id}"
        if node.told is not NotifiedState.DRAINING or self._errands.busy(key):
            return None
        asked_at = self._asked_at.get(node.id)
        if asked_at is not None and now < asked_at + POLL:
            return asked_at + POLL
        return self._errands.send(key, lambda: self._ask_drained(node))

    async def _ask_drained(self, node: Node) -> None:
        try:
            if await self._notifier.is_drained(node.id):
                self._drained.add(node.id)
        finally:
            self._asked_at[node.id] = self._clock.now()
            self._look_at(node)

    def _ask_provider(self, recovery: Recovery, node: Node) -> datetime | None:
        key = f"recovery/{recovery.id}"
        if self._errands.busy(key):
            return None
        return self._errands.send(key, lambda: self._call_provider(recovery, node))

    async def _call_provider(self, recovery: Recovery, node: Node) -> None:
        """Have the provider do it; only what surely did not happen is asked for again."""
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
            self._to_ask.discard(recovery.id)
            return
        try:
            provider = self._providers.get(node.provider)
            if recovery.step is RecoveryStep.POWER_CYCLE:
                await provider.power_cycle(node.instance)
            else:
                await provider.reboot(node.instance)
        except TransientError:
            raise
        except OutcomeUnknownError:
            # It may have happened. A new boot will tell, or the deadline.
            self._to_ask.discard(recovery.id)
        except ProviderError as error:
            self._to_ask.discard(recovery.id)
            self._refused[recovery.id] = str(error)
        else:
            self._to_ask.discard(recovery.id)
        finally:
            self.agenda.note(recovery.id)

    def _look_at(self, node: Node) -> None:
        if node.recovery is not None:
            self.agenda.note(node.recovery)

    def _changed(self, committed: Committed) -> None:
        change = committed.change
        for recovery in change.recoveries:
            self.agenda.note(recovery.id)
        for node in change.nodes:
            if node.recovery is not None:
                self._look_at(node)
        for command in change.commands:
            name = command.parameters.get("recovery")
            if name is not None:
                self.agenda.note(RecoveryId(name))
