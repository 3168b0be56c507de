"""The JSON API for one node's evidence, set-up logs and join token."""

from collections.abc import Iterable
from typing import Protocol

from navarch.api.http.agents import check_own
from navarch.api.http.exchange import Request
from navarch.api.http.route import Route
from navarch.core.bringup import BringUpLog
from navarch.core.ids import NodeId
from navarch.core.incident import Evidence, EvidenceNote
from navarch.ports.bringup import BringUpApi
from navarch.ports.evidence import EvidenceApi, EvidenceDesk
from navarch.ports.joining import JoinApi
from navarch.wire.bodies import Items, JoinPass, JoinRequest


class EvidenceKeeper(EvidenceApi, EvidenceDesk, Protocol):
    """Both sides of the archive."""


class EvidenceRoutes:
    """The routes of one archive."""

    def __init__(self, keeper: EvidenceKeeper) -> None:
        self._keeper = keeper

    def routes(self) -> Iterable[Route]:
        """Yield every operation."""
        yield Route(
            method="POST",
            path="/v1/agent/evidence",
            summary="Upload an evidence bundle",
            handle=self._report,
            body=Evidence,
        )
        yield Route(
            method="GET",
            path="/v1/nodes/{node}/evidence",
            summary="List the evidence of a node, newest first",
            handle=self._list,
            reply=Items[EvidenceNote],
        )
        yield Route(
            method="GET",
            path="/v1/nodes/{node}/evidence/{name}",
            summary="One evidence bundle, compressed",
            handle=self._get,
            reply=Evidence,
        )

    async def _report(self, request: Request) -> None:
        evidence = request.json(Evidence)
        check_own(request, evidence.note.node)
        await self._keeper.report_evidence(evidence)

    async def _list(self, request: Request) -> Items[EvidenceNote]:
        found = await self._keeper.list_evidence(NodeId(request.names["node"]))
        return Items(items=tuple(found))

    async def _get(self, request: Request) -> Evidence:
        return await self._keeper.get_evidence(NodeId(request.names["node"]), request.names["name"])


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
