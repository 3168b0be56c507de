"""Who may be acted on now, and who must wait, with the reason."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from navarch.core.drafting import drafted
from navarch.core.governor import Domain, GovernorSettings
from navarch.core.health import HEARTBEAT, Condition
from navarch.core.held import Held, HeldBy
from navarch.core.node import Node
from navarch.fleet.disruption.governor.census import Census
from navarch.fleet.disruption.governor.domains import Place
from navarch.fleet.disruption.governor.suspicion import Suspicion

WORDS = {
    Domain.POOL: "pool",
    Domain.ZONE: "zone",
    Domain.RACK: "rack",
    Domain.NVLINK: "NVLink domain",
    Domain.DRIVER: "driver",
    Domain.IMAGE: "image",
}

SILENCE_MAX = timedelta(minutes=30)
"""For so long the silence of a node that a change has broken is taken for the reboot by which
somebody takes the change back. Large machines need up to half an hour for one."""


@drafted
@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a remediator wants done about one node."""

    node: Node
    action: str
    """cordon, replace or recover."""
    reason: str
    dry_run: bool = False


@drafted
@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The answer to a wish."""

    wish: Wish
    held: Held | None
    """None: go ahead."""


def govern(
    wishes: Sequence[Wish],
    census: Census,
    settings: GovernorSettings,
    suspicions: Mapping[str, Suspicion],
    *,
    now: datetime,
) -> list[Verdict]:
    """Return the answer to each wish, the most pressing first.

    A wish passes if every domain of its node has room left in the window. Where a domain has
    none, nodes still pass one at a time, each after the one before is out of the way: if it is
    the machines after all, a fleet that nobody looks at must come back, only slowly. But what a
    change has broken is not mended by replacing it, and waits for people.
    """
    acted: defaultdict[Place, int] = defaultdict(int)
    verdicts: list[Verdict] = []
    for wish in _ranked(wishes, census):
        held, places = None, census.places_of(wish.node)
        if wish.dry_run:
            held = _held(wish, HeldBy.DRY_RUN, "the pool's remediation is a dry run", now)
        elif not _released(wish.node):
            held = _blamed(wish, census, suspicions, now) or _spent(
                wish, places, census, settings, acted, now
            )
        if held is None:
            for place in places:
                acted[place] += 1
        verdicts.append(Verdict(wish=wish, held=held))
    return verdicts


def _ranked(wishes: Sequence[Wish], census: Census) -> Sequence[Wish]:
    if len(wishes) < 2:
        return wishes
    return sorted(wishes, key=lambda wish: _pressing(wish, census))


def _pressing(wish: Wish, census: Census) -> tuple[bool, bool, datetime, str]:
    """Rank wishes: released by hand, then fatal, then those that have waited longest."""
    conditions = census.faults_of(wish.node).values()
    fatal = any(condition.fatal for condition in conditions)
    since = min((condition.since for condition in conditions), default=wish.node.since)
    return not _released(wish.node), not fatal, since, wish.node.id


def _released(node: Node) -> bool:
    return node.held is not None and bool(node.held.released)


def _blamed(
    wish: Wish, census: Census, suspicions: Mapping[str, Suspicion], now: datetime
) -> Held | None:
    """Hold a node all of whose faults are the work of changes it had; one more is its own."""
    if not suspicions:
        return None
    faults = census.faults_of(wish.node)
    found = [suspicions.get(fault) for fault, why in faults.items() if not _may_boot(why, now)]
    blamed = [each for each in found if each is not None and wish.node.id in each.nodes]
    if not blamed or len(blamed) < len(found):
        return None
    because = "; ".join([each.words for each in blamed])
    return _held(wish, HeldBy.CHANGE, because, now, faults=tuple([x.fault for x in blamed]))


def _may_boot(condition: Condition, now: datetime) -> bool:
    return condition.check == HEARTBEAT and now < condition.since + SILENCE_MAX


def _spent(
    wish: Wish,
    places: Iterable[Place],
    census: Census,
    settings: GovernorSettings,
    acted: Mapping[Place, int],
    now: datetime,
) -> Held | None:
    for place in places:
        kind, name = place
        budget = settings.budgets.get(kind)
        if budget is None:
            continue
        here = acted[place]
        if census.acted_in(place) + here < budget.allows(census.sizes[place]):
            continue
        if census.out_of(place) + here > 0:
            least = f"{budget.nodes_min} node{'' if budget.nodes_min == 1 else 's'}"
            words = (
                f"{WORDS[kind]} {name}: automation may act on {budget.share_max:.0%} of it, or "
                f"{least}, in {_duration(settings)}; more go one at a time"
            )
            return _held(wish, HeldBy.BUDGET, words, now)
    return None


def _held(
    wish: Wish, by: HeldBy, because: str, now: datetime, *, faults: tuple[str, ...] = ()
) -> Held:
    before = wish.node.held
    same = before is not None and before.by is by and before.action == wish.action
    return Held(
        action=wish.action,
        reason=wish.reason,
        because=because,
        by=by,
        since=before.since if before is not None and same else now,
        faults=faults,
    )


def _duration(settings: GovernorSettings) -> str:
    minutes = settings.window.total_seconds() / 60
    return f"{minutes / 60:g} h" if minutes >= 60 else f"{minutes:g} min"
