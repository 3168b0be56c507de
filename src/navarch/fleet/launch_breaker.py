"""The launch circuit breaker of a pool: it opens after several machines did not come up.

A bad image, a script with a typo or a firewall fails every machine alike, and each is paid for
until it is abandoned. So after a few failures in a row the breaker opens: the pool stops buying,
pauses, and tries one machine; each further failure doubles the pause. The first agent that
registers closes the breaker.

If only one offering fails, the pool tries one machine elsewhere at once. The failing offering is
quarantined for a while and then tried with one machine at a time, whatever comes up elsewhere.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from navarch.core.node import Node, Phase
from navarch.core.pool import Pool
from navarch.fleet.boot_times import AS_CONFIGURED, BootWatch
from navarch.fleet.stockouts import Scope, scopes

MACHINES_MAX = 3
"""This many failures in a row are no accident. A lower limit would trip on one bad host that is
assigned twice."""

FIRST_PAUSE = timedelta(minutes=5)
LONGEST_PAUSE = timedelta(hours=1)
"""Long enough that a night of failures costs a dozen machine-hours and not hundreds; short enough
that a repair is noticed. After a repair, an operator can release the breaker at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchBreaker:
    """Why a pool does not buy, until when, and how many machines it may try."""

    reason: str
    until: datetime
    allowance: int
    """How many machines may be bought now: none, or enough for a trial."""
    pauses: bool = True
    """False if purchases go on, a few at a time."""
    lets_grow: bool = False
    """Whether only replacements are limited."""
    elsewhere: bool = False
    """Whether the trial is at an offering without failures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantinedOffering:
    """An offering at which several machines in a row did not come up."""

    tried_at: datetime
    """When the next machine may be tried there, one at a time."""
    last_until: datetime
    """Until when it is chosen only if nothing else is available."""
    trying: bool = False
    """Whether a trial is under way."""

    def bar(self, now: datetime) -> str | None:
        """Return why nothing can be requested there now, or None."""
        if now < self.tried_at:
            return f"machines did not come up there, the next is tried at {self.tried_at:%H:%M:%S}"
        return "machines did not come up there, and one is being tried" if self.trying else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A machine that never came up, or fell ill soon after."""

    node: Node
    at: datetime
    reason: str

    @property
    def asked_at(self) -> datetime:
        """When its machine was requested."""
        return asked_at(self.node)


def may_trip(
    pool: Pool, nodes: Collection[Node], *, now: datetime, boots: BootWatch = AS_CONFIGURED
) -> bool:
    """Return whether enough of `nodes` never came up to open the breaker of `pool`."""
    if pool.deleted or len(nodes) < MACHINES_MAX:
        return False
    return len(missing_agents(pool, nodes, boots, now)) >= MACHINES_MAX


def find_breaker(
    pool: Pool, nodes: Iterable[Node], *, now: datetime, boots: BootWatch = AS_CONFIGURED
) -> LaunchBreaker | None:
    """Return the breaker of `pool` if it is open. `nodes` are all stored nodes of the pool."""
    known = list(nodes)
    failures = [] if pool.deleted else missing_agents(pool, known, boots, now)
    if len(failures) < MACHINES_MAX:
        return None
    came_up_at = max((node.registered_at for node in known if node.registered_at), default=None)
    if came_up_at is not None:
        failures = [each for each in failures if each.at > came_up_at]
    if len(failures) < MACHINES_MAX:
        return None
    strikes, since = strikes_of(failures)
    pause = pause_after(strikes)
    coming = [node for node in known if is_coming(pool, node, boots, now)]
    failed_at = {_place(failure.node) for failure in failures}
    elsewhere = any(scopes(offering)[0] not in failed_at for offering in pool.offerings)
    if elsewhere:
        # An offering without failures needs no pause. Machines that were requested at failing
        # offerings before the breaker opened are not counted as trials; those offerings are
        # quarantined.
        pause = timedelta(0)
        coming = [x for x in coming if _place(x) not in failed_at or asked_at(x) >= since]
    until = since + pause
    last = failures[-1]
    return LaunchBreaker(
        reason=(
            f"{len(failures)} machines in a row did not come up, at last {last.node.id}: "
            f"{last.reason}; the next is tried at {until:%H:%M:%S} UTC, or now with "
            f"`navarch held release --pool {pool.name}`"
        ),
        until=until,
        allowance=0 if now < until else max((pool.gang or 1) - len(coming), 0),
        elsewhere=elsewhere,
    )


