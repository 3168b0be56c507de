"""A world to run the real control plane in: a cloud, agents, jobs, and every kind of trouble."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Protocol, TypeVar

from navarch.app.control_plane import Opinions, Plane, build_control_plane
from navarch.control.nodes.bringup import BringUp
from navarch.control.pools.loads import Loads
from navarch.core.errors import SupersededError, UnreachableError
from navarch.core.event import Event
from navarch.core.fleet import Fleet
from navarch.core.health import CheckResult, Health
from navarch.core.ids import InstanceId, NodeId, PoolName
from navarch.core.node import Node, NodeStatus, node_status
from navarch.core.notice import Notice, NoticeKind
from navarch.core.ownership import POOL, Cluster
from navarch.core.pool import Pool
from navarch.core.recovery import RecoveryStep
from navarch.health.policy.engine import PolicySet
from navarch.meters.pools import CombinedMeter, HeartbeatMeter
from navarch.ports.agents import AgentApi
from navarch.ports.api import PoolView
from navarch.ports.autoscaler import Autoscaler, MetricsSource
from navarch.ports.clock import Entropy
from navarch.ports.jobs import JobApi
from navarch.ports.store import Committed, Store
from navarch.providers.simulated import Habits, Machine, SimulatedCloud
from navarch.service.agents import Timing
from navarch.service.fleet import FleetService
from navarch.service.held import HeldService
from navarch.service.views import pool_spec
from navarch.sim.kernel.clock import SeededEntropy, SimClock
from navarch.sim.kernel.loop import SimLoop
from navarch.sim.kernel.running import run_simulated
from navarch.sim.world.agent import LATENCY_S, SimAgent
from navarch.sim.world.claims import Claims
from navarch.sim.world.effects import ActionLogEntry, Fault, SimEffects
from navarch.sim.world.heartbeats import HeartbeatSchedule
from navarch.sim.world.laws import Checkers
from navarch.sim.world.leader import Crash, CrashPoint, LeaderNotifier, LeaderStore, leader_provider
from navarch.sim.world.liveness import ComputedLiveness
from navarch.sim.world.workloads import SimWorkloads
from navarch.stores.memory import MemoryStore
from navarch.stores.telemetry import TelemetryTable

T = TypeVar("T")


class MachineAgent(Protocol):
    """Somebody on a machine who speaks to the control plane."""

    @property
    def machine(self) -> Machine:
        """Where it runs."""
        ...

    async def run(self) -> None:
        """Live until cancelled."""
        ...


class Suspendable(Protocol):
    """An agent whose beats can be computed while they would change nothing."""

    @property
    def machine(self) -> Machine:
        """Where it runs."""
        ...

    @property
    def node(self) -> NodeId:
        """The node it speaks for."""
        ...

    @property
    def schedule(self) -> HeartbeatSchedule | None:
        """When it beats."""
        ...

    def wake(self) -> None:
        """Have the next beat carried out: it may make a difference."""
        ...

    def on_commit(self) -> None:
        """Hear that something about its node was written down, other than a command to it."""
        ...


TIMING = Timing(heartbeat_interval=timedelta(seconds=30), heartbeat_timeout=timedelta(seconds=90))

RESTART_S = 5.0
"""How long a crashed control plane takes to come back."""


@dataclass(slots=True)
class World:
    """Everything outside the control plane, and the means to trouble it."""

    seed: int
    clock: SimClock
    store: Store
    cloud: SimulatedCloud
    workloads: SimWorkloads
    tasks: asyncio.TaskGroup
    crash_point: CrashPoint
    error_rate: float = 0.0
    """The share of calls that fail between the control plane and everything but the cloud."""
    checkers: Checkers = field(default_factory=Checkers)
    agents: dict[InstanceId, SimAgent] = field(default_factory=dict)
    effects: dict[InstanceId, SimEffects] = field(default_factory=dict)
    """The hardware of each machine, and its agent's power over it."""
    action_log: list[ActionLogEntry] = field(default_factory=list)
    """Every reset, reboot and power cycle, in order."""
    driver: str = "550.90.07"
    """What machines that boot from now on run."""
    labels_for: Callable[[NodeId], dict[str, str]] = lambda _: {}
    """What each agent is told to say about itself: its rack, say."""
    reboot_s: tuple[float, float] = (60.0, 240.0)
    partitioned: set[NodeId] = field(default_factory=set)
    """Nodes that the network keeps from the control plane."""
    scheduled: bool = False
    """Whether heartbeats are sent at times that can be computed, over a network without delay."""
    computed: bool = False
    """Whether scheduled heartbeats that change nothing are computed instead of sent."""
    timing: Timing = TIMING
    load: Callable[[NodeId], float] | None = None
    """How busy a node's GPUs are, in percent. Given one, the control plane autoscales."""
    metrics: MetricsSource | None = None
    """Somebody who knows more about the work than the agents do."""
    autoscalers: dict[PoolName, Autoscaler] = field(default_factory=dict)
    loads: Loads = field(default_factory=Loads)
    """What a restart leaves of the past load: on a disk, where the control plane has one."""
    control: Plane | None = None
    crashes: int = 0
    takeovers: int = 0
    _recorded: list[tuple[float, Sequence[Event]]] = field(default_factory=list)
    """What each commit told, and when."""
    opinions: Opinions = field(default_factory=Opinions)
    other_clouds: list[SimulatedCloud] = field(default_factory=list)
    conflicts: float | None = None
    """The share of commits that come too late; a quarter of `trouble` if None."""
    strict: bool = True
    """Whether a bug in the control plane, or in somebody's remediator, ends the story."""
    policies: PolicySet | None = None
    """What health is judged by; the built-in rules if None."""
    down_s: float = RESTART_S
    """How long a crashed control plane takes to come back."""
    replicas: int = 1
    """How many control planes there are, of which one leads and the others stand by."""
    takeover_s: float = 1.0
    """How long one that stands by takes to lead."""
    make_agent: Callable[[Machine], MachineAgent] | None = None
    """Makes the agents of bought machines, for those who want others than these."""
    on_up: Callable[[MachineAgent], None] = lambda _: None
    """Hears when such an agent begins to speak."""
    on_stop: Callable[[Machine], None] = lambda _: None
    bringup: BringUp | None = None
    """How machines are set up. Given one, an agent starts only when `set_up` is called."""
    _taken_over: asyncio.Event = field(default_factory=asyncio.Event)
    _lives: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _registered_agents: dict[NodeId, Suspendable] = field(default_factory=dict)
    _suspended: dict[NodeId, HeartbeatSchedule] = field(default_factory=dict)
    _liveness: ComputedLiveness | None = None
    _running: dict[PoolName, dict[InstanceId, Machine]] = field(default_factory=dict)
    """The machines that are being paid for, by the pool they were bought for."""
    _bought_for: dict[str, dict[InstanceId, Machine]] = field(default_factory=dict)
    """The same, by the node they were bought for."""
    _over: bool = False
    """Whether this world has ended: what arrives now is neither checked nor started."""

    # Looking

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
        return self.agents[self.machine(node).id]

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
        """Return what the store thinks everything has cost until now."""
        now = self.clock.now()
        over = sum((past.cost(now) for past in await self.store.launches()), Decimal(0))
        living = [n.launch for n in self.fleet().nodes.values() if n.launch and not n.gone]
        return over + sum((launch.cost(now) for launch in living), Decimal(0))

    # Troubling

    def fail(self, node: NodeId, reason: str, *, fatal: bool = True, lasting: bool = True) -> None:
        """Break the hardware under a node; its agent will report it."""
        self.agent(node).results["xid"] = CheckResult(
            check="xid", health=Health.UNHEALTHY, reason=reason, fatal=fatal, lasting=lasting
        )
        self.wake(node)

    def break_down(self, node: NodeId, result: CheckResult, *, cleared_by: RecoveryStep) -> None:
        """Break the hardware under a node until something is done that mends it."""
        agent = self.agent(node)
        assert agent.effects is not None
        agent.effects.faults.append(Fault(result, cleared_by))
        agent.results[result.check] = result
        agent.report_now()

    def install_driver(self, node: NodeId, driver: str) -> None:
        """Put another driver on a node, whose agent introduces itself again."""
        agent = self.agent(node)
        agent.driver = driver
        agent.register_again()

    def boot_again(self, machine: Machine, how: str, recovery: str = "") -> None:
        """Take a machine down and up again, as another boot."""
        step = RecoveryStep(how)
        effects = self.effects[machine.id]
        old = self.agents.get(machine.id)
        boot_id = old.boot_id if old is not None else "boot-1"
        if not recovery:
            node = self.fleet().nodes[NodeId(machine.request.name)]
            effects.note(node.id, step, boot_id, node.recovery or "")
        effects.clear(step)
        self._lives[machine.id].cancel()
        number = int(boot_id.rpartition("-")[2]) + 1
        self._start_agent(
            machine,
            after_s=SeededEntropy(f"{self.seed}/{machine.id}/{number}").uniform(*self.reboot_s),
            reports=old.reports if old is not None else 0,
            boot_id=f"boot-{number}",
        )

    def silence(self, node: NodeId) -> None:
        """Hang a node's agent."""
        self.agent(node).hung = True
        self.wake(node)
        self.checkers.may_be_retired.add(node)

    def partition(self, node: NodeId) -> None:
        """Keep a node from the control plane, until it is taken out of `cut_off`."""
        self.partitioned.add(node)
        self.wake(node)

    def wake(self, node: NodeId) -> None:
        """Have the node's next beat carried out, since something about it has changed."""
        agent = self._registered_agents.get(node)
        if agent is not None:
            agent.wake()

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

        self._lives[f"reclaim/{machine}"] = self.tasks.create_task(take())

    def crash(self) -> None:
        """Kill the control plane, wherever it stands. It comes back by itself."""
        self.crash_point.kill()

    async def ask(self, request: Callable[[FleetService], Awaitable[T]]) -> T:
        """Make an operator's request, and repeat it until the control plane answers."""
        return await self._answer(lambda control: request(control.fleet))

    async def ask_jobs(self, request: Callable[[JobApi], Awaitable[T]]) -> T:
        """Make a request to the job service, and repeat it until the control plane answers."""
        return await self._answer(lambda control: request(control.jobs))

    async def _answer(self, request: Callable[[Plane], Awaitable[T]]) -> T:
        while True:
            if self.control is not None and not self.crash_point.dead:
                with suppress(Crash, SupersededError):
                    return await request(self.control)
            await self.clock.sleep(0.5)

    def restart_agent(self, node: NodeId, *, boot_id: str | None = None) -> None:
        """Kill an agent and start it again, on the same boot or after a reboot."""
        old = self.agent(node)
        self._lives[old.machine.id].cancel()
        self._start_agent(
            old.machine, after_s=1.0, reports=old.reports, boot_id=boot_id or old.boot_id
        )

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
        operator = self.tasks.create_task(self._release_held())
        await self.until(self.is_settled, within_s=within_s)
        await self.settle()
        await self.until(self.is_settled, within_s=within_s)
        operator.cancel()

    async def _release_held(self) -> None:
        while True:
            if self.control is not None and not self.crash_point.dead:
                held = HeldService(self.clock, self.control.store)
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
            f"retiring={node.retiring} instance={node.instance} told={node.told}"
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

    # Living

    async def live(self) -> None:
        """Run the control plane; whenever it dies, another leads, or it is started again."""
        back_at_s: list[float] = []
        """When those that have died stand by again."""
        while True:
            crash_point = self.crash_point
            self._taken_over = asyncio.Event()
            leading = self.tasks.create_task(self._lead(crash_point), name="control plane")
            taken_over = self.tasks.create_task(self._taken_over.wait())
            try:
                await asyncio.wait([leading, taken_over], return_when=asyncio.FIRST_COMPLETED)
            except asyncio.CancelledError:
                leading.cancel()
                raise
            finally:
                taken_over.cancel()
            if self._taken_over.is_set():
                # Whoever led until now goes on, and will find out when it next writes.
                self.takeovers += 1
                crash_point.disconnect()
                self.crash_point = crash_point.next_process()
                continue
            self.control = None
            # Whose beats are due before it is back will find that out, and try again sooner.
            for node in list(self._suspended):
                self.wake(node)
            self.crashes += 1
            self.crash_point = crash_point.next_process()
            now_s = self.clock.monotonic()
            back_at_s = sorted([*(at for at in back_at_s if at > now_s), now_s + self.down_s])
            if len(back_at_s) < self.replicas:
                await self.clock.sleep(self.takeover_s)
            else:
                await self.clock.sleep(back_at_s.pop(0) - now_s)

    def split_brain_takeover(self) -> None:
        """Let another control plane lead at once, while the one that leads knows of nothing."""
        self._taken_over.set()

    async def _lead(self, crash_point: CrashPoint) -> None:
        """Be a control plane, until it dies or another has taken over."""
        try:
            await self._run_control_plane(crash_point)
        except BaseExceptionGroup as group:
            _, rest = group.split((Crash, SupersededError))
            if rest is not None:
                raise rest from None

    async def _run_control_plane(self, crash_point: CrashPoint) -> None:
        life = self.crashes + self.takeovers
        chance = SeededEntropy(f"{self.seed}/conflicts/{life}")
        conflicts = self.error_rate / 4 if self.conflicts is None else self.conflicts
        led = self.store
        if isinstance(led, MemoryStore):
            # Whoever led before writes no more, whatever it still believes.
            led = self.store = led.take_over()
        store = LeaderStore(led, crash_point, chance, conflicts)
        known = [n.id for n in self.fleet().nodes.values() if n.registered_at and not n.gone]
        columns = self._columns(known)
        claims = Claims(led)
        control = build_control_plane(
            self.clock,
            SeededEntropy(f"{self.seed}/control/{life}"),
            store,
            providers=[
                leader_provider(cloud, led, crash_point, claims, self.laws) for cloud in self.clouds
            ],
            notifier=LeaderNotifier(self.workloads, crash_point),
            hearing=columns,
            timing=lambda: self.timing,
            opinions=replace(self.opinions, autoscalers=self.autoscalers),
            metrics_source=self._metrics_source(store, columns),
            loads=self.loads,
            policies=None if self.policies is None else partial(_same, self.policies),
            bringup=self.bringup,
            strict=self.strict,
        )
        self.control = control
        try:
            async with asyncio.TaskGroup() as tasks:
                task = self._lives["control"] = tasks.create_task(control.run())
                crash_point.on_crash = task.cancel
        finally:
            claims.leave()

    def _columns(self, known: Sequence[NodeId]) -> TelemetryTable:
        if not self.computed:
            return TelemetryTable(self.clock, timeout=self.timing.silence, nodes=known)
        self._liveness = ComputedLiveness(
            self.clock,
            timeout=self.timing.silence,
            nodes=known,
            suspended=self._suspended,
            # Agents of somebody's own are roused when their load changes, and say so.
            load=self.load if self.make_agent is None else None,
        )
        return self._liveness

    def add_agent(self, agent: Suspendable) -> None:
        """Rouse this agent when something happens that concerns its node."""
        self._registered_agents[agent.node] = agent

    def suspend(self, agent: Suspendable) -> None:
        """Take it that an agent beats, until it rises."""
        assert self._liveness is not None
        assert agent.schedule is not None
        self._liveness.suspend(agent.node, agent.schedule)

    def resume(self, agent: Suspendable) -> None:
        """Note that an agent's beats count singly from now on."""
        assert self._liveness is not None
        assert agent.schedule is not None
        self._liveness.resume(agent.node, agent.schedule)

    def _metrics_source(self, store: Store, columns: TelemetryTable) -> MetricsSource | None:
        if self.load is None:
            return None
        sources: list[MetricsSource] = [] if self.metrics is None else [self.metrics]
        return CombinedMeter([*sources, HeartbeatMeter(store, columns)])

    def api_for(self, node: NodeId) -> Callable[[], AgentApi]:
        """Return how `node` reaches the control plane."""

        def api() -> AgentApi:
            if self.control is None or self.crash_point.dead or node in self.partitioned:
                raise UnreachableError("no route to the control plane")
            return self.control.agents

        return api

    def entropy(self, purpose: str) -> Entropy:
        """Return chance for one purpose, repeated by the seed."""
        return SeededEntropy(f"{self.seed}/{purpose}")

    def machine_launched(self, machine: Machine) -> None:
        """Check that the machine was wanted, and boot it."""
        if self._over:
            return
        with self.laws():
            self._check_purchase(machine)
        self.boot(machine)

    def boot(self, machine: Machine) -> None:
        """Start the machine's agent once it has booted, if it ever does."""
        if not machine.dead_on_arrival and self.bringup is None:
            boot_s = (machine.boots_at - self.clock.now()).total_seconds()
            self._start_agent(machine, after_s=max(boot_s, 0.0))

    def set_up(self, machine: Machine) -> None:
        """Start the agent that somebody has just installed."""
        if machine.id not in self._lives:
            self._start_agent(machine, after_s=1.0)

    def _check_purchase(self, machine: Machine) -> None:
        """Fail if the cloud was made to sell more than was wanted.

        Machines whose existence the cloud denied are its own fault, not ours.
        """
        name = PoolName(machine.request.labels[POOL])
        running = self._running.setdefault(name, {})
        bought = self._bought_for.setdefault(machine.request.name, {})
        twins = [m for m in bought.values() if not m.denied]
        assert not twins, f"seed {self.seed}: {machine.request.name} was bought twice"
        running[machine.id] = bought[machine.id] = machine
        limit = self.fleet().pools[name].nodes_max
        if len(running) > limit:
            machines = sum(not m.denied for m in running.values())
            assert machines <= limit, f"seed {self.seed}: {machines} machines of {limit} in {name}"

    def machine_ended(self, machine: Machine) -> None:
        """Stop the machine's agent."""
        self._running.get(PoolName(machine.request.labels[POOL]), {}).pop(machine.id, None)
        self._bought_for.get(machine.request.name, {}).pop(machine.id, None)
        node = self.fleet().nodes.get(NodeId(machine.request.name))
        if node and node.launch and node.launch.token == machine.request.token:
            self.checkers.may_be_retired.add(node.id)
        self.stop_agent(machine)
        self.on_stop(machine)

    def _start_agent(
        self, machine: Machine, *, after_s: float, reports: int = 0, boot_id: str = "boot-1"
    ) -> None:
        node = NodeId(machine.request.name)
        if self.make_agent is not None:
            self.run_agent(self.make_agent(machine), after_s=after_s)
            return

        async def live() -> None:
            await self.clock.sleep(after_s)
            agent = self._agent(machine, reports=reports, boot_id=boot_id)
            self.agents[machine.id] = agent
            self.add_agent(agent)
            await agent.run()

        self._lives[machine.id] = self.tasks.create_task(live(), name=f"agent of {node}")

    def run_agent(self, agent: MachineAgent, *, after_s: float = 0.0) -> None:
        """Let an agent of somebody's own speak once its machine is up."""

        async def live() -> None:
            await self.clock.sleep(after_s)
            self.on_up(agent)
            await agent.run()

        name = agent.machine.id
        self._lives[name] = self.tasks.create_task(live(), name=f"agent on {name}")

    def _agent(self, machine: Machine, *, reports: int, boot_id: str) -> SimAgent:
        node = NodeId(machine.request.name)
        interval_s = self.timing.heartbeat_interval.total_seconds()
        schedule = None
        if self.scheduled:
            schedule = HeartbeatSchedule.of(
                f"{self.seed}/{machine.id}/{boot_id}/{reports}",
                started_s=self.clock.monotonic(),
                interval_s=interval_s,
            )
        effects = self.effects.setdefault(
            machine.id,
            SimEffects(
                boot=lambda recovery: self.boot_again(machine, "reboot", recovery),
                time_s=self.clock.monotonic,
                action_log=self.action_log,
            ),
        )
        return SimAgent(
            clock=self.clock,
            entropy=SeededEntropy(f"{self.seed}/agent/{machine.id}"),
            machine=machine,
            api=self.api_for(node),
            schedule=schedule,
            latency_s=LATENCY_S if schedule is None else None,
            interval_s=interval_s,
            retries=True,
            quiet=self.computed,
            loss=lambda: self.error_rate,
            reports=reports,
            boot_id=boot_id,
            load=None if self.load is None else partial(self.load, node),
            computed=self.computed,
            on_suspend=self.suspend,
            on_resume=self.resume,
            results={fault.result.check: fault.result for fault in effects.faults},
            driver=self.driver,
            labels=self.labels_for(node),
            effects=effects,
        )

    def stop_agent(self, machine: Machine) -> None:
        """End the agent on a machine."""
        node = NodeId(machine.request.name)
        agent = self._registered_agents.get(node)
        if agent is not None and agent.machine is machine:
            del self._registered_agents[node]
        life = self._lives.pop(machine.id, None)
        if life is not None:
            life.cancel()

    def stop_agents(self) -> None:
        """End every agent, and start no more."""
        self._over = True
        for life in list(self._lives.values()):
            life.cancel()

    @contextmanager
    def laws(self) -> Iterator[None]:
        """End this world if a law is broken in the block.

        The control plane turns an error of a provider call into an unknown outcome and goes on,
        and a store may commit in a task of its own. So the error is raised here and in the world.
        """
        try:
            yield
        except AssertionError as error:
            if not self._over:
                self._over = True
                self.tasks.create_task(_raise(error), name="a broken law")
            raise

    def watch(self, committed: Committed) -> None:
        """Check one revision of the store."""
        with self.laws():
            self.checkers.watch(committed)

    def record(self, committed: Committed) -> None:
        """Keep what a commit tells for the trace, and rouse those it is about."""
        change, on_duty = committed.change, self._registered_agents
        for node in change.nodes:
            if node.id in on_duty:
                on_duty[node.id].on_commit()
        for command in change.commands:
            self.wake(command.node)
        for incident in change.incidents:
            for name in incident.nodes:
                if name in on_duty:
                    on_duty[name].on_commit()
        self._recorded.append((self.clock.monotonic(), change.events))

    @property
    def trace(self) -> list[str]:
        """Everything that was told, line by line, for comparing two runs."""
        lines: list[str] = []
        for at_s, events in self._recorded:
            now = f"{at_s:.6f}"
            lines += [f"{now} {each.about} {each.kind}: {each.reason}" for each in events]
        return lines

    def let_go(self) -> None:
        """Drop the trace, for whoever has read it."""
        self._recorded.clear()


