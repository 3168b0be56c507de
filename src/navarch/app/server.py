"""The server: a control plane, its store and its doors, as one process."""

import asyncio
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TypeVar

import structlog

from navarch.api.auth import Anyone, Authenticator, BearerToken, Identity
from navarch.api.collector import settle_collector
from navarch.api.grpc.server import GrpcServer
from navarch.api.heartbeats import HeartbeatDesk
from navarch.api.http.app import build_http_app
from navarch.api.http.server import HttpServer, listen
from navarch.app.addresses import Address, StartError, parse_listen_address
from navarch.app.assortment import Account, Assortment
from navarch.app.bringup import (
    build_bringup,
    can_open_shells,
    control_plane_address,
    open_shells,
)
from navarch.app.buying import custom_autoscalers, provision_schedulers
from navarch.app.control_plane import Opinions, Plane, build_control_plane
from navarch.app.extensions import Extensions
from navarch.app.fake import BLOCKS, FakeMachines, FakeSettings
from navarch.app.joining import INSTALL, Guide, render_user_data
from navarch.app.patience import Patience
from navarch.app.policies import load_policies
from navarch.app.policy_record import note_policies
from navarch.app.providers.building import Surroundings, build_provider, renew_provider
from navarch.app.remediators import load_remediators
from navarch.app.scheduling import to_scheduling
from navarch.clock.system import SystemClock, SystemEntropy, ThreadOffload
from navarch.config import BuiltInCatalogue, Config, Reload, compare, to_pool_spec
from navarch.config.budget import to_budget
from navarch.config.metrics import PrometheusConfig
from navarch.config.notifier import NotifierConfig
from navarch.config.provider import FakeConfig
from navarch.config.remediation import to_governor
from navarch.config.stockouts import to_spans
from navarch.control.bringup import BringUp
from navarch.control.loads import Loads
from navarch.core.budget import Budget
from navarch.core.errors import InUseError, NotPossibleError
from navarch.core.fleet import Fleet
from navarch.core.health import CheckResult
from navarch.core.ids import NodeId, PoolName, ProviderName
from navarch.core.joining import join_token
from navarch.core.ownership import POOL
from navarch.fleet.disruption.governor.suspicion import PolicyChange
from navarch.meters.heartbeats import HeartbeatMeter
from navarch.meters.jobs import JobsMeter
from navarch.meters.merged import Merged
from navarch.meters.prometheus import PrometheusMeter, PrometheusQueries
from navarch.notifiers.everyone import Everyone
from navarch.notifiers.log import LogAlerts, LogWorkloads
from navarch.notifiers.webhook import WebhookUrls, WebhookWorkloads
from navarch.ports.autoscaler import MetricsSource
from navarch.ports.evidence import EvidenceDesk
from navarch.ports.joining import Joins
from navarch.ports.notifier import WorkloadNotifier
from navarch.ports.provider import ListsOfferings, Provider, ProvisionRequest, TellsSoldOut
from navarch.ports.provision import ProvisionScheduler
from navarch.service.agents import Timing
from navarch.service.bringup import BringUpService
from navarch.service.evidence import EvidenceService
from navarch.service.fleet_health import FleetHealthService
from navarch.service.held import HeldService
from navarch.service.job_queue import JobQueue
from navarch.service.joining import JoinService
from navarch.stores.bringup import FolderBringUpLogs
from navarch.stores.columns import Columns
from navarch.stores.evidence import FolderArchive
from navarch.stores.snapshot import read_whole, write_whole
from navarch.stores.sqlite import SqliteStore

log = structlog.get_logger(__name__)

K = TypeVar("K")
V = TypeVar("V")

READINGS = "readings"
LOADS = "loads"
BRINGUP = "bringup"

STANDBY_LOOK_S = 0.25
"""How often a server that stands by looks whether its turn has come."""
INHERIT_WITHIN_S = 10.0
"""How long it then waits for the doors of the one before it."""

LOADS_EVERY = timedelta(minutes=1)
"""How much of the pools' history a crash may cost: a fraction of the quarter it is made of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A server that takes requests."""

    server: "Server"
    plane: Plane
    http: Address
    grpc: Address
    guarded: bool
    """Whether the doors ask for a token."""
    nodes: int
    """How many nodes it found in its store."""
    can_buy: bool
    """Whether it has any provider to buy machines from."""