def strictest(limits: Sequence[LaunchBreaker]) -> LaunchBreaker | None:
    """Return what follows if all these limits apply, None if there are none."""
    if not limits:
        return None
    longest = max(limits, key=lambda each: (each.pauses, each.until))
    return replace(
        longest,
        allowance=min(each.allowance for each in limits),
        lets_grow=all(each.lets_grow for each in limits),
    )


def quarantined_offerings(
    pool: Pool, nodes: Iterable[Node], *, now: datetime, boots: BootWatch = AS_CONFIGURED
) -> dict[Scope, QuarantinedOffering]:
    """Return the offerings at which several machines in a row did not come up.

    Machines that come up elsewhere prove nothing for these: each offering stays quarantined until a
    machine comes up there.
    """
    known = list(nodes)
    failures = missing_agents(pool, known, boots, now)
    if len(failures) < MACHINES_MAX:
        return {}
    came_up_at: dict[Scope | None, datetime] = {}
    for node in known:
        if node.registered_at is not None:
            place = _place(node)
            came_up_at[place] = max(node.registered_at, came_up_at.get(place, node.registered_at))
    failures_at: dict[Scope, list[Failure]] = {}
    for failure in failures:
        failed_at = _place(failure.node)
        mended_at = came_up_at.get(failed_at)
        if failed_at is not None and (mended_at is None or failure.at > mended_at):
            failures_at.setdefault(failed_at, []).append(failure)
    found = {}
    coming = [node for node in known if is_coming(pool, node, boots, now)]
    for place, failed in failures_at.items():
        if len(failed) >= MACHINES_MAX:
            strikes, since = strikes_of(failed)
            found[place] = QuarantinedOffering(
                tried_at=since + pause_after(strikes),
                last_until=failed[-1].at + LONGEST_PAUSE,
                trying=any(_place(x) == place and asked_at(x) >= since for x in coming),
            )
    return found


def missing_agents(
    pool: Pool, nodes: Iterable[Node], boots: BootWatch, now: datetime
) -> list[Failure]:
    """Return the machines that never came up, in the order in which they were abandoned."""
    since = pool.brake_released_at
    found = []
    for node in nodes:
        if node.retiring is not None:
            at, reason = node.retiring.failed_at, node.retiring.reason
        elif boots.is_past(pool, node, now):
            at, reason = now, boots.missed(pool, node, now)
        else:
            continue
        if at is not None and (since is None or at > since):
            found.append(Failure(node=node, at=at, reason=reason))
    return sorted(found, key=lambda each: (each.at, each.node.id))


def asked_at(node: Node) -> datetime:
    """Return when the machine of `node` was requested."""
    return node.launch.asked_at if node.launch else node.created_at


def _place(node: Node) -> Scope | None:
    return None if node.launch is None else scopes(node.launch.offering)[0]


def strikes_of(failures: Sequence[Failure]) -> tuple[int, datetime]:
    """Return how often the breaker has opened, and when it last did.

    Machines that were requested before it opened prove nothing new if they fail too.
    """
    strikes, since = 1, failures[MACHINES_MAX - 1].at
    for failure in failures[MACHINES_MAX:]:
        if failure.asked_at >= since:
            strikes, since = strikes + 1, failure.at
    return strikes, since


def pause_after(strikes: int) -> timedelta:
    """Return the pause after that many strikes."""
    return min(FIRST_PAUSE * (1 << min(strikes - 1, 16)), LONGEST_PAUSE)


def is_coming(pool: Pool, node: Node, boots: BootWatch, now: datetime) -> bool:
    """Return whether the machine of `node` is under way and may still come up."""
    if not node.counts or node.registered_at is not None:
        return False
    if node.phase is Phase.BOOTING:
        return not boots.is_past(pool, node, now)
    return node.phase is Phase.REQUESTED and node.launch is not None
