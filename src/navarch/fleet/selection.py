"""The choice of the next offering to request, with the table behind the choice."""

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

import msgspec

from navarch.core.ids import PoolName, ProviderName
from navarch.core.launch import Gang, Offering
from navarch.core.pool import Pool
from navarch.fleet.launch_breaker import QuarantinedOffering
from navarch.fleet.stockouts import Closure, Scope, Stockouts, scopes
from navarch.ports.provision import ProvisionOption, ProvisionScheduler

PROBE_PATIENCE = timedelta(minutes=1)
"""How long a launch without an answer blocks other probes of a half-open offering."""

ROWS_MAX = 20
"""How many options the table of a choice shows; a pool may have hundreds."""

Take = tuple[Pool, Offering]
"""A launch that this round has decided on and that is not stored yet."""


class ProposedLaunch(msgspec.Struct, frozen=True, kw_only=True):
    """One machine that a pool would buy."""

    pool: Pool
    offering: Offering
    instead_of: Decimal | None = None
    """The hourly price of the broken machine that it replaces; None if the pool grows."""


Veto = Callable[[ProposedLaunch, Sequence[Take]], str | None]
"""Returns why a launch is not allowed on top of what the round has taken, or None."""


class UnderWay(msgspec.Struct, frozen=True, kw_only=True):
    """A launch without an answer yet."""

    offering: Offering
    asked_at: datetime
    gang: Gang | None = None


Reservation = tuple[ProviderName, str]
"""A capacity reservation, by provider and name."""


@dataclass(frozen=True, slots=True)
class Closed:
    """A part of the market that refused, as an obstacle at one moment.

    Its text is made on demand: a drought is evaluated many times a second.
    """

    closure: Closure
    opens_at: datetime
    now: datetime

    def __str__(self) -> str:
        if self.now < self.opens_at:
            return f"closed until {self.opens_at:%H:%M:%S}: {self.closure.reason}"
        return f"half open, and others are trying: {self.closure.reason}"


NONE_QUARANTINED: Mapping[Scope, QuarantinedOffering] = {}

Bar = Closed | str
"""The obstacle that keeps a pool from buying an offering: a closure, or a reason in words."""

Obstacle = tuple[Offering, Bar | None]
"""The offering that a pool would have bought, and its obstacle."""


class Score(msgspec.Struct, frozen=True):
    """The score that a strategy gives an option; the lowest if the strategy fails."""

    value: float = -math.inf
    fault: str = ""
    """How the strategy failed."""

    def __str__(self) -> str:
        # Adding nothing makes a negative zero a plain one.
        return f"no score ({self.fault})" if self.fault else f"score {self.value + 0.0:.6g}"


