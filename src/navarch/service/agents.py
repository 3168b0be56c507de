"""What agents may do, in-process."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from navarch.core.command import NEXT_STATUSES, Command, CommandStatus
from navarch.core.errors import InvalidError, NotFoundError, NotPossibleError
from navarch.core.event import Event, about
from navarch.core.evolve import evolve
from navarch.core.fleet import Change, Fleet
from navarch.core.health import HEARTBEAT, CheckResult, Health, HealthReport
from navarch.core.ids import CommandId, InstanceId, NodeId
from navarch.core.metrics import NodeMetrics, Sample
from navarch.core.node import Node, NodeStatus, Phase, node_status
from navarch.fleet import lifecycle
from navarch.fleet.silence import heartbeat_condition
from navarch.fleet.verdicts import traits_after, with_results
from navarch.health.policy.engine import PolicySet, compile_policies
from navarch.health.policy.policy import NO_RULES
from navarch.ports.agents import Registration, Welcome
from navarch.ports.clock import Clock
from navarch.ports.store import Committed, Matter, Store
from navarch.service.attempts import until_no_conflict
from navarch.service.weighing import Utilization, Weighing


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How often agents report, and how long their silence is borne."""

    heartbeat_interval: timedelta = timedelta(seconds=30)
    heartbeat_timeout: timedelta | None = None
    health_check_interval: timedelta = timedelta(seconds=60)

    @property
    def silence(self) -> timedelta:
        """How long a node may go unheard before it is held to be unhealthy."""
        return self.heartbeat_timeout or 3 * self.heartbeat_interval


_HEARD = CheckResult(check=HEARTBEAT, health=Health.HEALTHY)

Overheard = Callable[[NodeId, HealthReport], None]
"""Hears every report that an agent makes, also those that change nothing."""


def unheard(node: NodeId, report: HealthReport) -> None:
    """Let a report pass."""
    del node, report


def nobody_knows(nodes: Sequence[NodeId]) -> Sequence[float | None]:
    """Return that nothing is known about how busy `nodes` are."""
    return [None] * len(nodes)


class Heard(Protocol):
    """Where heartbeats go."""

    def heard(self, node: NodeId, metrics: NodeMetrics | None) -> None:
        """Note that `node` is alive now."""
        ...

    def heard_late(self, node: NodeId, samples: Sequence[Sample]) -> None:
        """Take readings from before; nothing newer is overwritten by them."""
        ...