class Server:
    """One process: everything is opened here, and closed again in the opposite order."""

    def __init__(
        self,
        config: Config,
        data_dir: Path,
        *,
        extensions: Extensions | None = None,
        standby: Callable[[str], None] | None = None,
    ) -> None:
        """With `standby`, wait for whoever leads to end; it hears whose folder is waited for."""
        self._standby = standby
        self._config = config
        self._data_dir = data_dir
        self._extensions = extensions or Extensions()
        self._clock = SystemClock()
        self._entropy = SystemEntropy()
        self._door = _Door(_token(config))
        self._fakes: list[FakeMachines] = []
        self._clouds: list[Provider] = []
        self._plane: Plane | None = None
        self._patience: Patience | None = None
        # Parts that a reload may change while they are used.
        self._buying = _buying(config, self._extensions)
        self._sizing = {**custom_autoscalers(config), **self._extensions.autoscalers}
        self._budgets = _budgets(config, self._extensions)
        self._remediators = dict(
            load_remediators(pool.remediation.strategy for pool in config.pools.values())
        )
        self.opinions = Opinions(
            provision_scheduler=self._extensions.provision_scheduler,
            provision_schedulers=self._buying,
            remediator=self._extensions.remediator,
            remediators=self._remediators,
            governor=lambda: to_governor(self._config.server.governor),
            policy=lambda: self._policy_change,
            autoscalers=self._sizing,
            autoscale_interval=config.server.autoscale_interval,
            budgets=self._budgets,
            stockout_spans=to_spans(config.server.stockouts),
            scheduling=lambda: to_scheduling(self._config.scheduler),
        )
        self._policies = load_policies(config)
        self._policy_change: PolicyChange | None = None
        self._store: SqliteStore | None = None
        self._loads = Loads()
        self._loads_due = self._clock.now() + LOADS_EVERY
        self._serving = False

    async def run(self, started: Callable[[Running], None]) -> None:
        """Serve until cancelled; `started` is called once requests are taken."""
        guarded = self._door.token is not None
        http = parse_listen_address(self._config.server.address, guarded=guarded)
        grpc = parse_listen_address(self._config.server.grpc_address, guarded=guarded)
        with ExitStack() as stack:
            listener: socket.socket | None = None
            if self._standby is None:
                listener = stack.enter_context(_listening(http))
            offload = ThreadOffload("navarch-store")
            stack.callback(offload.close)
            store = await self._lead(offload)
            stack.callback(store.close)
            # Closing a file under a thread that writes to it can take the process down.
            stack.callback(offload.close)
            if listener is None:
                # The doors of who led until now may be the same, and take a moment to close.
                listener = stack.enter_context(await self._inherited(http))
            http = Address(host=http.host, port=listener.getsockname()[1])
            self._store = store
            self._policy_change = await note_policies(self._clock, store, self._policies)
            columns = self._columns(store)
            stack.callback(lambda: write_whole(self._data_dir / READINGS, columns.dump()))
            self._restore_loads()
            stack.callback(lambda: write_whole(self._data_dir / LOADS, self._loads.dump()))
            async with asyncio.TaskGroup() as tasks:
                plane = self._plane = self._build(stack, tasks, store, columns, offload, http)
                desk = HeartbeatDesk(plane.agents, columns)
                stack.callback(desk.flush)
                archive = FolderArchive(self._data_dir / "evidence", offload)
                evidence = EvidenceService(store, archive)
                logs = FolderBringUpLogs(self._data_dir / BRINGUP, offload)
                joins = JoinService(self._clock, store)
                app = build_http_app(
                    self._clock,
                    self._entropy,
                    plane.fleet,
                    plane.agents,
                    auth=self._door,
                    desk=desk,
                    ready=lambda: None if self._serving else "the control loops are starting",
                    metrics_text=lambda: render_process_metrics(store.fleet(), desk.received),
                    snapshot=store.fleet,
                    evidence=evidence,
                    held=HeldService(self._clock, store),
                    jobs=plane.jobs,
                    bringups=BringUpService(store, logs),
                    joins=joins,
                    join_tokens=joins,
                    fleet_health=FleetHealthService(self._clock, store),
                )
                doors = HttpServer(
                    self._clock,
                    app,
                    listener=listener,
                    heartbeat_interval=self._config.server.heartbeat_interval,
                )
                grpc_door = _grpc(plane, self._door, desk, evidence, joins, grpc)
                self._patience = Patience(
                    self._clock,
                    store,
                    columns,
                    timing=self._timing,
                    ask_for_introductions=plane.agents.ask_for_introductions,
                )
                await self._patience.adopt()
                await self._put_pools(list(self._config.pools))
                for work in (
                    desk.run(self._clock),
                    doors.run(),
                    grpc_door.run(),
                    plane.run(),
                    self._patience.run(),
                ):
                    tasks.create_task(work)
                for machines in self._fakes:
                    machines.restore()
                while not doors.started:
                    await self._clock.sleep(0.005)
                settle_collector()
                self._serving = True
                started(
                    Running(
                        server=self,
                        plane=plane,
                        http=http,
                        grpc=Address(host=grpc.host, port=grpc_door.port),
                        guarded=guarded,
                        nodes=sum(not node.gone for node in store.fleet().nodes.values()),
                        can_buy=bool(self._config.providers),
                    )
                )

    async def _lead(self, offload: ThreadOffload) -> SqliteStore:
        """Return the state, once nobody else leads with it."""
        told = False
        while True:
            try:
                return SqliteStore.open(self._data_dir, offload, self._entropy)
            except InUseError as error:
                if self._standby is None:
                    raise
                if not told:
                    self._standby(str(self._data_dir))
                    log.info("server.standby", reason=str(error))
                    told = True
            await self._clock.sleep(STANDBY_LOOK_S)

    async def _inherited(self, address: Address) -> socket.socket:
        deadline = self._clock.monotonic() + INHERIT_WITHIN_S
        while True:
            try:
                return _listening(address)
            except StartError:
                if self._clock.monotonic() >= deadline:
                    raise
            await self._clock.sleep(0.1)

    async def reload(self, config: Config) -> Reload:
        """Apply what can be changed while running; the answer says what cannot.

        Policies are read again even where only the files have changed. One that cannot be used
        is refused with everything else in the file: the old ones stay in force.
        """
        policies = load_policies(config)
        # What cannot be loaded changes nothing.
        self._remediators |= load_remediators(
            pool.remediation.strategy for pool in config.pools.values()
        )
        change = compare(self._config, config)
        # Everything that can fail is made before anything is changed.
        buying = _buying(change.config, self._extensions)
        sizing = {**custom_autoscalers(change.config), **self._extensions.autoscalers}
        self._config = change.config
        _become(self._buying, buying)
        _become(self._sizing, sizing)
        self._budgets[:] = _budgets(change.config, self._extensions)
        self._policies = policies
        for cloud in self._clouds:
            if cloud.name in change.config.providers:
                renew_provider(cloud, change.config.providers[cloud.name])
        if self._store is not None:
            self._policy_change = await note_policies(self._clock, self._store, policies)
        token = _token(change.config)
        if (token is None) is (self._door.token is None):
            self._door.change(token)
        if self._patience is not None:
            await self._patience.adopt()
        await self._put_pools(change.pools_changed)
        return change

    def _timing(self) -> Timing:
        server = self._config.server
        return Timing(
            heartbeat_interval=server.heartbeat_interval,
            heartbeat_timeout=server.heartbeat_timeout,
            health_check_interval=server.health_check_interval,
        )

    def _columns(self, store: SqliteStore) -> Columns:
        known = [n.id for n in store.fleet().nodes.values() if n.registered_at and not n.gone]
        columns = Columns(self._clock, timeout=self._timing().silence, nodes=known)
        saved = read_whole(self._data_dir / READINGS)
        if saved is not None and not columns.restore(saved):
            log.warning("server.readings_lost", path=str(self._data_dir / READINGS))
        return columns

    def _restore_loads(self) -> None:
        saved = read_whole(self._data_dir / LOADS)
        if saved is not None and not self._loads.restore(saved):
            log.warning("server.loads_lost", path=str(self._data_dir / LOADS))

    def _build(
        self,
        stack: ExitStack,
        tasks: asyncio.TaskGroup,
        store: SqliteStore,
        columns: Columns,
        offload: ThreadOffload,
        http: Address,
    ) -> Plane:
        disks, probes = ThreadOffload("navarch-fake-disk"), ThreadOffload("navarch-fake-probe")
        threads = ThreadOffload("navarch-scheduler")
        stack.callback(threads.close)
        stack.callback(disks.close)
        stack.callback(probes.close)
        guide = Guide(
            control_plane=lambda pool: control_plane_address(self._config, pool, http),
            join_token=partial(join_token, store.cluster),
            lease=self._lease_of,
        )
        surroundings = Surroundings(
            clock=self._clock,
            entropy=self._entropy,
            data_dir=self._data_dir,
            closing=stack,
            guide=guide,
        )
        for provider in self._config.providers.values():
            if not isinstance(provider, FakeConfig):
                self._clouds.append(build_provider(provider, surroundings))
                continue
            self._fakes.append(
                FakeMachines(
                    self._clock,
                    self._entropy,
                    tasks,
                    _fake_settings(provider),
                    directory=self._data_dir / "fake" / provider.name,
                    server=f"http://{http.reachable()}",
                    token=lambda: self._door.token,
                    offload=disks,
                    probe_offload=probes,
                    extra_checks=self._extensions.health_checks,
                )
            )
        given = self._extensions
        assortment = Assortment(self._clock, self._accounts())

        async def save_readings() -> None:
            data = columns.dump()
            await offload.run(lambda: write_whole(self._data_dir / READINGS, data))
            if self._clock.now() >= self._loads_due:
                self._loads_due = self._clock.now() + LOADS_EVERY
                loads = self._loads.dump()
                await offload.run(lambda: write_whole(self._data_dir / LOADS, loads))

        return build_control_plane(
            self._clock,
            self._entropy,
            store,
            providers=[
                *(machines.cloud for machines in self._fakes),
                *self._clouds,
                *given.providers,
            ],
            notifier=self._notifier(stack),
            hearing=columns,
            timing=self._timing,
            opinions=self.opinions,
            policies=lambda: self._policies,
            alerts=[LogAlerts(), *given.alert_notifiers],
            metrics_source=Merged(
                [
                    *given.metrics_sources,
                    *self._metrics_sources(stack),
                    JobsMeter(store, JobQueue(store)),
                    HeartbeatMeter(store, columns),
                ]
            ),
            loads=self._loads,
            offerings=assortment.offerings,
            assortment=assortment.offers,
            inject=self._inject,
            save_readings=save_readings,
            bringup=self._bringup(store, offload, http),
            user_data=partial(self._user_data, guide),
            scheduler_offload=threads,
        )

    def _lease_of(self, pool: PoolName) -> timedelta | None:
        found = self._config.pools.get(pool)
        return None if found is None else found.dead_man_lease

    def _user_data(self, guide: Guide, request: ProvisionRequest, provider: ProviderName) -> str:
        pool = self._config.pools.get(request.labels.get(POOL, ""))
        if pool is None or not pool.cloud_init:
            return ""
        told = guide.environment(request, provider)
        return render_user_data(told, install=pool.agent_install_command or INSTALL)

    def _bringup(self, store: SqliteStore, offload: ThreadOffload, http: Address) -> BringUp | None:
        asked = any(pool.setup for pool in self._config.pools.values())
        if not asked and not can_open_shells():
            return None  # A reload may ask for it where it can be had.
        return build_bringup(
            lambda: self._config,
            http,
            folder=self._data_dir / BRINGUP,
            offload=offload,
            shells=open_shells(),
            join_token=partial(join_token, store.cluster),
        )

    def _metrics_sources(self, stack: ExitStack) -> Iterator[MetricsSource]:
        asked = self._config.server.metrics.prometheus
        if asked is not None:
            threads = ThreadOffload("navarch-prometheus")
            stack.callback(threads.close)
            yield PrometheusMeter(threads, _queries(asked))

    def _notifier(self, stack: ExitStack) -> WorkloadNotifier:
        told = list(self._extensions.workload_notifiers)
        urls = _webhook(self._config.server.notifier)
        if urls is not None:
            threads = ThreadOffload("navarch-webhook")
            stack.callback(threads.close)
            told.append(WebhookWorkloads(self._clock, threads, urls))
        if len(told) > 1:
            return Everyone(told)
        return told[0] if told else LogWorkloads()

    async def _put_pools(self, names: Sequence[str]) -> None:
        assert self._plane is not None
        catalogue = BuiltInCatalogue()
        for name in names:
            spec = to_pool_spec(self._config, self._config.pools[name], catalogue)
            await self._plane.fleet.put_pool(spec, reason="the configuration says so")

    def _accounts(self) -> Iterator[Account]:
        for machines in self._fakes:
            name = ProviderName(machines.cloud.name)
            yield Account(name=name, type=FakeConfig.type, ask=machines.offerings)
        for cloud in (*self._clouds, *self._extensions.providers):
            config = self._config.providers.get(cloud.name)
            yield Account(
                name=ProviderName(cloud.name),
                type=cloud.name if config is None else config.type,
                region=getattr(config, "region", None) or "",
                ask=cloud.offerings if isinstance(cloud, ListsOfferings) else None,
                ask_sold_out=cloud.sold_out if isinstance(cloud, TellsSoldOut) else None,
            )

    async def _inject(self, node: NodeId, result: CheckResult) -> None:
        for machines in self._fakes:
            if machines.has(node):
                await machines.inject(node, result)
                return
        raise NotPossibleError(f"node {node} is not simulated; its faults are its own")


