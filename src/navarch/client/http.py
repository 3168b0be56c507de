"""FleetApi over HTTP and JSON."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime, timedelta
from enum import StrEnum
from types import NoneType
from typing import TypeVar
from urllib.parse import quote, urlencode

import msgspec

from navarch.client.connection import ServerConnection
from navarch.core.alert import AlertSilence
from navarch.core.bringup import BringUpLog
from navarch.core.errors import NavarchError, UnauthenticatedError, UnreachableError
from navarch.core.event import Explanation, Recorded, Subject
from navarch.core.health import CheckResult
from navarch.core.ids import CommandId, IncidentId, JobName, NodeId, PoolName, SilenceId, TokenName
from navarch.core.incident import EvidenceNote, Incident
from navarch.core.job import Job
from navarch.core.receipt import KeptEvidence
from navarch.core.records import record_fields
from navarch.core.recovery import Command, CommandKind, Recovery
from navarch.ports.access import NodeLogin
from navarch.ports.adoption import MachineChoice
from navarch.ports.alerts import AlertView, ChannelView, DeliveryView, SilenceRequest
from navarch.ports.api import (
    Capacity,
    CostBy,
    CostReport,
    FleetStatus,
    InstanceView,
    JobRequest,
    NodeDetail,
    NodeView,
    Offer,
    Page,
    PoolSpec,
    PoolView,
    Query,
    Update,
    Why,
)
from navarch.ports.evidence import EvidenceKey
from navarch.ports.fleet_health import FleetHealth, HeldNode
from navarch.ports.policies import XidRuling
from navarch.ports.tokens import Caller, IssuedToken, TokenRequest, TokenView
from navarch.wire.bodies import (
    AdoptRequest,
    Author,
    ChannelAnswer,
    Injection,
    Items,
    JoinPass,
    JoinRequest,
    NewToken,
    Order,
    Reason,
    Release,
    Requeue,
    Rotation,
    Size,
)
from navarch.wire.fleet import error_from

T = TypeVar("T")

JSON = "application/json"
SILENCE_S = 60.0
"""The server sends a watch at least a keep-alive every quarter of this."""


class HttpFleetClient:
    """FleetApi over HTTP and JSON."""

    def __init__(self, connections: ServerConnection) -> None:
        self._connections = connections

    async def close(self) -> None:
        """Close the connection."""
        await self._connections.close()

    async def status(self) -> FleetStatus:
        """Return a summary of the fleet."""
        return await self._get("/v1/status", FleetStatus)

    async def list_nodes(self, query: Query) -> Page[NodeView]:
        """Return the nodes that match."""
        return await self._get("/v1/nodes", Page[NodeView], _parameters(query))

    async def get_node(self, name: NodeId) -> NodeDetail:
        """Return one node."""
        return await self._get(f"/v1/nodes/{_segment(name)}", NodeDetail)

    async def list_instances(self, query: Query) -> Page[InstanceView]:
        """Return the machines that match."""
        return await self._get("/v1/instances", Page[InstanceView], _parameters(query))

    async def get_instance(self, name: str) -> InstanceView:
        """Return one machine."""
        return await self._get(f"/v1/instances/{_segment(name)}", InstanceView)

    async def list_pools(self) -> Sequence[PoolView]:
        """Return every pool, by name."""
        return await self._list("/v1/pools", PoolView)

    async def get_pool(self, name: PoolName) -> PoolView:
        """Return one pool."""
        return await self._get(f"/v1/pools/{_segment(name)}", PoolView)

    async def put_pool(self, spec: PoolSpec, *, reason: str) -> PoolView:
        """Create or replace a pool."""
        path = f"/v1/pools/{_segment(spec.name)}?{urlencode({'reason': reason})}"
        return await self._request("PUT", path, PoolView, spec)

    async def scale(self, pool: PoolName, nodes: int, *, reason: str) -> PoolView:
        """Set a pool's size, within its bounds."""
        path = f"/v1/pools/{_segment(pool)}:scale"
        return await self._request("POST", path, PoolView, Size(nodes=nodes, reason=reason))

    async def delete_pool(self, pool: PoolName, *, reason: str) -> PoolView:
        """Drain and terminate every node of a pool, then delete the pool."""
        path = f"/v1/pools/{_segment(pool)}?{urlencode({'reason': reason})}"
        return await self._request("DELETE", path, PoolView)

    async def up(self, capacity: Capacity) -> PoolView:
        """Create a pool with this many GPUs, or resize it."""
        return await self._request("POST", "/v1/up", PoolView, capacity)

    async def cordon(self, node: NodeId, *, reason: str) -> NodeView:
        """Keep new work off a node."""
        return await self._act(node, "cordon", reason)

    async def uncordon(self, node: NodeId) -> NodeView:
        """Lift a cordon."""
        return await self._act(node, "uncordon", "")

    async def drain(self, node: NodeId, *, reason: str) -> NodeView:
        """Move work off a node, and keep the node."""
        return await self._act(node, "drain", reason)

    async def retire(self, node: NodeId, *, reason: str) -> NodeView:
        """Drain a node and terminate its machine."""
        return await self._act(node, "retire", reason)

    async def declare_healthy(self, node: NodeId, *, reason: str) -> NodeView:
        """Declare a node healthy despite its failed checks."""
        return await self._act(node, "declare-healthy", reason)

    async def issue(
        self, node: NodeId, kind: CommandKind, parameters: Mapping[str, str] | None = None
    ) -> Command:
        """Issue a command to a node's agent."""
        path = f"/v1/nodes/{_segment(node)}/commands"
        return await self._request(
            "POST", path, Command, Order(kind=kind, parameters=parameters or {})
        )

    async def get_command(self, command: CommandId) -> Command:
        """Return a command with its status."""
        return await self._get(f"/v1/commands/{_segment(command)}", Command)

    async def fleet_health(self) -> FleetHealth:
        """Return the health of the fleet."""
        return await self._get("/v1/fleet-health", FleetHealth)

    async def list_held(self, *, pool: PoolName | None = None) -> Sequence[HeldNode]:
        """Return the nodes with a held-back action."""
        return await self._list("/v1/held", HeldNode, pool=pool)

    async def release_held(
        self, nodes: Sequence[NodeId] = (), *, pool: PoolName | None = None, reason: str
    ) -> Sequence[HeldNode]:
        """Release held-back actions."""
        asked = Release(nodes=tuple(nodes), pool=pool, reason=reason)
        found: Items[HeldNode] = await self._request(
            "POST", "/v1/held:release", Items[HeldNode], asked
        )
        return found.items

    async def list_alerts(self, *, ended: bool = False) -> Sequence[AlertView]:
        """Return the alerts."""
        return await self._list("/v1/alerts", AlertView, ended=str(ended).lower())

    async def list_silences(self, *, expired: bool = False) -> Sequence[AlertSilence]:
        """Return the silences of alerts."""
        return await self._list("/v1/alerts/silences", AlertSilence, expired=str(expired).lower())

    async def silence(self, request: SilenceRequest) -> AlertSilence:
        """Silence alerts for some time."""
        return await self._request("POST", "/v1/alerts/silences", AlertSilence, request)

    async def end_silence(self, silence: SilenceId, *, author: str) -> AlertSilence:
        """End a silence now."""
        path = f"/v1/alerts/silences/{_segment(silence)}:end"
        return await self._request("POST", path, AlertSilence, Author(author=author))

    async def list_channels(self) -> Sequence[ChannelView]:
        """Return the channels that alerts take."""
        return await self._list("/v1/alerts/channels", ChannelView)

    async def list_deliveries(self, *, channel: str | None = None) -> Sequence[DeliveryView]:
        """Return the latest attempts to send messages."""
        return await self._list("/v1/alerts/deliveries", DeliveryView, channel=channel)

    async def send_test(self, channel: str, *, author: str) -> str:
        """Send a test message to a channel, and return the answer."""
        path = f"/v1/alerts/channels/{_segment(channel)}:test"
        body = Author(author=author)
        found: ChannelAnswer = await self._request("POST", path, ChannelAnswer, body)
        return found.answer

    async def list_recoveries(self, *, node: NodeId | None = None) -> Sequence[Recovery]:
        """Return the recovery attempts."""
        return await self._list("/v1/recoveries", Recovery, node=node)

    async def submit_job(self, request: JobRequest) -> Job:
        """Submit a job."""
        return await self._request("POST", "/v1/jobs", Job, request)

    async def list_jobs(self, *, queue: str | None = None, over: bool = False) -> Sequence[Job]:
        """Return jobs in order of submission."""
        return await self._list("/v1/jobs", Job, over=str(over).lower(), queue=queue)

    async def get_job(self, name: JobName) -> Job:
        """Return one job."""
        return await self._get(f"/v1/jobs/{_segment(name)}", Job)

    async def cancel_job(self, name: JobName, *, reason: str) -> Job:
        """Cancel a waiting or running job."""
        path = f"/v1/jobs/{_segment(name)}:cancel"
        return await self._request("POST", path, Job, Reason(reason=reason))

    async def finish_job(self, name: JobName) -> Job:
        """Mark a job as finished and release its GPUs."""
        return await self._request("POST", f"/v1/jobs/{_segment(name)}:finish", Job)

    async def checkpoint_job(self, name: JobName) -> Job:
        """Record that a job has saved a checkpoint."""
        return await self._request("POST", f"/v1/jobs/{_segment(name)}:checkpoint", Job)

    async def requeue_job(
        self,
        name: JobName,
        *,
        reason: str,
        placed_at: datetime | None = None,
        node: NodeId | None = None,
    ) -> Job:
        """Release the GPUs of a placed job and queue it again."""
        path = f"/v1/jobs/{_segment(name)}:requeue"
        body = Requeue(reason=reason, placed_at=placed_at, node=node)
        return await self._request("POST", path, Job, body)

    async def explain_job(self, name: JobName) -> Explanation:
        """Explain the state of a job."""
        return await self._get(f"/v1/jobs/{_segment(name)}/why", Explanation)

    async def whoami(self) -> Caller:
        """Return the caller, as the server identified it."""
        return await self._get("/v1/whoami", Caller)

    async def create_token(self, request: TokenRequest, *, reason: str = "") -> IssuedToken:
        """Create a token."""
        body = NewToken(
            name=request.name, grant=request.grant, expires_in=request.expires_in, reason=reason
        )
        return await self._request("POST", "/v1/tokens", IssuedToken, body)

    async def list_tokens(self) -> Sequence[TokenView]:
        """Return the tokens, without their secrets."""
        return await self._list("/v1/tokens", TokenView)

    async def rotate_token(
        self,
        token: TokenName,
        *,
        overlap: timedelta = timedelta(hours=24),
        expires_in: timedelta | None = timedelta(days=90),
    ) -> IssuedToken:
        """Give a token a new secret."""
        path = f"/v1/tokens/{_segment(token)}:rotate"
        body = Rotation(overlap=overlap, expires_in=expires_in)
        return await self._request("POST", path, IssuedToken, body)

    async def revoke_token(self, token: TokenName, *, reason: str = "") -> None:
        """Delete a token."""
        path = f"/v1/tokens/{_segment(token)}:revoke"
        await self._request("POST", path, NoneType, Reason(reason=reason))

    async def list_bringups(self, node: NodeId) -> Sequence[BringUpLog]:
        """Return the logs of every set-up attempt of a node's machine, oldest first."""
        return await self._list(f"/v1/nodes/{_segment(node)}/bringup", BringUpLog)

    async def issue_join_token(self, node: NodeId, *, again: bool = False, reason: str = "") -> str:
        """Return the join token of a node's machine."""
        path = f"/v1/nodes/{_segment(node)}/join-token"
        asked = JoinRequest(again=again, reason=reason)
        found: JoinPass = await self._request("POST", path, JoinPass, asked)
        return found.token

    async def forget(self, node: NodeId, *, reason: str) -> NodeView:
        """Remove a self-registered node whose host no longer reports."""
        return await self._act(node, "forget", reason)

    async def get_login(self, node: NodeId) -> NodeLogin:
        """Return how to open a shell on the machine of a node."""
        return await self._get(f"/v1/nodes/{_segment(node)}/login", NodeLogin)

    async def judge_xid(self, code: int, text: str = "") -> Sequence[XidRuling]:
        """Return what each policy does: first on a busy machine, then where that differs."""
        return await self._list(f"/v1/xids/{code}", XidRuling, text=text or None)

    async def adopt(
        self, pool: PoolName, machines: MachineChoice, *, reason: str
    ) -> Sequence[NodeView]:
        """Take running machines with agents into a pool: all of them, or none."""
        asked = AdoptRequest(machines=machines, reason=reason)
        path = f"/v1/pools/{_segment(pool)}:adopt"
        found: Items[NodeView] = await self._request("POST", path, Items[NodeView], asked)
        return found.items

    async def release(self, node: NodeId, *, reason: str) -> NodeView:
        """Give up an adopted machine without terminating it."""
        return await self._act(node, "release", reason)

    async def list_evidence(self, node: NodeId) -> Sequence[EvidenceNote]:
        """Return the evidence bundles of a node, newest first."""
        return await self._list(f"/v1/nodes/{_segment(node)}/evidence", EvidenceNote)

    async def get_evidence(self, node: NodeId, name: str) -> KeptEvidence:
        """Return one evidence bundle with its receipt."""
        path = f"/v1/nodes/{_segment(node)}/evidence/{_segment(name)}"
        return await self._get(path, KeptEvidence)

    async def list_evidence_keys(self) -> Sequence[EvidenceKey]:
        """Return the public keys with which evidence is signed, the present one first."""
        return await self._list("/v1/evidence-keys", EvidenceKey)

    async def rotate_evidence_key(self, *, reason: str) -> EvidenceKey:
        """Sign evidence with a new key from now on."""
        path = "/v1/evidence-keys:rotate"
        return await self._request("POST", path, EvidenceKey, Reason(reason=reason))

    async def offers(
        self,
        *,
        gpu_type: str = "",
        gpus: int = 0,
        provider: str | None = None,
        region: str | None = None,
    ) -> Sequence[Offer]:
        """Return offers, cheapest first."""
        return await self._list(
            "/v1/offers",
            Offer,
            gpu_type=gpu_type or None,
            gpus=str(gpus),
            provider=provider or None,
            region=region or None,
        )

    async def inject(self, node: NodeId, result: CheckResult) -> None:
        """Make a simulated machine report a fault."""
        await self._request("POST", "/v1/sim/inject", NoneType, Injection(node=node, result=result))

    async def list_incidents(
        self, *, node: NodeId | None = None, only_open: bool = False, limit: int = 100
    ) -> Sequence[Incident]:
        """Return the newest incidents, the latest first."""
        open_only = str(only_open).lower()
        return await self._list(
            "/v1/incidents", Incident, only_open=open_only, limit=str(limit), node=node
        )

    async def get_incident(self, incident: IncidentId) -> Incident:
        """Return one incident with all its symptoms."""
        return await self._get(f"/v1/incidents/{_segment(incident)}", Incident)

    async def events(
        self,
        *,
        after: int = 0,
        before: int | None = None,
        about: Subject | None = None,
        newest_first: bool = False,
        limit: int = 100,
    ) -> Sequence[Recorded]:
        """Return events between two numbers: the oldest in order, or the newest in reverse."""
        return await self._list(
            "/v1/events",
            Recorded,
            after=str(after),
            before=None if before is None else str(before),
            about=about,
            newest_first="true" if newest_first else None,  # 0.1.0 does not have it
            limit=str(limit),
        )

    async def watch(self, *, after_revision: int | None = None) -> AsyncIterator[Update]:
        """Yield every revision after the given one, without gaps."""
        path = "/v1/watch"
        if after_revision is not None:
            path += f"?after_revision={after_revision}"
        async with self._connections.stream(path, silence_s=SILENCE_S) as answer:
            if answer.status != 200:
                raise _refusal(answer.status, await answer.body())
            async with aclosing(answer.lines()) as lines:
                async for line in lines:
                    yield _update(line)
        raise UnreachableError(f"{self._connections.address} ended the watch")

    async def cost(self, by: CostBy = CostBy.POOL, *, since: datetime | None = None) -> CostReport:
        """Return costs and budgets."""
        parameters = [("by", str(by))]
        if since is not None:
            parameters.append(("since", since.isoformat()))
        return await self._get("/v1/cost", CostReport, parameters)

    async def why(self, about: Subject) -> Why:
        """Return the reasons behind the state of a node, a pool or a launch."""
        kind, _, name = about.partition("/")
        return await self._get(f"/v1/why/{_segment(kind)}/{_segment(name)}", Why)

    async def _act(self, node: NodeId, verb: str, reason: str) -> NodeView:
        path = f"/v1/nodes/{_segment(node)}:{verb}"
        return await self._request("POST", path, NodeView, Reason(reason=reason))

    async def _list(self, path: str, kind: type[T], **parameters: str | None) -> Sequence[T]:
        """Return a whole list; parameters that are None are left out."""
        given = [(name, value) for name, value in parameters.items() if value is not None]
        items: type[Items[T]] = Items[kind]  # type: ignore[valid-type]
        return (await self._get(path, items, given)).items

    async def _get(
        self, path: str, kind: type[T], parameters: list[tuple[str, str]] | None = None
    ) -> T:
        whole = f"{path}?{urlencode(parameters)}" if parameters else path
        return await self._request("GET", whole, kind)

    async def _request(self, method: str, path: str, kind: type[T], value: object = None) -> T:
        """Return the response decoded as `kind`, or raise the error that it carries."""
        body = b"" if value is None else msgspec.json.encode(value)
        answer = await self._connections.request(method, path, body, JSON if body else "")
        if answer.status >= 300:
            raise _refusal(answer.status, answer.body)
        # An empty body stands for None.
        return _decoded(answer.body or b"null", kind)


