"""The server: a control plane, its store and its doors, as one process."""

import asyncio
import socket
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path

from navarch.api.collector import settle_collector
from navarch.api.heartbeats import HeartbeatDesk
from navarch.api.http.app import build_http_app
from navarch.api.http.server import HttpServer
from navarch.api.metrics import PrometheusMetrics, server_metrics
from navarch.app.addresses import Address, parse_listen_address
from navarch.app.bringup import (
    build_bringup,
    can_open_shells,
    control_plane_address,
    missing_agent,
    open_shells,
)
from navarch.app.control_plane import Opinions, Plane, build_control_plane
from navarch.app.doors import BearerAuth, build_grpc_door, listen_at
from navarch.app.extensions import Extensions
from navarch.app.joining import INSTALL, Guide, render_user_data
from navarch.app.leading import Standby, inherit_door, lead
from navarch.app.metering import build_meter
from navarch.app.notifying import build_notifier
from navarch.app.offer_catalog import OfferCatalog
from navarch.app.policies import load_policies
from navarch.app.policy_record import note_policies
from navarch.app.preferences import load_preferences
from navarch.app.provider_registry import ProviderRegistry
from navarch.app.providers.building import Surroundings
from navarch.app.scheduling import to_scheduling
from navarch.app.snapshots import Snapshots
from navarch.app.timeout_migration import TimeoutMigration
from navarch.clock.system import SystemClock, SystemEntropy, ThreadOffload
from navarch.config import BuiltInCatalogue, Config, Reload, compare, to_pool_spec
from navarch.config.remediation import to_governor
from navarch.config.server import to_pauses
from navarch.control.bringup import BringUp
from navarch.core.ids import PoolName, ProviderName
from navarch.core.joining import join_token
from navarch.core.ownership import POOL
from navarch.fleet.disruption.governor.suspicion import PolicyChange
from navarch.notifiers.log import LogAlerts
from navarch.ports.provider import ProvisionRequest
from navarch.service.agents import Timing
from navarch.service.bringup import BringUpService
from navarch.service.evidence import EvidenceService
from navarch.service.fleet_health import FleetHealthService
from navarch.service.held import HeldService
from navarch.service.joining import JoinService
from navarch.stores.bringup import FolderBringUpLogs
from navarch.stores.evidence import FolderArchive
from navarch.stores.sqlite import SqliteStore

