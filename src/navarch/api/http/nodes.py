"""The JSON API for one node's evidence, set-up logs and join token."""

from typing import Protocol

from navarch.api.http.agents import check_own
from navarch.api.http.exchange import Request
from navarch.api.http.route import Route, get, listed, post
from navarch.core.bringup import BringUpLog
from navarch.core.ids import NodeId
from navarch.core.incident import Evidence, EvidenceNote
from navarch.ports.bringup import BringUpApi
from navarch.ports.evidence import EvidenceApi, EvidenceDesk
from navarch.ports.joining import JoinApi
from navarch.wire.bodies import Items, JoinPass, JoinRequest


class EvidenceKeeper(EvidenceApi, EvidenceDesk, Protocol):
    """Both sides of the archive."""


def evidence_routes(keeper: EvidenceKeeper) -> list[Route]:
    """Return every operation of one archive."""

    async def report(request: Request) -> None:
        evidence = request.json(Evidence)
        check_own(request, evidence.note.node)
        await keeper.report_evidence(evidence)

    return [
        post("/v1/agent/evidence", "Upload an evidence bundle", report, None, Evidence),
        get(
            "/v1/nodes/{node}/evidence",
            "List the evidence of a node, newest first",
            lambda request: listed(keeper.list_evidence(NodeId(request.names["node"]))),
            Items[EvidenceNote],
        ),
        get(
            "/v1/nodes/{node}/evidence/{name}",
            "One evidence bundle, compressed",
            lambda request: keeper.get_evidence(
                NodeId(request.names["node"]), request.names["name"]
            ),
            Evidence,
        ),
    ]


def bringup_routes(bringups: BringUpApi) -> list[Route]:
    """Return every operation of BringUpApi."""
    return [
        get(
            "/v1/nodes/{node}/bringup",
            "List the set-up attempts of a node's machine, oldest first",
            lambda request: listed(bringups.list_bringups(NodeId(request.names["node"]))),
            Items[BringUpLog],
        )
    ]


def join_routes(joins: JoinApi) -> list[Route]:
    """Return every operation of JoinApi."""

    async def issue(request: Request) -> JoinPass:
        wanted = request.json(JoinRequest)
        node = NodeId(request.names["node"])
        token = await joins.issue_join_token(node, again=wanted.again, reason=wanted.reason)
        return JoinPass(node=node, token=token)

    # Not a GET: the reply is a secret that no cache may keep.
    summary = "Issue the join token of a node's machine"
    return [post("/v1/nodes/{node}/join-token", summary, issue, JoinPass, JoinRequest)]
