"""The server: a control plane, its store and its HTTP and gRPC servers, as one process."""

import asyncio
import socket
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from itertools import chain
from pathlib import Path

from navarch.api.calls import ApiMetrics
from navarch.api.fleet_metrics import fleet_exposition
from navarch.api.forward.link import ClientKey
from navarch.api.forward.origin import Seal
from navarch.api.grpc.server import LocalCalls
from navarch.api.guard import GuardedAgents, GuardedBoots, GuardedEvidence
from navarch.api.heartbeats import HeartbeatDesk
from navarch.api.http.agents import boot_routes
from navarch.api.http.alerts import alert_routes
from navarch.api.http.app import HttpApp, build_http_app
from navarch.api.http.jobs import job_routes
from navarch.api.http.nodes import (
    access_routes,
    adoption_routes,
    bringup_routes,
    evidence_routes,
    fleet_health_routes,
    held_routes,
    join_routes,
    policy_routes,
)
from navarch.api.http.tokens import token_routes
from navarch.api.metrics import PrometheusMetrics, server_metrics, settle_collector
from navarch.api.tls import ServerTls, TlsFiles
from navarch.app.agent_bundle import AgentBundles
from navarch.app.alerts import AlertChannels
from navarch.app.authentication import build_authentication, identifies_without_token
from navarch.app.bringup import (
    AgentEnvironment,
    control_plane_address,
)
from navarch.app.control_plane import Opinions, Plane
from navarch.app.doors import Doors
from navarch.app.leadership import (
    Leadership,
    Standby,
    acquire_leadership,
    load_policies,
    record_policies,
    take_over,
    until_store_answers,
    wait_for_port,
)
from navarch.app.machine_setups import MachineSetups
from navarch.app.parts import Extensions, build_meter, build_notifier, load_parts, to_scheduling
from navarch.app.ports import Answers, Ports
from navarch.app.provider_registry import OfferCatalog, ProviderRegistry
from navarch.app.providers import ProviderContext
from navarch.app.readiness import Readiness
from navarch.app.replicas import ReplicaServer, ReplicaSettings
from navarch.app.servers import (
    Address,
    BearerAuth,
    StartError,
    link_name,
    listen_at,
    parse_listen_address,
)
from navarch.app.services import ScopedServices, ServiceParts, host_pool
from navarch.app.store_places import Means, StorePlace, store_place
from navarch.app.telemetry import PauseWatch, Snapshots, TimeoutMigration
from navarch.app.watchdog import LoopWatchdog
from navarch.clock import SystemClock, SystemEntropy, ThreadOffload
from navarch.config import Config, Reload, compare, to_pool_spec
from navarch.config.disruption import to_governor
from navarch.config.provider import CLOUDS
from navarch.config.server import (
    ClientCertificates,
    to_pauses,
    to_peer_probes,
    to_retention,
)
from navarch.core.errors import InUseError, InvalidError
from navarch.core.ids import PoolName
from navarch.core.ownership import join_token
from navarch.fleet.disruption.governor.common_cause import PolicyChange
from navarch.ports.store import DurableStore, ReplicaTable
from navarch.service.agents import Timing
from navarch.service.boot_reports import BootReportService
from navarch.service.evidence import EvidenceKeys, EvidenceService
from navarch.service.joining import JoinService
from navarch.service.quotas import TeamQuotas
from navarch.service.tokens import TokenService, TokenUses
from navarch.signatures import Ed25519
from navarch.stores.evidence import AgingFolder, FolderArchive, FolderBringUpLogs, make_private