def _same(book: PolicySet) -> PolicySet:
    return book


async def _raise(error: AssertionError) -> None:
    raise error


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
    """Tell `story` in a fresh world under virtual time; every revision is checked.

    `trouble` is the share of calls that fail on the way to the workload system and to the
    agents, and a quarter of it that of commits that come too late. `prepare` sees the
    world before it begins to move. Heartbeats are sent at random times and messages take time,
    unless `computed` is given, which needs a network that loses nothing: then messages take no
    time, and with `computed=True` only heartbeats are sent that may change something. At the end
    the cloud's own bill must equal the store's ledger.
    """
    assert not (computed and error_rate), "beats that may be lost cannot be computed"

    async def main() -> World:
        clock = SimClock()
        entropy = SeededEntropy(f"{seed}/cluster")
        cluster = Cluster(id=entropy.new_id("cluster"), secret=entropy.secret())
        cloud = SimulatedCloud(clock, SeededEntropy(f"{seed}/cloud"), habits or Habits())
        workloads = SimWorkloads(clock, SeededEntropy(f"{seed}/workloads"), error_rate)
        async with asyncio.TaskGroup() as tasks:
            world = World(
                seed,
                clock,
                store(cluster),
                cloud,
                workloads,
                tasks,
                crash_point or CrashPoint(),
                error_rate,
                opinions=opinions or Opinions(),
                scheduled=computed is not None,
                computed=bool(computed),
                timing=timing,
            )
            cloud.on_launch = world.machine_launched
            cloud.on_end = world.machine_ended
            cloud.on_boot = world.boot_again
            world.store.subscribe(world.watch)
            world.store.subscribe(world.record)
            prepare(world)
            life = tasks.create_task(world.live())
            try:
                for pool in pools:
                    await world.ask(partial(found, pool))
                await story(world)
                await world.settle()
                await check_bill(world)
            finally:
                life.cancel()
                world.stop_agents()
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
