"""The real agent and the real control plane, in virtual time."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

from tests.support.direct_link import DirectLink

from navarch.agent.agent import Agent
from navarch.agent.settings import Identity
from navarch.agent.spool.disk import MemoryDisk
from navarch.app.control_plane import Plane
from navarch.core.errors import UnreachableError
from navarch.core.ids import NodeId, ProviderName
from navarch.core.launch import Offering
from navarch.core.node import NodeStatus, node_status
from navarch.core.ownership import Cluster
from navarch.core.recovery import CommandKind, CommandStatus
from navarch.core.witness import Reach
from navarch.gpus.simulated import SimulatedGpus
from navarch.health.checks.standard import standard_checks
from navarch.hosts.simulated import SimulatedHost
from navarch.ports.agents import AgentApi
from navarch.service.agents import Timing
from navarch.sim.kernel.clock import InlineOffload, SeededEntropy, SimClock
from navarch.sim.kernel.loop import SimLoop
from navarch.sim.world.effects import SimWorkloads
from navarch.stores.memory import MemoryStore
from navarch.stores.telemetry import TelemetryTable

TIMING = Timing(heartbeat_interval=timedelta(seconds=10), heartbeat_timeout=timedelta(seconds=60))


@dataclass
class Harness:
    """A control plane and one machine that it did not launch."""

    clock: SimClock
    store: MemoryStore
    control: Plane
    tasks: asyncio.TaskGroup
    cut: bool = False
    disk: MemoryDisk = field(default_factory=MemoryDisk)
    boot: str = "boot-1"

    def __post_init__(self) -> None:
        self.gpus = SimulatedGpus(self.clock, SeededEntropy("g"), count=8, seed="m")

    def api(self) -> AgentApi:
        if self.cut:
            raise UnreachableError("no route")
        return self.control.agents

    def start_agent(self) -> None:
        entropy = SeededEntropy("a")
        self.agent = Agent(
            self.clock,
            entropy,
            DirectLink(self.clock, self.api, wire_s=lambda: entropy.uniform(0.001, 0.05)),
            self.gpus,
            SimulatedHost(self.clock, entropy, "gpu-7", boot=self.boot),
            self.disk,
            identity=Identity(node=NodeId("gpu-7")),
            checks=standard_checks(),
            offload=InlineOffload(),
            probe_offload=InlineOffload(),
        )
        self.run_task = self.tasks.create_task(self.agent.run())

    def status(self) -> NodeStatus | None:
        return node_status(self.store.fleet().nodes[NodeId("gpu-7")])


def run_scenario(scenario: Callable[[Harness], Awaitable[None]]) -> None:
    async def main() -> None:
        clock = SimClock()
        store = MemoryStore(Cluster(id="c", secret=b"x" * 32))
        control = Plane(
            clock,
            SeededEntropy("control"),
            store,
            providers=[],
            notifier=SimWorkloads(clock, SeededEntropy("w"), 0.0),
            liveness=TelemetryTable(clock, timeout=TIMING.silence, nodes=[]),
            timing=lambda: TIMING,
            strict=True,
        )
        async with asyncio.TaskGroup() as tasks:
            run_task = tasks.create_task(control.run())
            harness = Harness(clock, store, control, tasks)
            harness.start_agent()
            try:
                await scenario(harness)
            finally:
                harness.agent.stop()
                await harness.run_task
                run_task.cancel()

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(main())


def test_a_node_registers_and_a_fatal_xid_makes_it_unhealthy_for_this_boot() -> None:
    async def scenario(harness: Harness) -> None:
        await harness.clock.sleep(2.0)
        assert harness.status() is NodeStatus.ACTIVE

        harness.gpus.xid(48, index=3)
        await harness.clock.sleep(3.0)
        assert harness.status() is NodeStatus.UNHEALTHY

        harness.agent.stop()
        await harness.run_task
        harness.start_agent()
        await harness.clock.sleep(300.0)
        assert harness.status() is NodeStatus.UNHEALTHY, "a restart of the agent clears nothing"

        harness.agent.stop()
        await harness.run_task
        harness.boot = "boot-2"
        harness.start_agent()
        await harness.clock.sleep(10.0)
        assert harness.status() is NodeStatus.ACTIVE, "the boot check vouches for the new boot"

    run_scenario(scenario)


def test_events_while_disconnected_reach_the_control_plane_on_reconnect() -> None:
    async def scenario(harness: Harness) -> None:
        await harness.clock.sleep(2.0)
        harness.cut = True
        await harness.clock.sleep(30.0)
        harness.gpus.xid(95, index=3)
        await harness.clock.sleep(3600.0)
        assert harness.agent.not_ready is not None
        harness.cut = False
        await harness.clock.sleep(60.0)

        node = harness.store.fleet().nodes[NodeId("gpu-7")]
        assert "xid/95/GPU-m-3" in {condition.check for condition in node.conditions}
        assert harness.agent.not_ready is not None, "the control plane agrees"

    run_scenario(scenario)


def test_a_command_runs_and_its_result_is_in_the_store() -> None:
    async def scenario(harness: Harness) -> None:
        await harness.clock.sleep(2.0)
        issued = await harness.control.fleet.issue(NodeId("gpu-7"), CommandKind.RUN_DIAGNOSTIC)
        await harness.clock.sleep(15.0)

        command = harness.store.fleet().commands[issued.id]
        assert command.status is CommandStatus.COMPLETED
        assert "healthy" in command.result

    run_scenario(scenario)


class Neighbours:
    """Connects to the machines at these addresses."""

    def __init__(self, *alive: str) -> None:
        self.alive = alive
        self.asked: set[str] = set()

    async def connect(self, address: str, port: int, *, within_s: float) -> Reach:
        del port, within_s
        self.asked.add(address)
        return Reach.GREETED if address in self.alive else Reach.NO_RESPONSE


def test_an_agent_finds_out_that_the_machine_of_a_silent_one_works() -> None:
    async def scenario(harness: Harness) -> None:
        entropy, neighbours = SeededEntropy("b"), Neighbours("10.0.0.7")
        place = Offering(provider=ProviderName("dc"), instance_type="h100-8x", region="r")
        cut: set[str] = set()

        def api(name: str) -> AgentApi:
            if name in cut:
                raise UnreachableError("no route")
            return harness.control.agents

        agents = [
            Agent(
                harness.clock,
                entropy,
                DirectLink(harness.clock, partial(api, name), wire_s=lambda: 0.01),
                harness.gpus,
                SimulatedHost(harness.clock, entropy, name, address=address),
                MemoryDisk(),
                identity=Identity(node=NodeId(name), place=place),
                checks=standard_checks(),
                offload=InlineOffload(),
                probe_offload=InlineOffload(),
                prober=neighbours,
            )
            for name, address in {"near": "10.0.0.8", "silent": "10.0.0.7"}.items()
        ]
        running = [harness.tasks.create_task(agent.run()) for agent in agents]
        await harness.clock.sleep(120.0)
        assert neighbours.asked == set()
        cut.add("silent")
        await harness.clock.sleep(180.0)
        (said,) = harness.store.fleet().nodes[NodeId("silent")].testimonies
        assert (said.witness, said.alive) == ("peers", True)
        assert neighbours.asked == {"10.0.0.7"}
        for agent in agents:
            agent.stop()
        await asyncio.gather(*running)

    run_scenario(scenario)
