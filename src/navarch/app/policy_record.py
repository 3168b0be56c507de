"""When the rules of judgement last changed: kept in the journal, so that a restart knows too."""

import hashlib
from collections.abc import Sequence

import msgspec

from navarch.core.event import Event, about
from navarch.core.fleet import Change
from navarch.fleet.disruption.governor.suspicion import PolicyChange
from navarch.health.policy.engine import PolicySet
from navarch.ports.clock import Clock
from navarch.ports.store import Store

SUBJECT = about("policy", "health")
REVISION = "revision"


def revision_of(book: PolicySet) -> str:
    """Return a name for exactly these policies: another for any change of a rule."""
    named = {name: engine.policy for name, engine in sorted(book.pools.items())}
    rules = msgspec.json.encode([book.fleet.policy, named])
    return f"{book.fleet.policy.name}@{hashlib.sha256(rules).hexdigest()[:8]}"


async def note_policies(clock: Clock, store: Store, book: PolicySet) -> PolicyChange | None:
    """Write down which policies are in force; return when they last changed, if they ever have.

    Whether somebody edited a file while the server ran or before it started, it is a change; the
    first policy a fleet ever had is none.
    """
    past = await _past(store)
    revision = revision_of(book)
    if past and past[-1].facts.get(REVISION) == revision:
        return _last_change(past)
    before = past[-1].facts.get(REVISION, "") if past else ""
    event = Event(
        at=clock.now(),
        about=SUBJECT,
        kind="policy.changed" if past else "policy.loaded",
        reason=f"findings are judged by {revision}" + (f" instead of {before}" if before else ""),
        facts={REVISION: revision, "before": before},
    )
    await store.commit(Change(events=[event]), based_on=store.fleet().revision)
    return _last_change([*past, event])


def _last_change(told: Sequence[Event]) -> PolicyChange | None:
    """Return the last of the changes, with those before it; the first rules were none."""
    change = None
    for event in told[1:]:
        change = PolicyChange(revision=event.facts.get(REVISION, ""), since=event.at, past=change)
    return change


async def _past(store: Store) -> list[Event]:
    found: list[Event] = []
    number = 0
    while page := await store.events(after=number, about=SUBJECT):
        number = page[-1].number
        found += [entry.event for entry in page]
    return found
