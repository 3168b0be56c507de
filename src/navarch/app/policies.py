"""The health policies that a configuration names, and the record of when they last changed."""

import hashlib
from collections.abc import Sequence
from functools import cache

import msgspec

from navarch.config import Config
from navarch.config.policy import default_policy, load_policy
from navarch.control.runtime.journal import read_journal
from navarch.core.event import Event, about
from navarch.core.fleet import Change
from navarch.core.ids import PoolName
from navarch.fleet.disruption.governor.suspicion import PolicyChange
from navarch.health.policy.engine import PolicySet, compile_policies
from navarch.ports.clock import Clock
from navarch.ports.store import Store

SUBJECT = about("policy", "health")
REVISION = "revision"


def load_policies(config: Config) -> PolicySet:
    """Return every policy that `config` names, or raise ConfigError if any cannot be used."""
    load = cache(load_policy)
    named = config.server.health_policy
    return compile_policies(
        default_policy() if named is None else load(named),
        {
            PoolName(pool.name): load(pool.health.policy)
            for pool in config.pools.values()
            if pool.health.policy is not None
        },
    )


def revision_of(policies: PolicySet) -> str:
    """Return a name for these policies that differs after any change of a rule."""
    named = {name: engine.policy for name, engine in sorted(policies.pools.items())}
    rules = msgspec.json.encode([policies.fleet.policy, named])
    return f"{policies.fleet.policy.name}@{hashlib.sha256(rules).hexdigest()[:8]}"


async def record_policies(clock: Clock, store: Store, policies: PolicySet) -> PolicyChange | None:
    """Record the policies in force in the journal; return their last change, if there was one.

    A file edited while the server was stopped is a change too. The first policies of a fleet are
    not a change.
    """
    past = [entry.event for entry in await read_journal(store, about=SUBJECT)]
    revision = revision_of(policies)
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


def _last_change(recorded: Sequence[Event]) -> PolicyChange | None:
    """Return the last change, linked to those before it; the first record is not a change."""
    change = None
    for event in recorded[1:]:
        change = PolicyChange(revision=event.facts.get(REVISION, ""), since=event.at, past=change)
    return change