BRINGUP = "bringup"


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A server that takes requests."""

    server: "Server"
    plane: Plane
    http: Address
    """Where it listens; a name in the configuration is an address here."""
    grpc: Address
    """Where it listens, as the configuration names it."""
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
        standby: Standby | None = None,
    ) -> None:
        """With `standby`, wait for whoever leads to end; it hears whose folder is waited for."""
        self._standby = standby
        self._config = config
        self._data_dir = data_dir
        self._extensions = extensions or Extensions()
        self._clock = SystemClock()
        self._entropy = SystemEntropy()
        self._lock = BearerAuth(_token(config))
        self._suppliers = ProviderRegistry(self._extensions)
        self._plane: Plane | None = None
        self._patience: TimeoutMigration | None = None
        self._preferences = load_preferences(config, self._extensions)
        self.opinions = Opinions(
            provision_scheduler=self._extensions.provision_scheduler,
            provision_schedulers=self._preferences.buying,
            remediator=self._extensions.remediator,
            remediators=self._preferences.remediators,
            governor=lambda: to_governor(self._config.server.governor),
            policy=lambda: self._policy_change,
            autoscalers=self._preferences.sizing,
            autoscale_interval=config.server.autoscale_interval,
            budgets=self._preferences.budgets,
            stockout_spans=to_pauses(config.server.stockouts),
            scheduling=lambda: to_scheduling(self._config.scheduler),
        )
        self._policies = load_policies(config)
        self._policy_change: PolicyChange | None = None
        self._store: SqliteStore | None = None
        self._serving = False

    async def run(self, started: Callable[[Running], None]) -> None:
        """Serve until cancelled; `started` is called once requests are taken."""
        guarded = self._lock.token is not None
        http = parse_listen_address(self._config.server.address, guarded=guarded)
        grpc = parse_listen_address(self._config.server.grpc_address, guarded=guarded)
        with ExitStack() as stack:
            listener: socket.socket | None = None
            if self._standby is None:
                listener = stack.enter_context(listen_at(http))
            offload = ThreadOffload("navarch-store")
            stack.callback(offload.close)
            store = await lead(self._clock, self._entropy, self._data_dir, offload, self._standby)
            stack.callback(store.close)
            # Closing a file under a thread that writes to it can take the process down.
            stack.callback(offload.close)
            if listener is None:
                # The doors of who led until now may be the same, and take a moment to close.
                listener = stack.enter_context(await inherit_door(self._clock, http))
            http = Address(host=http.host, port=listener.getsockname()[1])
            self._store = store
            self._policy_change = await note_policies(self._clock, store, self._policies)
            known = [n.id for n in store.fleet().nodes.values() if n.registered_at and not n.gone]
            keepsakes = Snapshots(
                self._clock, self._data_dir, nodes=known, silence=self._timing().silence
            )
            stack.callback(keepsakes.write)
            columns = keepsakes.columns
            async with asyncio.TaskGroup() as tasks:
                plane = self._plane = self._build(stack, tasks, store, keepsakes, offload, http)
                desk = HeartbeatDesk(plane.agents, columns)
                metrics = PrometheusMetrics()
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
                    auth=self._lock,
                    desk=desk,
                    ready=lambda: None if self._serving else "the control loops are starting",
                    collect=lambda: (
                        *server_metrics(store.fleet(), desk.received),
                        *metrics.collect(),
                    ),
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
                grpc_door = build_grpc_door(plane, self._lock, desk, evidence, joins, grpc)
                self._patience = TimeoutMigration(
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
                self._suppliers.restore()
                while not doors.started:
                    await self._clock.sleep(0.005)
                settle_collector()
                self._serving = True
                started(
                    Running(
                        server=self,
                        plane=plane,
                        http=Address(host=listener.getsockname()[0], port=http.port),
                        grpc=Address(host=grpc.host, port=grpc_door.port),
                        guarded=guarded,
                        nodes=sum(not node.gone for node in store.fleet().nodes.values()),
                        can_buy=bool(self._config.providers),
                    )
                )

    async def reload(self, config: Config) -> Reload:
        """Apply what can be changed while running; the answer says what cannot.

        Policies are read again even where only the files have changed. One that cannot be used
        is refused with everything else in the file: the old ones stay in force.
        """
        change = compare(self._config, config)
        # Everything that can fail is made before anything is changed.
        policies = load_policies(config)
        preferences = load_preferences(change.config, self._extensions)
        self._config = change.config
        self._preferences.become(preferences)
        self._policies = policies
        self._suppliers.renew(change.config)
        if self._store is not None:
            self._policy_change = await note_policies(self._clock, self._store, policies)
        token = _token(change.config)
        if (token is None) is (self._lock.token is None):
            self._lock.change(token)
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

    def _build(
        self,
        stack: ExitStack,
        tasks: asyncio.TaskGroup,
        store: SqliteStore,
        keepsakes: Snapshots,
        offload: ThreadOffload,
        http: Address,
    ) -> Plane:
        threads = ThreadOffload("navarch-scheduler")
        stack.callback(threads.close)
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
        self._suppliers.build(
            self._config, surroundings, tasks, http, token=lambda: self._lock.token
        )
        assortment = OfferCatalog(self._clock, self._suppliers.accounts(self._config))
        said, columns = self._config.server, keepsakes.columns
        return build_control_plane(
            self._clock,
            self._entropy,
            store,
            providers=self._suppliers.all(),
            notifier=build_notifier(self._clock, said.notifier, self._extensions, stack),
            hearing=columns,
            timing=self._timing,
            opinions=self.opinions,
            policies=lambda: self._policies,
            alerts=[LogAlerts(), *self._extensions.alert_notifiers],
            metrics_source=build_meter(
                store, columns, said.metrics.prometheus, self._extensions, stack
            ),
            loads=keepsakes.loads,
            offerings=assortment.offerings,
            assortment=assortment.offers,
            inject=self._suppliers.inject,
            save_readings=lambda: keepsakes.save(offload),
            bringup=self._bringup(store, offload, http),
            user_data=partial(self._user_data, guide),
            missing_agent=lambda pool: missing_agent(self._config, pool),
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

    async def _put_pools(self, names: Sequence[str]) -> None:
        assert self._plane is not None
        catalogue = BuiltInCatalogue()
        for name in names:
            spec = to_pool_spec(self._config, self._config.pools[name], catalogue)
            await self._plane.fleet.put_pool(spec, reason="the configuration says so")


def _token(config: Config) -> str | None:
    return config.server.auth_token.reveal() if config.server.auth_token else None
