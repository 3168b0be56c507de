"""The JSON API for bring-up logs."""

from collections.abc import Iterable

from navarch.api.http.exchange import Request
from navarch.api.http.route import Route
from navarch.core.bringup import BringUpLog
from navarch.core.ids import NodeId
from navarch.ports.bringup import BringUpApi
from navarch.wire.bodies import Items


class BringUpRoutes:
    """The routes of BringUpApi."""

    def __init__(self, bringups: BringUpApi) -> None:
        self._bringups = bringups

    def routes(self) -> Iterable[Route]:
        """Yield every operation."""
        yield Route(
            method="GET",
            path="/v1/nodes/{node}/bringup",
            summary="List the set-up attempts of a node's machine, oldest first",
            handle=self._list,
            reply=Items[BringUpLog],
        )

    async def _list(self, request: Request) -> Items[BringUpLog]:
        found = await self._bringups.list_bringups(NodeId(request.names["node"]))
        return Items(items=tuple(found))
