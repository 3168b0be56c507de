"""Reading refusals back from the journal, so that a restart need not learn them again."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from navarch.core.event import Event
from navarch.core.ids import ProviderName
from navarch.core.launch import Launch
from navarch.core.offering import Offering
from navarch.core.refusal import Refusal
from navarch.fleet.stockouts import Stockouts


def refusal_facts(launch: Launch) -> Mapping[str, str]:
    """Return what the journal must keep of a refused launch."""
    assert launch.refusal is not None, launch.token
    offering = launch.offering
    return {
        "refusal": str(launch.refusal),
        "provider": offering.provider,
        "instance_type": offering.instance_type,
        "region": offering.region,
        "zone": offering.zone,
        "capacity_type": "spot" if offering.spot else "on demand",
        "asked_at": launch.asked_at.isoformat(),
    }


def recollect(events: Iterable[Event]) -> Stockouts:
    """Return what the refusals among `events`, oldest first, have taught.

    Sales are left out: one that is missing closes an offering for half a minute at most, and a
    refusal that is missing costs one more call.
    """
    stockouts = Stockouts()
    for event in events:
        facts = event.facts
        if event.kind != "launch.refused" or "refusal" not in facts:
            continue
        offering = Offering(
            provider=ProviderName(facts["provider"]),
            instance_type=facts["instance_type"],
            region=facts["region"],
            zone=facts["zone"],
            spot=facts["capacity_type"] == "spot",
        )
        stockouts = stockouts.after_refusal(
            offering,
            Refusal(facts["refusal"]),
            event.reason,
            asked_at=datetime.fromisoformat(facts["asked_at"]),
            now=event.at,
        )
    return stockouts
