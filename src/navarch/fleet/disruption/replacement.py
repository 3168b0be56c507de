"""Replacement of sound nodes: the successor serves first, then the node is removed.

No record marks a node for replacement except its successor, which names it. So the reason is
evaluated again once the successor is up; if it no longer holds, the successor is removed and the
node stays.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from operator import or_

import msgspec

from navarch.core.disruption import Cause
from navarch.core.ids import NodeId
from navarch.core.launch import Offering
from navarch.core.node import Node, Phase
from navarch.core.pool import Pool
from navarch.core.records import evolve
from navarch.fleet.disruption.budget import limit, room
from navarch.fleet.disruption.costly import costly
from navarch.fleet.disruption.drifted import drifted
from navarch.fleet.disruption.expired import expired
from navarch.fleet.disruption.maintenance import under_maintenance
from navarch.fleet.disruption.unhealthy import AUTOMATIC
from navarch.fleet.plan import Candidate, Cordon, Retire, Uncordon

CLOSED = f"{AUTOMATIC}{Cause.MAINTENANCE}"
"""How the reason of a cordon begins that keeps new work off a node before its maintenance."""


class Replacements(msgspec.Struct, frozen=True, kw_only=True):
    """The actions for sound nodes with a reason to be replaced."""

    begin: tuple[Candidate, ...] = ()
    """Buy a successor for each, if there is room."""
    retire: tuple[Retire, ...] = ()
    """Nodes with a successor that serves, and successors that are no longer needed."""
    closures: tuple[Cordon | Uncordon, ...] = ()
    """Nodes that get no new work before their maintenance, and those that get work again."""


def successors(nodes: Iterable[Node]) -> dict[NodeId, Node]:
    """Return the nodes bought to replace one that still counts, by the name of that node."""
    staying = {node.id: node for node in nodes if node.counts}
    if not staying:
        return {}
    return {
        node.replaces: node
        for node in staying.values()
        if node.replaces is not None and node.replaces in staying
    }


Gangs = Callable[[Collection[NodeId]], Sequence[Sequence[NodeId]]]
"""Returns nodes in groups that share jobs, which are interrupted together."""


def one_by_one(nodes: Collection[NodeId]) -> Sequence[Sequence[NodeId]]:
    """Return each node as a group of its own: they share no jobs."""
    return [(name,) for name in nodes]


AwaitsOthers = Callable[[Collection[NodeId]], bool]
"""Returns whether nodes of other pools that share jobs with these have successors that boot."""


def in_one_pool(_: Collection[NodeId]) -> bool:
    """Return False: no job runs on several pools."""
    return False


def plan_replacements(
    pool: Pool,
    nodes: Sequence[Node],
    *,
    for_sale: Offering | None,
    gangs: Gangs = one_by_one,
    awaits_others: AwaitsOthers = in_one_pool,
    now: datetime,
) -> Replacements:
    """Return which replacements start and which end now, within the pool's budget.

    The nodes of a gang are replaced together: their successors are bought together, and the nodes
    are retired once all of those serve, in other pools of the gang as well. If the budget is too
    small for all of them, as many as it permits are replaced together.
    """
    staying = [node for node in nodes if node.counts]
    if pool.deleted or not staying:
        return Replacements()
    coming = successors(staying)
    young = {node.id for node in coming.values()}
    sound = [node for node in staying if node.phase is Phase.READY and node.id not in young]
    if not sound and not coming:
        return Replacements()
    wanted: dict[NodeId, Candidate] = {}
    for candidate in _candidates(pool, sound, coming, for_sale, now):
        wanted.setdefault(candidate.node, candidate)
    retire = [
        Retire(node=successor.id, reason=f"{old} stays after all", surplus=True)
        for old, successor in coming.items()
        if old not in wanted
    ]
    begin: list[Candidate] = []
    is_full = pool.held is not None
    for group in gangs(wanted.keys()):
        rest = [wanted[name] for name in group if name not in coming]
        fits: list[Candidate] = []
        if rest and not is_full:
            fits = _within_budget(pool, nodes, rest, [*coming, *(x.node for x in begin)], now)
            # Smaller groups after one that waits would take the room again and again.
            is_full = len(fits) < len(rest) and _waits_for_room(pool, rest, now)
            begin += [] if is_full else fits
        begun = [coming[name] for name in group if name in coming]
        is_whole = (is_full or not fits) and not (begun and awaits_others(group))
        if _may_take_over(pool, begun, now, is_whole=is_whole):
            serving = [name for name in group if name in coming and coming[name].serving]
            retire += [Retire(node=name, reason=wanted[name].reason) for name in serving]
    leaving = {each.node for each in retire}
    closures = _closures([node for node in sound if node.id not in leaving], coming, wanted)
    return Replacements(begin=tuple(begin), retire=tuple(retire), closures=tuple(closures))


def _closures(
    nodes: Sequence[Node], coming: Mapping[NodeId, Node], wanted: Mapping[NodeId, Candidate]
) -> Iterator[Cordon | Uncordon]:
    """Yield which nodes close to new work before their maintenance, and which open again.

    Work that starts now is interrupted when the successor serves, within minutes. A node whose
    successor has no machine stays open: it may have to work until its maintenance.
    """
    for node in nodes:
        candidate, successor = wanted.get(node.id), coming.get(node.id)
        is_announced = candidate is not None and candidate.cause is Cause.MAINTENANCE
        is_succeeded = successor is not None and successor.instance is not None
        is_closed = node.cordoned is not None and node.cordoned.startswith(CLOSED)
        if is_announced and is_succeeded and node.cordoned is None:
            assert candidate is not None
            assert successor is not None
            reason = f"{AUTOMATIC}{candidate.reason}; {successor.id} takes its place"
            yield Cordon(node=node.id, reason=reason)
        elif is_closed and not is_announced:
            yield Uncordon(node=node.id, reason="its maintenance is no longer announced")
        elif is_closed and not is_succeeded:
            yield Uncordon(node=node.id, reason="no machine takes its place yet")


def _may_take_over(pool: Pool, begun: Sequence[Node], now: datetime, *, is_whole: bool) -> bool:
    """Return whether the successors of a gang's nodes take over.

    They do once all of them serve and no other begins now. None waits longer than the boot deadline
    for another.
    """
    late = [now >= node.created_at + pool.boot_deadline for node in begun]
    serving = [is_whole and node.serving for node in begun]
    return all(map(or_, serving, late))


def _within_budget(
    pool: Pool,
    nodes: Sequence[Node],
    candidates: Sequence[Candidate],
    busy: Sequence[NodeId],
    now: datetime,
) -> list[Candidate]:
    """Return the candidates that the budget permits now, in order."""
    found: list[Candidate] = []
    for candidate in candidates:
        taken = [*busy, *(each.node for each in found)]
        if room(pool, nodes, taken, candidate.cause, now) > 0:
            found.append(candidate)
    return found


def _waits_for_room(pool: Pool, group: Sequence[Candidate], now: datetime) -> bool:
    """Return whether a group waits until the budget has room for all of it, if it ever has.

    Maintenance does not wait: it happens at its time, whatever the budget permits.
    """
    if len(group) == 1 or any(each.cause is Cause.MAINTENANCE for each in group):
        return False
    limits = [limit(pool, each.cause, now) for each in group]
    return all(most is None or most >= len(group) for most in limits)


def _candidates(
    pool: Pool,
    sound: Sequence[Node],
    coming: Mapping[NodeId, Node],
    for_sale: Offering | None,
    now: datetime,
) -> list[Candidate]:
    """Return the nodes to replace, the most pressing reason first."""
    if pool.gang:
        # A gang stays in its block: offers elsewhere are no reason to leave it.
        return [*under_maintenance(sound), *expired(pool, sound, now=now)]
    unsucceeded = [node for node in sound if node.id not in coming]
    # A successor that was bought to save money is compared by its own price, not by today's market.
    succeeded: list[Candidate] = []
    for node in sound:
        if node.id in coming:
            paid, launch = coming[node.id].place, coming[node.id].launch
            if launch is not None:
                paid = evolve(launch.offering, price_per_hour=launch.price_per_hour)
            succeeded += costly(pool, [node], paid)
    return [
        *under_maintenance(sound),
        *expired(pool, sound, now=now),
        *drifted(pool, sound),
        *succeeded,
        *costly(pool, unsucceeded, for_sale),
    ]


LOOK_AGAIN = timedelta(minutes=1)
"""How often to evaluate replacements that wait for a window, for room or for a better price."""


def look_again(
    pool: Pool, nodes: Sequence[Node], *, undercut: bool, now: datetime
) -> datetime | None:
    """Return when another reason to replace a node may appear without a change of records.

    `undercut` is whether the market may give one, as `may_be_undercut` returns.
    """
    if pool.deleted:
        return None
    watched = undercut or pool.disruption.replace_drifted
    staying = [node for node in nodes if node.counts]
    if not watched and not staying:
        return None
    if watched or any(expired(pool, staying, now=now)) or any(under_maintenance(staying)):
        return now + LOOK_AGAIN
    limit = pool.disruption.lifetime_max
    ends = [] if limit is None else [node.created_at + limit for node in staying]
    return min((end for end in ends if end > now), default=None)
