"""A control plane with its HTTP and gRPC servers on loopback, for tests of the API."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Any
from urllib.parse import unquote

from tests.support.archives import MemoryArchive

from navarch.api.auth import Anyone, Authenticator, BearerToken, Chain, JoinTokens, StoredTokens
from navarch.api.calls import ApiMetrics
from navarch.api.fleet_metrics import fleet_exposition
from navarch.api.grpc.server import GrpcServer
from navarch.api.guard import GuardedAgents, GuardedBoots, GuardedEvidence
from navarch.api.heartbeats import HeartbeatDesk
from navarch.api.http.agents import boot_routes
from navarch.api.http.alerts import alert_routes
from navarch.api.http.app import HttpApp, HttpLimits, build_http_app
from navarch.api.http.jobs import job_routes
from navarch.api.http.nodes import (
    access_routes,
    adoption_routes,
    evidence_routes,
    fleet_health_routes,
    held_routes,
    join_routes,
    policy_routes,
)
from navarch.api.http.server import HttpServer, listen
from navarch.api.http.tokens import token_routes
from navarch.app.access import AccessService
from navarch.app.services import host_pool
from navarch.clock import SystemClock, SystemEntropy
from navarch.config import Config
from navarch.config.policy import default_policy
from navarch.control.alerts import AlertSetup
from navarch.core.errors import NotFoundError
from navarch.core.health import CheckResult
from navarch.core.ids import NodeId, ProviderName
from navarch.core.instance import Gpu, Instance, Inventory
from navarch.core.launch import Offering
from navarch.core.limits import HOSTS
from navarch.core.ownership import Cluster
from navarch.core.pool import Pool
from navarch.fleet.jobs.scheduling import Scheduling
from navarch.health.policy.engine import PolicySet, compile_policies
from navarch.ports.agents import Registration
from navarch.ports.api import FailingController
from navarch.ports.evidence import Archive
from navarch.ports.metrics import Metrics, NoMetrics
from navarch.ports.store import Store
from navarch.service.adoption import AdoptionService, ListMachines
from navarch.service.agents import AgentService, Timing
from navarch.service.alerts import AlertService
from navarch.service.boot_reports import BootReportService
from navarch.service.evidence import EvidenceKeys, EvidenceService
from navarch.service.fleet import FleetService
from navarch.service.fleet_health import FleetHealthService, HeldService
from navarch.service.jobs import JobService
from navarch.service.joining import JoinService
from navarch.service.policies import PolicyService
from navarch.service.tokens import TokenService
from navarch.signatures import Ed25519
from navarch.sim.kernel.clock import InlineOffload
from navarch.stores.memory import MemoryStore
from navarch.stores.telemetry import TelemetryTable
from navarch.testing.worlds import indexed

H100 = Offering(
    provider=ProviderName("sim"),
    instance_type="h100-8x",
    region="r1",
    zone="r1-a",
    gpu_type="h100",
    price_per_hour=Decimal("98.32"),
)


@dataclass(slots=True)
class LocalApi:
    """One control plane without its loops: only API calls change its state."""

    store: Store
    columns: TelemetryTable
    fleet: FleetService
    agents: AgentService
    guarded_agents: GuardedAgents
    desk: HeartbeatDesk
    app: HttpApp
    auth: Authenticator
    evidence: EvidenceService
    calls: ApiMetrics
    joins: JoinService
    injected: list[tuple[NodeId, CheckResult]] = field(default_factory=list)
    http_url: str = ""
    grpc_url: str = ""

    async def register(self, name: str, gpus: int = 8) -> NodeId:
        """Register an agent on a machine that Navarch did not buy."""
        node = NodeId(name)
        hardware = Inventory(
            gpus=tuple(Gpu(index=i, uuid=f"GPU-{name}-{i}") for i in range(gpus)), hostname=name
        )
        await self.agents.register(Registration(node=node, place=H100, inventory=hardware))
        return node


async def no_machines() -> Sequence[Instance]:
    return ()


def build_local_api(
    *,
    token: str | None = None,
    ready: Callable[[], Awaitable[str | None]] | None = None,
    limits: HttpLimits | None = None,
    store: Store | None = None,
    archive: Archive | None = None,
    missing_agent: Callable[[Pool], str | None] = lambda _: None,
    policies: Callable[[], PolicySet] | None = None,
    per_gpu: bool = True,
    failing: Sequence[FailingController] = (),
    alerts: AlertSetup | None = None,
    bundle: Callable[[str], bytes | None] = lambda _: None,
    metrics: Metrics | None = None,
    config: Config | None = None,
    machines: ListMachines = no_machines,
    authenticator: Authenticator | None = None,
    public_metrics: bool = True,
    hosts_max: int = HOSTS.most,
    agent_token: str | Callable[[], str] | None = None,
) -> LocalApi:
    """Return a control plane with servers that are not started yet."""
    clock, entropy = SystemClock(), SystemEntropy()
    store = store or MemoryStore(Cluster(id="test", secret=bytes(32)))
    columns = TelemetryTable(clock, timeout=timedelta(seconds=90))
    injected: list[tuple[NodeId, CheckResult]] = []
    fleet = FleetService(
        clock,
        entropy,
        store,
        columns,
        offerings=_offerings,
        inject=_injecting(store, injected),
        missing_agent=missing_agent,
        failing=lambda: failing,
    )
    index = indexed(store)
    agents = AgentService(
        clock,
        store,
        index,
        columns,
        timing=lambda: Timing(heartbeat_interval=timedelta(seconds=10)),
        policies=policies,
        hosts_max=lambda: hosts_max,
    )
    joins = JoinService(
        clock, store, agent_token=agent_token if callable(agent_token) else lambda: agent_token
    )
    tokens = TokenService(clock, entropy, store)
    guarded_agents = GuardedAgents(agents, joins, pool_of=partial(host_pool, store, agents.resolve))
    desk = HeartbeatDesk(guarded_agents, columns, metrics)
    calls = ApiMetrics(clock, metrics or NoMetrics())
    auth = Chain(
        [
            JoinTokens(joins),
            StoredTokens(tokens),
            authenticator or (BearerToken(token) if token else Anyone()),
        ]
    )
    evidence = EvidenceService(
        clock, store, archive or MemoryArchive(), EvidenceKeys(clock, entropy, store, Ed25519())
    )
    app = build_http_app(
        clock,
        entropy,
        fleet,
        guarded_agents,
        auth=auth,
        desk=desk,
        ready=ready,
        metrics=lambda: fleet_exposition(
            store.fleet(), now=clock.now(), telemetry=columns, per_gpu=per_gpu
        ),
        limits=limits,
        bundle=bundle,
        public_metrics=lambda: public_metrics,
        routes=[
            *evidence_routes(evidence, GuardedEvidence(evidence, guarded_agents)),
            *boot_routes(GuardedBoots(BootReportService(clock, store), guarded_agents)),
            *held_routes(HeldService(clock, store)),
            *alert_routes(AlertService(clock, entropy, store, alerts or AlertSetup())),
            *job_routes(JobService(clock, store, index, InlineOffload(), Scheduling)),
            *join_routes(joins),
            *fleet_health_routes(FleetHealthService(clock, store)),
            *policy_routes(
                PolicyService(clock, policies or (lambda: compile_policies(default_policy())))
            ),
            *access_routes(AccessService(store, lambda: config or Config())),
            *token_routes(tokens),
            *adoption_routes(AdoptionService(clock, entropy, store, machines)),
        ],
        calls=calls,
    )
    return LocalApi(
        store,
        columns,
        fleet,
        agents,
        guarded_agents,
        desk,
        app,
        auth,
        evidence,
        calls,
        joins,
        injected,
    )


@asynccontextmanager
async def serve_local_api(
    local: LocalApi,
    *,
    http: bool = True,
    grpc: bool = True,
    request_within: timedelta = timedelta(seconds=30),
) -> AsyncIterator[LocalApi]:
    """Serve on free loopback ports until the block ends."""
    async with asyncio.TaskGroup() as tasks:
        running = []
        if http:
            listener = listen("127.0.0.1", 0)
            local.http_url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            server = HttpServer(
                SystemClock(),
                local.app,
                listener=listener,
                heartbeat_interval=timedelta(seconds=10),
                request_within=request_within,
            )
            running.append(tasks.create_task(server.run()))
        if grpc:
            grpc_server = GrpcServer(
                local.fleet,
                local.guarded_agents,
                auth=local.auth,
                desk=local.desk,
                address="127.0.0.1:0",
                calls=local.calls,
                evidence=GuardedEvidence(local.evidence, local.guarded_agents),
            )
            local.grpc_url = f"grpc://127.0.0.1:{grpc_server.port}"
            running.append(tasks.create_task(grpc_server.run()))
        try:
            yield local
        finally:
            for task in running:
                task.cancel()


def _default_policies() -> PolicySet:
    return compile_policies(default_policy())


async def _offerings() -> Sequence[Offering]:
    return (H100,)


def _injecting(
    store: Store, injected: list[tuple[NodeId, CheckResult]]
) -> Callable[[NodeId, CheckResult], Awaitable[None]]:
    async def inject(node: NodeId, result: CheckResult) -> None:
        if node not in store.fleet().nodes:
            raise NotFoundError(f"node not found: {node}")
        injected.append((node, result))

    return inject


@dataclass(frozen=True, slots=True, kw_only=True)
class AppResponse:
    """A complete response of an application."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


async def call_app(
    app: HttpApp,
    method: str,
    path: str,
    body: bytes = b"",
    **headers: str,
) -> AppResponse:
    """Call an application without a server; `content_type=...` is the header of that name.

    The Host header is `localhost` unless `host=...` gives another.
    """
    headers.setdefault("host", "localhost")
    route, _, query = path.partition("?")
    scope = {
        "type": "http",
        "method": method,
        "path": unquote(route),
        "raw_path": route.encode(),
        "query_string": query.encode(),
        "headers": [(k.replace("_", "-").encode(), v.encode()) for k, v in headers.items()],
    }
    sent: list[MutableMapping[str, Any]] = []
    incoming: list[MutableMapping[str, Any]] = [
        {"type": "http.request", "body": body, "more_body": False}
    ]

    async def receive() -> MutableMapping[str, Any]:
        if incoming:
            return incoming.pop()
        # The client never disconnects; the waiting task is cancelled at the end.
        await asyncio.get_running_loop().create_future()
        raise AssertionError

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return AppResponse(
        status=sent[0]["status"],
        headers={name.decode(): value.decode() for name, value in sent[0]["headers"]},
        body=b"".join(message.get("body", b"") for message in sent[1:]),
    )
