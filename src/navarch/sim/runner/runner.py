"""The scenario runner: runs a scenario in virtual time, around the product itself."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from hashlib import sha256
from typing import Any

from navarch.app.control_plane import Opinions
from navarch.app.parts import Extensions, load_parts, placing_config
from navarch.config.disruption import to_governor
from navarch.config.scheduler import to_queue
from navarch.config.schema import plain_block
from navarch.core.errors import InvariantError
from navarch.core.event import Recorded
from navarch.core.ids import NodeId, PoolName
from navarch.core.instance import Notice, NoticeKind
from navarch.core.launch import Launch
from navarch.core.node import Node
from navarch.core.ownership import POOL, Cluster
from navarch.core.version import VERSION
from navarch.fleet.jobs.scheduling import Scheduling
from navarch.health.checks.work import WORK
from navarch.meters.pools import JobsMeter
from navarch.ports.api import PoolSpec, PoolView
from navarch.ports.autoscaler import Autoscaler, MetricsSource
from navarch.ports.store import Committed
from navarch.providers.simulated import Habits, Machine, SimulatedCloud
from navarch.service.fleet import FleetService
from navarch.service.jobs import JobQueue
from navarch.sim.figures.figures import Figures, flatten, measure
from navarch.sim.figures.timeline import Lease, NodeTimeline, read_timelines
from navarch.sim.kernel.clock import Chance, SeededEntropy, SimClock
from navarch.sim.kernel.loop import SimLoop, run_simulated
from navarch.sim.runner.driver import Progress, ScenarioDriver
from navarch.sim.runner.event_player import EventPlayer
from navarch.sim.runner.fleet import SimulatedFleet
from navarch.sim.runner.generation import prices
from navarch.sim.runner.histories import NodeCounter, NodeHistories
from navarch.sim.runner.jobs import SimulatedJobs
from navarch.sim.runner.judging import judge
from navarch.sim.runner.market import CloudTimeline, market_config, pool_specs, types_sold
from navarch.sim.runner.outcome import Happening, Outcome, RuleHits, Verdict
from navarch.sim.scenario.fleet import FleetNode
from navarch.sim.scenario.scenario import Scenario
from navarch.sim.world.agent import SimAgent
from navarch.sim.world.failure import Failure
from navarch.sim.world.leader import Crash, CrashPoint
from navarch.sim.world.liveness import HeartbeatSchedule
from navarch.sim.world.world import World, check_bill
from navarch.stores.memory import MemoryStore

OnHappening = Callable[[Happening], None]

CLOCK_MHZ = 1980.0
POWER_W = 650.0
"""Power of a fully loaded GPU: that of an H100."""


class ScenarioRunner:
    """Runs one scenario in virtual time, around the product's control plane."""

    def __init__(
        self,
        scenario: Scenario,
        seed: int,
        tasks: asyncio.TaskGroup,
        *,
        opinions: Opinions | None = None,
        autoscalers: Mapping[str, Autoscaler] | None = None,
        metrics: MetricsSource | None = None,
        progress: Progress = lambda _at, _until: None,
        on_happening: OnHappening = lambda _: None,
        computed: bool = True,
    ) -> None:
        self.scenario = scenario
        self.seed = seed
        network = scenario.network
        self._foreseeable = not network.loss and not network.latency_max
        """Whether the times of heartbeats can be computed: the network loses and delays nothing."""
        self._computed = computed and self._foreseeable
        self._has_stragglers = scenario.has_stragglers
        self.counter = NodeCounter()
        self._forgotten: dict[NodeId, Node] = {}
        """Nodes that the control plane has dropped and the figures still need."""
        self._pruned: list[Recorded] = []
        """The part of the journal that the control plane has dropped."""
        self._machines_in: Counter[tuple[str, str]] = Counter()
        self._tasks = tasks
        clock = SimClock()
        entropy = SeededEntropy(f"{seed}/cluster")
        cluster = Cluster(id=entropy.new_id("cluster"), secret=entropy.secret())
        store = MemoryStore(cluster)
        store.on_prune = self._pruned.extend
        self.clouds = self._clouds(clock)
        self.jobs = SimulatedJobs(clock, SeededEntropy(f"{seed}/workloads"), fleet=store.fleet)
        self.world = World(
            seed=seed,
            clock=clock,
            tasks=tasks,
            first_store=store,
            cloud=self.clouds[0],
            other_clouds=self.clouds[1:],
            workloads=self.jobs,
            crash_point=CrashPoint(keeps_log=False),
        )
        self._configure(opinions or Opinions(), autoscalers or {})
        self._set_automation()
        if scenario.pools:
            self.world.hosts.load = self.jobs.load
            self.world.leadership.metrics = metrics or JobsMeter(store, JobQueue(store))
        self.fleet = self._simulated_fleet()
        self.driver = self._driver(progress, on_happening)
        self._wire_up()

    def _configure(self, opinions: Opinions, autoscalers: Mapping[str, Autoscaler]) -> None:
        scenario, hosts, leadership = self.scenario, self.world.hosts, self.world.leadership
        hosts.timing = scenario.timing.timing
        hosts.computed = self._computed
        leadership.conflicts = scenario.control_plane.conflicts
        leadership.replicas = scenario.control_plane.replicas
        leadership.takeover_s = scenario.control_plane.takeover.total_seconds()
        scheduling = Scheduling(
            queues={name: to_queue(queue) for name, queue in scenario.queues.items()},
            config=placing_config(scenario.plugins),
        )
        leadership.opinions = replace(opinions, scheduling=lambda: scheduling)
        leadership.policies = scenario.policy.compile() if scenario.policy is not None else None
        leadership.autoscalers = {PoolName(name): each for name, each in autoscalers.items()}

    def _set_automation(self) -> None:
        """Choose strategies, budgets and limits as a server with this configuration does."""
        scenario, leadership = self.scenario, self.world.leadership
        opinions = leadership.opinions
        extensions = Extensions(
            provision_scheduler=opinions.provision_scheduler,
            provision_schedulers=opinions.provision_schedulers,
            autoscalers=leadership.autoscalers,
            budgets=opinions.budgets,
        )
        config = replace(market_config(scenario), budgets=scenario.budgets)
        parts = load_parts(config, extensions)
        leadership.autoscalers = parts.autoscalers
        limits = to_governor(scenario.governor) if scenario.governor else opinions.governor()
        leadership.opinions = replace(
            opinions,
            provision_schedulers=parts.provision_schedulers,
            remediators={**parts.remediators, **opinions.remediators},
            budgets=parts.budgets,
            governor=lambda: limits,
        )

    def _clouds(self, clock: SimClock) -> list[SimulatedCloud]:
        found = [
            SimulatedCloud(
                clock,
                SeededEntropy(f"{self.seed}/cloud/{name}"),
                cloud.habits,
                name=name,
                prices=cloud.prices,
                spot_prices=cloud.spot_prices,
                price_per_hour=cloud.price_per_hour,
            )
            for name, cloud in self.scenario.providers.items()
        ]
        return found or [SimulatedCloud(clock, SeededEntropy(f"{self.seed}/cloud"), Habits())]

    def _simulated_fleet(self) -> SimulatedFleet:
        network, stress = self.scenario.network, self.scenario.stress
        latency_s = (network.latency_min.total_seconds(), network.latency_max.total_seconds())
        return SimulatedFleet(
            environment=self.world,
            timing=self.scenario.timing.timing,
            loss=network.loss,
            product_agents=self.scenario.agents.product_share,
            latency_s=latency_s if latency_s[1] else None,
            load=self.jobs.load if self.scenario.pools or self.scenario.jobs else None,
            prices=prices(stress.fleet_gen) if stress and stress.fleet_gen else {},
            prepare=self._prepare,
        )

    def _driver(self, progress: Progress, on_happening: OnHappening) -> ScenarioDriver:
        player = EventPlayer(
            fleet=self.fleet,
            machines=self.scenario.fleet,
            crash=self._crash,
            reclaim=self._reclaim,
            set_load=self.jobs.force_load,
            on_order=self.world.checkers.may_be_retired.add,
            on_happening=on_happening,
        )
        return ScenarioDriver(
            scenario=self.scenario,
            fleet=self.fleet,
            player=player,
            count=self.counter.counts,
            tasks=self._tasks,
            progress=progress,
        )

    def _prepare(self, agent: SimAgent) -> None:
        if self._has_stragglers:
            agent.work = partial(self._work, agent)
        if self._computed:
            agent.computed = True
            agent.on_suspend = self.world.hosts.suspend
            agent.on_resume = self.world.hosts.resume

    def _work(self, agent: SimAgent) -> Mapping[str, str]:
        """Return the GPU readings of an agent while a job runs."""
        job = self.jobs.job_on(agent.node)
        if not job:
            return {}
        speeds = {gpu: self.fleet.speed(agent.node, gpu) for gpu in range(agent.gpus)}
        return {
            f"{WORK}GPU-{agent.machine.id}-{gpu}": (
                f"{speed * CLOCK_MHZ:.0f} {speed * POWER_W:.1f} {job}"
            )
            for gpu, speed in speeds.items()
        }

    def _wire_up(self) -> None:
        world, fleet, jobs = self.world, self.fleet, self.jobs
        world.store.subscribe(self.counter.watch)
        world.store.subscribe(self._keep_forgotten)
        world.hosts.make_agent = self._make_agent
        world.hosts.on_up = self._up
        world.on_stop = self._ended
        self.counter.on_unhealthy = self.driver.on_unhealthy
        jobs.call = world.call_jobs
        jobs.stops_work = fleet.stops_work
        jobs.speed = fleet.slowest
        jobs.on_load = self._load_changed
        if self.scenario.jobs:
            world.store.subscribe(jobs.watch)
        fleet.on_fault.append(self._struck)
        if self._has_stragglers:
            fleet.on_clear = jobs.change_pace_on
        fleet.on_end = jobs.fail_on

    def _keep_forgotten(self, done: Committed) -> None:
        for node in done.forgotten:
            self._forgotten[node.id] = node

    # Machines

    def _make_agent(self, machine: Machine) -> SimAgent:
        """Return an agent for a bought machine, with the GPUs of its offering."""
        request = machine.request
        name = NodeId(request.name)
        node = self.world.fleet().nodes.get(name)
        gpus = node.launch.offering.gpus if node is not None and node.launch is not None else 8
        sellers = [cloud for cloud in self.clouds if machine.id in cloud.machines]
        seller = (sellers or self.clouds)[0].name
        labels = self._position(seller, request.zone)
        agent = SimAgent(
            clock=self.world.clock,
            entropy=self.world.entropy(f"agent/{machine.id}"),
            machine=machine,
            api=self.world.api_for(name),
            gpus=gpus,
            labels=labels,
        )
        self.fleet.equip(agent)
        self.fleet.facts[name] = FleetNode(
            id=request.name,
            provider=seller,
            region=request.region,
            zone=request.zone,
            instance_type=request.instance_type,
            gpu_count=gpus,
            labels={**labels, "pool": request.labels.get(POOL, "")},
        )
        return agent

    def _position(self, cloud: str, zone: str) -> Mapping[str, str]:
        """Return the labels of the next machine in a zone of a cloud."""
        config = self.scenario.providers.get(cloud)
        number = self._machines_in[cloud, zone]
        self._machines_in[cloud, zone] += 1
        return {} if config is None else config.layout.labels(zone or cloud, number)

    def _up(self, agent: SimAgent) -> None:
        if self._foreseeable:
            agent.schedule = HeartbeatSchedule.of(
                f"{self.seed}/{agent.machine.id}",
                started_s=self.world.clock.monotonic(),
                interval_s=agent.interval_s,
            )
        self.fleet.up(agent)
        self.world.hosts.add(agent)

    def _ended(self, machine: Machine) -> None:
        node = NodeId(machine.request.name)
        agent = self.fleet.agents.get(node)
        if agent is not None and agent.machine is machine:
            self.fleet.begin_outage(node)
            self.fleet.down(node)

    def _load_changed(self, nodes: Iterable[NodeId]) -> None:
        """Send the load of nodes in autoscaled pools."""
        elastic = {n for n, pool in self.scenario.pools.items() if pool.min_nodes < pool.max_nodes}
        if not elastic:
            return
        known = self.world.fleet().nodes
        for name in list(nodes):
            node = known.get(name)
            if node is not None and node.pool in elastic:
                self.world.hosts.wake(name)

    def _struck(self, node: NodeId, failure: Failure, _cause: str, _depth: int) -> None:
        if failure.stops_work:
            self.jobs.fail_on(node)
        elif self._has_stragglers:
            self.jobs.change_pace_on(node)

    def _crash(self, down_s: float) -> None:
        self.world.leadership.down_s = down_s
        self.world.crash()

    def _reclaim(self, node: NodeId) -> None:
        if self.fleet.agents[node].place is not None:
            self.fleet.stop(node)
        else:
            self.world.reclaim(node)

    # The run

    async def run(self, linger: Callable[[], Awaitable[object]] | None = None) -> Outcome:
        """Run the scenario, wait until `linger` returns, and return the outcome."""
        world, scenario = self.world, self.scenario
        began = world.clock.now()
        tasks = [self._tasks.create_task(world.leadership.run())]
        try:
            for spec in pool_specs(scenario):
                await world.ask(partial(_put_pool, spec, reason="the scenario begins"))
            tasks += [self._tasks.create_task(work) for work in self._background()]
            await self.driver.run()
            if linger is not None:
                await linger()
            ended = world.clock.now()
            self.driver.close()
            figures, timelines = await self._measure(began, ended)
            verdicts = [
                *self.driver.player.verdicts,
                *self.jobs.rejected,
                *[
                    await judge(
                        world, each, figures=flatten(figures), dropped=self._pruned, began=began
                    )
                    for each in scenario.assertions
                ],
            ]
            if scenario.pools:
                verdicts.append(await self._check_ledger())
            return self._outcome(began, ended, figures, timelines, verdicts)
        finally:
            self.driver.close()
            for task in tasks:
                task.cancel()
            world.stop()

    def let_go(self) -> None:
        """Drop all records, now that the outcome is known.

        A world and its control plane refer to each other, so only the garbage collector frees
        them; without the records it has less to scan.
        """
        if isinstance(self.world.store, MemoryStore):
            self.world.store.let_go()
        self._forgotten.clear()
        self._pruned.clear()
        self.world.recorded.clear()

    def _background(self) -> Iterator[Coroutine[Any, Any, None]]:
        world, scenario = self.world, self.scenario
        for cloud, config in zip(self.clouds, scenario.providers.values(), strict=False):
            timeline = CloudTimeline(
                clock=world.clock,
                cloud=cloud,
                config=config,
                types=types_sold(scenario, cloud.name),
                on_prices=self._set_prices,
            )
            if config.moments:
                yield timeline.run()
            for number, rule in enumerate(config.spot_reclaims):
                chance = Chance(world.entropy(f"spot/{cloud.name}/{number}"))
                yield timeline.reclaim_spot(rule, chance, partial(self._take_back, cloud))
        for isolation in scenario.control_plane.isolations:
            yield self._isolate(isolation.at, isolation.duration)
        for crash in scenario.control_plane.crashes:
            yield self._crash_at(crash.at, crash.down_for)
        if scenario.jobs:
            yield self.jobs.run(scenario.jobs)

    def _set_prices(self, at: timedelta) -> None:
        """Give pools the new prices, as an operator's configuration or a price feed does."""

        async def update() -> None:
            for spec in pool_specs(self.scenario, at):
                await self.world.ask(partial(_put_pool, spec, reason="prices have changed"))

        self._tasks.create_task(update())

    def _take_back(self, cloud: SimulatedCloud, machine: Machine, notice_s: float) -> None:
        """Let a cloud take a spot machine back after a notice."""
        node = NodeId(machine.request.name)
        self.world.checkers.may_be_retired.add(node)
        self.fleet.begin_outage(node)
        if not notice_s:
            cloud.end(machine.id)
            return
        reason = f"a reclaim in {notice_s:.0f} s"
        cloud.announce(machine.id, Notice(kind=NoticeKind.RECLAIM, reason=reason))

        async def take() -> None:
            await self.world.clock.sleep(notice_s)
            cloud.end(machine.id)

        self._tasks.create_task(take())

    async def _isolate(self, at: timedelta, duration: timedelta) -> None:
        """Cut the control plane's own network for a while."""
        world = self.world
        await world.clock.sleep(at.total_seconds())
        self._set_isolated(True)
        await world.clock.sleep(duration.total_seconds())
        self._set_isolated(False)

    def _set_isolated(self, isolated: bool) -> None:
        self.world.isolated = isolated
        self.jobs.error_rate = 1.0 if isolated else 0.0
        for cloud in self.clouds:
            cloud.reachable = not isolated
        for agent in self.fleet.agents.values():
            agent.wake()

    async def _crash_at(self, at: timedelta, down_for: timedelta) -> None:
        await self.world.clock.sleep(at.total_seconds())
        self._crash(down_for.total_seconds())

    async def _check_ledger(self) -> Verdict:
        """Let listings settle; then the clouds' own bills must equal the store's ledger."""
        what = "the ledger equals the clouds' bills"
        await self.world.settle()
        try:
            await check_bill(self.world)
        except AssertionError as error:
            return Verdict(what=what, holds=False, reason=str(error))
        return Verdict(what=what, holds=True, reason="to the cent")

    async def _measure(
        self, began: datetime, ended: datetime
    ) -> tuple[Figures, Mapping[NodeId, NodeTimeline]]:
        store = self.world.store
        journal = [*self._pruned, *await store.events(limit=1_000_000_000)]
        timelines = read_timelines(journal)
        nodes = [node for node in self.world.fleet().nodes.values() if node.launch is not None]
        living: list[Launch] = [node.launch for node in nodes if node.launch and not node.gone]
        figures = measure(
            journal,
            self.driver.truth(began, ended, self._leases()),
            timelines=timelines,
            launches=[*await store.launches(), *living],
            claimed={launch.token for launch in living},
            jobs=[job.record(ended) for job in self.jobs.jobs.values()],
            interruptions=self.jobs.interruptions,
        )
        return figures, timelines.nodes

    def _leases(self) -> Iterator[Lease]:
        """Yield the bought machines."""
        for cloud in self.clouds:
            for machine in cloud.machines.values():
                node = NodeId(machine.request.name)
                facts = self.fleet.facts.get(node)
                yield Lease(
                    node=node,
                    gpus=8 if facts is None else facts.gpu_count,
                    began=machine.launched_at,
                    ended=machine.ended_at,
                    price_per_hour=machine.price_per_hour,
                    pool=machine.request.labels.get(POOL, ""),
                    token=machine.request.token,
                )

    def _outcome(
        self,
        began: datetime,
        ended: datetime,
        figures: Figures,
        timelines: Mapping[NodeId, NodeTimeline],
        verdicts: Sequence[Verdict],
    ) -> Outcome:
        nodes = {**self._forgotten, **self.world.fleet().nodes}
        faults = self.fleet.injuries
        simulated_s = (ended - began).total_seconds()
        return replace(
            self.driver.outcome(self.seed, simulated_s, figures, verdicts),
            xids=dict(sorted(Counter(str(x.xid) for x in faults if x.xid is not None).items())),
            nodes=NodeHistories(nodes.values(), timelines, faults, began=began),
            jobs=tuple(job.record(ended) for job in self.jobs.jobs.values()),
            rules=tuple(
                RuleHits(rule=rule, result=result, hits=hits)
                for (rule, result), hits in sorted(self.counter.rules.items())
            ),
            trace=sha256("\n".join(self.world.trace).encode()).hexdigest()[:16],
            crashes=self.world.leadership.crashes,
        )


