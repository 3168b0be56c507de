"""The JSON API for evidence: agents upload it, operators read it."""

from collections.abc import Iterable
from typing import Protocol

from navarch.api.http.agents import check_own
from navarch.api.http.exchange import Request
from navarch.api.http.route import Route
from navarch.core.evidence import Evidence, EvidenceNote
from navarch.core.ids import NodeId
from navarch.ports.evidence import EvidenceApi, EvidenceDesk
from navarch.wire.bodies import Items


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
