"""This process as one of the replicas of a database: who leads, and what the others are."""

from collections.abc import Callable

import msgspec
import structlog

from navarch.api.forward.leaders import HOLD_S, Leader, Leaders
from navarch.core.errors import StoreError
from navarch.ports.clock import Clock, Offload
from navarch.ports.metrics import Metrics
from navarch.ports.store import Replica, ReplicaTable, ReplicaView

AGAIN_S = 0.25
"""The pause after the database did not answer."""
REPORTED_S = 10.0
"""A replica that has not reported for so long is not counted as running."""

log = structlog.get_logger(__name__)


class ReplicaBook:
    """Reports this process in the database, and follows who leads."""

    def __init__(
        self,
        clock: Clock,
        offload: Offload,
        table: ReplicaTable,
        *,
        certificate: Callable[[], str],
    ) -> None:
        """`certificate` returns the certificate in use, which is replaced while the server runs."""
        self._clock = clock
        self._offload = offload
        self._table = table
        self._own = Replica(id="", http="", grpc="", version="", started=clock.now())
        self._itself = "", ""
        self._certificate = certificate
        self._problem: str | None = "this replica has not reached the database yet"
        self._led_at_s = clock.monotonic()
        """When some replica was last known to lead."""
        self.view: ReplicaView | None = None
        self.leaders = Leaders()
        self.revision: Callable[[], int] = lambda: 0

    @property
    def others(self) -> list[Replica]:
        """The other replicas that have reported lately."""
        found = () if self.view is None else self.view.replicas
        return [x for x in found if x.id != self._own.id and x.silent_s < REPORTED_S]

    async def join(self, own: Replica, *, http: str, grpc: str) -> None:
        """Report this process from now on, and learn who leads.

        `http` and `grpc` are the addresses at which this process reaches itself.
        """
        self._own = own
        self._itself = http, grpc
        await self.round()

    def lead(self, term: int) -> None:
        """Report that this process leads; what is held here is answered here."""
        self._own = msgspec.structs.replace(self._own, term=term)
        self._led_at_s = self._clock.monotonic()
        http, grpc = self._itself
        self.leaders.become(
            Leader(
                name=self._own.id,
                term=term,
                http=http,
                grpc=grpc,
                certificate=self._certificate(),
            )
        )

    def step_down(self) -> None:
        """Report that this process leads no longer."""
        self._own = msgspec.structs.replace(self._own, term=None)
        self.leaders.become(None)

    async def run(self) -> None:
        """Report and follow until cancelled."""
        while True:
            await self.round()

    async def round(self) -> None:
        """Report once, and learn who leads."""
        own = self._own = msgspec.structs.replace(
            self._own, certificate=self._certificate(), revision=self.revision()
        )
        try:
            view = await self._offload.run(lambda: self._table.round(own))
        except StoreError as error:
            if self._problem != str(error):
                log.warning("replica.database_away", reason=str(error))
            self._problem = str(error)
            await self._clock.sleep(AGAIN_S)
            return
        self._problem = None
        if view is not None:
            if view.obstacle and not (self.view and self.view.obstacle):
                log.warning("replica.cannot_lead", reason=view.obstacle)
            self.view = view
            self._follow(view)

    async def leave(self) -> None:
        """Remove this replica from the database."""
        own = self._own
        await self._offload.run(lambda: self._table.leave(own))

    def missing(self) -> str | None:
        """Return why this replica cannot forward, None if it can."""
        if self._problem is not None:
            return self._problem
        away_s = self._clock.monotonic() - self._led_at_s
        if self.leaders.current is None and away_s > HOLD_S:
            return f"no server has led for {away_s:.0f} s"
        return None

    def declare(self, metrics: Metrics) -> None:
        """Declare what is measured of replicas."""
        metrics.computed_gauge(
            "navarch_replica_leads",
            "Whether this replica leads: it holds the fleet and carries out decisions.",
            lambda: {(): float(self._own.term is not None)},
        )
        metrics.computed_gauge(
            "navarch_replica_up",
            "1 for each replica that has reported to the database within ten seconds.",
            lambda: {(x.http, x.version): 1.0 for x in self._running()},
            labels=("replica", "version"),
        )
        metrics.computed_gauge(
            "navarch_replica_lag_revisions",
            "Commits that a replica has not followed yet.",
            self._lags,
            labels=("replica",),
        )
        metrics.computed_gauge(
            "navarch_replica_reported_seconds",
            "The time since a replica has reported to the database.",
            lambda: {(x.http,): x.silent_s for x in self._running()},
            labels=("replica",),
        )
        metrics.computed_gauge(
            "navarch_replica_term",
            "The present term: how often the leader has changed.",
            lambda: {} if self.view is None else {(): float(self.view.term)},
        )

    def _running(self) -> list[Replica]:
        return [] if self.view is None else [self._own, *self.others]

    def _lags(self) -> dict[tuple[str, ...], float]:
        found = self._running()
        newest = max((x.revision for x in found), default=0)
        return {(x.http,): float(newest - x.revision) for x in found}

    def _follow(self, view: ReplicaView) -> None:
        if self._own.term is not None:
            return
        found = view.leader
        if found is None or found.id == self._own.id:
            self.leaders.become(None)
            return
        self._led_at_s = self._clock.monotonic()
        self.leaders.become(
            Leader(
                name=found.id,
                term=view.term,
                http=found.http,
                grpc=found.grpc,
                certificate=found.certificate,
            )
        )
