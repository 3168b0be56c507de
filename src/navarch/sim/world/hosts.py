"""The hosts of a world: the agents of all machines, and the hardware under them."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from itertools import count

from navarch.core.boot_report import BootPhase, BootReport
from navarch.core.errors import NavarchError
from navarch.core.ids import InstanceId, NodeId
from navarch.core.recovery import RecoveryStep
from navarch.core.witness import Reach
from navarch.ports.agents import AgentApi
from navarch.ports.store import Committed
from navarch.providers.simulated import Machine
from navarch.service.agents import Timing
from navarch.sim.kernel.clock import SeededEntropy, SimClock
from navarch.sim.world.agent import LATENCY_S, SimAgent
from navarch.sim.world.effects import ActionLogEntry, SimEffects
from navarch.sim.world.liveness import ComputedLiveness, HeartbeatSchedule
from navarch.stores.telemetry import TelemetryTable

TIMING = Timing(heartbeat_interval=timedelta(seconds=30), heartbeat_timeout=timedelta(seconds=90))


@dataclass(frozen=True, slots=True)
class SimProber:
    """Connects a simulated machine to others, as far as the world's network allows."""

    clock: SimClock
    node: NodeId
    reach: Callable[[NodeId, str], Reach]

    async def connect(self, address: str, port: int, *, within_s: float) -> Reach:
        """Return whether a machine responds."""
        del port
        found = self.reach(self.node, address)
        if found is Reach.NO_RESPONSE:
            await self.clock.sleep(within_s)
        return found


