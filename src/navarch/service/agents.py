"""The use cases of agents."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from navarch.control.health.ingest import HealthIngest, Utilization
from navarch.control.runtime.controller import retried
from navarch.core.errors import InvalidError, NotFoundError, NotPossibleError
from navarch.core.event import Event, about
from navarch.core.fleet import Change, Fleet
from navarch.core.health import HEARTBEAT, CheckResult, Health, HealthReport
from navarch.core.ids import CommandId, InstanceId, NodeId
from navarch.core.instance import NodeMetrics, Sample
from navarch.core.limits import COMMAND_RESULT_LENGTH, HOSTS, REASON_LENGTH
from navarch.core.node import LINK, Node, NodeStatus, Phase, node_status
from navarch.core.records import evolve
from navarch.core.recovery import NEXT_STATUSES, Command, CommandKind, CommandStatus
from navarch.fleet import lifecycle
from navarch.fleet.silence import heartbeat_condition
from navarch.fleet.verdicts import traits_after, with_results
from navarch.health.policy.engine import PolicySet, compile_policies
from navarch.health.policy.policy import NO_RULES
from navarch.ports.agents import Registration, Welcome
from navarch.ports.clock import Clock
from navarch.ports.store import Store
from navarch.service.agent_limits import bounded, check_registration
from navarch.service.pace import ReportPace
from navarch.state.index import Index


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How often agents report, and after which silence a node is unhealthy."""

    heartbeat_interval: timedelta = timedelta(seconds=30)
    heartbeat_timeout: timedelta | None = None
    health_check_interval: timedelta = timedelta(seconds=60)

    @property
    def silence(self) -> timedelta:
        """How long after its last heartbeat a node is unhealthy."""
        return self.heartbeat_timeout or 3 * self.heartbeat_interval


MOVE_EVERY = timedelta(seconds=0.1)
"""A restart at another address must not make a whole fleet register at once."""

_ALIVE = CheckResult(check=HEARTBEAT, health=Health.HEALTHY)

OnReport = Callable[[NodeId, HealthReport], None]
"""Receives every report of an agent, also those that change nothing."""


class LivenessSink(Protocol):
    """What receives heartbeats."""

    def record_heartbeat(self, node: NodeId, metrics: NodeMetrics | None) -> None:
        """Record that `node` is alive now."""
        ...

    def record_late_samples(self, node: NodeId, samples: Sequence[Sample]) -> None:
        """Record earlier readings; newer ones are not overwritten."""
        ...


class ProbeDesk(Protocol):
    """What has nodes probe each other. Its commands are not stored."""

    def pending(self, node: NodeId) -> Sequence[Command]:
        """Return the probes that `node` has not carried out yet."""
        ...

    def finish(self, node: NodeId, command: CommandId, *, succeeded: bool, result: str) -> bool:
        """Record the result of a probe; return False if there is no such command."""
        ...


