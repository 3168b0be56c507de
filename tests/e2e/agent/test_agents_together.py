"""Many agents in one process, over the network API of a real control plane."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.support.local_api import LocalApi, build_local_api, serve_local_api

from navarch.agent.agent import Agent
from navarch.agent.settings import Identity
from navarch.agent.spool.disk import MemoryDisk
from navarch.agent.transport import open_link
from navarch.clock import SystemClock, SystemEntropy
from navarch.core.ids import NodeId
from navarch.core.recovery import CommandKind, CommandStatus
from navarch.gpus.simulated import SimulatedGpus
from navarch.health.checks.standard import standard_checks
from navarch.hosts.simulated import SimulatedHost
from navarch.sim.kernel.clock import InlineOffload

COUNT = 30


@dataclass
class Machine:
    """A simulated machine."""

    name: str
    url: str
    ended: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        clock, entropy = SystemClock(), SystemEntropy()
        self.gpus = SimulatedGpus(clock, entropy, count=8, seed=self.name)
        self.agent = Agent(
            clock,
            entropy,
            open_link(self.url, token=lambda: "secret"),
            self.gpus,
            SimulatedHost(clock, entropy, self.name),
            MemoryDisk(),
            identity=Identity(node=NodeId(self.name), gpus_expected=8),
            checks=standard_checks(),
            offload=InlineOffload(),
            probe_offload=InlineOffload(),
            on_terminate=lambda: self.ended.append(self.name),
        )


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20.0):
        while not holds():
            await SystemClock().sleep(0.02)


def conditions(local: LocalApi, name: str) -> set[str]:
    return {condition.check for condition in local.store.fleet().nodes[NodeId(name)].conditions}


def test_agents_in_one_process_fail_independently() -> None:
    async def main() -> None:
        local = build_local_api(token="secret")
        async with serve_local_api(local, grpc=False), asyncio.TaskGroup() as tasks:
            machines = [Machine(f"gpu-{number}", local.http_url) for number in range(COUNT)]
            run_tasks = [tasks.create_task(machine.agent.run()) for machine in machines]
            await until(lambda: local.desk.received >= COUNT)
            assert len(local.store.fleet().nodes) == COUNT
            local.desk.flush()
            metrics = local.columns.metrics(NodeId("gpu-3"))
            assert metrics is not None
            assert len(metrics.gpus) == 8
            assert all(30.0 < gpu.temperature_c < 70.0 for gpu in metrics.gpus)

            machines[3].gpus.xid(79, index=5)
            machines[3].agent.run_all_checks()
            await until(lambda: "xid/79/GPU-gpu-3-5" in conditions(local, "gpu-3"))
            others = [machine.name for machine in machines if machine is not machines[3]]
            assert [name for name in others if conditions(local, name)] == []

            for machine in machines:
                machine.agent.stop()
            await asyncio.gather(*run_tasks)

    asyncio.run(main())


def test_terminate_over_the_network_only_calls_the_callback() -> None:
    async def main() -> None:
        local = build_local_api(token="secret")
        async with serve_local_api(local, grpc=False), asyncio.TaskGroup() as tasks:
            first = Machine("gpu-1", local.http_url)
            run_task = tasks.create_task(first.agent.run())
            await until(lambda: NodeId("gpu-1") in local.store.fleet().nodes)
            first.agent.stop()
            await run_task
            command = await local.fleet.issue(NodeId("gpu-1"), CommandKind.TERMINATE)
            again = Machine("gpu-1", local.http_url)
            run_task = tasks.create_task(again.agent.run())
            await until(lambda: again.ended == ["gpu-1"])

            assert not run_task.done()
            stored = local.store.fleet().commands[command.id]
            assert stored.status is CommandStatus.COMPLETED
            again.agent.stop()
            await run_task

    asyncio.run(main())