class AgentService:
    """Receives agents. Nothing an agent says changes an operator's decision about its node."""

    def __init__(
        self,
        clock: Clock,
        store: Store,
        heard: Heard,
        *,
        timing: Callable[[], Timing] = Timing,
        policies: Callable[[], PolicySet] | None = None,
        utilization: Utilization = nobody_knows,
        overheard: Overheard = unheard,
    ) -> None:
        self._clock = clock
        self._store = store
        self._heard = heard
        self._timing = timing
        self._overheard = overheard
        believing = compile_policies(NO_RULES)
        self._weighing = Weighing(
            clock, store, policies=policies or (lambda: believing), utilization=utilization
        )
        self._waiting: dict[NodeId, dict[CommandId, Command]] = {}
        self._strangers: set[NodeId] = set()
        self._on_machine: dict[InstanceId, NodeId] = {}
        """Whose machine is which, for agents that know only their machine's name."""
        for node in store.fleet().nodes.values():
            self._note_machine(None, node)
        for command in store.fleet().commands.values():
            self._note(command)
        store.subscribe(self._changed, about=[Matter.COMMANDS, Matter.LAUNCHES, Phase.GONE])

    def ask_for_introductions(self) -> None:
        """Have every agent register again, since what it was told then no longer holds.

        Each is told once, and counts as heard all the same: an agent that knows no such thing
        must not be taken for a dead one.
        """
        nodes = self._store.fleet().nodes.values()
        self._strangers = {n.id for n in nodes if n.registered_at is not None and not n.gone}

    async def register(self, registration: Registration) -> Welcome:
        """Introduce a machine."""
        if not registration.node:
            raise InvalidError("node_id is required")
        known = self._find(self._store.fleet(), registration.node)
        name = known.id if known else registration.node
        node = await self._weighing.in_turn(name, self._register, registration)
        self._strangers.discard(node.id)
        self._heard.heard(node.id, None)
        report = registration.report
        if report is not None:
            self._overheard(node.id, report)
        timing = self._timing()
        return Welcome(
            node=node.id,
            heartbeat_interval=timing.heartbeat_interval,
            health_check_interval=timing.health_check_interval,
            status=(node_status(node) or "") if report is not None else "",
        )

    async def _register(self, registration: Registration) -> Node:
        """Write down who has come, and in the same commit what its report comes to."""
        fleet = self._store.fleet()
        now = self._clock.now()
        before = self._find(fleet, registration.node)
        if before is not None and before.gone:
            raise NotPossibleError(f"node {before.id} is gone; its machine is to be terminated")
        if before is not None and _is_impostor(before, registration):
            raise NotPossibleError(
                f"node {before.id} runs on another machine; this one is to be terminated"
            )
        node, change = await self._introduction(before, registration, now)
        report, weighed = registration.report, None
        if report is not None and not _is_repeated(node, report):
            weighed = await self._weighing.weigh(fleet, node, report)
            node = weighed.node
            if not weighed.change.empty:
                change = evolve(
                    weighed.change,
                    nodes=[_numbered(node, report)],
                    inventories=change.inventories,
                    events=[*change.events, *weighed.change.events],
                )
        if not change.empty:
            await self._store.commit(change, based_on=fleet.revision)
        if weighed is not None:
            weighed.note()
        return node

    async def _introduction(
        self, before: Node | None, registration: Registration, now: datetime
    ) -> tuple[Node, Change]:
        """Return the node that has come, and what is to be written down of that, if anything."""
        after, reason = _introduced(before, registration, now)
        is_same = after == before and heartbeat_condition(after) is None
        if is_same and await self._store.inventory(after.id) == registration.inventory:
            return after, Change()
        event = Event(
            at=now,
            about=about("node", after.id),
            kind="node.registered",
            reason=reason,
            facts={"phase": str(after.phase), "boot_id": after.boot_id},
        )
        events = [event]
        if heartbeat_condition(after) is not None:
            # Whoever introduces himself is not silent: he must not be given up for it before the
            # next sweep finds that out.
            self._heard.heard(after.id, None)
            after, news = with_results(after, [_HEARD], now=now)
            events += news
        inventories = {after.id: registration.inventory}
        return after, Change(nodes=[after], inventories=inventories, events=events)

    def heartbeat(self, node: NodeId, metrics: NodeMetrics | None = None) -> Sequence[Command]:
        """Note that `node` is alive; return what it has been asked to do."""
        known = self._store.fleet().nodes.get(node)
        if known is None or known.registered_at is None:
            raise NotFoundError(f"node not found: {node}")
        if known.gone:
            # The sample is dropped, not refused: an agent that is refused counts as cut off, and
            # one with a lease would end its machine.
            return list(self._waiting.get(node, {}).values())
        self._heard.heard(node, metrics)
        if node in self._strangers:
            self._strangers.discard(node)
            raise NotFoundError(f"node {node} should introduce itself again")
        return list(self._waiting.get(node, {}).values())

    async def report_health(self, node: NodeId, report: HealthReport) -> NodeStatus | None:
        """Weigh what the checks found."""
        status = await self._weighing.in_turn(node, self._report_health, node, report)
        if status is not NodeStatus.TERMINATED:
            self._overheard(node, report)
        return status

    async def _report_health(self, name: NodeId, report: HealthReport) -> NodeStatus | None:
        fleet = self._store.fleet()
        node = fleet.nodes.get(name)
        if node is None or node.registered_at is None:
            raise NotFoundError(f"node not found: {name}")
        if node.gone or _is_repeated(node, report):
            return node_status(node)
        weighed = await self._weighing.weigh(fleet, node, report)
        if not weighed.change.empty:
            change = evolve(weighed.change, nodes=[_numbered(weighed.node, report)])
            await self._store.commit(change, based_on=fleet.revision)
        weighed.note()
        return node_status(weighed.node)

    def is_foregone(self, node: NodeId, report: HealthReport) -> bool:
        """Return whether this report was weighed before and would change nothing, come again.

        That holds until something changes about the node, its commands or its incidents.
        """
        fleet = self._store.fleet()
        known = fleet.nodes.get(node)
        return known is not None and self._weighing.is_familiar(fleet, known, report)

    async def note_findings(self, node: NodeId, results: Sequence[CheckResult]) -> None:
        """Weigh what the control plane itself has found out about a node, as any other finding."""
        report = HealthReport(results=tuple(results))
        await self._weighing.in_turn(node, self._note_findings, node, report)

    async def _note_findings(self, name: NodeId, report: HealthReport) -> None:
        fleet = self._store.fleet()
        node = fleet.nodes.get(name)
        if node is None or node.gone or node.registered_at is None:
            return
        weighed = await self._weighing.weigh(fleet, node, report)
        if not weighed.change.empty:
            await self._store.commit(weighed.change, based_on=fleet.revision)
        weighed.note()

    async def report_metrics(self, node: NodeId, samples: Sequence[Sample]) -> None:
        """Take readings that come late."""
        known = self._store.fleet().nodes.get(node)
        if known is None or known.registered_at is None:
            raise NotFoundError(f"node not found: {node}")
        if not known.gone:
            self._heard.heard_late(node, samples)

    async def acknowledge(self, node: NodeId, command: CommandId) -> None:
        """Note that a command has arrived."""
        await self._move(node, command, CommandStatus.ACKNOWLEDGED, "")

    async def finish(
        self, node: NodeId, command: CommandId, *, succeeded: bool, result: str = ""
    ) -> None:
        """Note how a command ended."""
        status = CommandStatus.COMPLETED if succeeded else CommandStatus.FAILED
        await self._move(node, command, status, result)

    async def _move(
        self, node: NodeId, name: CommandId, status: CommandStatus, result: str
    ) -> None:
        async def attempt() -> None:
            fleet = self._store.fleet()
            command = fleet.commands.get(name)
            if command is None or command.node != node:
                raise NotFoundError(f"command not found: {name}")
            if status not in NEXT_STATUSES[command.status]:
                return  # Said twice, or too late: the first word stands.
            now = self._clock.now()
            after = evolve(command, status=status, result=result)
            if after.over:
                after = evolve(after, ended_at=now)
            event = Event(
                at=now,
                about=about("command", name),
                kind=f"command.{status}",
                reason=result or f"{node} says so",
                because=(about("node", node),),
            )
            change = Change(commands=[after], events=[event])
            await self._store.commit(change, based_on=fleet.revision)

        await until_no_conflict(attempt)

    def _note(self, command: Command) -> None:
        waiting = self._waiting.setdefault(command.node, {})
        if command.status is CommandStatus.PENDING:
            waiting[command.id] = command
        else:
            waiting.pop(command.id, None)
        if not waiting:
            del self._waiting[command.node]

    def _find(self, fleet: Fleet, name: NodeId) -> Node | None:
        """Return the node of that name, or the one whose machine has that name at its provider."""
        node = fleet.nodes.get(name)
        if node is not None:
            return node
        known = self._on_machine.get(InstanceId(name))
        return None if known is None else fleet.nodes.get(known)

    def _note_machine(self, before: Node | None, node: Node) -> None:
        former = None if before is None else before.launch
        launch = None if node.gone else node.launch
        known = None if former is None else former.instance
        now = None if launch is None else launch.instance
        if known is not None and known != now and self._on_machine.get(known) == node.id:
            del self._on_machine[known]
        if now is not None:
            self._on_machine.setdefault(now, node.id)

    def _changed(self, committed: Committed) -> None:
        for command in committed.change.commands:
            self._note(command)
        for before, node in committed.moved:
            if before is None or before.launch is not node.launch or before.phase is not node.phase:
                self._note_machine(before, node)