class AgentService:
    """Receives agents. No report of an agent overrides an operator's decision about its node."""

    def __init__(
        self,
        clock: Clock,
        store: Store,
        index: Index,
        liveness: LivenessSink,
        *,
        timing: Callable[[], Timing] = Timing,
        policies: Callable[[], PolicySet] | None = None,
        utilization: Utilization = lambda nodes: [None] * len(nodes),
        on_report: OnReport = lambda _node, _report: None,
        probes: ProbeDesk | None = None,
        hosts_max: Callable[[], int] = lambda: HOSTS.most,
    ) -> None:
        self._clock = clock
        self._store = store
        self._index = index
        self._liveness = liveness
        self._timing = timing
        self._on_report = on_report
        self._probes = probes
        no_rules = compile_policies(NO_RULES)
        self.ingest = HealthIngest(
            clock, store, index, policies=policies or (lambda: no_rules), utilization=utilization
        )
        self._to_register: set[NodeId] = set()
        """Nodes with agents that must register again."""
        self._moved: set[NodeId] = set()
        """Nodes with agents whose connection has moved since they registered."""
        self._next_move_at = clock.now()
        self._hosts = _HostCount(clock, store, hosts_max)
        self._pace = ReportPace(clock)

    def request_registrations(self) -> None:
        """Have every agent register again, because the answer that it received has changed.

        The request is the answer to one heartbeat, which still counts: an agent that does not
        support it must not be considered dead.
        """
        nodes = self._store.fleet().nodes.values()
        self._to_register = {n.id for n in nodes if n.registered_at is not None and not n.gone}

    def note_links(self, links: Collection[str]) -> None:
        """Have the agents that registered elsewhere than at `links` register again, one by one.

        Their connection has moved, which each registration records with a commit.
        """
        nodes = [node for node in self._store.fleet().nodes.values() if not node.gone]
        recorded = {node.id: node.traits[LINK].value for node in nodes if LINK in node.traits}
        self._moved = {name for name, link in recorded.items() if link not in links}

    async def register(self, registration: Registration, *, link: str = "") -> Welcome:
        """Register the agent of a machine."""
        if not registration.node:
            raise InvalidError("node_id is required")
        check_registration(registration)
        if registration.report is not None:
            results = bounded(registration.node, registration.report)
            registration = evolve(registration, report=results)
        known = self._find(self._store.fleet(), registration.node)
        name = known.id if known else registration.node
        if known is None:
            self._hosts.check_room()
        await self._pace.turn(name, registration.report)
        node = await self.ingest.run(name, self._register, registration, link)
        self._to_register.discard(node.id)
        self._moved.discard(node.id)
        self._liveness.record_heartbeat(node.id, None)
        report = registration.report
        if report is not None:
            self._on_report(node.id, report)
        timing = self._timing()
        return Welcome(
            node=node.id,
            heartbeat_interval=timing.heartbeat_interval,
            health_check_interval=timing.health_check_interval,
            status=(node_status(node) or "") if report is not None else "",
        )

    async def _register(self, registration: Registration, link: str) -> Node:
        """Commit a registration together with what follows from its report."""
        fleet = self._store.fleet()
        now = self._clock.now()
        before = self._find(fleet, registration.node)
        if before is not None and before.gone:
            raise NotPossibleError(f"node {before.id} is gone; its machine is to be terminated")
        if before is not None and _is_impostor(before, registration):
            raise NotPossibleError(
                f"node {before.id} runs on another machine; this one is to be terminated"
            )
        node, change = await self._registration_change(before, registration, link, now)
        report, result = registration.report, None
        if report is not None and not _is_repeated(node, report):
            result = await self.ingest.evaluate(fleet, node, report)
            node = result.node
            if not result.change.empty:
                change = evolve(
                    result.change,
                    nodes=[_numbered(node, report)],
                    inventories=change.inventories,
                    events=[*change.events, *result.change.events],
                )
        if not change.empty:
            await self._store.commit(change, based_on=fleet.revision)
        if result is not None:
            result.count()
        return node

    async def _registration_change(
        self, before: Node | None, registration: Registration, link: str, now: datetime
    ) -> tuple[Node, Change]:
        """Return the registered node, and the change to commit, if any."""
        after, reason = _registered(before, registration, link, now)
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
            # A registering node is not silent: it must not be replaced for silence before the
            # next sweep.
            self._liveness.record_heartbeat(after.id, None)
            after, news = with_results(after, [_ALIVE], now=now)
            events += news
        inventories = {after.id: registration.inventory}
        return after, Change(nodes=[after], inventories=inventories, events=events)

    def heartbeat(self, node: NodeId, metrics: NodeMetrics | None = None) -> Sequence[Command]:
        """Record that `node` is alive; return the commands that it has not received."""
        known = self._store.fleet().nodes.get(node)
        if known is None or known.registered_at is None:
            raise NotFoundError(f"node not found: {node}")
        if known.gone:
            if _is_forgotten(known):
                raise NotFoundError(f"node not found: {node}")
            # The sample is dropped, not refused: a refused agent considers itself cut off, and
            # one with a lease would end its machine.
            return self._index.commands.pending(node)
        self._liveness.record_heartbeat(node, metrics)
        if node in self._to_register or (node in self._moved and self._may_move()):
            self._to_register.discard(node)
            self._moved.discard(node)
            raise NotFoundError(f"node {node} must register again")
        commands = self._index.commands.pending(node)
        probes = () if self._probes is None else self._probes.pending(node)
        return [*commands, *probes] if probes else commands

    def pending(self, node: NodeId) -> Sequence[Command]:
        """Return the commands that `node` has not acknowledged yet."""
        if node not in self._store.fleet().nodes:
            raise NotFoundError(f"node not found: {node}")
        return self._index.commands.pending(node)

    def resolve(self, name: NodeId) -> NodeId:
        """Return the node of that name, or of the machine of that name at its provider."""
        known = self._find(self._store.fleet(), name)
        return name if known is None else known.id

    def _may_move(self) -> bool:
        """Return whether one more agent may register only because its connection has moved."""
        now = self._clock.now()
        if now < self._next_move_at:
            return False
        self._next_move_at = now + MOVE_EVERY
        return True

    async def report_health(self, node: NodeId, report: HealthReport) -> NodeStatus | None:
        """Evaluate the results of a node's checks."""
        report = bounded(node, report)
        await self._pace.turn(node, report)
        status = await self.ingest.run(node, self._report_health, node, report)
        if status is not NodeStatus.TERMINATED:
            self._on_report(node, report)
        return status

    async def _report_health(self, name: NodeId, report: HealthReport) -> NodeStatus | None:
        fleet = self._store.fleet()
        node = fleet.nodes.get(name)
        if node is None or node.registered_at is None or _is_forgotten(node):
            raise NotFoundError(f"node not found: {name}")
        if node.gone or _is_repeated(node, report):
            return node_status(node)
        result = await self.ingest.evaluate(fleet, node, report)
        if not result.change.empty:
            change = evolve(result.change, nodes=[_numbered(result.node, report)])
            await self._store.commit(change, based_on=fleet.revision)
        result.count()
        return node_status(result.node)

    async def note_findings(self, node: NodeId, results: Sequence[CheckResult]) -> None:
        """Evaluate findings of the control plane about a node, like those of its agent."""
        report = HealthReport(results=tuple(results))
        await self.ingest.run(node, self._note_findings, node, report)

    async def _note_findings(self, name: NodeId, report: HealthReport) -> None:
        fleet = self._store.fleet()
        node = fleet.nodes.get(name)
        if node is None or node.gone or node.registered_at is None:
            return
        result = await self.ingest.evaluate(fleet, node, report)
        if not result.change.empty:
            await self._store.commit(result.change, based_on=fleet.revision)
        result.count()

    async def report_metrics(self, node: NodeId, samples: Sequence[Sample]) -> None:
        """Record readings that arrive late."""
        known = self._store.fleet().nodes.get(node)
        if known is None or known.registered_at is None or _is_forgotten(known):
            raise NotFoundError(f"node not found: {node}")
        if not known.gone:
            self._liveness.record_late_samples(node, samples)

    async def acknowledge(self, node: NodeId, command: CommandId) -> None:
        """Record that a command was received."""
        await self._move(node, command, CommandStatus.ACKNOWLEDGED, "")

    async def finish(
        self, node: NodeId, command: CommandId, *, succeeded: bool, result: str = ""
    ) -> None:
        """Record the result of a command."""
        result = COMMAND_RESULT_LENGTH.cut(result)
        if self._probes is not None and self._probes.finish(
            node, command, succeeded=succeeded, result=result
        ):
            return
        status = CommandStatus.COMPLETED if succeeded else CommandStatus.FAILED
        await self._move(node, command, status, result)

    @retried
    async def _move(
        self, node: NodeId, name: CommandId, status: CommandStatus, result: str
    ) -> None:
        fleet = self._store.fleet()
        command = fleet.commands.get(name)
        if command is None or command.node != node:
            raise NotFoundError(f"command not found: {name}")
        if status not in NEXT_STATUSES[command.status]:
            return  # Reported twice, or too late: the first report stands.
        now = self._clock.now()
        after = evolve(command, status=status, result=result)
        if after.over:
            after = evolve(after, ended_at=now)
        event = Event(
            at=now,
            about=about("command", name),
            kind=f"command.{status}",
            reason=REASON_LENGTH.cut(result) or f"reported by {node}",
            because=(about("node", node),),
        )
        change = Change(commands=[after], events=[event])
        await self._store.commit(change, based_on=fleet.revision)

    def _find(self, fleet: Fleet, name: NodeId) -> Node | None:
        """Return the node of that name, or the one whose machine has that name at its provider.

        The agent of a forgotten host registers a new node.
        """
        node = fleet.nodes.get(name)
        if node is not None and not _is_forgotten(node):
            return node
        known = self._index.node_of(InstanceId(name))
        return None if known is None else fleet.nodes.get(known)


