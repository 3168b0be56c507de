"""Stockouts: closed parts of the market and when they open, learned from refusals.

A refusal closes as much as its class warrants: a sold-out machine closes that offering, a quota the
whole type at that provider, a bad key the provider. A closed part opens by halves: one launch may
try, and after each success four times as many. So a thousand launches that wait for one zone cost
eight calls a minute, not a thousand; ten cost less than one.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import lru_cache

import msgspec

from navarch.core.event import Event
from navarch.core.ids import ProviderName
from navarch.core.launch import HUMAN_PAUSE, Launch, Offering, Refusal, in_zones
from navarch.core.records import evolve

QUIET = timedelta(minutes=30)
"""A refusal expires after this long without another request."""

ALLOWANCE_MAX = 64
"""With this many launches under way after successes, the drought is over."""

GROWTH = 4
"""The factor by which more launches may try after each success. Stock may last for seconds only,
and one wave too many costs a few refused calls."""

CROWD = 9
"""Fewer waiting launches do not shorten a pause. With this value, calls that cover the zones of a
region find stock sooner than launches that each poll for themselves, with less than half of the
calls that a value of 1 takes."""

SHORTEST_PAUSE = timedelta(seconds=5)
"""The lower limit between calls, however many launches wait: providers limit calls, and count
refused ones."""

HALF_LIFE = timedelta(hours=1)
"""The time after which an answer counts half in the odds of getting a machine."""

Spans = Mapping[Refusal, tuple[timedelta, timedelta]]

SPANS: Spans = {
    # Stock comes back within minutes or hours. For one launch about a call a minute is enough; many
    # share what they call.
    Refusal.CAPACITY: (timedelta(seconds=15), timedelta(seconds=75)),
    Refusal.TRANSIENT: (timedelta(seconds=5), timedelta(minutes=5)),
    # A gang takes machines away from others for as long as it waits, so it does not try often.
    Refusal.BLOCK: (timedelta(minutes=1), timedelta(minutes=10)),
    # Only an operator can help. Long enough to spare the provider, short enough to notice the fix.
    Refusal.QUOTA: (HUMAN_PAUSE, HUMAN_PAUSE),
    Refusal.REGION_QUOTA: (HUMAN_PAUSE, HUMAN_PAUSE),
    Refusal.CREDENTIAL: (HUMAN_PAUSE, HUMAN_PAUSE),
    Refusal.REJECTED: (HUMAN_PAUSE, HUMAN_PAUSE),
}
"""How long the first refusal closes, and the longest time that later ones do; each doubles it."""


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the market. A field that is None matches everything: every region, every type."""

    provider: ProviderName
    instance_type: str | None = None
    spot: bool | None = None
    region: str | None = None
    zone: str | None = None
    reservation: str | None = None
    gang: int | None = None
    """For gangs of this many machines only."""
    request: str = ""
    """For pools with this `Pool.request_digest` only; empty: for all."""

    def __str__(self) -> str:
        if self.instance_type is None:
            return f"all of {self.provider}"
        if self.region is None:
            return f"every {self.instance_type} at {self.provider}"
        return f"{self.instance_type} at {self.provider} in {self.zone or self.region or '?'}"


@lru_cache(maxsize=4096)
def scopes(offering: Offering, gang: int = 0, request: str = "") -> tuple[Scope, ...]:
    """Return the parts of the market that contain `offering`, narrowest first.

    `gang` is the number of machines requested together; 0 for a single machine. `request` is the
    digest of what else the pool requests.
    """
    # Quotas for spot machines are kept apart from the others by every cloud that has both, and
    # a reservation is its own quota.
    account = Scope(
        provider=offering.provider,
        instance_type=offering.instance_type,
        spot=offering.spot,
        reservation=offering.reservation,
    )
    region = evolve(account, region=offering.region)
    narrow = evolve(region, zone=offering.zone)
    wide = (narrow, region, account, Scope(provider=offering.provider))
    own = (evolve(narrow, request=request),) if request else ()
    return (evolve(narrow, gang=gang), *own, *wide) if gang else (*own, *wide)


