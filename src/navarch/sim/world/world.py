"""A world to run the real control plane in: a cloud, agents, jobs, and every kind of trouble."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import InitVar, dataclass, field
from decimal import Decimal
from functools import partial
from typing import TypeVar

from navarch.app.control_plane import Opinions, Plane
from navarch.core.boot_report import BootReport
from navarch.core.errors import SupersededError, UnreachableError
from navarch.core.event import Event
from navarch.core.fleet import Fleet
from navarch.core.health import CheckResult, Health
from navarch.core.ids import NodeId, PoolName
from navarch.core.instance import Notice, NoticeKind
from navarch.core.node import Node, NodeStatus, node_status
from navarch.core.ownership import Cluster
from navarch.core.pool import Pool
from navarch.core.recovery import RecoveryStep
from navarch.core.witness import Reach
from navarch.ports.agents import AgentApi
from navarch.ports.api import JobApi, PoolView
from navarch.ports.clock import Entropy
from navarch.ports.store import Committed, Store
from navarch.providers.simulated import Habits, Machine, SimulatedCloud
from navarch.service.agents import Timing
from navarch.service.boot_reports import BootReportService
from navarch.service.fleet import FleetService
from navarch.service.fleet_health import HeldService
from navarch.service.views import pool_spec
from navarch.sim.kernel.clock import SeededEntropy, SimClock
from navarch.sim.kernel.loop import SimLoop, run_simulated
from navarch.sim.world.agent import SimAgent
from navarch.sim.world.effects import Fault, SimWorkloads
from navarch.sim.world.hosts import TIMING, SimulatedHosts
from navarch.sim.world.laws import Checkers, Laws
from navarch.sim.world.leader import Crash, CrashPoint
from navarch.sim.world.leadership import Leadership
from navarch.stores.memory import MemoryStore

T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class World:
    """A cloud, machines with agents, and the control plane between them."""

    seed: int
    clock: SimClock
    tasks: asyncio.TaskGroup
    first_store: InitVar[Store]
    cloud: SimulatedCloud
    other_clouds: list[SimulatedCloud] = field(default_factory=list)
    workloads: SimWorkloads
    crash_point: InitVar[CrashPoint | None] = None
    error_rate: float = 0.0
    """The share of calls that fail between the control plane and everything but the cloud."""
    partitioned: set[NodeId] = field(default_factory=set)
    """Nodes that the network separates from the control plane."""
    isolated_nodes: set[NodeId] = field(default_factory=set)
    """Nodes that the network separates from everything, such as those behind a dead switch."""
    firewalled: set[NodeId] = field(default_factory=set)
    """Nodes that drop the probes of other nodes."""
    isolated: bool = False
    """Whether the control plane's own network is down."""
    laws: Laws = field(init=False)
    hosts: SimulatedHosts = field(init=False)
    leadership: Leadership = field(init=False)
    on_stop: Callable[[Machine], None] = lambda _: None
    """Called when a machine ends."""
    recorded: list[tuple[float, Sequence[Event]]] = field(default_factory=list)
    """The events of each commit, and its time."""
    _reclaims: list[asyncio.Task[None]] = field(default_factory=list)

    def __post_init__(self, first_store: Store, crash_point: CrashPoint | None) -> None:
        self.laws = Laws(self.tasks, self.seed)
        self.hosts = SimulatedHosts(
            seed=self.seed,
            clock=self.clock,
            tasks=self.tasks,
            api_for=self.api_for,
            error_rate=lambda: self.error_rate,
            report_boot=self.report_boot,
        )
        self.leadership = Leadership(
            seed=self.seed,
            clock=self.clock,
            tasks=self.tasks,
            store=first_store,
            clouds=lambda: self.clouds,
            workloads=lambda: self.workloads,
            hosts=self.hosts,
            laws=self.laws,
            crash_point=crash_point or CrashPoint(),
        )
        for cloud in self.clouds:
            cloud.on_launch = self.machine_launched
            cloud.on_end = self.machine_ended
            cloud.on_boot = self.machine_restarted
        first_store.subscribe(self.laws.watch)
        first_store.subscribe(self.record)

    # Queries

    @property
    def store(self) -> Store:
        """The store of the control plane that leads."""
        return self.leadership.store

    @property
    def control(self) -> Plane | None:
        """The control plane that leads; None while it is down."""
        return self.leadership.control

    @property
    def checkers(self) -> Checkers:
        """The laws of the fleet."""
        return self.laws.checkers

    @property
    def clouds(self) -> list[SimulatedCloud]:
        """Return every cloud there is."""
        return [self.cloud, *self.other_clouds]

    def alive(self) -> list[Machine]:
        """Return every machine that is being paid for."""
        return [machine for cloud in self.clouds for machine in cloud.alive()]

    def fleet(self) -> Fleet:
        """Return the control plane's view."""
        return self.store.fleet()

    def nodes(self, pool: PoolName) -> list[Node]:
        """Return the pool's nodes that are not gone."""
        return [node for node in self.fleet().in_pool(pool).values() if not node.gone]

    def serving(self, pool: PoolName) -> list[NodeId]:
        """Return the pool's nodes that take work."""
        return [node.id for node in self.nodes(pool) if node.serving]

    def agent(self, node: NodeId) -> SimAgent:
        """Return the agent on the node's machine."""
        return self.hosts.agents[self.machine(node).id]

    def machine(self, node: NodeId) -> Machine:
        """Return the node's machine, which its agent may know before the control plane does."""
        launch = self.fleet().nodes[node].launch
        assert launch is not None, node
        cloud = next(each for each in self.clouds if launch.token in each.tokens)
        return cloud.machines[cloud.tokens[launch.token]]

    def status(self, node: NodeId) -> NodeStatus | None:
        """Return the word operators see."""
        return node_status(self.fleet().nodes[node])

    async def ledger(self) -> Decimal:
        """Return the total cost until now by the store's ledger."""
        now = self.clock.now()
        over = sum((past.cost(now) for past in await self.store.launches()), Decimal(0))
        living = [n.launch for n in self.fleet().nodes.values() if n.launch and not n.gone]
        return over + sum((launch.cost(now) for launch in living), Decimal(0))

    # Faults

    def fail(self, node: NodeId, reason: str, *, fatal: bool = True, lasting: bool = True) -> None:
        """Break the hardware under a node; its agent will report it."""
        self.agent(node).results["xid"] = CheckResult(
            check="xid", health=Health.UNHEALTHY, reason=reason, fatal=fatal, lasting=lasting
        )
        self.hosts.wake(node)

    def break_down(self, node: NodeId, result: CheckResult, *, cleared_by: RecoveryStep) -> None:
        """Break the hardware under a node until a step clears the fault."""
        agent = self.agent(node)
        self.hosts.effects[agent.machine.id].faults.append(Fault(result, cleared_by))
        agent.results[result.check] = result
        agent.report_now()

    def install_driver(self, node: NodeId, driver: str) -> None:
        """Install another driver on a node; its agent registers again."""
        agent = self.agent(node)
        agent.driver = driver
        agent.registered = False
        agent.report_now()

    def silence(self, node: NodeId) -> None:
        """Let the machine of a node die: its agent sends nothing more, its status check fails."""
        self.agent(node).hung = True
        self.machine(node).died_at = self.clock.now()
        self.hosts.wake(node)
        self.checkers.may_be_retired.add(node)

    def partition(self, node: NodeId) -> None:
        """Keep a node from the control plane, until it is taken out of `partitioned`.

        Its machine works, and the cloud reports it as running.
        """
        self.partitioned.add(node)
        self.hosts.wake(node)

    def isolate(self, node: NodeId) -> None:
        """Keep a node from the control plane and from all others. Its machine works."""
        self.isolated_nodes.add(node)
        self.hosts.wake(node)

    def allow_probes(self) -> None:
        """Let the agents of machines that boot from now on probe others."""
        self.hosts.reach = self.reach

    def reach(self, prober: NodeId, address: str) -> Reach:
        """Return what happens if one node connects to the machine with an address."""
        if prober in self.isolated_nodes:
            return Reach.NO_ROUTE
        for cloud in self.clouds:
            machine = cloud.alive_at(address)
            if machine is None:
                continue
            node = NodeId(machine.request.name)
            is_cut_off = node in self.isolated_nodes or node in self.firewalled
            is_down = machine.died_at is not None or machine.id in self.hosts.booting
            return Reach.NO_RESPONSE if is_cut_off or is_down else Reach.GREETED
        return Reach.NO_ROUTE

    def reclaim(self, node: NodeId) -> None:
        """Let the cloud take a machine away without notice."""
        self.checkers.may_be_retired.add(node)
        machine = self.machine(node)
        next(cloud for cloud in self.clouds if machine.id in cloud.machines).end(machine.id)

    def give_notice(self, node: NodeId, *, after_s: float) -> None:
        """Let the cloud announce that it takes a machine back, and do so."""
        machine = self.machine(node).id
        self.checkers.may_be_retired.add(node)
        self.cloud.announce(machine, Notice(kind=NoticeKind.RECLAIM, reason=f"in {after_s:.0f} s"))

        async def take() -> None:
            await self.clock.sleep(after_s)
            self.cloud.end(machine)

        self._reclaims.append(self.tasks.create_task(take()))

    def crash(self) -> None:
        """Kill the control plane at any point. It restarts by itself."""
        self.leadership.crash_point.kill()

    async def ask(self, request: Callable[[FleetService], Awaitable[T]]) -> T:
        """Make an operator's request, and repeat it until the control plane answers."""
        return await self._ask(lambda control: request(control.fleet))

    async def call_jobs(self, request: Callable[[JobApi], Awaitable[T]]) -> T:
        """Make a request to the job service, and repeat it until the control plane answers."""
        return await self._ask(lambda control: request(control.jobs))

    async def _ask(self, request: Callable[[Plane], Awaitable[T]]) -> T:
        while True:
            if (control := self._reachable()) is not None:
                with suppress(Crash, SupersededError):
                    return await request(control)
            await self.clock.sleep(0.5)

    def _reachable(self) -> Plane | None:
        return None if self.leadership.crash_point.dead else self.control

    def restart_agent(self, node: NodeId, *, boot_id: str | None = None) -> None:
        """Stop an agent and start it again, on the same boot or after a reboot."""
        agent = self.agent(node)
        self.hosts.restart(agent, boot_id=boot_id or agent.boot_id)

    # Waiting

    async def until(
        self, holds: Callable[[], bool], *, within_s: float, step_s: float = 1.0
    ) -> None:
        """Let time pass until something holds; fail if it does not in time."""
        deadline = self.clock.monotonic() + within_s
        while not holds():
            if self.clock.monotonic() >= deadline:
                raise AssertionError(
                    f"seed {self.seed}: not within {within_s} s: {self.describe()}"
                )
            await self.clock.sleep(step_s)

    async def converge(self, *, within_s: float = 5400.0) -> None:
        """Stop the faults; the fleet must come to rest where it should be.

        An operator releases the nodes that automation holds back.
        """
        for cloud in self.clouds:
            cloud.habits = cloud.habits.calm()
        self.workloads.error_rate = self.error_rate = 0.0
        self.partitioned.clear()
        self.isolated_nodes.clear()
        operator = self.tasks.create_task(self._release_held())
        await self.until(self.is_settled, within_s=within_s)
        await self.settle()
        await self.until(self.is_settled, within_s=within_s)
        operator.cancel()

    async def _release_held(self) -> None:
        while True:
            if (control := self._reachable()) is not None:
                held = HeldService(self.clock, control.store)
                waiting = [each.node for each in await held.list_held() if not each.held.released]
                if waiting:
                    with suppress(Crash, SupersededError):
                        await held.release_held(waiting, reason="the story")
            await self.clock.sleep(60.0)

    async def settle(self) -> None:
        """Let the listings catch up: the ledger learns from them what began and what ended."""
        lag_s = max(cloud.habits.listing_lag_s for cloud in self.clouds)
        await self.clock.sleep(lag_s + 150.0)

    def is_settled(self) -> bool:
        """Return whether every pool is whole and every machine is accounted for."""
        if self.control is None:
            return False
        fleet = self.fleet()
        for pool in fleet.pools.values():
            present = [node for node in fleet.in_pool(pool.name).values() if not node.gone]
            if len(present) != pool.target or sum(x.serving for x in present) != pool.target:
                return False
        known = {node.instance for node in fleet.nodes.values() if not node.gone}
        return known == {machine.id for machine in self.alive()}

    def describe(self) -> str:
        """Return the state of the world in a few lines, for a failing test."""
        lines = [f"t={self.clock.monotonic():.1f}s control={'up' if self.control else 'down'}"]
        lines += [
            f"  {node.id}: {node.phase} {node.health} cordoned={node.cordoned} "
            f"retiring={node.retiring} instance={node.instance} notified={node.notified}"
            for node in self.fleet().nodes.values()
            if not node.gone
        ]
        wanted = {node.instance for node in self.fleet().nodes.values() if not node.gone}
        lines += [
            f"  unwanted machine {machine.id} for {machine.request.name}"
            for machine in self.alive()
            if machine.id not in wanted
        ]
        return "\n".join(lines)

    # The surroundings of the control plane

    def api_for(self, node: NodeId) -> Callable[[], AgentApi]:
        """Return how `node` reaches the control plane."""

        def api() -> AgentApi:
            control = self._reachable()
            is_cut_off = node in self.partitioned or node in self.isolated_nodes
            if control is None or self.isolated or is_cut_off:
                raise UnreachableError("no route to the control plane")
            return control.agents

        return api

    async def report_boot(self, report: BootReport) -> None:
        """Send the report of a boot script to the control plane, over the network of its node."""
        self.api_for(report.node)()
        await BootReportService(self.clock, self.store).report_boot(report)

    def entropy(self, purpose: str) -> Entropy:
        """Return a random source for one purpose, derived from the seed."""
        return SeededEntropy(f"{self.seed}/{purpose}")

    def machine_launched(self, machine: Machine) -> None:
        """Check that the machine was wanted, and boot it."""
        if self.laws.over:
            return
        with self.laws.enforce():
            self.laws.purchases.check(machine, self.fleet())
        self.boot(machine)

    def boot(self, machine: Machine) -> None:
        """Start the machine's agent once it has booted, if it ever does."""
        if not machine.dead_on_arrival and self.leadership.bringup is None:
            boot_s = (machine.boots_at - self.clock.now()).total_seconds()
            self.hosts.start(machine, after_s=max(boot_s, 0.0) + machine.setup_s)

    def machine_restarted(self, machine: Machine, how: str) -> None:
        """Reboot a machine that the provider restarts, if its agent was made here."""
        if self.hosts.make_agent is not None:
            return
        node = self.fleet().nodes[NodeId(machine.request.name)]
        self.hosts.reboot(machine, RecoveryStep(how), recovery=node.recovery or "")

    def machine_ended(self, machine: Machine) -> None:
        """Stop the machine's agent."""
        self.laws.purchases.ended(machine)
        node = self.fleet().nodes.get(NodeId(machine.request.name))
        if node and node.launch and node.launch.token == machine.request.token:
            self.checkers.may_be_retired.add(node.id)
        self.hosts.stop(machine)
        self.on_stop(machine)

    def run_agent(self, agent: SimAgent, *, after_s: float = 0.0) -> None:
        """Run an agent once its machine is up."""
        self.hosts.run(agent, after_s=after_s)

    def stop_agent(self, machine: Machine) -> None:
        """Stop the agent on a machine."""
        self.hosts.stop(machine)

    def stop(self) -> None:
        """Stop every agent and the control plane, and start no more."""
        self.laws.over = True
        for running in list(self.hosts.running.values()):
            running.cancel()
        self.leadership.stop()
        for reclaim in self._reclaims:
            reclaim.cancel()

    def record(self, committed: Committed) -> None:
        """Wake the agents that a commit concerns, and keep its events for the trace."""
        self.hosts.on_commit(committed)
        self.recorded.append((self.clock.monotonic(), committed.change.events))

    @property
    def trace(self) -> list[str]:
        """The journal line by line, for comparing two runs."""
        lines: list[str] = []
        for at_s, events in self.recorded:
            now = f"{at_s:.6f}"
            lines += [f"{now} {each.about} {each.kind}: {each.reason}" for each in events]
        return lines