class _HostCount:
    """The number of hosts that registered by themselves, counted at most once a second."""

    def __init__(self, clock: Clock, store: Store, most: Callable[[], int]) -> None:
        self._clock = clock
        self._store = store
        self._most = most
        self._count = 0
        self._counted_at = float("-inf")

    def check_room(self) -> None:
        """Raise NotPossibleError if there is no room for one more, and count it otherwise."""
        now = self._clock.monotonic()
        if now - self._counted_at >= 1.0:
            nodes = self._store.fleet().nodes.values()
            self._count = sum(node.self_registered and not node.gone for node in nodes)
            self._counted_at = now
        evolve(HOSTS, most=self._most()).check_room(self._count + 1)
        self._count += 1


def _is_forgotten(node: Node) -> bool:
    """Return whether the agent of a forgotten host, if it reports again, must register anew."""
    return node.gone and node.self_registered


def _is_repeated(node: Node, report: HealthReport) -> bool:
    """Return whether `report` was evaluated before; one that changed nothing may be so again."""
    same_stream = report.number > 0 and report.stream == node.report_stream
    return same_stream and report.number <= node.report_number


def _numbered(node: Node, report: HealthReport) -> Node:
    """Return `node` with the number of a report that has changed something."""
    return evolve(node, report_stream=report.stream, report_number=report.number)