def render_process_metrics(fleet: Fleet, heartbeats: int) -> str:
    """Return what the server says about itself, for Prometheus."""
    waiting = sum(not command.over for command in fleet.commands.values())
    return (
        "# HELP navarch_store_revision Commits since the store was made.\n"
        "# TYPE navarch_store_revision counter\n"
        f"navarch_store_revision {fleet.revision}\n"
        "# HELP navarch_heartbeats_received_total Packed heartbeats since the server started.\n"
        "# TYPE navarch_heartbeats_received_total counter\n"
        f"navarch_heartbeats_received_total {heartbeats}\n"
        "# HELP navarch_commands_waiting Commands that are neither done nor expired.\n"
        "# TYPE navarch_commands_waiting gauge\n"
        f"navarch_commands_waiting {waiting}\n"
    )


class _Door:
    """What the doors ask for, which a reload may change."""

    def __init__(self, token: str | None) -> None:
        self.token = token
        self._inner: Authenticator = Anyone()
        self.change(token)

    def change(self, token: str | None) -> None:
        """Ask for another token from now on."""
        self.token = token
        self._inner = BearerToken(token) if token else Anyone()

    def authenticate(self, headers: Mapping[bytes, bytes]) -> Identity | None:
        """Return who is asking."""
        return self._inner.authenticate(headers)


