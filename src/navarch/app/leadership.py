"""Leadership: one server at a time holds the state directory."""

import hashlib
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from functools import cache
from typing import TypeVar

import msgspec
import structlog

from navarch.app.servers import Address, StartError, listen_at
from navarch.app.store_places import Means, StorePlace
from navarch.config import Config
from navarch.config.policy import default_policy, load_policy
from navarch.control.runtime.journal import read_journal
from navarch.core.errors import InUseError, StoreAwayError, StoreError, SupersededError
from navarch.core.event import Event, about
from navarch.core.fleet import Change
from navarch.core.ids import PoolName
from navarch.fleet.disruption.governor.common_cause import PolicyChange
from navarch.health.policy.engine import PolicySet, compile_policies
from navarch.ports.clock import Clock
from navarch.ports.store import DurableStore, StandbyStore, Store
from navarch.stores.commit_queue import InDoubtError

T = TypeVar("T")

log = structlog.get_logger(__name__)

PORT_WITHIN_S = 10.0
"""How long a standby server that took over waits for the port of the previous leader."""

AGAIN_S = 0.25
"""The pause after a database did not answer."""

Standby = Callable[[str], None]
"""Called once with the place of the state when a server begins to stand by for it."""


async def acquire_leadership(
    means: Means, place: StorePlace, standby: Standby | None
) -> DurableStore:
    """Open the state as its only writer, waiting for the present leader if `standby` is given.

    Without `standby`, raises InUseError if another server leads.
    """
    try:
        return await place.open(means)
    except InUseError as error:
        if standby is None:
            raise
        standby(place.shown)
        log.info("server.standby", reason=str(error))
    return await take_over(means, place)


async def take_over(
    means: Means, place: StorePlace, follows: Callable[[StandbyStore], None] = lambda _: None
) -> DurableStore:
    """Follow the leader until it ends, and lead; `follows` receives what follows it."""
    with closing(place.standby(means)) as other:
        follows(other)
        away = False
        while True:
            try:
                store = await other.take_over()
            except StoreAwayError as error:
                if not away:
                    log.warning("server.store_away", reason=str(error))
                away = True
                await means.clock.sleep(AGAIN_S)
                continue
            away = False
            if store is not None:
                return store


async def until_store_answers(clock: Clock, work: Callable[[], Awaitable[T]]) -> T:
    """Return what `work` returns, repeated from its beginning while the database is away.

    For the steps in which a server begins to lead: each of them may be repeated. Raises
    SupersededError if another server leads meanwhile.
    """
    away = False
    while True:
        try:
            return await work()
        except (StoreAwayError, InDoubtError) as error:
            if not away:
                log.warning("server.store_away", reason=str(error))
            away = True
        await clock.sleep(AGAIN_S)


class Leadership:
    """Keeps the leadership of a store."""

    def __init__(self, clock: Clock, store: DurableStore) -> None:
        self._clock = clock
        self._store = store
        self._away = False

    async def keep(self) -> None:
        """Hold the leadership; raise SupersededError when another server has taken it."""
        every = self._store.hold_every
        while every is not None:
            try:
                await self._store.hold()
            except SupersededError:
                raise
            except StoreError as error:
                if not self._away:
                    log.warning("server.store_away", reason=str(error))
                self._away = True
            else:
                if self._away:
                    log.info("server.store_back")
                self._away = False
            await self._clock.sleep(every.total_seconds())


async def wait_for_port(clock: Clock, address: Address) -> socket.socket:
    """Return a listening socket for a port that the previous leader may still be closing."""
    deadline = clock.monotonic() + PORT_WITHIN_S
    while True:
        try:
            return listen_at(address)
        except StartError:
            if clock.monotonic() >= deadline:
                raise
        await clock.sleep(0.1)


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