def _is_impostor(node: Node, registration: Registration) -> bool:
    """Return whether a registering machine was bought for `node` but is not its machine."""
    if registration.token is None or node.pool is None:
        return False
    return node.launch is None or node.launch.token != registration.token


def _registered(
    before: Node | None, registration: Registration, link: str, now: datetime
) -> tuple[Node, str]:
    if before is None:
        unmanaged = Node(
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
            address=registration.inventory.internal_ip,
            probes=CommandKind.PROBE in registration.inventory.commands,
            dead_man_s=registration.inventory.dead_man_s,
            traits=traits_after({}, registration.inventory, link=link, now=now),
        )
        return unmanaged, "a machine that no pool bought has registered"
    is_same_boot = before.registered_at is not None and before.boot_id == registration.boot_id
    after = evolve(
        before,
        boot_id=registration.boot_id,
        booted_at=before.booted_at if is_same_boot else now,
        registered_at=before.registered_at or now,
        gpus=len(registration.inventory.gpus),
        labels=registration.inventory.labels,
        address=registration.inventory.internal_ip,
        probes=CommandKind.PROBE in registration.inventory.commands,
        dead_man_s=registration.inventory.dead_man_s,
        traits=traits_after(before.traits, registration.inventory, link=link, now=now),
    )
    if before.pool is None:
        after = evolve(after, offering=registration.place or before.offering)
    if before.phase is Phase.BOOTING or before.phase is Phase.REQUESTED:
        return lifecycle.registered(after, now=now), "the agent has registered"
    if before.boot_id != registration.boot_id:
        return after, "the agent is back, after a reboot of the machine"
    return after, "the agent is back"
