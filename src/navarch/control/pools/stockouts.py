"""Stockouts: what providers refused lately, learned from commits and read again at the start."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime

from navarch.control.runtime.journal import read_journal
from navarch.core.fleet import Fleet
from navarch.core.ids import NodeId, PoolName, ProviderName, Token
from navarch.core.launch import Launch, Offering
from navarch.core.node import Node
from navarch.core.pool import Pool
from navarch.fleet.selection import Market, Obstacle, Reservation, UnderWay, Veto
from navarch.fleet.stockouts import (
    SPANS,
    Spans,
    Stockouts,
    after_event,
    refused_at,
    stockouts_from_journal,
)
from navarch.ports.clock import Clock
from navarch.ports.store import Committed, Store

RECALLED = 1000
"""How many revisions of the journal are read at the start. Older stockouts are mostly over; one
that is missed costs one refused call."""


class StockoutMemory:
    """Learns from every launch that is committed."""

    def __init__(
        self,
        clock: Clock,
        store: Store,
        vetoes: Sequence[Veto] = (),
        spans: Spans = SPANS,
        *,
        machines_per_call: Mapping[ProviderName, int] | None = None,
        covering_zones: Collection[ProviderName] = (),
        alone: Callable[[Pool], bool] = lambda _: False,
    ) -> None:
        self._clock = clock
        self._store = store
        self._vetoes = vetoes
        self._spans = spans
        self._machines_per_call = machines_per_call or {}
        self._covering_zones = covering_zones
        self._alone = alone
        self._stockouts: Stockouts | None = None
        self._missed: list[Committed] = []
        self._under_way: dict[Token, UnderWay] = {}
        self._reserved: dict[NodeId, Reservation] = {}
        for node in store.fleet().nodes.values():
            self._follow(node)
        self._read_from = max(store.fleet().revision - RECALLED, 0)
        self._read_to = store.fleet().revision
        self.market = Market(Stockouts(), now=clock.now())
        self.look_at: Callable[[PoolName], None] = lambda _: None
        """Called for pools that could not buy, as soon as something has changed for them."""
        self._waiting: dict[PoolName, Obstacle] = {}

    async def begin_round(self, now: datetime) -> None:
        """Prepare the market for the pools of one round."""
        if self._stockouts is None:
            entries = await read_journal(self._store, after_revision=self._read_from)
            past = [entry.event for entry in entries if entry.revision <= self._read_to]
            self._stockouts = stockouts_from_journal(past, self._spans)
            for committed in self._missed:
                self._learn(committed)
            self._missed = []
        self._waiting |= self.market.turned_away
        self.market = Market(
            self._stockouts,
            now=now,
            under_way=self._under_way.values(),
            vetoes=self._vetoes,
            reserved=Counter(self._reserved.values()) if self._reserved else None,
            waiting=self.market.waiting,
            machines_per_call=self._machines_per_call,
            covering_zones=self._covering_zones,
            alone=self._alone,
        )

    def closed(self, offering: Offering) -> tuple[str, datetime] | None:
        """Return why `offering` was last refused and when it is tried again; None if it is open."""
        if self._stockouts is None:
            return None
        found = [closure for _, closure in self._stockouts.against(offering, self._clock.now())]
        if not found:
            return None
        last = max(found, key=lambda closure: closure.until)
        return last.reason, last.until

    def refused_since(self, launch: Launch) -> str | None:
        """Return why its offering was refused after `launch` was decided on; None if it was not."""
        if self._stockouts is None:
            return None
        now = self._clock.now()
        for _, closure in self._stockouts.against(launch.offering, now, request=launch.request):
            if launch.asked_at < closure.since and now < closure.until:
                return closure.reason
        return None

    def obstacle(self, pool: PoolName) -> str | None:
        """Return what prevented the last launch for `pool`; None if nothing did."""
        found = self.market.turned_away.get(pool) or self._waiting.get(pool)
        return None if found is None else f"{found[0]}: {found[1]}"

    def on_commit(self, committed: Committed) -> None:
        """Learn from the launches that a commit wrote."""
        for before, node in committed.moved:
            if before is None:
                self._follow(node)
                continue
            if before.launch is not node.launch or before.gone is not node.gone:
                if before.launch is not None:
                    self._under_way.pop(before.launch.token, None)
                self._follow(node)
        if self._stockouts is None:
            self._missed.append(committed)
        else:
            self._learn(committed)

    def _follow(self, node: Node) -> None:
        launch = node.launch
        if launch is None or node.gone:
            self._reserved.pop(node.id, None)
            return
        if launch.open:
            self._under_way[launch.token] = UnderWay(
                offering=launch.offering,
                zones=launch.zones,
                asked_at=launch.asked_at,
                gang=launch.gang,
                alone=self._is_alone(launch),
                request=launch.request,
            )
        if launch.offering.reservation:
            self._reserved[node.id] = (launch.offering.provider, launch.offering.reservation)
        elif self._reserved:
            self._reserved.pop(node.id, None)

    def _is_alone(self, launch: Launch) -> bool:
        pool = self._store.fleet().pools.get(launch.pool)
        return pool is not None and self._alone(pool)

    def _learn(self, committed: Committed) -> None:
        known = stockouts = self._stockouts
        assert stockouts is not None
        for launch in committed.change.launches:
            if launch.refusal is None or launch.refused_at is None:
                continue
            if not _has_machines(committed.after, launch):
                for offering in refused_at(launch.offering, launch.zones, launch.refusal):
                    stockouts = stockouts.after_refusal(
                        offering,
                        launch.refusal,
                        launch.refused or "",
                        asked_at=launch.asked_at,
                        now=launch.refused_at,
                        request=launch.request,
                    )
        for event in committed.change.events:
            if event.kind == "gang.given_up":
                stockouts = after_event(stockouts, event)
        for before, node in committed.moved:
            sold = node.launch
            if sold is None or sold.adopted:
                continue
            if sold.instance is not None and not (before and before.instance):
                stockouts = stockouts.after_sale(
                    sold.offering,
                    asked_at=sold.asked_at,
                    now=self._clock.now(),
                    request=sold.request,
                )
            if before is not None and before.waiting and not node.waiting and node.gang:
                stockouts = stockouts.after_gang(node.gang.offering, node.gang.nodes)
        self._stockouts = stockouts
        if stockouts is not known:
            for pool in self._waiting | self.market.turned_away:
                self.look_at(pool)
            self._waiting = {}


def _has_machines(fleet: Fleet, launch: Launch) -> bool:
    """Return whether members of the launch's gang have machines: then only a block is full."""
    gang = launch.gang
    if gang is None:
        return False
    mates = fleet.in_pool(launch.pool).values()
    return any(x.instance and not x.gone for x in mates if x.gang and x.gang.id == gang.id)