@dataclass(slots=True, kw_only=True)
class SimulatedHosts:
    """The agents of machines that are up, from boot to boot."""

    seed: int
    clock: SimClock
    tasks: asyncio.TaskGroup
    api_for: Callable[[NodeId], Callable[[], AgentApi]]
    """Returns the way of a node's agent to the control plane."""
    error_rate: Callable[[], float] = lambda: 0.0
    """Returns the share of messages that fail."""
    timing: Timing = TIMING
    scheduled: bool = False
    """Whether heartbeats are sent at times that can be computed, over a network without delay."""
    computed: bool = False
    """Whether scheduled heartbeats that change nothing are computed instead of sent."""
    load: Callable[[NodeId], float] | None = None
    """Returns the utilization of a node's GPUs, in percent; the control plane then autoscales."""
    driver: str = "550.90.07"
    """The driver of machines that boot from now on."""
    labels_for: Callable[[NodeId], dict[str, str]] = lambda _: {}
    """Returns the labels of a node's machine, such as its rack."""
    reboot_s: tuple[float, float] = (60.0, 240.0)
    reach: Callable[[NodeId, str], Reach] | None = None
    """Returns whether a node reaches the machine with an address; without it, no probe is sent."""
    make_agent: Callable[[Machine], SimAgent] | None = None
    """Makes the agents of bought machines, instead of this class."""
    report_boot: Callable[[BootReport], Awaitable[None]] | None = None
    """Sends the report of a boot script to the control plane."""
    on_up: Callable[[SimAgent], None] = lambda _: None
    """Called when an agent starts, before its first report."""
    agents: dict[InstanceId, SimAgent] = field(default_factory=dict)
    effects: dict[InstanceId, SimEffects] = field(default_factory=dict)
    """The hardware of each machine. It outlives the agent."""
    action_log: list[ActionLogEntry] = field(default_factory=list)
    """Every reset, reboot and power cycle, in order."""
    booting: set[InstanceId] = field(default_factory=set)
    """Machines that are down for a reboot."""
    suspended: dict[NodeId, HeartbeatSchedule] = field(default_factory=dict)
    _by_node: dict[NodeId, SimAgent] = field(default_factory=dict)
    running: dict[InstanceId, asyncio.Task[None]] = field(default_factory=dict)
    """The tasks of agents that were started."""
    _liveness: ComputedLiveness | None = None

    def new_liveness(self, nodes: Sequence[NodeId]) -> TelemetryTable:
        """Return what a control plane that starts now has received from agents."""
        if not self.computed:
            return TelemetryTable(self.clock, timeout=self.timing.silence, nodes=nodes)
        self._liveness = ComputedLiveness(
            self.clock,
            timeout=self.timing.silence,
            nodes=nodes,
            suspended=self.suspended,
            # Agents made elsewhere are woken when their load changes.
            load=self.load if self.make_agent is None else None,
        )
        return self._liveness

    # Machines start and stop

    def start(
        self, machine: Machine, *, after_s: float, reports: int = 0, boot_id: str = "boot-1"
    ) -> None:
        """Start a machine's agent after a while."""
        if self.make_agent is not None:
            self.run(self.make_agent(machine), after_s=after_s)
            return

        async def live() -> None:
            await self._set_up(machine, after_s)
            machine.died_at = None
            self.booting.discard(machine.id)
            agent = self._agent(machine, reports=reports, boot_id=boot_id)
            self.agents[machine.id] = agent
            self.add(agent)
            self.on_up(agent)
            await agent.run()

        name = f"agent of {machine.request.name}"
        self.running[machine.id] = self.tasks.create_task(live(), name=name)

    async def _set_up(self, machine: Machine, after_s: float) -> None:
        """Wait until the agent starts; its boot script runs a command after the other meanwhile."""
        report, step_s = self.report_boot, machine.step_s
        if report is None or not step_s:
            await self.clock.sleep(after_s)
            return
        await self.clock.sleep(after_s - min(after_s, machine.setup_s))
        ready_s = self.clock.monotonic() + min(after_s, machine.setup_s)
        node = NodeId(machine.request.name)
        for command in count(1):
            phase = BootPhase.COMMAND_BEGUN
            # As on a machine, a report that is lost has no effect on the boot.
            with suppress(NavarchError):
                await report(BootReport(node=node, phase=phase, command=command))
            left_s = ready_s - self.clock.monotonic()
            if left_s <= step_s:
                await self.clock.sleep(max(left_s, 0.0))
                return
            await self.clock.sleep(step_s)

    def run(self, agent: SimAgent, *, after_s: float = 0.0) -> None:
        """Run an agent that was made elsewhere, once its machine is up."""

        async def live() -> None:
            await self.clock.sleep(after_s)
            self.on_up(agent)
            await agent.run()

        name = agent.machine.id
        self.running[name] = self.tasks.create_task(live(), name=f"agent on {name}")

    def add(self, agent: SimAgent) -> None:
        """Wake this agent when something happens that concerns its node."""
        self._by_node[agent.node] = agent

    def restart(self, agent: SimAgent, *, boot_id: str) -> None:
        """Stop an agent and start it again."""
        self.running[agent.machine.id].cancel()
        self.start(agent.machine, after_s=1.0, reports=agent.reports, boot_id=boot_id)

    def reboot(self, machine: Machine, step: RecoveryStep, *, recovery: str | None) -> None:
        """Stop a machine and start it again, as another boot.

        `recovery` is the recovery of the node, if the provider restarts the machine; the effects
        log a restart by the agent themselves.
        """
        effects, old = self.effects[machine.id], self.agents.get(machine.id)
        boot_id = old.boot_id if old is not None else "boot-1"
        if recovery is not None:
            effects.note(machine.request.name, step, boot_id, recovery)
        effects.clear(step)
        self.booting.add(machine.id)
        self.running[machine.id].cancel()
        number = int(boot_id.rpartition("-")[2]) + 1
        self.start(
            machine,
            after_s=SeededEntropy(f"{self.seed}/{machine.id}/{number}").uniform(*self.reboot_s),
            reports=old.reports if old is not None else 0,
            boot_id=f"boot-{number}",
        )

    def stop(self, machine: Machine) -> None:
        """Stop the agent on a machine."""
        node = NodeId(machine.request.name)
        agent = self._by_node.get(node)
        if agent is not None and agent.machine is machine:
            del self._by_node[node]
        running = self.running.pop(machine.id, None)
        if running is not None:
            running.cancel()

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
                boot=lambda _: self.reboot(machine, RecoveryStep.REBOOT, recovery=None),
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
            loss=self.error_rate,
            reports=reports,
            boot_id=boot_id,
            load=None if self.load is None else partial(self.load, node),
            computed=self.computed,
            on_suspend=self.suspend,
            on_resume=self.resume,
            results={fault.result.check: fault.result for fault in effects.faults},
            driver=self.driver,
            labels=self.labels_for(node),
            execute=effects.execute,
            prober=None if self.reach is None else SimProber(self.clock, node, self.reach),
        )

    # Heartbeats that are computed

    def suspend(self, agent: SimAgent) -> None:
        """Take an agent's heartbeats as received until it resumes."""
        assert self._liveness is not None
        assert agent.schedule is not None
        self._liveness.suspend(agent.node, agent.schedule)

    def resume(self, agent: SimAgent) -> None:
        """Count an agent's heartbeats one by one from now on."""
        assert self._liveness is not None
        assert agent.schedule is not None
        self._liveness.resume(agent.node, agent.schedule)

    def wake(self, node: NodeId) -> None:
        """Send the node's next heartbeat, since something about it has changed."""
        agent = self._by_node.get(node)
        if agent is not None:
            agent.wake()

    def on_commit(self, committed: Committed) -> None:
        """Wake the agents that a commit concerns."""
        change, agents = committed.change, self._by_node
        for node in change.nodes:
            if node.id in agents:
                agents[node.id].on_commit()
        for command in change.commands:
            self.wake(command.node)
        for incident in change.incidents:
            for name in incident.nodes:
                if name in agents:
                    agents[name].on_commit()