def _token(config: Config) -> str | None:
    return config.server.auth_token.reveal() if config.server.auth_token else None


def _listening(address: Address) -> socket.socket:
    try:
        return listen(address.host, address.port)
    except OSError as error:
        raise _taken(address, "address", error.strerror or str(error)) from error


def _grpc(
    plane: Plane,
    door: _Door,
    desk: HeartbeatDesk,
    evidence: EvidenceDesk,
    joins: Joins,
    address: Address,
) -> GrpcServer:
    if address.port:
        # gRPC does not say why it cannot have a port; asking for it first does.
        try:
            listen(address.host, address.port).close()
        except OSError as error:
            raise _taken(address, "grpc-address", error.strerror or str(error)) from error
    try:
        return GrpcServer(
            plane.fleet,
            plane.agents,
            auth=door,
            desk=desk,
            address=str(address),
            evidence=evidence,
            joins=joins,
        )
    except RuntimeError as error:
        raise _taken(address, "grpc-address", "it cannot be had") from error


def _taken(address: Address, option: str, why: str) -> StartError:
    return StartError(
        f"cannot listen on {address}: {why}. Another server may be running there; stop it, "
        f"or choose another place with --{option}"
    )


def _buying(config: Config, extensions: Extensions) -> dict[PoolName, ProvisionScheduler]:
    named = provision_schedulers(config, extensions.provision_scheduler)
    return {**named, **extensions.provision_schedulers}