async def _put_pool(spec: PoolSpec, fleet: FleetService, *, reason: str) -> PoolView:
    return await fleet.put_pool(spec, reason=reason)


def run_scenario(
    scenario: Scenario,
    *,
    seed: int | None = None,
    opinions: Opinions | None = None,
    autoscalers: Mapping[str, Autoscaler] | None = None,
    metrics: MetricsSource | None = None,
    progress: Progress = lambda _at, _until: None,
    on_happening: OnHappening = lambda _: None,
    loop: Callable[[], asyncio.AbstractEventLoop] = SimLoop,
    computed: bool = True,
) -> Outcome:
    """Play a scenario in virtual time, around the real control plane, and return its outcome.

    `seed` overrides the scenario's own. `opinions`, `autoscalers` (by pool) and `metrics`
    are where extensions come in, as they do in production.
    """
    chosen = scenario.seed if seed is None else seed

    async def main() -> Outcome:
        async with asyncio.TaskGroup() as tasks:
            runner = ScenarioRunner(
                scenario,
                chosen,
                tasks,
                opinions=opinions,
                autoscalers=autoscalers,
                metrics=metrics,
                progress=progress,
                on_happening=on_happening,
                computed=computed,
            )
            outcome = await runner.run()
            runner.let_go()
            return outcome
        raise AssertionError("unreachable")

    try:
        return run_simulated(main(), loop)
    except BaseExceptionGroup as group:
        return _broken(scenario, chosen, group)


def _broken(scenario: Scenario, seed: int, group: BaseExceptionGroup[BaseException]) -> Outcome:
    """Return the outcome of a run that broke a law of the fleet; anything else is a bug."""
    laws, rest = group.split((AssertionError, InvariantError))
    if rest is not None and (others := rest.split((Crash, asyncio.CancelledError))[1]) is not None:
        raise others
    first: BaseException | None = laws
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    assert first is not None, group
    return Outcome(
        scenario=scenario.name,
        description=scenario.description,
        seed=seed,
        version=VERSION,
        passed=False,
        simulated_s=0.0,
        configuration=plain_block(scenario),
        verdicts=(Verdict(what="every law of the fleet is kept", holds=False, reason=str(first)),),
    )