def _score(scheduler: ProvisionScheduler, option: ProvisionOption) -> Score:
    """Return the score of an option. A strategy that fails must not keep every pool from buying."""
    try:
        value: object = scheduler.score(option)
    except Exception as error:  # noqa: BLE001 - a strategy may be anybody's code
        return Score(fault=repr(error))
    if not isinstance(value, (int, float)) or math.isnan(value):
        return Score(fault=f"{value!r} is no score")
    return Score(value)


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One option with its score."""

    option: ProvisionOption
    score: "Score"
    bar: "Bar | None"
    """The obstacle to buying it now; None if there is none."""
    quarantined: bool = False
    """Whether machines did not come up there recently: chosen only if there is nothing else."""

    def __str__(self) -> str:
        offering = self.option.offering
        verdict = "available" if self.bar is None else str(self.bar)
        if self.quarantined and self.bar is None:
            verdict += ", but machines did not come up there lately"
        terms = f", {offering.capacity_type}" if offering.spot or offering.reservation else ""
        terms += f" {offering.reservation}" if offering.reservation else ""
        price = f"{offering.price_per_hour}/h" if offering.price_per_hour else "price unknown"
        return f"{offering}{terms}, {price}, {self.score}, odds {self.option.odds:.0%}: {verdict}"


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """The offering to request, and all options, best first."""

    offering: Offering
    rows: tuple[Row, ...]

    @property
    def table(self) -> str:
        """The choice as lines of text, for explanations."""
        lines = [
            f"{'→' if row.option.offering == self.offering else ' '} {row}"
            for row in self.rows[:ROWS_MAX]
        ]
        if len(self.rows) > ROWS_MAX:
            lines.append(f"  … and {len(self.rows) - ROWS_MAX} more")
        return "\n".join(lines)


class _Standing(msgspec.Struct, frozen=True, kw_only=True):
    """The closures of one offering of a pool during a round."""

    offering: Offering
    against: tuple[tuple[Scope, Closure], ...]

    @property
    def failed_before(self) -> bool:
        """Whether a gang of this size was abandoned there recently."""
        return any(scope.gang is not None for scope, _ in self.against)


class Market:
    """What can be bought in one round of planning, across pools.

    It counts what the round itself takes, so that two pools do not both probe an offering that
    allows one probe.
    """

    def __init__(
        self,
        stockouts: Stockouts,
        *,
        now: datetime,
        under_way: Iterable[UnderWay] = (),
        vetoes: Sequence[Veto] = (),
        reserved: Mapping[Reservation, int] | None = None,
        waiting: Mapping[PoolName, int] | None = None,
    ) -> None:
        """Set up the round; `reserved` counts the machines already taken from each reservation."""
        self._stockouts = stockouts
        self.waiting = dict(waiting or {})
        """How many machines each pool still wants, as far as it has been planned."""
        self._crowd = sum(self.waiting.values())
        self._now = now
        self._under_way = under_way
        self._vetoes = vetoes
        self._probes: dict[Scope, int] = {}
        self._standings: dict[tuple[PoolName, int], tuple[Pool, list[_Standing]]] = {}
        self._taken: list[Take] = []
        self._reserved: defaultdict[Reservation, int] = defaultdict(int, reserved or {})
        self.turned_away: dict[PoolName, Obstacle] = {}
        """Pools that could not buy, and the obstacle to their first choice."""

    def expect(self, pool: PoolName, nodes: int) -> None:
        """Record how many machines `pool` still has to find."""
        self._crowd += nodes - self.waiting.get(pool, 0)
        self.waiting[pool] = nodes

    def choose(
        self,
        pool: Pool,
        scheduler: ProvisionScheduler,
        held: Mapping[ProviderName, int],
        *,
        gang: int = 0,
        instead_of: Decimal | None = None,
        quarantined: Mapping[Scope, QuarantinedOffering] = NONE_QUARANTINED,
        only: Offering | None = None,
    ) -> Choice | None:
        """Return the best offering that is available now, and take it; None if there is none.

        `held` counts the pool's machines at each provider. Reservations come first. Between equal
        scores the offering nearest to the first choice wins: same region, then same provider, then
        any other, each in the pool's order. A `gang` of that many machines prefers offerings where
        no gang of its size failed recently. `instead_of` is the hourly price of the broken machine
        that the new one replaces. Offerings in `quarantined` are chosen only if nothing else is
        available, and one at a time. With `only`, no other offering is chosen.
        """
        known = self._known(pool, gang)
        bars: list[Bar | None] = []
        will_do: list[int] = []
        is_open = False
        for place, each in enumerate(known):
            bar = self._bar(pool, each, gang, instead_of, quarantined)
            bars.append(bar)
            if only is None or each.offering == only:
                will_do.append(place)
                is_open = is_open or bar is None
        if is_open:
            rows = self._rows(pool, scheduler, held, known, bars, quarantined)
            for row in rows:
                offering = row.option.offering
                if row.bar is None and (only is None or offering == only):
                    self._take(pool, known[row.option.position], gang)
                    return Choice(offering=offering, rows=tuple(rows))
        # The usual case in a drought, evaluated often: nothing needs a score.
        first = will_do[0] if will_do else 0
        self.turned_away[pool.name] = (known[first].offering, bars[first])
        return None

    def join(self, pool: Pool, gang: Gang, *, instead_of: Decimal | None = None) -> str | None:
        """Take one more machine for an existing gang; or return why it is not available.

        A gang has one offering, so stockouts of other launches there do not matter.
        """
        proposal = ProposedLaunch(pool=pool, offering=gang.offering, instead_of=instead_of)
        obstacle = self._veto(proposal, 1) or self._no_room(gang.offering, 1)
        if obstacle is not None:
            self.turned_away[pool.name] = (gang.offering, obstacle)
            return obstacle
        self._taken.append((pool, gang.offering))
        self._reserve(gang.offering, 1)
        return None

    def for_sale(
        self,
        pool: Pool,
        scheduler: ProvisionScheduler,
        held: Mapping[ProviderName, int],
        *,
        quarantined: Collection[Scope] = (),
    ) -> Offering | None:
        """Return what `choose` would take, without taking it, for a purchase that can wait.

        A refused offering counts as sold out until it sells again or the refusal expires, and so
        does a quarantined one: a pool that runs well does not probe.
        """
        known = self._known(pool, 0)
        bars = [self._bar(pool, each, 0, None, NONE_QUARANTINED) for each in known]
        for row in self._rows(pool, scheduler, held, known, bars, NONE_QUARANTINED):
            closures = known[row.option.position].against
            doubtful = scopes(row.option.offering)[0] in quarantined
            if row.bar is None and not doubtful and all(x.strikes == 0 for _, x in closures):
                return row.option.offering
        return None

    def opens_at(self, pool: Pool) -> datetime | None:
        """Return when the first offering of `pool` that is closed until a date may be tried.

        That is when it becomes half open, or when the probes under way have timed out.
        """
        moments = []
        for known in self._known(pool, pool.gang):
            moments_of_it = (self._tried_again_at(scope, x) for scope, x in known.against)
            until = max(moments_of_it, default=self._now)
            if until > self._now:
                moments.append(until)
        return min(moments, default=None)

    def _known(self, pool: Pool, gang: int) -> list[_Standing]:
        held = self._standings.get((pool.name, gang))
        if held is not None and held[0] is pool:
            return held[1]
        found: list[_Standing] = []
        for offering in pool.offerings:
            against: tuple[tuple[Scope, Closure], ...] = ()
            if self._stockouts.closures:
                against = tuple(self._stockouts.against(offering, self._now, gang))
            found.append(_Standing(offering=offering, against=against))
        self._standings[pool.name, gang] = (pool, found)
        return found

    def _rows(
        self,
        pool: Pool,
        scheduler: ProvisionScheduler,
        held: Mapping[ProviderName, int],
        known: Sequence[_Standing],
        bars: Sequence[Bar | None],
        quarantined: Mapping[Scope, QuarantinedOffering],
    ) -> list[Row]:
        rows: list[Row] = []
        for place, each in enumerate(known):
            offering = each.offering
            option = ProvisionOption(
                pool=pool.name,
                offering=offering,
                position=place,
                options=len(known),
                held=held.get(offering.provider, 0),
                odds=self._stockouts.odds(offering, self._now),
            )
            comes_last = bool(quarantined) and self._comes_last(offering, quarantined)
            score = _score(scheduler, option)
            rows.append(Row(option=option, score=score, bar=bars[place], quarantined=comes_last))
        return rows if len(rows) == 1 else _ranked(rows, known)

    def _veto(self, proposal: ProposedLaunch, machines: int) -> str | None:
        for veto in self._vetoes:
            for others in range(machines):
                # A copy for every machine of a large pool would block the server for seconds.
                more = [(proposal.pool, proposal.offering)] * others
                taken = [*self._taken, *more] if more else self._taken
                if (why := veto(proposal, taken)) is not None:
                    return why
        return None

    def _no_room(self, offering: Offering, machines: int) -> str | None:
        if not offering.reservation or offering.reserved_nodes is None:
            return None
        used = self._reserved[_reservation(offering)]
        if used + machines <= offering.reserved_nodes:
            return None
        return f"{used} of {offering.reserved_nodes} reserved machines are used"

    def _comes_last(
        self, offering: Offering, quarantined: Mapping[Scope, QuarantinedOffering]
    ) -> bool:
        place = quarantined.get(scopes(offering)[0])
        return place is not None and self._now < place.last_until

    def _bar(
        self,
        pool: Pool,
        known: _Standing,
        gang: int,
        instead_of: Decimal | None,
        quarantined: Mapping[Scope, QuarantinedOffering],
    ) -> Bar | None:
        """Return the obstacle to buying this offering for `pool`, if there is one."""
        for scope, closure in known.against:
            opens_at = closure.opens_at(self._crowd)
            if self._now < opens_at or self._probing(scope, closure.since) >= closure.allowance:
                return Closed(closure, opens_at, self._now)
        place = quarantined.get(scopes(known.offering)[0]) if quarantined else None
        if place is not None and (why := place.bar(self._now)) is not None:
            return why
        machines = gang or 1
        proposal = ProposedLaunch(pool=pool, offering=known.offering, instead_of=instead_of)
        return self._veto(proposal, machines) or self._no_room(known.offering, machines)

    def _probing(self, scope: Scope, since: datetime) -> int:
        """Return how many probes of that part of the market are under way; a gang is one."""
        if scope not in self._probes:
            self._probes[scope] = len(self._trying(scope, since))
        return self._probes[scope]

    def _trying(self, scope: Scope, since: datetime) -> list[datetime]:
        """Return the start of each probe that has not timed out, in order."""
        # One tick later, because a probe of exactly that age has timed out.
        patient_since = self._now - PROBE_PATIENCE + timedelta.resolution
        trying: dict[object, datetime] = {}
        for place, x in enumerate(self._under_way):
            if x.asked_at >= max(since, patient_since) and scope.covers(
                x.offering, x.gang.nodes if x.gang else 0
            ):
                who = x.gang.id if x.gang else place
                trying[who] = max(x.asked_at, trying.get(who, x.asked_at))
        return sorted(trying.values())

    def _tried_again_at(self, scope: Scope, closure: Closure) -> datetime:
        """Return when one more probe of that part of the market is allowed."""
        opens_at = closure.opens_at(self._crowd)
        too_many = self._probing(scope, closure.since) - closure.allowance + 1
        if self._now < opens_at or too_many <= 0:
            return opens_at
        trying = self._trying(scope, closure.since)
        # A probe chosen in this round starts now.
        since = trying[too_many - 1] if too_many <= len(trying) else self._now
        return since + PROBE_PATIENCE

    def _take(self, pool: Pool, known: _Standing, gang: int) -> None:
        for scope, closure in known.against:
            self._probes[scope] = self._probing(scope, closure.since) + 1
        machines = gang or 1
        self._taken += [(pool, known.offering)] * machines
        self._reserve(known.offering, machines)

    def _reserve(self, offering: Offering, machines: int) -> None:
        if offering.reservation:
            self._reserved[_reservation(offering)] += machines


def _ranked(rows: Iterable[Row], known: Sequence[_Standing]) -> list[Row]:
    """Return all options, best first: reservations, then by score, then the nearest."""
    by_score = sorted(rows, key=lambda row: (-row.score.value, row.option.position))
    first = by_score[0].option.offering
    return sorted(
        by_score,
        key=lambda row: (
            row.quarantined,
            known[row.option.position].failed_before,
            not row.option.offering.reservation,
            -row.score.value,
            _distance(row.option.offering, first),
            row.option.position,
        ),
    )


def _reservation(offering: Offering) -> Reservation:
    return offering.provider, offering.reservation


def _distance(offering: Offering, first: Offering) -> int:
    """Return how far a failover to `offering` goes: zone, region or provider."""
    if offering.provider != first.provider:
        return 2
    return 0 if offering.region == first.region else 1
