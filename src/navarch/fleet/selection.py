"""Which offering to ask for next, and the table behind the choice."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from navarch.core.ids import PoolName, ProviderName
from navarch.core.offering import Offering
from navarch.core.pool import Pool
from navarch.fleet.stockouts import Scope, Stockouts
from navarch.ports.provision import ProvisionOption, ProvisionScheduler

PROBE_PATIENCE = timedelta(minutes=1)
"""How long a launch without an answer keeps others from trying what is half open."""

ROWS_MAX = 20
"""How many options the table behind a choice shows; a pool may have hundreds."""

Take = tuple[Pool, Offering]
"""A launch that this round has decided on, and that is not written down yet."""

Veto = Callable[[Pool, Offering, Sequence[Take]], str | None]
"""Says why a pool may not buy an offering on top of what the round has taken, or None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnderWay:
    """A launch whose outcome is not known yet."""

    offering: Offering
    asked_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One option as it was weighed."""

    option: ProvisionOption
    score: float
    obstacle: str | None
    """Why it cannot be had now; None if it can."""

    def __str__(self) -> str:
        offering = self.option.offering
        verdict = self.obstacle or "can be asked for"
        return (
            f"{offering}, {offering.price_per_hour}/h, "
            f"score {self.score:.6g}, odds {self.option.odds:.0%}: {verdict}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The offering to ask for, and what else was on the table, best first."""

    offering: Offering
    rows: tuple[Row, ...]

    @property
    def table(self) -> str:
        """The choice as lines of text, for whoever asks why."""
        lines = [
            f"{'→' if row.option.offering == self.offering else ' '} {row}"
            for row in self.rows[:ROWS_MAX]
        ]
        if len(self.rows) > ROWS_MAX:
            lines.append(f"  … and {len(self.rows) - ROWS_MAX} more")
        return "\n".join(lines)


class Market:
    """What can be bought in one round of planning, whoever is planning.

    It counts what the round itself takes, so that two pools do not both probe the offering
    that only one launch may probe.
    """

    def __init__(
        self,
        stockouts: Stockouts,
        *,
        now: datetime,
        under_way: Iterable[UnderWay] = (),
        vetoes: Sequence[Veto] = (),
    ) -> None:
        self._stockouts = stockouts
        self._now = now
        self._under_way = [x for x in under_way if now < x.asked_at + PROBE_PATIENCE]
        self._vetoes = vetoes
        self._probes: dict[Scope, int] = {}
        self._taken: list[Take] = []
        self.turned_away: dict[PoolName, None] = {}
        """Pools that wanted to buy and could not."""

    def choose(
        self, pool: Pool, scheduler: ProvisionScheduler, held: Mapping[ProviderName, int]
    ) -> Choice | None:
        """Return the best offering that can be had now, and take it; None if there is none.

        `held` counts the machines that the pool has at each provider. Between equal scores
        the one nearest to the first choice wins: same region, then same provider, then
        whoever else there is, each in the pool's own order.
        """
        rows = self._rows(pool, scheduler, held)
        best = next((row for row in rows if row.obstacle is None), None)
        if best is None:
            self.turned_away[pool.name] = None
            return None
        self._take(best.option.offering)
        self._taken.append((pool, best.option.offering))
        return Choice(offering=best.option.offering, rows=tuple(rows))

    def for_sale(
        self, pool: Pool, scheduler: ProvisionScheduler, held: Mapping[ProviderName, int]
    ) -> Offering | None:
        """Return what `choose` would take, without taking it, for a purchase that can wait.

        What was refused last counts as sold out until it is sold to somebody or the refusal is
        forgotten: a pool that runs well does not go and probe a drought.
        """
        rows = self._rows(pool, scheduler, held)
        return next((row.option.offering for row in rows if self._is_sold(row)), None)

    def _is_sold(self, row: Row) -> bool:
        closures = self._stockouts.against(row.option.offering, self._now)
        return row.obstacle is None and all(closure.strikes == 0 for _, closure in closures)

    def opens_at(self, pool: Pool) -> datetime | None:
        """Return when the first offering of `pool` that is closed by a date opens by halves."""
        moments = []
        for offering in pool.offerings:
            closures = [closure for _, closure in self._stockouts.against(offering, self._now)]
            if any(closure.until > self._now for closure in closures):
                moments.append(max(closure.until for closure in closures))
        return min(moments, default=None)

    def _rows(
        self, pool: Pool, scheduler: ProvisionScheduler, held: Mapping[ProviderName, int]
    ) -> list[Row]:
        options = [
            ProvisionOption(
                pool=pool.name,
                offering=offering,
                position=place,
                options=len(pool.offerings),
                held=held.get(offering.provider, 0),
                odds=self._stockouts.odds(offering, self._now),
            )
            for place, offering in enumerate(pool.offerings)
        ]
        scored = sorted(
            ((scheduler.score(option), option) for option in options),
            key=lambda pair: (-pair[0], pair[1].position),
        )
        first = scored[0][1].offering
        scored.sort(key=lambda x: (-x[0], _distance(x[1].offering, first), x[1].position))
        return [
            Row(option=option, score=score, obstacle=self._obstacle(pool, option.offering))
            for score, option in scored
        ]

    def _obstacle(self, pool: Pool, offering: Offering) -> str | None:
        for veto in self._vetoes:
            if (why := veto(pool, offering, self._taken)) is not None:
                return why
        for scope, closure in self._stockouts.against(offering, self._now):
            if self._now < closure.until:
                return f"closed until {closure.until:%H:%M:%S}: {closure.reason}"
            if self._probing(scope, closure.since) >= closure.allowance:
                return f"half open, and others are trying: {closure.reason}"
        return None

    def _probing(self, scope: Scope, since: datetime) -> int:
        if scope not in self._probes:
            self._probes[scope] = sum(
                x.asked_at >= since and scope.covers(x.offering) for x in self._under_way
            )
        return self._probes[scope]

    def _take(self, offering: Offering) -> None:
        for scope, closure in self._stockouts.against(offering, self._now):
            self._probes[scope] = self._probing(scope, closure.since) + 1


def _distance(offering: Offering, first: Offering) -> int:
    """Return how far a failover to `offering` goes: another zone, another region, elsewhere."""
    if offering.provider != first.provider:
        return 2
    return 0 if offering.region == first.region else 1
