"""The JSON API for join tokens, for operators who bring machines up by hand."""

from collections.abc import Iterable

from navarch.api.http.exchange import Request
from navarch.api.http.route import Route
from navarch.core.ids import NodeId
from navarch.ports.joining import JoinApi
from navarch.wire.bodies import JoinPass, JoinRequest


class JoinRoutes:
    """Answers for one fleet."""

    def __init__(self, joins: JoinApi) -> None:
        self._joins = joins

    def routes(self) -> Iterable[Route]:
        """Yield every operation."""
        # Not a GET: what it returns is a secret, which nothing on the way should keep.
        yield Route(
            method="POST",
            path="/v1/nodes/{node}/join-token",
            summary="The token with which the machine of a node joins, once",
            handle=self._issue,
            body=JoinRequest,
            reply=JoinPass,
        )

    async def _issue(self, request: Request) -> JoinPass:
        asked = request.json(JoinRequest)
        node = NodeId(request.names["node"])
        token = await self._joins.issue_join_token(node, again=asked.again, reason=asked.reason)
        return JoinPass(node=node, token=token)
