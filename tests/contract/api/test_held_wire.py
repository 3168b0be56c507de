"""What automation was kept from doing, over the wire and on the command line."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner

from navarch.cli.main import navarch
from navarch.client.connect import connect_fleet
from navarch.core.errors import NotPossibleError
from navarch.core.event import Event, about
from navarch.core.fleet import Change
from navarch.core.held import Held, HeldBy
from navarch.core.ids import NodeId
from navarch.ports.held import HeldApi
from navarch.testing.doors import build_doors, open_doors

SINCE = datetime(2026, 1, 1, tzinfo=UTC)
HELD = Held(
    action="replace",
    reason="XID 119",
    because="nodes with driver 570 show xid 119; the change is suspected, not they",
    by=HeldBy.CHANGE,
    since=SINCE,
)


def typed(server: str, *words: str) -> str:
    result = CliRunner().invoke(navarch, [*words, "--server", server])
    assert result.exit_code == 0, result.output
    return result.output


def test_what_is_held_back_is_seen_and_released_from_afar() -> None:
    async def main() -> None:
        async with open_doors(build_doors(), grpc=False) as doors:
            node = await doors.register("gpu-1")
            fleet = doors.store.fleet()
            event = Event(at=SINCE, about=about("node", node), kind="node.held", reason="x")
            held = replace(fleet.nodes[node], held=HELD)
            await doors.store.commit(Change(nodes=[held], events=[event]), based_on=fleet.revision)
            api = connect_fleet(doors.http_url)
            assert isinstance(api, HeldApi)
            (found,) = await api.list_held()
            assert (found.node, found.held) == (node, HELD)
            assert (await api.get_node(node)).node.held == HELD
            assert "driver 570" in await asyncio.to_thread(typed, doors.http_url, "held", "list")
            said = await asyncio.to_thread(
                typed, doors.http_url, "held", "release", node, "--reason", "looked"
            )
            assert f"Node {node} released" in said
            (found,) = await api.list_held()
            assert found.held.released == "looked"
            with pytest.raises(NotPossibleError):
                await api.release_held([NodeId(await doors.register("gpu-2"))], reason="")
            assert list(await api.list_recoveries()) == []
            await api.close()

    asyncio.run(main())