BRINGUP = "bringup"
EVIDENCE = "evidence"


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A server that accepts requests."""

    server: "Server"
    plane: Plane
    http: Address
    """The address at which it listens, with host names resolved."""
    grpc: Address
    """The address at which it listens, as configured."""
    guarded: bool
    """Whether requests need a token."""
    tls: bool = False
    """Whether both ports use TLS."""
    place: str
    """Where the state is: a folder, or the address of a database without its password."""
    nodes: int
    """The number of nodes in its store that are not gone."""
    providers: Mapping[str, str]
    """The type of each provider by name."""
    pools: Sequence[str]
    """The pools of the configuration."""
    replicated: bool = False
    """Whether other servers may answer beside it, on the same database."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """A server that forwards what it receives to the leader."""

    http: Address
    """The address at which it listens, with host names resolved."""
    grpc: Address
    guarded: bool
    """Whether requests need a token."""
    tls: bool
    """Whether both ports use TLS."""
    place: str
    """The address of the database without its password."""
    leader: str | None
    """The address of the leader; None if it has reported none."""


class Server:
    """One process: opens everything, and closes it in reverse order."""

    def __init__(
        self,
        config: Config,
        data_dir: Path,
        *,
        extensions: Extensions | None = None,
        standby: Standby | None = None,
    ) -> None:
        """With `standby`, wait until the present leader of `data_dir` ends instead of failing."""
        self._standby = standby
        self._config = config
        self._data_dir = data_dir
        self._extensions = extensions or Extensions()
        self._clock = SystemClock()
        self._entropy = SystemEntropy()
        self._anyone = not identifies_without_token(config)
        self._auth = BearerAuth(_token(config), or_anyone=self._anyone)
        self._tls = open_tls(config)
        self._metrics = PrometheusMetrics()
        self._calls = ApiMetrics(self._clock, self._metrics)
        self._providers = ProviderRegistry(self._extensions)
        self._bundles = AgentBundles(
            self._clock,
            data_dir / "agent-bundles",
            wheels=config.server.agent_wheels,
            index=config.server.agent_index,
        )
        self._plane: Plane | None = None
        self._timeouts: TimeoutMigration | None = None
        self._parts = load_parts(config, self._extensions)
        self.opinions = Opinions(
            provision_scheduler=self._extensions.provision_scheduler,
            provision_schedulers=self._parts.provision_schedulers,
            remediator=self._extensions.remediator,
            remediators=self._parts.remediators,
            governor=lambda: to_governor(self._config.server.governor),
            policy=lambda: self._policy_change,
            autoscalers=self._parts.autoscalers,
            autoscale_interval=config.server.autoscale_interval,
            budgets=self._parts.budgets,
            stockout_spans=to_pauses(config.server.stockouts),
            scheduling=lambda: to_scheduling(self._config.scheduler),
        )
        self._alerts = AlertChannels(self._clock, self._extensions.alert_channels)
        self._alerts.become(config.alerts)
        self._policies = load_policies(config)
        self._policy_change: PolicyChange | None = None
        self._store: DurableStore | None = None
        self._serving = False

    async def run(
        self,
        started: Callable[[Running], None],
        following: Callable[[Following], None] = lambda _: None,
    ) -> None:
        """Serve until cancelled; call `started` once this process leads.

        With a database, requests are accepted before: they are forwarded to the leader, and
        `following` is called.
        """
        guarded = self._auth.token is not None or not self._anyone
        http = parse_listen_address(self._config.server.address, guarded=guarded)
        grpc = parse_listen_address(self._config.server.grpc_address, guarded=guarded)
        with ExitStack() as stack:
            stack.callback(self._alerts.close)
            offload = ThreadOffload("navarch-store")
            stack.callback(offload.close)
            url = self._config.server.store
            place = store_place(self._data_dir, None if url is None else url.reveal())
            table = place.replicas(self._clock)
            listener = None
            if table is not None or self._standby is None:
                listener = stack.enter_context(listen_at(http))
            if any(isinstance(x, CLOUDS) for x in self._config.providers.values()):
                # Now and in a thread, so that the first launch and a take-over find it ready.
                await offload.run(lambda: self._bundles.current)
            means = Means(self._clock, self._entropy, offload)
            if table is None:
                store = await acquire_leadership(means, place, self._standby)
                if listener is None:
                    with ExitStack() as held:
                        held.callback(store.close)
                        # The previous leader may listen there and take a moment to close it.
                        listener = stack.enter_context(await wait_for_port(self._clock, http))
                        held.pop_all()
                site = _Site(place, offload, listener, grpc, guarded, http.host)
                await self._lead(site, store, started)
                return
            assert listener is not None
            site = _Site(place, offload, listener, grpc, guarded, http.host)
            await self._serve_as_replica(site, means, table, started, following)

    async def _serve_as_replica(
        self,
        site: "_Site",
        means: Means,
        table: ReplicaTable,
        started: Callable[[Running], None],
        following: Callable[[Following], None],
    ) -> None:
        """Forward to the leader until this process leads, and again while it stops."""
        with ExitStack() as stack:
            threads = ThreadOffload("navarch-replica")
            stack.callback(threads.close)
            held = stack.enter_context(ExitStack())
            store: DurableStore | None = None
            with suppress(InUseError):
                store = await site.place.open(means)
                held.callback(store.close)
            replica = await self._replica(threads, table, site)
            ports = self._ports(site, replica.forwarding())
            try:
                async with asyncio.TaskGroup() as tasks:
                    running = [tasks.create_task(ports.run())]
                    await replica.register(site.http, ports.grpc)
                    running.append(tasks.create_task(replica.run()))
                    try:
                        if store is None:
                            following(self._following(site, ports, replica))
                            store = await take_over(means, site.place, replica.follow)
                        held.pop_all()
                        await self._lead(site, store, started, replica, ports)
                    except asyncio.CancelledError:
                        await replica.drain(ports)
                        raise
                    finally:
                        for task in running:
                            task.cancel()
            finally:
                await replica.leave()

    async def _replica(
        self, threads: ThreadOffload, table: ReplicaTable, site: "_Site"
    ) -> ReplicaServer:
        secret = await threads.run(table.secret)
        while secret is None:
            # Another server creates the fleet at this moment.
            await self._clock.sleep(0.1)
            secret = await threads.run(table.secret)
        server = self._config.server
        tls = server.tls
        shows = tls is not None and tls.client_certificates is ClientCertificates.REQUIRED
        settings = ReplicaSettings(
            advertise=server.advertise,
            client_key=ClientKey(Path(tls.cert_file), Path(tls.key_file))
            if shows and tls
            else None,
            any_host=site.guarded,
            public_metrics=lambda: self._config.server.metrics.public,
        )
        return ReplicaServer(
            self._clock,
            self._entropy,
            threads,
            table,
            settings,
            secret=secret,
            metrics=self._metrics,
            tls=self._tls,
            auth=self._auth,
        )

    async def _lead(
        self,
        site: "_Site",
        store: DurableStore,
        started: Callable[[Running], None],
        replica: ReplicaServer | None = None,
        ports: Ports | None = None,
    ) -> None:
        """Hold the fleet until cancelled; `ports` are those of a replica."""
        with ExitStack() as stack:
            stack.callback(store.close)
            # Closing a file under a thread that writes to it can take the process down.
            stack.callback(site.offload.close)
            async with asyncio.TaskGroup() as tasks:
                # First: another server replaces a leader that is silent while it starts.
                tasks.create_task(Leadership(self._clock, store).keep())
                opened = await self._open(stack, site, store)
                plane = self._plane = self._build(stack, tasks, opened)
                # Each part takes a while without a break.
                await until_store_answers(self._clock, store.confirm)
                doors = self._doors(stack, opened, plane)
                desk = doors.desk
                stack.callback(desk.flush)
                seal = None if replica is None else replica.seal
                answers = self._answers(site, opened, doors, plane, seal)
                await until_store_answers(self._clock, store.confirm)
                own = [] if ports else [self._ports(site, answers)]
                ports = ports or own[0]
                timeouts = self._timeouts = TimeoutMigration(
                    self._clock,
                    store,
                    opened.snapshots.telemetry,
                    timing=self._timing,
                    request_registrations=plane.agents.request_registrations,
                )
                await until_store_answers(self._clock, timeouts.adopt)
                links = [link_name(site.http, "http"), link_name(site.grpc, "grpc")]
                plane.agents.note_links(links)
                await until_store_answers(
                    self._clock, lambda: self._put_pools(list(self._config.pools))
                )
                own_ports = (each.run() for each in own)
                for work in (*own_ports, *self._work(opened, plane, doors, replica)):
                    tasks.create_task(work)
                self._providers.restore()
                while not ports.started:
                    await self._clock.sleep(0.005)
                settle_collector()
                self._serving = True
                if replica is not None:
                    replica.lead(ports, answers, store)
                started(self._running(site, store, plane, ports, replica))
                try:
                    await asyncio.Event().wait()  # until cancelled
                finally:
                    if replica is not None:
                        await replica.step_down(ports)

    def _work(
        self, opened: "_Opened", plane: Plane, doors: Doors, replica: ReplicaServer | None
    ) -> Iterator[Coroutine[None, None, None]]:
        """Yield what runs as long as this process leads."""
        store, telemetry = opened.store, opened.snapshots.telemetry
        assert self._timeouts is not None
        yield doors.desk.run(self._clock)
        yield plane.run()
        yield self._timeouts.run()
        yield doors.uses.run()
        if doors.keys is not None:
            yield doors.keys.run()
        if self._tls is not None and replica is None:
            yield self._tls.run(self._clock)
        yield plane.ledger.read()  # for the metrics, and the first question about costs
        yield LoopWatchdog(self._clock, frozen_after=self._config.server.frozen_after).run()
        yield PauseWatch(self._clock, store, telemetry).run()

    def _ports(self, site: "_Site", answers: Answers) -> Ports:
        return Ports(
            self._clock,
            answers,
            site.listener,
            site.grpc,
            heartbeat_interval=self._config.server.heartbeat_interval,
            tls=self._tls,
        )

    def _following(self, site: "_Site", ports: Ports, replica: ReplicaServer) -> Following:
        return Following(
            http=site.listening,
            grpc=ports.grpc,
            guarded=site.guarded,
            tls=self._tls is not None,
            place=site.place.shown,
            leader=replica.leader,
        )

    def _running(
        self,
        site: "_Site",
        store: DurableStore,
        plane: Plane,
        ports: Ports,
        replica: ReplicaServer | None,
    ) -> Running:
        return Running(
            server=self,
            plane=plane,
            http=site.listening,
            grpc=ports.grpc,
            guarded=site.guarded,
            tls=self._tls is not None,
            place=site.place.shown,
            nodes=sum(not node.gone for node in store.fleet().nodes.values()),
            providers={x.name: x.type for x in self._providers.accounts(self._config)},
            pools=tuple(self._config.pools),
            replicated=replica is not None,
        )

    async def _open(self, stack: ExitStack, site: "_Site", store: DurableStore) -> "_Opened":
        """Open what belongs to the state, once this process leads."""
        self._store = store
        site.place.remember(store.cluster.id)
        self._policy_change = await until_store_answers(
            self._clock, lambda: record_policies(self._clock, store, self._policies)
        )
        known = [n.id for n in store.fleet().nodes.values() if n.registered_at and not n.gone]
        snapshots = Snapshots(
            self._clock, self._data_dir, nodes=known, silence=self._timing().silence
        )
        stack.callback(snapshots.write)
        return _Opened(store=store, offload=site.offload, http=site.http, snapshots=snapshots)

    def _doors(self, stack: ExitStack, opened: "_Opened", plane: Plane) -> Doors:
        """Return what the HTTP and the gRPC server need: everything behind them is guarded."""
        store = opened.store
        for folder in (self._data_dir / EVIDENCE, self._data_dir / BRINGUP):
            make_private(folder)
        archive = FolderArchive(self._data_dir / EVIDENCE, opened.offload)
        joins = JoinService(self._clock, store, agent_token=self._agent_token)
        pool = partial(host_pool, store, plane.agents.resolve)
        agents = GuardedAgents(plane.agents, joins, pool_of=pool)
        uses = TokenUses(self._clock, store)
        evidence_keys = EvidenceKeys(self._clock, self._entropy, store, Ed25519())
        parts = ServiceParts(
            clock=self._clock,
            entropy=self._entropy,
            store=store,
            plane=plane,
            archive=archive,
            logs=FolderBringUpLogs(self._data_dir / BRINGUP, opened.offload),
            alerts=self._alerts.setup(),
            policies=lambda: self._policies,
            config=lambda: self._config,
            uses=uses,
            quotas=TeamQuotas(
                store, lambda: {x.team: x.gpus_max for x in self._config.server.access.quotas}
            ),
            evidence_keys=evidence_keys,
        )
        tokens = TokenService(self._clock, self._entropy, store, uses)
        threads = ThreadOffload("navarch-oidc")
        stack.callback(threads.close)
        authentication = build_authentication(
            self._clock, threads, lambda: self._config, joins, tokens, self._auth
        )
        return Doors(
            auth=authentication.chain,
            keys=authentication.keys,
            services=ScopedServices(parts).guarded(),
            agents=agents,
            desk=HeartbeatDesk(agents, opened.snapshots.telemetry, self._metrics),
            boots=GuardedBoots(BootReportService(self._clock, store), agents),
            evidence=GuardedEvidence(
                EvidenceService(self._clock, store, archive, evidence_keys), agents
            ),
            uses=uses,
        )

    def _answers(
        self, site: "_Site", opened: "_Opened", doors: Doors, plane: Plane, seal: Seal | None
    ) -> Answers:
        """Return what answers at both ports while this process leads."""
        grpc = LocalCalls(
            doors.services.fleet,
            doors.agents,
            auth=doors.auth,
            desk=doors.desk,
            calls=self._calls,
            evidence=doors.evidence,
            link=link_name(site.grpc, "grpc"),
            seal=seal,
        )
        return Answers(self._http_app(opened, plane, doors, seal), grpc)

    def _http_app(
        self, opened: "_Opened", plane: Plane, doors: Doors, seal: Seal | None
    ) -> HttpApp:
        services, desk, write = doors.services, doors.desk, opened.store.check_writable
        return build_http_app(
            self._clock,
            self._entropy,
            services.fleet,
            doors.agents,
            auth=doors.auth,
            desk=desk,
            ready=Readiness(self._clock, serving=lambda: self._serving, write=write).missing,
            metrics=partial(self._exposition, opened, plane, desk),
            calls=self._calls,
            link=link_name(opened.http, "http"),
            bundle=self._bundles.get,
            public_metrics=lambda: self._config.server.metrics.public,
            routes=[
                *evidence_routes(services.evidence, doors.evidence),
                *boot_routes(doors.boots),
                *held_routes(services.held),
                *alert_routes(services.alerts),
                *job_routes(services.jobs),
                *bringup_routes(services.bringups),
                *join_routes(services.joins),
                *fleet_health_routes(services.health),
                *policy_routes(services.policies),
                *access_routes(services.access),
                *adoption_routes(services.adoption),
                *token_routes(services.tokens),
            ],
            seal=seal,
        )

    def _exposition(self, opened: "_Opened", plane: Plane, desk: HeartbeatDesk) -> Iterator[bytes]:
        fleet, now = opened.store.fleet(), self._clock.now()
        return fleet_exposition(
            fleet,
            now=now,
            # Not collected before they are rendered: each family is a slice of its own.
            others=chain(server_metrics(fleet, desk.received), self._metrics.collect()),
            telemetry=opened.snapshots.telemetry,
            per_gpu=self._config.server.metrics.per_gpu,
            spent=plane.ledger.without_nodes(now),
        )

    @property
    def secrets_refresh(self) -> timedelta:
        """How often secrets by reference are read again."""
        return self._config.server.secrets_refresh

    async def reload(self, config: Config) -> Reload:
        """Apply what can be changed while running; return what was changed and what cannot be.

        Policies are read again even if only their files have changed. If one cannot be used, the
        whole file is refused and the old configuration stays in force.
        """
        change = compare(self._config, config)
        # Everything that can fail comes before the first change.
        policies = load_policies(config)
        parts = load_parts(change.config, self._extensions)
        self._config = change.config
        self._parts.become(parts)
        self._alerts.become(change.config.alerts)
        self._policies = policies
        self._providers.renew(change.config)
        if self._store is not None:
            self._policy_change = await record_policies(self._clock, self._store, policies)
        token = _token(change.config)
        if (token is None) is (self._auth.token is None):
            self._auth.change(token)
        if self._tls is not None:
            self._tls.refresh()
        if self._timeouts is not None:
            await self._timeouts.adopt()
        if self._plane is not None:
            await self._put_pools(change.pools_changed)
        return change

    def _agent_token(self) -> str | None:
        token = self._config.server.agent_token
        return None if token is None else token.reveal()

    def _timing(self) -> Timing:
        server = self._config.server
        return Timing(
            heartbeat_interval=server.heartbeat_interval,
            heartbeat_timeout=server.heartbeat_timeout,
            health_check_interval=server.health_check_interval,
        )

    def _build(self, stack: ExitStack, tasks: asyncio.TaskGroup, opened: "_Opened") -> Plane:
        store, http = opened.store, opened.http
        threads = ThreadOffload("navarch-scheduler")
        stack.callback(threads.close)
        # The configuration is read each time, because of reloads.
        agents = AgentEnvironment(
            control_plane=lambda pool: control_plane_address(self._config, pool, http),
            join_token=partial(join_token, store.cluster),
            lease=self._lease_of,
        )
        setups = MachineSetups(lambda: self._config, agents, self._bundles, store)
        context = ProviderContext(
            clock=self._clock,
            entropy=self._entropy,
            data_dir=self._data_dir,
            closing=stack,
            agents=agents,
        )
        self._providers.build(
            self._config, context, tasks, http, token=lambda: self._auth.token, tls=self._tls
        )
        catalog = OfferCatalog(self._clock, self._providers.accounts(self._config))
        config, telemetry = self._config.server, opened.snapshots.telemetry
        return Plane(
            self._clock,
            self._entropy,
            store,
            providers=self._providers.all(),
            notifier=build_notifier(self._clock, config.notifier, self._extensions, stack),
            liveness=telemetry,
            timing=self._timing,
            metrics=self._metrics,
            opinions=self.opinions,
            policies=lambda: self._policies,
            alerts=self._alerts.setup(),
            metrics_source=build_meter(
                store, telemetry, config.metrics.prometheus, self._extensions, stack
            ),
            loads=opened.snapshots.loads,
            offerings=catalog.offerings,
            assortment=catalog.offers,
            on_sale=catalog.on_sale,
            inject=self._providers.inject,
            save_readings=lambda: opened.snapshots.save(opened.offload),
            bringup=setups.bringup(FolderBringUpLogs(self._data_dir / BRINGUP, opened.offload)),
            user_data=setups.user_data,
            missing_agent=setups.missing_agent,
            is_configured=lambda pool: pool in self._config.pools,
            own_user_data=setups.has_own_user_data,
            scheduler_offload=threads,
            peer_probes=lambda: to_peer_probes(self._config.server.peer_probes),
            host_retention=lambda: self._config.server.forget_hosts_after or None,
            retention=lambda: to_retention(self._config.server.retention),
            old_evidence=AgingFolder(self._data_dir / EVIDENCE, opened.offload),
            old_logs=AgingFolder(self._data_dir / BRINGUP, opened.offload),
            hosts_max=lambda: self._config.server.hosts_max,
        )

    def _lease_of(self, pool: PoolName) -> timedelta | None:
        found = self._config.pools.get(pool)
        return None if found is None else found.dead_man_lease

    async def _put_pools(self, names: Sequence[str]) -> None:
        assert self._plane is not None
        for name in names:
            spec = to_pool_spec(self._config, self._config.pools[name])
            await self._plane.fleet.put_configured_pool(spec)


@dataclass(frozen=True, slots=True)
class _Site:
    """Where a server holds its state, and where it listens."""

    place: StorePlace
    offload: ThreadOffload
    listener: socket.socket
    grpc: Address
    """The address for gRPC, as configured."""
    guarded: bool
    """Whether requests need a token."""
    host: str

    @property
    def http(self) -> Address:
        """The address for HTTP, with the port that the listener was given."""
        return Address(host=self.host, port=self.listener.getsockname()[1])

    @property
    def listening(self) -> Address:
        """The same, with host names resolved."""
        return Address(host=self.listener.getsockname()[0], port=self.http.port)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    """What a server holds from the moment it leads."""

    store: DurableStore
    offload: ThreadOffload
    http: Address
    """The address for HTTP, with its real port."""
    snapshots: Snapshots


def open_tls(config: Config) -> ServerTls | None:
    """Return the certificate of a configuration, if it has one; StartError if it is unusable."""
    found = config.server.tls
    if found is None:
        return None
    files = TlsFiles(
        cert=Path(found.cert_file),
        key=Path(found.key_file),
        client_ca=None if found.client_ca_file is None else Path(found.client_ca_file),
        clients_required=found.client_certificates is ClientCertificates.REQUIRED,
    )
    try:
        return ServerTls(files)
    except InvalidError as error:
        raise StartError(str(error)) from error


def _token(config: Config) -> str | None:
    return config.server.auth_token.reveal() if config.server.auth_token else None