def _is_repeated(node: Node, report: HealthReport) -> bool:
    """Return whether `report` was weighed before; one that changed nothing may be weighed again."""
    same_stream = report.number > 0 and report.stream == node.report_stream
    return same_stream and report.number <= node.report_number


def _numbered(node: Node, report: HealthReport) -> Node:
    """Return `node` with the number of a report that has changed something."""
    return evolve(node, report_stream=report.stream, report_number=report.number)


def _is_impostor(node: Node, registration: Registration) -> bool:
    """Return whether a machine that was bought for `node` but is not its machine has called."""
    if registration.token is None or node.pool is None:
        return False
    return node.launch is None or node.launch.token != registration.token


def _introduced(before: Node | None, registration: Registration, now: datetime) -> tuple[Node, str]:
    if before is None:
        stranger = Node(
            id=registration.node,
            pool=None,
            phase=Phase.READY,
            since=now,
            created_at=now,
            registered_at=now,
            boot_id=registration.boot_id,
            booted_at=now,
            offering=registration.place,
            gpus=len(registration.inventory.gpus),
            labels=registration.inventory.labels,
            traits=traits_after({}, registration.inventory, now=now),
        )
        return stranger, "a machine that nobody here bought has registered"
    is_same_boot = before.registered_at is not None and before.boot_id == registration.boot_id
    after = evolve(
        before,
        boot_id=registration.boot_id,
        booted_at=before.booted_at if is_same_boot else now,
        registered_at=before.registered_at or now,
        gpus=len(registration.inventory.gpus),
        labels=registration.inventory.labels,
        traits=traits_after(before.traits, registration.inventory, now=now),
    )
    if before.pool is None:
        after = evolve(after, offering=registration.place or before.offering)
    if before.phase is Phase.BOOTING or before.phase is Phase.REQUESTED:
        return lifecycle.registered(after, now=now), "the agent reported in"
    if before.boot_id != registration.boot_id:
        return after, "the agent is back, after a reboot of the machine"
    return after, "the agent is back"
