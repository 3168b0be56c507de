"""Machines that Navarch did not buy, over the wire and on the command line."""

import asyncio
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner, Result
from tests.support.local_api import build_local_api, serve_local_api

from navarch.cli.main import navarch
from navarch.client.connect import connect_fleet
from navarch.core.errors import NotFoundError, NotPossibleError
from navarch.core.event import Event, about
from navarch.core.fleet import Change
from navarch.core.health import HEARTBEAT, Condition, Health
from navarch.core.ids import NodeId
from navarch.core.node import Phase
from navarch.core.records import evolve
from navarch.ports.adoption import AdoptionApi

SINCE = datetime(2026, 1, 1, tzinfo=UTC)
SILENT = Condition(check=HEARTBEAT, health=Health.UNHEALTHY, reason="no report", since=SINCE)


async def typed(server: str, *words: str) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, navarch, [*words, "--server", server])


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