def _decoded(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        raise UnreachableError(f"cannot decode the server's response: {error}") from error


def _refusal(status: int, body: bytes) -> NavarchError:
    if status == 401:
        return UnauthenticatedError("the server requires a valid token")
    try:
        problem = msgspec.json.decode(body, type=dict[str, str])
        return error_from(problem["code"], problem["message"])
    except (msgspec.DecodeError, KeyError):
        # The response is not from Navarch, but from a proxy in between.
        return UnreachableError(f"the server returned status {status}")


def _update(line: bytes) -> Update:
    if line.startswith(b'{"error":'):
        problem = msgspec.json.decode(line, type=dict[str, dict[str, str]])["error"]
        raise error_from(problem["code"], problem["message"])
    return _decoded(line, Update)


def _segment(name: str) -> str:
    return quote(name, safe="")


def _parameters(query: Query) -> list[tuple[str, str]]:
    """Return the fields of `query` that differ from the default."""
    default = Query()
    pairs = [("label", f"{name}={value}") for name, value in query.labels.items()]
    for part in record_fields(query):
        value = getattr(query, part.name)
        if part.name == "labels" or value == getattr(default, part.name):
            continue
        if isinstance(value, bool):
            value = "true" if value else "false"
        pairs.append((part.name, value.value if isinstance(value, StrEnum) else str(value)))
    return pairs
