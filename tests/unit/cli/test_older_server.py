"""`navarch events` against a server of version 0.1.0, which reads the journal forwards only."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import cast

import pytest
from tests.support.local_api import H100, build_local_api

from navarch.cli.events import NEWEST, read_events
from navarch.core.errors import InvalidError
from navarch.core.event import Recorded, Subject
from navarch.core.ids import PoolName
from navarch.ports.api import FleetApi, FleetStatus, PoolSpec

POOLS = 120


class OlderServer:
    """The present server with the parameters of version 0.1.0.

    Over HTTP, that version refuses parameters that it does not have; over gRPC it ignores them.
    """

    def __init__(self, fleet: FleetApi, *, refuses: bool) -> None:
        self._fleet = fleet
        self._refuses = refuses

    async def status(self) -> FleetStatus:
        return await self._fleet.status()

    async def events(
        self, *, after: int = 0, about: Subject | None = None, limit: int = 100, **new: object
    ) -> Sequence[Recorded]:
        if self._refuses and new:
            raise InvalidError("unknown parameter - at `$.newest_first`")
        return await self._fleet.events(after=after, about=about, limit=limit)


async def on_both(
    read: Callable[[FleetApi], Awaitable[list[Recorded]]], *, refuses: bool
) -> tuple[list[Recorded], list[Recorded]]:
    """Return what is read from an older server, and from the present one."""
    fleet = build_local_api().fleet
    for number in range(POOLS):
        spec = PoolSpec(name=PoolName(f"p{number}"), offerings=(H100,), nodes_min=0, nodes_max=1)
        await fleet.put_pool(spec, reason="")
    older = cast("FleetApi", OlderServer(fleet, refuses=refuses))
    return await read(older), await read(fleet)


@pytest.mark.parametrize("refuses", [True, False], ids=["http", "grpc"])
@pytest.mark.parametrize(
    ("about", "limit", "shown"),
    [(None, None, NEWEST), (None, 3, 3), (Subject("pool/p7"), None, 1), (None, 1000, POOLS)],
)
def test_an_older_server_shows_the_same_events(
    about: Subject | None, limit: int | None, shown: int, *, refuses: bool
) -> None:
    older, newer = asyncio.run(
        on_both(lambda api: read_events(api, about, None, limit), refuses=refuses)
    )
    assert older == newer
    assert len(newer) == shown


@pytest.mark.parametrize("refuses", [True, False], ids=["http", "grpc"])
def test_an_older_server_shows_the_same_events_since_a_time(*, refuses: bool) -> None:
    async def read(api: FleetApi) -> list[Recorded]:
        every = await api.events(limit=1000)
        since: datetime = every[-1].event.at - timedelta(microseconds=1)
        return await read_events(api, None, since, 5)

    older, newer = asyncio.run(on_both(read, refuses=refuses))
    assert older == newer
    assert newer


def test_another_refusal_is_reported() -> None:
    class Refusing:
        async def events(self, **_: object) -> Sequence[Recorded]:
            raise InvalidError("limit must be 1 to 1000")

    with pytest.raises(InvalidError, match="limit must be"):
        asyncio.run(read_events(cast("FleetApi", Refusing()), None, None, 5))
