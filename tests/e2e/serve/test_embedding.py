"""Navarch embedded in another program, with custom extensions."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from navarch import ControlPlane
from navarch.app.server import Running
from navarch.clock import SystemClock, SystemEntropy
from navarch.config import parse_config
from navarch.core.alert import AlertMessage
from navarch.core.errors import InvalidError
from navarch.core.health import CheckResult, Health
from navarch.core.ids import NodeId, PoolName, ProviderName
from navarch.core.node import Node, NodeStatus
from navarch.core.pool import Pool
from navarch.core.records import evolve
from navarch.ports.api import PoolSpec, Query
from navarch.ports.autoscaler import PoolMetrics, PoolState, Recommendation
from navarch.ports.checks import MachineView
from navarch.ports.provider import ProvisionOption
from navarch.ports.remediator import Remedy, Treatment
from navarch.providers.simulated import Habits, SimulatedCloud
from navarch.scheduler import Bind, PluginConfig, SchedulerConfig, Session
from navarch.scheduler.config import DEFAULT_PLUGINS
from navarch.scheduler.worlds import a_cluster, a_job
from navarch.testing.worlds import H100

CONFIG = """
server:
  address: 127.0.0.1:0
  grpc_address: 127.0.0.1:0
  heartbeat_interval: 1s
  health_check_interval: 1s
  autoscale_interval: 500ms
providers:
  fake: {type: fake, boot_min: 50ms, boot_max: 100ms, bad_boot_share: 0}
pools:
  training: {provider: fake, instance_type: h100-8x, min_nodes: 1, max_nodes: 4}
alerts: {group_wait: 0s}
"""


class PreferZoneB:
    def score(self, option: ProvisionOption) -> float:
        return 1.0 if option.offering.zone == "b" else 0.0


class Two:
    name = "two"

    def recommend(self, state: PoolState) -> Recommendation:
        return Recommendation(target_nodes=2, reason=f"{state.metrics.queue_depth} jobs wait")


class Queue:
    async def pool_metrics(self, pool: PoolName) -> PoolMetrics:
        del pool
        return PoolMetrics(queue_depth=7)


class FabricCheck:
    name = "fabric"
    interval = timedelta(seconds=1)

    def run(self, view: MachineView) -> Iterator[CheckResult]:
        broken = view.host.hostname() == "training-0"
        health = Health.UNHEALTHY if broken else Health.HEALTHY
        yield CheckResult(check=self.name, health=health, reason="link 3 is down", fatal=broken)


class CordonOnly:
    def remediate(self, pool: Pool, node: Node) -> Treatment | None:
        del pool
        return Treatment(remedy=Remedy.CORDON, reason=f"{node.id} is not well")


class RecordingNotifier:
    name = "recorder"

    def __init__(self) -> None:
        self.received: list[str] = []
        self.cordoned: list[str] = []

    async def send(self, message: AlertMessage) -> str:
        self.received += [alert.id for alert in message.firing]
        return "noted"

    async def cordon(self, node: NodeId, reason: str) -> None:
        self.cordoned.append(f"{node}: {reason}")

    async def uncordon(self, node: NodeId) -> None:
        self.cordoned.append(f"{node}: lifted")

    async def drain(self, node: NodeId, reason: str) -> None:
        self.cordoned.append(f"{node}: drain, {reason}")

    async def is_drained(self, node: NodeId) -> bool:
        del node
        return True


def my_cloud() -> SimulatedCloud:
    habits = Habits(boot_s=(0.1, 0.2), call_s=(0.0, 0.01))
    return SimulatedCloud(SystemClock(), SystemEntropy(), habits, name="mine")


def test_every_custom_extension_is_used(tmp_path: Path) -> None:
    recorder, cloud = RecordingNotifier(), my_cloud()

    async def main() -> None:
        running: asyncio.Future[Running] = asyncio.get_running_loop().create_future()
        plane = ControlPlane(
            data_dir=tmp_path,
            config=parse_config(CONFIG),
            provision_scheduler=PreferZoneB(),
            autoscalers={"training": Two()},
            health_checks=[FabricCheck()],
            remediator=CordonOnly(),
            workload_notifiers=[recorder],
            alert_channels=[recorder],
            metrics_sources=[Queue()],
        )
        plane.register_provider(cloud)
        async with asyncio.TaskGroup() as tasks:
            life = tasks.create_task(plane.run(running.set_result))
            fleet = (await running).plane.fleet
            offering = evolve(H100, provider=ProviderName("mine"))
            places = tuple(evolve(offering, zone=zone) for zone in "ab")
            spec = PoolSpec(name=PoolName("other"), offerings=places, nodes_min=1, nodes_max=1)
            await fleet.put_pool(spec, reason="the test")
            async with asyncio.timeout(30):
                while not (  # noqa: ASYNC110 - several conditions without a notification
                    len((await fleet.list_nodes(Query(pool=PoolName("training")))).items) == 2
                    and recorder.cordoned
                    and "node-fault@training-0" in recorder.received
                    and cloud.machines
                ):
                    await asyncio.sleep(0.05)
            first = await fleet.get_node(NodeId("training-0"))
            assert first.node.status is NodeStatus.UNHEALTHY
            assert first.node.cordoned == "automatic: training-0 is not well"
            assert first.node.retiring is None, "the remediator said to cordon it, no more"
            scaled = [e.event.reason for e in await fleet.events(limit=1000)]
            assert any("two: 7 jobs wait" in reason for reason in scaled)
            (machine,) = cloud.machines.values()
            assert machine.request.zone == "b"
            assert recorder.cordoned[0].startswith("training-0")
            life.cancel()

    asyncio.run(main())


def test_two_providers_of_one_name_are_refused(tmp_path: Path) -> None:
    plane = ControlPlane(data_dir=tmp_path, providers=[my_cloud()])
    with pytest.raises(InvalidError, match="'mine' exists already"):
        plane.register_provider(my_cloud())


class NothingOnB:
    name = "nothing-on-b"

    def on_session_open(self, session: Session) -> None:
        session.add_predicate_fn(
            lambda _task, _job, node: "b is kept free" if node.name == "b" else None, scope="static"
        )

    def on_session_close(self, session: Session) -> None:
        """Nothing to clean up."""


def test_a_custom_scheduler_plugin_is_used(tmp_path: Path) -> None:
    plane = ControlPlane(data_dir=tmp_path, scheduler_plugins={"nothing-on-b": NothingOnB})
    cluster = a_cluster(nodes={"a": 4, "b": 8}, jobs=[a_job("big", gpus=8)])
    assert [d.node for d in plane.schedule(cluster).decisions if isinstance(d, Bind)] == ["b"]
    plugins = (*DEFAULT_PLUGINS, PluginConfig(name="nothing-on-b"))
    assert plane.schedule(cluster, SchedulerConfig(plugins=plugins)).decisions == ()
