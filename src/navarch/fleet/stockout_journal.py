"""Reading refusals back from the journal, so that a restart need not learn them again."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from navarch.core.event import Event
from navarch.core.ids import ProviderName
from navarch.core.launch import Launch
from navarch.core.offering import Offering
from navarch.core.refusal import Refusal
from navarch.fleet.stockouts import SPANS, Spans, Stockouts


def refusal_facts(launch: Launch) -> Mapping[str, str]:
    """Return what the journal must keep of a refused launch."""
    assert launch.refusal is not None, launch.token
    facts = closure_facts(launch.offering, launch.refusal, launch.asked_at)
    # One block that is full says nothing about a place, if the gang has a machine there.
    return {**facts, "gang": launch.gang.id} if launch.gang else facts


def closure_facts(
    offering: Offering, refusal: Refusal, asked_at: datetime, gang: int = 0
) -> dict[str, str]:
    """Return what the journal must keep of a refusal, to know later what it closed."""
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
    }


KINDS = ("launch.refused", "gang.given_up")
"""Events that close a part of the market."""


def recollect(events: Iterable[Event], spans: Spans = SPANS) -> Stockouts:
    """Return what the refusals among `events`, oldest first, have taught.

    Sales are left out: one that is missing closes an offering for a minute at most, and a
    refusal that is missing costs one more call. So are refusals to members of a gang: whether
    they said more than that one block is full is not in the journal.
    """
    stockouts = Stockouts(spans=spans)
    for event in events:
        if "gang" not in event.facts:
            stockouts = remember(stockouts, event)
    return stockouts


def remember(stockouts: Stockouts, event: Event) -> Stockouts:
    """Return what is known after `event`."""
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
    return stockouts.after_refusal(
        offering,
        Refusal(facts["refusal"]),
        event.reason,
        asked_at=datetime.fromisoformat(facts["asked_at"]),
        now=event.at,
        gang=int(facts.get("gang_nodes", "0")),
    )