def closed_by(offering: Offering, refusal: Refusal, gang: int = 0, request: str = "") -> Scope:
    """Return how much of the market a refusal of `offering` closes."""
    narrow, region, account, provider = scopes(offering)
    match refusal:
        case Refusal.REGION_QUOTA:
            return region
        case Refusal.QUOTA:
            return account
        case Refusal.CREDENTIAL:
            return provider
        case Refusal.BLOCK:
            return evolve(narrow, gang=gang)
        case Refusal.REJECTED:
            # Keys, image or user data of one pool may be wrong: others can still buy there.
            return evolve(narrow, request=request)
        case _:
            return narrow


def refused_at(offering: Offering, zones: Iterable[str], refusal: Refusal) -> tuple[Offering, ...]:
    """Return the offerings that a refusal of a call to `offering` and these zones is about.

    A call finds no machine only if every zone is sold out. Other refusals are about the first one.
    """
    return in_zones(offering, zones if refusal is Refusal.CAPACITY else ())


class Closure(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the market that refused, and how far it is open again."""

    refusal: Refusal
    reason: str
    since: datetime
    """When it last refused. Launches that were requested earlier bring no new information."""
    until: datetime
    strikes: int = 1
    """How many refusals in a row, each of a launch requested after the one before."""
    allowance: int = 1
    """How many launches may be under way at once after `until`: the first one is the probe."""
    longest: timedelta
    """The longest pause of a launch that waits alone."""

    def opens_at(self, waiting: int) -> datetime:
        """Return when one launch may try again, while `waiting` launches need a machine.

        The more launches wait, the more a missed chance costs, and the more often a call is worth
        it: stock that lasts for seconds is found. Beyond a crowd the pause shrinks with the square
        root of their number, which minimises the sum of lost time and calls.
        """
        if self.refusal is not Refusal.CAPACITY:
            return self.until
        pause = max(self.longest / math.sqrt(max(waiting / CROWD, 1)), SHORTEST_PAUSE)
        return min(self.until, self.since + pause)

    @property
    def forgotten_at(self) -> datetime:
        """When it expires."""
        return self.until + QUIET


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """The recent answers of an offering."""

    sold: float = 0.0
    refused: float = 0.0
    at: datetime | None = None

    def faded(self, now: datetime) -> "Tally":
        """Return the tally with its weights at `now`."""
        if self.at is None or now <= self.at:
            return evolve(self, at=now)
        share = 0.5 ** ((now - self.at) / HALF_LIFE)
        return Tally(sold=self.sold * share, refused=self.refused * share, at=now)


class Stockouts(msgspec.Struct, frozen=True, kw_only=True):
    """The closures and odds that follow from refusals and sales, as a value."""

    closures: Mapping[Scope, Closure] = msgspec.field(default_factory=dict)
    tallies: Mapping[Scope, Tally] = msgspec.field(default_factory=dict)
    """Sales and refusals of each offering, the narrowest part of the market."""
    spans: Spans = msgspec.field(default_factory=lambda: SPANS)
    """How long refusals of each class close."""

    def after_refusal(
        self,
        offering: Offering,
        refusal: Refusal,
        reason: str,
        *,
        asked_at: datetime,
        now: datetime,
        gang: int = 0,
        request: str = "",
    ) -> "Stockouts":
        """Return the stockouts after `offering` was refused to a launch of `asked_at`."""
        scope = closed_by(offering, refusal, gang, request)
        closures = self._kept(now)
        before = closures.get(scope)
        tallies = self._tallied(offering, now, refused=1.0)
        if before is not None and asked_at < before.since:
            return evolve(self, tallies=tallies)
        strikes = 1 if before is None else before.strikes + 1
        first, longest = self.spans[refusal]
        pause = min(first * (1 << min(strikes - 1, 16)), longest)
        closure = Closure(
            refusal=refusal,
            reason=reason,
            since=now,
            until=now + pause,
            strikes=strikes,
            longest=longest,
        )
        return evolve(self, closures={**closures, scope: closure}, tallies=tallies)

    def after_sale(
        self, offering: Offering, *, asked_at: datetime, now: datetime, request: str = ""
    ) -> "Stockouts":
        """Return the stockouts after `offering` was sold to a launch of `asked_at`."""
        tallies = self._tallied(offering, now, sold=1.0)
        if not self.closures:
            return evolve(self, tallies=tallies)
        closures = self._kept(now)
        for scope in scopes(offering, request=request):
            before = closures.get(scope)
            if before is None or asked_at < before.since:
                continue
            allowance = before.allowance * GROWTH
            if before.refusal is not Refusal.CAPACITY or allowance > ALLOWANCE_MAX:
                del closures[scope]
            else:
                closures[scope] = evolve(before, allowance=allowance, strikes=0, until=now)
        return evolve(self, closures=closures, tallies=tallies)

    def after_gang(self, offering: Offering, gang: int) -> "Stockouts":
        """Return the stockouts after a gang of that many was complete at `offering`."""
        scope = closed_by(offering, Refusal.BLOCK, gang)
        return evolve(self, closures={s: c for s, c in self.closures.items() if s != scope})

    def against(
        self, offering: Offering, now: datetime, gang: int = 0, request: str = ""
    ) -> Iterator[tuple[Scope, Closure]]:
        """Yield the closures that apply to `offering`, whether closed or half open."""
        for scope in scopes(offering, gang, request):
            closure = self.closures.get(scope)
            if closure is not None and now < closure.forgotten_at:
                yield scope, closure

    def odds(self, offering: Offering, now: datetime) -> float:
        """Return the odds that a launch at `offering` succeeds, from 0 to 1."""
        recent = self.tallies.get(scopes(offering)[0], Tally()).faded(now)
        # One half without data.
        return (recent.sold + 1) / (recent.sold + recent.refused + 2)

    def _kept(self, now: datetime) -> dict[Scope, Closure]:
        return {s: closure for s, closure in self.closures.items() if now < closure.forgotten_at}

    def _tallied(
        self, offering: Offering, now: datetime, *, sold: float = 0.0, refused: float = 0.0
    ) -> Mapping[Scope, Tally]:
        scope = scopes(offering)[0]
        faded = self.tallies.get(scope, Tally()).faded(now)
        tally = Tally(sold=faded.sold + sold, refused=faded.refused + refused, at=now)
        return {**self.tallies, scope: tally}


def refusal_facts(launch: Launch) -> Mapping[str, str]:
    """Return the facts that the journal keeps of a refused launch."""
    assert launch.refusal is not None, launch.token
    facts = closure_facts(launch.offering, launch.refusal, launch.asked_at, request=launch.request)
    if launch.zones:
        facts["zones"] = " ".join(launch.zones)
    # A full block is no evidence about an offering if the gang has a machine there.
    return {**facts, "gang": launch.gang.id} if launch.gang else facts


def closure_facts(
    offering: Offering, refusal: Refusal, asked_at: datetime, gang: int = 0, request: str = ""
) -> dict[str, str]:
    """Return the facts that the journal keeps of a refusal, from which its closure is rebuilt."""
    return {
        "refusal": str(refusal),
        "provider": offering.provider,
        "instance_type": offering.instance_type,
        "region": offering.region,
        "zone": offering.zone,
        "capacity_type": offering.capacity_type,
        "reservation": offering.reservation,
        "asked_at": asked_at.isoformat(),
        **({"gang_nodes": str(gang)} if gang else {}),
        **({"request": request} if refusal is Refusal.REJECTED and request else {}),
    }


KINDS = ("launch.refused", "gang.given_up")
"""Events that close a part of the market."""


def stockouts_from_journal(events: Iterable[Event], spans: Spans = SPANS) -> Stockouts:
    """Return the stockouts that follow from the refusals among `events`, oldest first.

    Sales are left out: a missing one closes an offering for a minute at most, and a missing refusal
    costs one more call. Refusals of gang members are left out too: the journal does not record
    whether they mean more than one full block.
    """
    stockouts = Stockouts(spans=spans)
    for event in events:
        if "gang" not in event.facts:
            stockouts = after_event(stockouts, event)
    return stockouts


def after_event(stockouts: Stockouts, event: Event) -> Stockouts:
    """Return the stockouts after `event`."""
    facts = event.facts
    if event.kind not in KINDS or "refusal" not in facts:
        return stockouts
    offering = Offering(
        provider=ProviderName(facts["provider"]),
        instance_type=facts["instance_type"],
        region=facts["region"],
        zone=facts["zone"],
        spot=facts["capacity_type"] == "spot",
        reservation=facts.get("reservation", ""),
    )
    refusal = Refusal(facts["refusal"])
    for place in refused_at(offering, facts.get("zones", "").split(), refusal):
        stockouts = stockouts.after_refusal(
            place,
            refusal,
            event.reason,
            asked_at=datetime.fromisoformat(facts["asked_at"]),
            now=event.at,
            gang=int(facts.get("gang_nodes", "0")),
            request=facts.get("request", ""),
        )
    return stockouts
