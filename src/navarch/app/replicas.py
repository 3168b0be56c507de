"""A server as one of several replicas: one of them leads, all of them answer."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain

from navarch.api.auth import Authenticator
from navarch.api.forward.grpc import ForwardedCalls
from navarch.api.forward.http import ForwardingApp
from navarch.api.forward.leaders import HOLD_S, Held, NotForwardedError, UnansweredError
from navarch.api.forward.link import ClientKey, LeaderLink
from navarch.api.forward.origin import Seal
from navarch.api.forward.probes import ReplicaProbes
from navarch.api.metrics import PrometheusMetrics, process_metrics, render_metrics
from navarch.api.tls import ServerTls
from navarch.app.ports import Answers, Ports
from navarch.app.replica_book import ReplicaBook
from navarch.app.servers import EVERYWHERE, Address
from navarch.core.errors import InvalidError
from navarch.core.version import VERSION
from navarch.ports.clock import Clock, Entropy, Offload
from navarch.ports.store import DurableStore, Replica, ReplicaTable, StandbyStore

NOTICE_S = 2.0
"""How long a server that stops still accepts connections: load balancers notice meanwhile that it
is not ready."""
PROBED_FOR_S = 2.0
"""Probes within this time share one request to the leader: they need no token."""

_PROBE = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSettings:
    """What a replica takes from the configuration."""

    advertise: str | None
    client_key: ClientKey | None
    """The certificate to show to a leader that requires one of every client."""
    any_host: bool
    """Whether requests may name any host; a server without a token serves loopback only."""
    public_metrics: Callable[[], bool]


class ReplicaServer:
    """Forwards requests to the leader, and hands both ports over when this process leads."""

    def __init__(
        self,
        clock: Clock,
        entropy: Entropy,
        offload: Offload,
        table: ReplicaTable,
        settings: ReplicaSettings,
        *,
        secret: bytes,
        metrics: PrometheusMetrics,
        tls: ServerTls | None,
        auth: Authenticator,
    ) -> None:
        """`secret` is that of the cluster; `auth` recognizes the operators' token."""
        self._clock = clock
        self._entropy = entropy
        self._offload = offload
        self._table = table
        self._settings = settings
        self._metrics = metrics
        self._tls = tls
        self._seal = Seal(secret, lambda: clock.now().timestamp())
        self.book = ReplicaBook(clock, offload, table, certificate=self._certificate)
        self.book.declare(metrics)
        self._held = Held(metrics)
        self._link = LeaderLink(settings.client_key)
        self._grpc = ForwardedCalls(self.book.leaders, self._seal, self._link, self._held)
        self._probes = ReplicaProbes(
            clock,
            missing=self._missing,
            metrics=self._exposition,
            auth=auth,
            public_metrics=settings.public_metrics,
        )
        self._stopping = False
        self._probed_at_s = -PROBED_FOR_S
        self._problem: str | None = None

    @property
    def seal(self) -> Seal:
        """What recognizes the requests that replicas forward."""
        return self._seal

    @property
    def leader(self) -> str | None:
        """The address of the leader, if one has reported."""
        found = self.book.leaders.current
        return None if found is None else found.http

    def forwarding(self) -> Answers:
        """Return what answers at both ports while another process leads."""
        app = ForwardingApp(
            self.book.leaders,
            self._seal,
            self._link,
            self._held,
            probe=self._probes.answer,
            any_host=self._settings.any_host,
        )
        return Answers(app, self._grpc)

    async def register(self, http: Address, grpc: Address) -> None:
        """Report where this process answers, and learn who leads."""
        local = await self._offload.run(self._table.local_host)
        own = own_replica(self._settings.advertise, http, grpc, local)
        await self.book.join(
            Replica(
                id=self._entropy.new_id("replica"),
                http=str(own[0]),
                grpc=str(own[1]),
                version=VERSION,
                started=self._clock.now(),
            ),
            http=http.reachable(),
            grpc=grpc.reachable(),
        )

    async def run(self) -> None:
        """Report and follow until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.book.run())
                if self._tls is not None:
                    tasks.create_task(self._tls.run(self._clock))
        finally:
            self._link.close()
            await self._grpc.disconnect()

    def follow(self, standby: StandbyStore) -> None:
        """Report how far `standby` has followed the leader."""
        self.book.revision = lambda: standby.revision

    def lead(self, ports: Ports, answers: Answers, store: DurableStore) -> None:
        """Answer at both ports from now on."""
        self.book.revision = lambda: store.fleet().revision
        ports.become(answers)
        self.book.lead(store.term)

    async def step_down(self, ports: Ports) -> None:
        """Forward what arrives from now on; return when what has arrived is answered."""
        self._stop()
        before = ports.answers
        ports.become(self.forwarding())
        self.book.step_down()
        await ports.ended(before)

    async def drain(self, ports: Ports) -> None:
        """Send clients to the other replicas; return when nothing is held any more."""
        self._stop()
        await ports.drain()
        if self.book.others:
            await self._clock.sleep(NOTICE_S)
            with suppress(TimeoutError):
                async with asyncio.timeout(HOLD_S):
                    await self._held.empty()

    async def leave(self) -> None:
        """Remove this replica from the database."""
        await self.book.leave()

    def _stop(self) -> None:
        self._stopping = True
        # Nothing else can lead soon: what arrives is refused at once.
        self.book.leaders.hopeless = not self.book.others

    def _certificate(self) -> str:
        return "" if self._tls is None else self._tls.certificate()

    def _exposition(self) -> Iterator[bytes]:
        return render_metrics(chain(process_metrics(), self._metrics.collect()))

    async def _missing(self) -> str | None:
        """Return why this replica is not ready, None if it reaches the leader and the database."""
        if self._stopping:
            return "this server stops"
        missing = self.book.missing()
        if missing is not None:
            return missing
        if self._clock.monotonic() - self._probed_at_s >= PROBED_FOR_S:
            self._probed_at_s = self._clock.monotonic()
            self._problem = await self._probe()
        return self._problem

    async def _probe(self) -> str | None:
        leader = self.book.leaders.current
        if leader is None:
            return None  # One is about to lead; requests are held.
        try:
            sent = await self._link.send(leader, _PROBE, b"")
            try:
                sent.cut_off(self.book.leaders.end_of(leader))
                response = await sent.answered()
                async for _ in response.body():
                    pass
            finally:
                sent.end()
        except (NotForwardedError, UnansweredError) as error:
            return f"the leader at {leader.http} does not answer: {error}"
        return None


def own_replica(
    advertise: str | None, http: Address, grpc: Address, local: str
) -> tuple[Address, Address]:
    """Return how the other replicas reach this one, over HTTP and gRPC.

    `local` is the address of this machine on the way to the database.
    """
    host, port = (local if http.host in (EVERYWHERE, "::") else http.host), http.port
    grpc_host = local if grpc.host in (EVERYWHERE, "::") else grpc.host
    if advertise:
        host, port = parse_advertised(advertise, port)
        grpc_host = host
    return Address(host=host, port=port), Address(host=grpc_host, port=grpc.port)


def parse_advertised(text: str, port: int) -> tuple[str, int]:
    """Return the host and the port of `HOST`, `HOST:PORT`, `[IPV6]` or `[IPV6]:PORT`."""
    host, colon, digits = text.rpartition(":")
    if not colon or text.endswith("]") or (":" in host and not host.startswith("[")):
        return text.strip("[]"), port
    with suppress(ValueError):
        if 0 < int(digits) < 65536 and host:
            return host.strip("[]"), int(digits)
    raise InvalidError(f"{text!r} is not an address such as 10.0.0.7 or replica-1:50051")
