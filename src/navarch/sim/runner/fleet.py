"""The simulated fleet: every machine of a scenario, its active faults, and their record."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from functools import partial
from operator import attrgetter

from navarch.core.health import CheckResult, Health
from navarch.core.ids import InstanceId, NodeId, ProviderName, Token
from navarch.core.launch import Offering
from navarch.core.records import evolve
from navarch.ports.provider import ProvisionRequest
from navarch.providers.simulated import Machine
from navarch.service.agents import Timing
from navarch.sim.figures.timeline import InjectedFault, Lease, RequestedOutage
from navarch.sim.kernel.clock import Chance
from navarch.sim.runner.environment import Environment
from navarch.sim.scenario.fleet import FleetNode
from navarch.sim.scenario.kinds import FailureType, Software, TargetScope, parse_percentage
from navarch.sim.world.agent import SimAgent
from navarch.sim.world.failure import SLOWER_BY, Failure
from navarch.sim.world.product_agent import replay_recording, run_product_agent

OnFault = Callable[[NodeId, Failure, str, int], None]
"""Called with a node, its failure, the cause, and the step of a cascade."""


@dataclass(slots=True)
class Cut:
    """A place that the network separates from the control plane."""

    scope: TargetScope
    target: str
    nodes: set[NodeId]


@dataclass(slots=True)
class ActiveFault:
    """A failure that is present on a machine."""

    failure: Failure
    place: int
    """The index of its record."""


@dataclass(slots=True, kw_only=True)
class SimulatedFleet:
    """Machines by their nodes' names: those a scenario names, and those the control plane buys."""

    environment: Environment
    timing: Timing
    loss: float = 0.0
    product_agents: float = 0.0
    """The share of machines that run the product's agent."""
    latency_s: tuple[float, float] | None = None
    load: Callable[[NodeId], float] | None = None
    prepare: Callable[[SimAgent], None] = lambda _: None
    """Further set-up of an agent before it starts."""
    prices: Mapping[str, Decimal] = field(default_factory=dict)
    """The price of a machine that was not bought, by the node's label `template`."""
    agents: dict[NodeId, SimAgent] = field(default_factory=dict)
    facts: dict[NodeId, FleetNode] = field(default_factory=dict)
    injuries: list[InjectedFault] = field(default_factory=list)
    requested_outages: dict[NodeId, list[RequestedOutage]] = field(default_factory=dict)
    replaced_by: dict[NodeId, NodeId] = field(default_factory=dict)
    on_fault: list[OnFault] = field(default_factory=list)
    on_clear: Callable[[NodeId], None] = lambda _: None
    on_end: Callable[[NodeId], None] = lambda _: None
    _faults: dict[NodeId, list[ActiveFault]] = field(default_factory=dict)
    leases: dict[NodeId, Lease] = field(default_factory=dict)
    """The machines that the control plane did not buy."""
    versions: dict[Software, str] = field(default_factory=dict)
    """The software of machines that start from now on."""
    faulty: dict[tuple[Software, str], Failure] = field(default_factory=dict)
    """The failure that machines with a version of a software show."""
    cuts: list[Cut] = field(default_factory=list)
    cleared: int = 0
    """The number of faults that were repaired or have passed."""
    _boots: int = 0

    # Machines start and stop

    def start(self, node: FleetNode, *, after_s: float = 0.0) -> None:
        """Start a machine that the control plane did not buy; it is paid for from its start."""
        name = NodeId(node.id)
        clock = self.environment.clock
        now = clock.now()
        machine = Machine(
            id=InstanceId(node.id),
            request=ProvisionRequest(
                token=Token(""),
                name=node.id,
                instance_type=node.instance_type,
                region=node.region,
                zone=node.zone,
            ),
            launched_at=now,
            boots_at=now,
            listed_at=now,
            price_per_hour=self.prices.get(node.labels.get("template", ""), Decimal(0)),
        )
        agent = SimAgent(
            clock=clock,
            entropy=self.environment.entropy(f"agent/{node.id}"),
            machine=machine,
            api=self.environment.api_for(name),
            gpus=node.gpus,
            gpu_type=node.gpu_type or "NVIDIA H100 80GB HBM3",
            labels=node.labels,
            place=Offering(
                provider=ProviderName(node.provider),
                instance_type=node.instance_type,
                region=node.region,
                zone=node.zone,
                gpus=node.gpus,
                gpu_type=node.gpu_type,
            ),
            on_terminate=lambda: self.stop(name, by_command=True),
        )
        if node.recording is not None:
            agent.replays = True
            agent.delegate = partial(replay_recording, node.recording.recording)
        self.equip(agent)
        self.facts[name] = node
        self.environment.run_agent(agent, after_s=after_s)

    def equip(self, agent: SimAgent) -> None:
        """Configure an agent for this scenario."""
        agent.interval_s = self.timing.heartbeat_interval.total_seconds()
        agent.report_interval_s = self.timing.health_check_interval.total_seconds()
        agent.quiet = True
        for software, version in self.versions.items():
            setattr(agent, software, version)
        agent.latency_s = self.latency_s
        agent.loss = lambda: self.loss
        if self.load is not None:
            agent.load = partial(self.load, agent.node)
        if self.product_agents and not agent.replays:
            chance = self.environment.entropy(f"fidelity/{agent.machine.id}").uniform(0, 1)
            if chance < self.product_agents:
                agent.delegate = run_product_agent
        self.prepare(agent)

    def up(self, agent: SimAgent) -> None:
        """Record that a machine is up."""
        node = agent.node
        self.agents[node] = agent
        for cut in self.cuts:
            # A share of the fleet is drawn once.
            drawn = cut.scope is TargetScope.PERCENTAGE
            if not drawn and node in self.nodes_in(cut.scope, cut.target):
                cut.nodes.add(node)
                self.environment.partitioned.add(node)
        self._show_faulty_software(agent)
        if agent.place is not None:
            self.leases[node] = Lease(
                node=node,
                gpus=agent.gpus,
                began=self.environment.clock.now(),
                ended=None,
                price_per_hour=agent.machine.price_per_hour,
            )

    def down(self, node: NodeId) -> None:
        """Record that a machine is gone, and its faults with it."""
        self.agents.pop(node, None)
        now = self.environment.clock.now()
        for fault in self._faults.pop(node, []):
            self._close(fault, now)
        if node in self.leases and self.leases[node].ended is None:
            self.leases[node] = evolve(self.leases[node], ended=now)
        self.on_end(node)

    def stop(self, node: NodeId, *, by_command: bool = False) -> None:
        """Stop a machine that the control plane did not buy."""
        agent = self.agents.get(node)
        if agent is None or agent.place is None:
            return
        self.begin_outage(node)
        self.down(node)
        if by_command:
            agent.hung = True  # The agent itself calls this; it sends nothing more.
        else:
            self.environment.stop_agent(agent.machine)

    def begin_outage(self, node: NodeId) -> None:
        """Record a request to take a node out of service."""
        orders = self.requested_outages.setdefault(node, [])
        if not orders or orders[-1].over is not None:
            orders.append(RequestedOutage(at=self.environment.clock.now()))

    def end_outage(self, node: NodeId) -> None:
        """Record that the request has ended."""
        orders = self.requested_outages.get(node)
        if orders and orders[-1].over is None:
            orders[-1] = evolve(orders[-1], over=self.environment.clock.now())

    # Queries

    def where(self, node: NodeId, scope: TargetScope) -> str:
        """Return the rack, zone, region or provider of a node; empty if unknown."""
        known = self.facts.get(node)
        return "" if known is None else _PLACE[scope](known)

    def within(self, scope: TargetScope, target: str) -> list[NodeId]:
        """Return the machines that are up in a rack, zone, region or pool, or at a provider."""
        if scope is TargetScope.LABEL:
            name, _, value = target.partition("=")
            found = [(node, self.facts.get(node)) for node in self.agents]
            return [node for node, facts in found if facts and facts.labels.get(name) == value]
        return [node for node in self.agents if self.where(node, scope) == target]

    def nodes_in(self, scope: TargetScope, target: str) -> list[NodeId]:
        """Return the nodes of a place: a node itself, whether or not it is up."""
        match scope:
            case TargetScope.NODE:
                return [NodeId(target)]
            case TargetScope.ALL:
                return list(self.agents)
            case TargetScope.PERCENTAGE:
                chance = Chance(self.environment.entropy(f"partition/{target}"))
                return self.share_of(target, chance)
        return self.within(scope, target)

    def share_of(self, target: str, chance: Chance) -> list[NodeId]:
        """Return a percentage of all machines, as a whole number."""
        share = parse_percentage(target) or 0.0
        names = list(self.agents)
        return chance.some(names, math.floor(len(names) * share + 0.5))

    # The network

    def cut_off(self, scope: TargetScope, target: str) -> Cut:
        """Separate a place from the control plane, with the machines that start there meanwhile."""
        nodes = self.nodes_in(scope, target)
        cut = Cut(scope=scope, target=target, nodes=set(nodes))
        self.cuts.append(cut)
        self.environment.partitioned.update(nodes)
        for node in nodes:
            if node in self.agents:
                self.agents[node].wake()
        return cut

    def reconnect(self, nodes: Iterable[NodeId], cuts: Iterable[Cut]) -> None:
        """Reconnect `nodes` and end `cuts`, except nodes that another cut still separates."""
        over, healed = list(cuts), set(nodes)
        self.cuts = [cut for cut in self.cuts if cut not in over]
        for cut in self.cuts:
            cut.nodes -= healed
        for cut in over:
            healed |= cut.nodes
        still = {node for cut in self.cuts for node in cut.nodes}
        self.environment.partitioned.difference_update(healed - still)

    def sound(self, node: NodeId) -> bool:
        """Return whether a machine is up and has no injected fault."""
        agent = self.agents.get(node)
        if agent is None or agent.replays:
            return False
        return all(fault.failure.is_false_alarm for fault in self._faults.get(node, ()))

    def stops_work(self, node: NodeId) -> bool:
        """Return whether a program on that machine would end at once."""
        if node not in self.agents:
            return True
        return any(fault.failure.stops_work for fault in self._faults.get(node, ()))

    def speed(self, node: NodeId, gpu: int) -> float:
        """Return how fast a GPU is, as a share of what it should be."""
        slow = any(fault.failure.slows(gpu) for fault in self._faults.get(node, ()))
        return 1.0 - SLOWER_BY if slow else 1.0

    def slowest(self, node: NodeId) -> float:
        """Return how fast the slowest GPU of a machine is, as a share of what it should be."""
        if not self._faults.get(node):
            return 1.0
        return min(self.speed(node, gpu) for gpu in range(self.agents[node].gpus))

    # Faults

    def inject(self, node: NodeId, failure: Failure, *, cause: str, depth: int = 0) -> bool:
        """Inject a fault into a machine; return whether that changed anything.

        A fault that is already active is not injected again.
        """
        agent = self.agents.get(node)
        faults = self._faults.setdefault(node, [])
        # A machine that replays a recording gets no other faults.
        if agent is None or agent.replays:
            return False
        if any(_identity(fault.failure) == _identity(failure) for fault in faults):
            return False
        now = self.environment.clock.now()
        # A false alarm lasts until it is cleared; the error of a program is over at once.
        passing = failure.harm is Health.HEALTHY and not failure.is_false_alarm
        self.injuries.append(
            InjectedFault(
                node=node,
                at=now,
                kind=str(failure.kind),
                true_health=failure.harm,
                xid=failure.xid,
                gpu=failure.gpu,
                cause=cause,
                detail=str(failure),
                cleared_at=now if passing else None,
                in_machine=cause not in list(Software),
            )
        )
        if not passing:
            faults.append(ActiveFault(failure, len(self.injuries) - 1))
        self._show(agent, failure)
        for listener in self.on_fault:
            listener(node, failure, cause, depth)
        return True

    def clear(self, node: NodeId, kind: FailureType | None = None, check: str | None = None) -> int:
        """Clear all faults of a machine, or those of one type or check; return their number."""
        agent = self.agents.get(node)
        faults = self._faults.get(node, [])
        cleared = [
            fault
            for fault in faults
            if (kind is None or fault.failure.kind is kind)
            and (check is None or fault.failure.check == check)
        ]
        if agent is None or not cleared:
            return 0
        now = self.environment.clock.now()
        left = [fault for fault in faults if fault not in cleared]
        self._faults[node] = left
        self.cleared += len(cleared)
        for fault in cleared:
            self._close(fault, now)
            result = fault.failure.result
            if result is not None and not result.lasting:
                agent.results[result.check] = CheckResult(check=result.check, health=Health.HEALTHY)
            agent.wake()
        self._show_silence(agent)
        if any(fault.failure.cleared_by_reboot for fault in cleared):
            agent.reboot(self._next_boot())
            for fault in left:
                self._show(agent, fault.failure)
        self.on_clear(node)
        return len(cleared)

    def install(self, node: NodeId, software: Software, version: str) -> None:
        """Install another version on a machine, which restarts and registers again."""
        agent = self.agents.get(node)
        if agent is None or agent.replays:
            return
        setattr(agent, software, version)
        agent.reboot(self._next_boot())
        now, left = self.environment.clock.now(), []
        for fault in self._faults.get(node, []):
            if self.injuries[fault.place].cause == software:
                self._close(fault, now)
                self.cleared += 1
                continue
            left.append(fault)
            self._show(agent, fault.failure)
        self._faults[node] = left
        self._show_faulty_software(agent)
        agent.wake()

    def _show_faulty_software(self, agent: SimAgent) -> None:
        for (software, version), failure in self.faulty.items():
            if getattr(agent, software) == version:
                self.inject(agent.node, failure, cause=software)

    def set_clock(self, node: NodeId, skew_s: float) -> None:
        """Set a machine's clock ahead by the given time."""
        agent = self.agents.get(node)
        if agent is not None:
            agent.skew_s = skew_s

    def drop_past_events(self, node: NodeId) -> None:
        """Drop the past events of a machine, which a real agent would not report again."""
        agent = self.agents.get(node)
        if agent is not None:
            agent.results = {
                check: result for check, result in agent.results.items() if not result.lasting
            }
            agent.wake()

    def _show(self, agent: SimAgent, failure: Failure) -> None:
        if failure.reboots:
            agent.reboot(self._next_boot())
        self._show_silence(agent)
        result = failure.result
        if result is not None:
            # A copy: an event that repeats while it is being reported must be reported again.
            agent.results[result.check] = evolve(result)
        agent.wake()

    def _show_silence(self, agent: SimAgent) -> None:
        """Let nothing be received from a machine that is off or has no network."""
        kinds = {fault.failure.kind for fault in self._faults.get(agent.node, ())}
        agent.unreachable = bool(kinds & {FailureType.NETWORK, FailureType.POWER})
        if FailureType.POWER not in kinds:
            agent.machine.died_at = None
        elif agent.machine.died_at is None:
            agent.machine.died_at = self.environment.clock.now()

    def _close(self, fault: ActiveFault, now: datetime) -> None:
        self.injuries[fault.place] = evolve(self.injuries[fault.place], cleared_at=now)

    def _next_boot(self) -> str:
        self._boots += 1
        return f"boot-{self._boots + 1}"


_PLACE: Mapping[TargetScope, Callable[[FleetNode], str]] = {
    TargetScope.NODE: attrgetter("id"),
    TargetScope.RACK: attrgetter("rack"),
    TargetScope.ZONE: attrgetter("zone"),
    TargetScope.REGION: attrgetter("region"),
    TargetScope.PROVIDER: attrgetter("provider"),
    TargetScope.POOL: lambda facts: facts.labels.get("pool", ""),
    TargetScope.ALL: lambda _: "all",
}

_identity = attrgetter("kind", "xid", "gpu", "check")
"""Returns what tells one failure of a machine from another."""