def _budgets(config: Config, extensions: Extensions) -> list[Budget]:
    return [*(to_budget(each) for each in config.budgets), *extensions.budgets]


def _become(old: dict[K, V], new: Mapping[K, V]) -> None:
    for gone in [key for key in old if key not in new]:
        del old[gone]
    old.update(new)


def _fake_settings(config: FakeConfig) -> FakeSettings:
    return FakeSettings(
        name=config.name,
        gpus=config.gpu_count,
        gpu_model=config.gpu_type,
        boot_s=(config.boot_min.total_seconds(), config.boot_max.total_seconds()),
        bad_boots=config.bad_boot_share,
        prices=config.prices,
        spot_prices=config.spot_prices,
        stock=config.stock,
        reservations=config.reservations,
        blocks=BLOCKS if config.blocks is None else config.blocks,
    )


def _queries(config: PrometheusConfig) -> PrometheusQueries:
    return PrometheusQueries(
        url=config.url,
        utilization=config.utilization or "",
        pending_jobs=config.pending_jobs or "",
        queue_depth=config.queue_depth or "",
        nodes_needed=config.nodes_needed or "",
        timeout=config.timeout,
        headers={name: value.reveal() for name, value in config.headers.items()},
    )


def _webhook(config: NotifierConfig) -> WebhookUrls | None:
    hook = config.webhook
    if hook is None or config.type != "webhook":
        return None
    return WebhookUrls(
        cordon=hook.cordon_url or "",
        uncordon=hook.uncordon_url or "",
        drain=hook.drain_url or "",
        drain_status=hook.drain_status_url or "",
        timeout=hook.timeout,
        headers={name: value.reveal() for name, value in hook.headers.items()},
    )