Story = Callable[[World], Awaitable[None]]


def simulate(
    story: Story,
    *,
    seed: int,
    pools: Sequence[Pool],
    habits: Habits | None = None,
    error_rate: float = 0.0,
    crash_point: CrashPoint | None = None,
    store: Callable[[Cluster], Store] = MemoryStore,
    prepare: Callable[[World], None] = lambda _: None,
    start_s: float = 0.0,
    opinions: Opinions | None = None,
    computed: bool | None = None,
    timing: Timing = TIMING,
) -> World:
    """Run `story` in a fresh world under virtual time; every revision is checked.

    `error_rate` is the share of failed calls to the workload system and to the agents; a
    quarter of that share of commits conflicts. `prepare` receives the world before it starts.
    Heartbeats are sent at random times and messages take time, unless `computed` is given, which
    needs a network that loses nothing: then messages take no time, and with `computed=True` only
    heartbeats are sent that may change something. At the end the cloud's own bill must equal the
    store's ledger.
    """
    assert not (computed and error_rate), "beats that may be lost cannot be computed"

    async def main() -> World:
        clock = SimClock()
        entropy = SeededEntropy(f"{seed}/cluster")
        cluster = Cluster(id=entropy.new_id("cluster"), secret=entropy.secret())
        async with asyncio.TaskGroup() as tasks:
            world = World(
                seed=seed,
                clock=clock,
                tasks=tasks,
                first_store=store(cluster),
                cloud=SimulatedCloud(clock, SeededEntropy(f"{seed}/cloud"), habits or Habits()),
                workloads=SimWorkloads(clock, SeededEntropy(f"{seed}/workloads"), error_rate),
                crash_point=crash_point,
                error_rate=error_rate,
            )
            world.hosts.scheduled = computed is not None
            world.hosts.computed = bool(computed)
            world.hosts.timing = timing
            world.leadership.opinions = opinions or Opinions()
            prepare(world)
            leading = tasks.create_task(world.leadership.run())
            try:
                for pool in pools:
                    await world.ask(partial(found, pool))
                await story(world)
                await world.settle()
                await check_bill(world)
            finally:
                leading.cancel()
                world.stop()
        return world

    return run_simulated(main(), lambda: SimLoop(start_s))


async def found(pool: Pool, fleet: FleetService) -> PoolView:
    """Create `pool`."""
    return await fleet.put_pool(pool_spec(pool), reason="the story begins")


async def check_bill(world: World) -> None:
    """Compare the cloud's own bill with the store's ledger."""
    now = world.clock.now()
    bill = sum((cloud.bill(now) for cloud in world.clouds), Decimal(0))
    ledger = await world.ledger()
    assert abs(bill - ledger) < Decimal("0.005"), f"seed {world.seed}: {bill=} {ledger=}"
