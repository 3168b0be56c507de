"""The JSON API for join tokens, for machines that are set up by hand."""

from collections.abc import Iterable

from navarch.api.http.exchange import Request
from navarch.api.http.route import Route
from navarch.core.ids import NodeId
from navarch.ports.joining import JoinApi
from navarch.wire.bodies import JoinPass, JoinRequest


class JoinRoutes:
    """The routes of JoinApi."""

    def __init__(self, joins: JoinApi) -> None:
        self._joins = joins

    def routes(self) -> Iterable[Route]:
        """Yield every operation."""
        # Not a GET: the reply is a secret that no cache may keep.
        yield Route(
            method="POST",
            path="/v1/nodes/{node}/join-token",
            summary="Issue the join token of a node's machine",
            handle=self._issue,
            body=JoinRequest,
            reply=JoinPass,
        )

    async def _issue(self, request: Request) -> JoinPass:
        wanted = request.json(JoinRequest)
        node = NodeId(request.names["node"])
        token = await self._joins.issue_join_token(node, again=wanted.again, reason=wanted.reason)
        return JoinPass(node=node, token=token)
