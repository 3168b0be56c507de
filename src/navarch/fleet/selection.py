"""The choice of the next offering to request, with the table behind the choice."""

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from operator import attrgetter

import msgspec

from navarch.core.ids import PoolName, ProviderName
from navarch.core.launch import Gang, Offering, Refusal, in_zones
from navarch.core.pool import Pool
from navarch.core.records import evolve
from navarch.fleet.launch_breaker import QuarantinedOffering
from navarch.fleet.stockouts import Closure, Scope, Stockouts, scopes
from navarch.ports.provider import ProvisionOption, ProvisionScheduler

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
    zones: tuple[str, ...] = ()
    """Other zones in which its machine may start."""
    alone: bool = False
    """Whether its call is for one machine at any provider."""
    request: str = ""
    """The digest of what else it requests."""

    @property
    def parts(self) -> set[Scope]:
        """The parts of the market that it tries."""
        gang = self.gang.nodes if self.gang else 0
        places = in_zones(self.offering, self.zones)
        return {x for place in places for x in scopes(place, gang, self.request)}


Reservation = tuple[ProviderName, str]
"""A capacity reservation, by provider and name."""


NONE_QUARANTINED: Mapping[Scope, QuarantinedOffering] = {}

Obstacle = tuple[Offering, str | None]
"""The offering that a pool would have bought, and what keeps it from buying."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One option with its score."""

    option: ProvisionOption
    score: float
    """The score that the strategy gives it; the lowest if the strategy fails."""
    fault: str = ""
    """How the strategy failed."""
    bar: str | None
    """The obstacle to buying it now; None if there is none."""
    quarantined: bool = False
    """Whether machines did not come up there recently: chosen only if there is nothing else."""
    failed_before: bool = False
    """Whether a gang of this size was abandoned there recently."""
    joins: bool = False
    """Whether the call for the chosen offering covers this one too."""

    def __str__(self) -> str:
        offering = self.option.offering
        verdict = "available" if self.bar is None else self.bar
        if self.quarantined and self.bar is None:
            verdict += ", but machines did not come up there lately"
        if self.joins:
            verdict = "covered by the same call" + (f", though {self.bar}" if self.bar else "")
        terms = f", {offering.capacity_type}" if offering.spot or offering.reservation else ""
        terms += f" {offering.reservation}" if offering.reservation else ""
        price = f"{offering.price_per_hour}/h" if offering.price_per_hour else "price unknown"
        # Adding nothing makes a negative zero a plain one.
        score = f"no score ({self.fault})" if self.fault else f"score {self.score + 0.0:.6g}"
        return f"{offering}{terms}, {price}, {score}, odds {self.option.odds:.0%}: {verdict}"


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """The offering to request, and all options, best first."""

    offering: Offering
    rows: tuple[Row, ...]
    zones: tuple[str, ...] = ()
    """Other zones that the same call covers."""

    @property
    def table(self) -> str:
        """The choice as lines of text, for explanations."""
        lines = [
            f"{'→' if row.joins or row.option.offering == self.offering else ' '} {row}"
            for row in self.rows[:ROWS_MAX]
        ]
        if len(self.rows) > ROWS_MAX:
            lines.append(f"  … and {len(self.rows) - ROWS_MAX} more")
        return "\n".join(lines)


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
        machines_per_call: Mapping[ProviderName, int] | None = None,
        covering_zones: Collection[ProviderName] = (),
        alone: Callable[[Pool], bool] = lambda _: False,
    ) -> None:
        """Set up the round; `reserved` counts the machines already taken from each reservation.

        `machines_per_call` names the providers that start many machines in one call, and
        `covering_zones` those that do so in several zones of a region. Each machine of a pool that
        is `alone` takes a call of its own nevertheless.
        """
        self._stockouts = stockouts
        self.waiting = dict(waiting or {})
        """How many machines each pool still wants, as far as it has been planned."""
        self._crowd = sum(self.waiting.values())
        self._now = now
        self._under_way = under_way
        self._vetoes = vetoes
        self._probes: dict[Scope, int] = {}
        self._machines_per_call = machines_per_call or {}
        self._covering_zones = covering_zones
        self._alone = alone
        self._room: dict[tuple[PoolName, Offering], int] = {}
        """How many more machines the last call of a pool at an offering can take."""
        self._requests: dict[PoolName, str] = {}
        """The digest of what the launches of each pool request."""
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
        allowed = [x for x in pool.offerings if only is None or x == only]
        bars = {x: self._bar(pool, x, gang, instead_of, quarantined) for x in pool.offerings}
        if any(bars[offering] is None for offering in allowed):
            rows = self._rows(pool, scheduler, held, bars, gang, quarantined)
            for row in rows:
                offering = row.option.offering
                if row.bar is None and offering in allowed:
                    machines = gang or 1
                    others = []
                    if only is None and self._may_cover_zones(offering, gang):
                        proposed = ProposedLaunch(
                            pool=pool, offering=offering, instead_of=instead_of
                        )
                        rows = self._with_zones(proposed, rows, quarantined)
                        others = [x.option.offering for x in rows if x.joins]
                    self._add_to_call(pool, [offering, *others], machines, gang)
                    self._taken += [(pool, offering)] * machines
                    self._reserved[offering.provider, offering.reservation] += machines
                    zones = tuple(other.zone for other in others)
                    return Choice(offering=offering, rows=tuple(rows), zones=zones)
        # The usual case in a drought, evaluated often: nothing needs a score.
        first = allowed[0] if allowed else pool.offerings[0]
        self.turned_away[pool.name] = (first, bars[first])
        return None

    def join(self, pool: Pool, gang: Gang, *, instead_of: Decimal | None = None) -> str | None:
        """Take one more machine for an existing gang; or return why it is not available.

        A gang has one offering, so stockouts of other launches there do not matter.
        """
        proposal = ProposedLaunch(pool=pool, offering=gang.offering, instead_of=instead_of)
        obstacle = self._veto(proposal, 1)
        if obstacle is not None:
            self.turned_away[pool.name] = (gang.offering, obstacle)
            return obstacle
        self._taken.append((pool, gang.offering))
        self._reserved[gang.offering.provider, gang.offering.reservation] += 1
        return None

    def for_sale(
        self,
        pool: Pool,
        scheduler: ProvisionScheduler,
        *,
        quarantined: Collection[Scope] = (),
    ) -> Offering | None:
        """Return what `choose` would take, without taking it, for a purchase that can wait.

        A refused offering counts as sold out until it sells again or the refusal expires, and so
        does a quarantined one: a pool that runs well does not probe.
        """
        bars = {x: self._bar(pool, x, 0, None, NONE_QUARANTINED) for x in pool.offerings}
        for row in self._rows(pool, scheduler, {}, bars, 0, NONE_QUARANTINED):
            offering = row.option.offering
            closures = self._closures(pool, offering)
            doubtful = scopes(offering)[0] in quarantined or any(x.strikes for _, x in closures)
            if row.bar is None and not doubtful:
                return offering
        return None

    def opens_at(self, pool: Pool) -> datetime | None:
        """Return when the first offering of `pool` that is closed until a date may be tried.

        That is when it becomes half open, or when the probes under way have timed out.
        """
        moments = []
        for offering in pool.offerings:
            closures = self._closures(pool, offering, pool.gang)
            until = max((self._tried_again_at(scope, x) for scope, x in closures), default=None)
            if until is not None and until > self._now:
                moments.append(until)
        return min(moments, default=None)

    def _rows(
        self,
        pool: Pool,
        scheduler: ProvisionScheduler,
        held: Mapping[ProviderName, int],
        bars: Mapping[Offering, str | None],
        gang: int,
        quarantined: Mapping[Scope, QuarantinedOffering],
    ) -> list[Row]:
        """Return all options, best first: reservations, then by score, then the nearest."""
        rows: list[Row] = []
        for position, offering in enumerate(pool.offerings):
            option = ProvisionOption(
                pool=pool.name,
                offering=offering,
                position=position,
                options=len(pool.offerings),
                held=held.get(offering.provider, 0),
                odds=self._stockouts.odds(offering, self._now),
            )
            score, fault = _score(scheduler, option)
            place = quarantined.get(scopes(offering)[0])
            closures = self._closures(pool, offering, gang)
            row = Row(
                option=option,
                score=score,
                fault=fault,
                bar=bars[offering],
                quarantined=place is not None and self._now < place.last_until,
                failed_before=any(scope.gang is not None for scope, _ in closures),
            )
            rows.append(row)
        first = max(rows, key=attrgetter("score")).option.offering
        return sorted(
            rows,
            key=lambda row: (
                row.quarantined,
                row.failed_before,
                not row.option.offering.reservation,
                -row.score,
                _distance(row.option.offering, first),
                row.option.position,
            ),
        )

    def _closures(
        self, pool: Pool, offering: Offering, gang: int = 0
    ) -> Iterator[tuple[Scope, Closure]]:
        """Yield the closures that apply to a launch of `pool`."""
        if pool.name not in self._requests:
            self._requests[pool.name] = pool.request_digest
        return self._stockouts.against(offering, self._now, gang, self._requests[pool.name])

    def _veto(self, proposal: ProposedLaunch, machines: int) -> str | None:
        """Return why that many machines cannot be bought: a veto, or a used up reservation."""
        for veto in self._vetoes:
            for others in range(machines):
                # A copy for every machine of a large pool would block the server for seconds.
                more = [(proposal.pool, proposal.offering)] * others
                taken = [*self._taken, *more] if more else self._taken
                if (why := veto(proposal, taken)) is not None:
                    return why
        offering = proposal.offering
        if not offering.reservation or offering.reserved_nodes is None:
            return None
        used = self._reserved[offering.provider, offering.reservation]
        if used + machines <= offering.reserved_nodes:
            return None
        return f"{used} of {offering.reserved_nodes} reserved machines are used"

    def _bar(
        self,
        pool: Pool,
        offering: Offering,
        gang: int,
        instead_of: Decimal | None,
        quarantined: Mapping[Scope, QuarantinedOffering],
    ) -> str | None:
        """Return the obstacle to buying this offering for `pool`, if there is one."""
        for scope, closure in self._closures(pool, offering, gang):
            opens_at = closure.opens_at(self._crowd)
            if self._now < opens_at:
                return f"closed until {opens_at:%H:%M:%S}: {closure.reason}"
            joins_call = self._room.get((pool.name, offering), 0) >= (gang or 1)
            if not joins_call and self._probing(scope, closure.since) >= closure.allowance:
                return f"half open, and others are trying: {closure.reason}"
        proposal = ProposedLaunch(pool=pool, offering=offering, instead_of=instead_of)
        return self._forbidden(proposal, gang or 1, quarantined)

    def _forbidden(
        self,
        proposal: ProposedLaunch,
        machines: int,
        quarantined: Mapping[Scope, QuarantinedOffering],
    ) -> str | None:
        """Return why that many machines must not be bought, whether they are sold out or not."""
        place = quarantined.get(scopes(proposal.offering)[0]) if quarantined else None
        if place is not None and (why := place.bar(self._now)) is not None:
            return why
        return self._veto(proposal, machines)

    def _may_cover_zones(self, offering: Offering, gang: int) -> bool:
        """Return whether a call for `offering` may cover other zones of its region too.

        A gang is in one block, and a reservation in one zone.
        """
        in_one_zone = gang or offering.reservation or not offering.zone
        return not in_one_zone and offering.provider in self._covering_zones

    def _with_zones(
        self,
        proposal: ProposedLaunch,
        rows: Iterable[Row],
        quarantined: Mapping[Scope, QuarantinedOffering],
    ) -> list[Row]:
        """Return `rows`, with those marked that join the call for the proposed launch.

        These are the same offering in other zones. One that was sold out joins even before its
        pause is over: the pause saves calls, and here it costs none.
        """
        return [
            evolve(row, joins=True)
            if not row.quarantined and self._joins(row.option.offering, proposal, quarantined)
            else row
            for row in rows
        ]

    def _joins(
        self,
        other: Offering,
        proposal: ProposedLaunch,
        quarantined: Mapping[Scope, QuarantinedOffering],
    ) -> bool:
        offering = proposal.offering
        if other == offering or not other.zone or evolve(other, zone=offering.zone) != offering:
            return False
        closures = self._closures(proposal.pool, other)
        if any(closure.refusal is not Refusal.CAPACITY for _, closure in closures):
            return False
        return self._forbidden(evolve(proposal, offering=other), 1, quarantined) is None

    def _add_to_call(
        self, pool: Pool, offerings: Sequence[Offering], machines: int, gang: int
    ) -> None:
        """Count a probe, unless the machines fit into the call of one that is counted already."""
        room = self._room.get((pool.name, offerings[0]), 0)
        if room < machines:
            closures = {
                scope: closure.since
                for offering in offerings
                for scope, closure in self._closures(pool, offering, gang)
            }
            for scope, since in closures.items():
                self._probes[scope] = self._probing(scope, since) + 1
            shared = self._machines_per_call.get(offerings[0].provider, 0)
            room = machines if self._alone(pool) else shared
        for offering in offerings:
            self._room[pool.name, offering] = room - machines

    def _probing(self, scope: Scope, since: datetime) -> int:
        """Return how many probes of that part of the market are under way.

        A gang is one, and so are the machines of one call.
        """
        if scope not in self._probes:
            self._probes[scope] = len(self._trying(scope, since))
        return self._probes[scope]

    def _trying(self, scope: Scope, since: datetime) -> list[datetime]:
        """Return the start of each probe that has not timed out, in order."""
        # One tick later, because a probe of exactly that age has timed out.
        patient_since = self._now - PROBE_PATIENCE + timedelta.resolution
        trying: dict[object, datetime] = {}
        for place, x in enumerate(self._under_way):
            if x.asked_at >= max(since, patient_since) and scope in x.parts:
                in_bulk = x.offering.provider in self._machines_per_call
                call = (x.offering, x.zones, x.asked_at)
                who = x.gang.id if x.gang else call if in_bulk and not x.alone else place
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


def _score(scheduler: ProvisionScheduler, option: ProvisionOption) -> tuple[float, str]:
    """Return the score of an option, or the lowest one and how the strategy failed.

    A strategy that fails must not keep every pool from buying.
    """
    try:
        value: object = scheduler.score(option)
    except Exception as error:  # noqa: BLE001 - a strategy may be anybody's code
        return -math.inf, repr(error)
    if not isinstance(value, (int, float)) or math.isnan(value):
        return -math.inf, f"{value!r} is no score"
    return value, ""


def _distance(offering: Offering, first: Offering) -> int:
    """Return how far a failover to `offering` goes: zone, region or provider."""
    if offering.provider != first.provider:
        return 2
    return 0 if offering.region == first.region else 1
