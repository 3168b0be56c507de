"""Deferred actions over the wire and on the command line."""

import asyncio
import json
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner
from tests.support.local_api import build_local_api, serve_local_api

from navarch.cli.main import navarch
from navarch.client.connect import connect_fleet
from navarch.core.disruption import Deferred, DeferredBy
from navarch.core.errors import NotPossibleError
from navarch.core.event import Event, about
from navarch.core.fleet import Change
from navarch.core.health import CheckResult, Health, HealthReport
from navarch.core.ids import NodeId
from navarch.core.records import evolve
from navarch.ports.fleet_health import HeldApi

SINCE = datetime(2026, 1, 1, tzinfo=UTC)
HELD = Deferred(
    action="replace",
    reason="XID 119",
    because="nodes with driver 570 show xid 119; the change is suspected, not the nodes",
    by=DeferredBy.CHANGE,
    since=SINCE,
)


def typed(server: str, *words: str) -> str:
    result = CliRunner().invoke(navarch, [*words, "--server", server])
    assert result.exit_code == 0, result.output
    return result.output


def test_deferred_actions_are_listed_and_released_over_the_wire() -> None:
    async def main() -> None:
        async with serve_local_api(build_local_api(), grpc=False) as local:
            node = await local.register("gpu-1")
            fleet = local.store.fleet()
            event = Event(at=SINCE, about=about("node", node), kind="node.held", reason="x")
            held = evolve(fleet.nodes[node], held=HELD)
            await local.store.commit(Change(nodes=[held], events=[event]), based_on=fleet.revision)
            api = connect_fleet(local.http_url)
            assert isinstance(api, HeldApi)
            (found,) = await api.list_held()
            assert (found.node, found.held) == (node, HELD)
            assert (await api.get_node(node)).node.held == HELD
            assert "driver 570" in await asyncio.to_thread(typed, local.http_url, "held", "list")
            output = await asyncio.to_thread(
                typed, local.http_url, "held", "release", node, "--reason", "looked"
            )
            assert f"Node {node} released" in output
            (found,) = await api.list_held()
            assert found.held.released == "looked"
            with pytest.raises(NotPossibleError):
                await api.release_held([NodeId(await local.register("gpu-2"))], reason="")
            assert list(await api.list_recoveries()) == []
            await api.close()

    asyncio.run(main())


def test_a_deferred_incident_is_released_by_its_id() -> None:
    broken = CheckResult(
        check="xid/79/GPU-0",
        health=Health.UNHEALTHY,
        reason="XID 79: GPU 0 has fallen off the bus",
        fatal=True,
        lasting=True,
        action="reboot_node",
        facts={"code": "79", "gpu": "GPU-0"},
    )

    async def main() -> None:
        async with serve_local_api(build_local_api(), grpc=False) as local:
            node = await local.register("gpu-1")
            await local.agents.report_health(NodeId(node), HealthReport(results=(broken,)))
            (incident,) = local.store.fleet().incidents.values()
            refused = await asyncio.to_thread(
                CliRunner().invoke,
                navarch,
                ["incident", "release", incident.id, "--server", local.http_url],
            )
            assert refused.exit_code != 0
            assert "has no held nodes" in refused.output
            fleet = local.store.fleet()
            held = evolve(fleet.nodes[NodeId(node)], held=HELD)
            await local.store.commit(Change(nodes=[held]), based_on=fleet.revision)
            output = await asyncio.to_thread(
                typed, local.http_url, "incident", "release", incident.id
            )
            assert f"Node {node} released" in output
            after = local.store.fleet().nodes[NodeId(node)].held
            assert after is not None
            assert after.released == f"incident {incident.id}"

            shown = await asyncio.to_thread(typed, local.http_url, "health")
            assert "1 unhealthy" in shown
            assert "1 open incident" in shown
            assert "XID 79" in shown
            assert max(len(line) for line in shown.splitlines()) <= 80
            body = json.loads(
                await asyncio.to_thread(typed, local.http_url, "health", "-o", "json")
            )
            assert body["pools"][0]["by_health"] == {"unhealthy": 1}
            assert body["lemons"][0]["node"] == node

    asyncio.run(main())


@pytest.mark.parametrize("by", list(DeferredBy))
@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_every_reason_for_a_deferral_survives_the_wire(by: DeferredBy, protocol: str) -> None:
    async def main() -> None:
        async with serve_local_api(
            build_local_api(), http=protocol == "http", grpc=protocol == "grpc"
        ) as local:
            node = await local.register("gpu-1")
            fleet = local.store.fleet()
            held = evolve(HELD, by=by)
            change = Change(nodes=[evolve(fleet.nodes[node], held=held)])
            await local.store.commit(change, based_on=fleet.revision)
            api = connect_fleet(local.http_url or local.grpc_url)
            assert (await api.get_node(node)).node.held == held
            await api.close()

    asyncio.run(asyncio.wait_for(main(), 30))
