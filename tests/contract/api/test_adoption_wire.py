"""Machines that Navarch did not buy, over the wire and on the command line."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner, Result
from tests.support.local_api import H100, build_local_api, serve_local_api

from navarch.cli.main import navarch
from navarch.client.connect import connect_fleet
from navarch.core.errors import InvalidError, NotFoundError, NotPossibleError
from navarch.core.event import Event, about
from navarch.core.fleet import Change
from navarch.core.health import HEARTBEAT, CheckResult, Condition, Health, HealthReport
from navarch.core.ids import InstanceId, NodeId, PoolName
from navarch.core.instance import Instance, InstanceStatus
from navarch.core.node import Phase
from navarch.core.records import evolve
from navarch.ports.adoption import AdoptionApi, MachineChoice
from navarch.ports.api import PoolSpec

SINCE = datetime(2026, 1, 1, tzinfo=UTC)
SILENT = Condition(check=HEARTBEAT, health=Health.UNHEALTHY, reason="no report", since=SINCE)


async def typed(server: str, *words: str) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, navarch, [*words, "--server", server])


MACHINE = Instance(
    id=InstanceId("i-7"),
    provider=H100.provider,
    status=InstanceStatus.RUNNING,
    instance_type=H100.instance_type,
    region=H100.region,
    zone=H100.zone,
    labels={"team": "ml"},
)


async def one_machine() -> Sequence[Instance]:
    return (MACHINE,)


def test_machines_are_adopted_and_released_over_the_wire() -> None:
    async def main() -> None:
        local = build_local_api(machines=one_machine)
        async with serve_local_api(local):
            api = connect_fleet(local.http_url)
            assert isinstance(api, AdoptionApi)
            pool = PoolName("training")
            spec = PoolSpec(name=pool, offerings=(H100,), nodes_min=0, nodes_max=2)
            await api.put_pool(spec, reason="")
            chosen = MachineChoice(labels={"team": "ml"}, agents={"i-7": "gpu-1"})
            with pytest.raises(NotPossibleError, match="no agent has registered as gpu-1"):
                await api.adopt(pool, chosen, reason="")
            node = await local.register("gpu-1")
            sound = HealthReport(results=(CheckResult(check="gpu", health=Health.HEALTHY),))
            await local.agents.report_health(node, sound)
            [view] = await api.adopt(pool, chosen, reason="moving")
            assert (view.id, view.pool, view.instance) == ("gpu-1", pool, "i-7")
            assert (await api.get_pool(pool)).size == 1
            with pytest.raises(InvalidError, match="name machines"):
                await api.adopt(pool, MachineChoice(), reason="")
            again = await typed(local.http_url, "adopt", "i-7=gpu-1", "--pool", "training")
            assert again.output == "Node gpu-1 belongs to pool training, with i-7\n"
            assert (await api.release(node, reason="sold")).pool is None
            assert (await api.get_pool(pool)).size == 0
            refused = await typed(local.http_url, "release", "gpu-1")
            assert refused.exit_code == 4
            await api.close()

    asyncio.run(main())


def test_hosts_are_forgotten_over_the_wire() -> None:
    async def main() -> None:
        async with serve_local_api(build_local_api()) as local:
            nodes = [await local.register("gpu-1"), await local.register("gpu-2")]
            api = connect_fleet(local.http_url)
            assert isinstance(api, AdoptionApi)
            with pytest.raises(NotPossibleError, match="still reports"):
                await api.forget(nodes[0], reason="")
            with pytest.raises(NotFoundError):
                await api.forget(NodeId("gpu-9"), reason="")
            refused = await typed(local.http_url, "node", "forget", "gpu-1")
            assert refused.exit_code == 4
            assert "stop its agent" in refused.output
            fleet = local.store.fleet()
            silent = [evolve(fleet.nodes[name], conditions=(SILENT,)) for name in nodes]
            event = Event(at=SINCE, about=about("node", nodes[0]), kind="node.health", reason="x")
            await local.store.commit(Change(nodes=silent, events=[event]), based_on=fleet.revision)
            assert (await api.forget(nodes[0], reason="sold")).phase is Phase.GONE
            assert (await api.forget(nodes[0], reason="sold")).phase is Phase.GONE
            done = await typed(local.http_url, "node", "forget", "gpu-2", "--reason", "sold")
            assert done.output == "Node gpu-2 forgotten\n"
            story = await local.store.events(about=about("node", nodes[1]), limit=100)
            assert story[-1].event.reason == "forgotten by hand: sold"
            refused = await typed(local.grpc_url, "node", "forget", "gpu-2")
            assert "not available over gRPC" in refused.output
            await api.close()

    asyncio.run(main())
