"""The JSON API for one node's evidence, set-up logs and join token."""

from dataclasses import dataclass

from navarch.api.http.exchange import Request
from navarch.api.http.route import Route, get, listed, post
from navarch.core.bringup import BringUpLog
from navarch.core.errors import InvalidError
from navarch.core.ids import NodeId, PoolName
from navarch.core.incident import Evidence, EvidenceNote
from navarch.core.receipt import KeptEvidence
from navarch.core.recovery import Recovery
from navarch.ports.access import AccessApi, NodeLogin
from navarch.ports.adoption import AdoptionApi
from navarch.ports.agents import JoinApi
from navarch.ports.api import NodeView
from navarch.ports.evidence import EvidenceApi, EvidenceDesk, EvidenceKey
from navarch.ports.fleet_health import FleetHealth, FleetHealthApi, HeldApi, HeldNode
from navarch.ports.policies import PolicyApi, XidRuling
from navarch.ports.shell import BringUpApi
from navarch.wire.bodies import AdoptRequest, Items, JoinPass, JoinRequest, Reason, Release


def evidence_routes(keeper: EvidenceApi, desk: EvidenceDesk) -> list[Route]:
    """Return every operation of one archive."""

    async def rotate(request: Request) -> EvidenceKey:
        return await keeper.rotate_evidence_key(reason=request.json(Reason).reason)

    async def report(request: Request) -> None:
        await desk.report_evidence(request.json(Evidence))

    return [
        post(
            "report_evidence",
            "/v1/agent/evidence",
            "Upload an evidence bundle",
            report,
            None,
            Evidence,
        ),
        get(
            "list_evidence",
            "/v1/nodes/{node}/evidence",
            "List the evidence of a node, newest first",
            lambda request: listed(keeper.list_evidence(NodeId(request.names["node"]))),
            Items[EvidenceNote],
        ),
        get(
            "get_evidence",
            "/v1/nodes/{node}/evidence/{name}",
            "One evidence bundle, compressed, with its signed receipt",
            lambda request: keeper.get_evidence(
                NodeId(request.names["node"]), request.names["name"]
            ),
            KeptEvidence,
        ),
        get(
            "list_evidence_keys",
            "/v1/evidence-keys",
            "List the public keys that sign evidence, the present one first",
            lambda _: listed(keeper.list_evidence_keys()),
            Items[EvidenceKey],
        ),
        post(
            "rotate_evidence_key",
            "/v1/evidence-keys:rotate",
            "Sign evidence with a new key",
            rotate,
            EvidenceKey,
            Reason,
        ),
    ]


def bringup_routes(bringups: BringUpApi) -> list[Route]:
    """Return every operation of BringUpApi."""
    return [
        get(
            "list_bringups",
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
    return [
        post(
            "issue_join_token", "/v1/nodes/{node}/join-token", summary, issue, JoinPass, JoinRequest
        )
    ]


def adoption_routes(adoption: AdoptionApi) -> list[Route]:
    """Return every operation of AdoptionApi."""

    async def forget(request: Request) -> NodeView:
        reason = request.json(Reason).reason
        return await adoption.forget(NodeId(request.names["node"]), reason=reason)

    async def adopt(request: Request) -> Items[NodeView]:
        asked, pool = request.json(AdoptRequest), PoolName(request.names["pool"])
        found = await adoption.adopt(pool, asked.machines, reason=asked.reason)
        return Items(items=tuple(found))

    async def release(request: Request) -> NodeView:
        reason = request.json(Reason).reason
        return await adoption.release(NodeId(request.names["node"]), reason=reason)

    gone = "Remove a self-registered node whose host no longer reports"
    taken = "Take running machines with agents into a pool"
    given = "Give up an adopted machine without terminating it"
    return [
        post("forget", "/v1/nodes/{node}:forget", gone, forget, NodeView, Reason),
        post("adopt", "/v1/pools/{pool}:adopt", taken, adopt, Items[NodeView], AdoptRequest),
        post("release", "/v1/nodes/{node}:release", given, release, NodeView, Reason),
    ]


def access_routes(access: AccessApi) -> list[Route]:
    """Return every operation of AccessApi."""
    return [
        get(
            "get_login",
            "/v1/nodes/{node}/login",
            "How to open a shell on the machine of a node",
            lambda request: access.get_login(NodeId(request.names["node"])),
            NodeLogin,
        )
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class XidQuery:
    """The rest of the log line of an error."""

    text: str = ""


def policy_routes(policies: PolicyApi) -> list[Route]:
    """Return every operation of PolicyApi."""

    async def judge(request: Request) -> Items[XidRuling]:
        code = request.names["code"]
        if not (code.isascii() and code.isdecimal()):
            raise InvalidError(f"code: must be a number, not {code!r}")
        text = request.query(XidQuery).text
        # int() refuses long texts; no code is longer.
        return await listed(policies.judge_xid(int(code[:9]), text))

    summary = "What the policies of the fleet do about an XID error"
    return [get("judge_xid", "/v1/xids/{code}", summary, judge, Items[XidRuling], XidQuery)]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldQuery:
    """A filter of deferred actions."""

    pool: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveriesQuery:
    """A filter of recoveries."""

    node: str | None = None


def held_routes(held: HeldApi) -> list[Route]:
    """Return every operation of HeldApi."""

    async def list_held(request: Request) -> Items[HeldNode]:
        pool = request.query(HeldQuery).pool
        return await listed(held.list_held(pool=PoolName(pool) if pool else None))

    async def release(request: Request) -> Items[HeldNode]:
        body = request.json(Release)
        return await listed(held.release_held(body.nodes, pool=body.pool, reason=body.reason))

    async def recoveries(request: Request) -> Items[Recovery]:
        node = request.query(RecoveriesQuery).node
        return await listed(held.list_recoveries(node=NodeId(node) if node else None))

    return [
        get(
            "list_held",
            "/v1/held",
            "List the nodes with a deferred action",
            list_held,
            Items[HeldNode],
            HeldQuery,
        ),
        post(
            "release_held",
            "/v1/held:release",
            "Release the deferred actions of some nodes, or of a whole pool",
            release,
            Items[HeldNode],
            Release,
        ),
        get(
            "list_recoveries",
            "/v1/recoveries",
            "List attempts to recover machines, newest first",
            recoveries,
            Items[Recovery],
            RecoveriesQuery,
        ),
    ]


def fleet_health_routes(health: FleetHealthApi) -> list[Route]:
    """Return every operation of FleetHealthApi."""
    return [
        get(
            "fleet_health",
            "/v1/fleet-health",
            "Health by pool, the machines that fail most, and failure rates",
            lambda _: health.fleet_health(),
            FleetHealth,
        )
    ]
