"""The JSON API for what automation was kept from doing."""

from collections.abc import Iterable
from dataclasses import dataclass

from navarch.api.http.exchange import Request
from navarch.api.http.route import Route
from navarch.core.ids import NodeId, PoolName
from navarch.core.recovery import Recovery
from navarch.ports.held import HeldApi, HeldNode
from navarch.wire.bodies import Items, Release


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldQuery:
    """Whose."""

    pool: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveriesQuery:
    """Whose."""

    node: str | None = None


class HeldRoutes:
    """Answers for one fleet."""

    def __init__(self, held: HeldApi) -> None:
        self._held = held

    def routes(self) -> Iterable[Route]:
        """Yield every operation."""
        yield Route(
            method="GET",
            path="/v1/held",
            summary="What automation would have done, had it been allowed to",
            handle=self._list,
            reply=Items[HeldNode],
            query=HeldQuery,
        )
        yield Route(
            method="POST",
            path="/v1/held:release",
            summary="Let automation go ahead with some nodes, or with all of a pool",
            handle=self._release,
            reply=Items[HeldNode],
            body=Release,
        )
        yield Route(
            method="GET",
            path="/v1/recoveries",
            summary="Attempts to mend machines, newest first",
            handle=self._recoveries,
            reply=Items[Recovery],
            query=RecoveriesQuery,
        )

    async def _list(self, request: Request) -> Items[HeldNode]:
        pool = request.query(HeldQuery).pool
        found = await self._held.list_held(pool=PoolName(pool) if pool else None)
        return Items(items=tuple(found))

    async def _release(self, request: Request) -> Items[HeldNode]:
        asked = request.json(Release)
        found = await self._held.release_held(asked.nodes, pool=asked.pool, reason=asked.reason)
        return Items(items=tuple(found))

    async def _recoveries(self, request: Request) -> Items[Recovery]:
        node = request.query(RecoveriesQuery).node
        found = await self._held.list_recoveries(node=NodeId(node) if node else None)
        return Items(items=tuple(found))
