"""Replacement of sound nodes: the successor serves first, then the node is removed.

No record marks a node for replacement except its successor, which names it. So the reason is
evaluated again once the successor is up; if it no longer holds, the successor is removed and the
node stays.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from navarch.core.ids import NodeId
from navarch.core.launch import Offering
from navarch.core.node import Node, Phase
from navarch.core.pool import Pool
from navarch.core.records import evolve
from navarch.fleet.disruption.budget import room
from navarch.fleet.disruption.costly import costly
from navarch.fleet.disruption.drifted import drifted
from navarch.fleet.disruption.expired import expired
from navarch.fleet.disruption.maintenance import under_maintenance
from navarch.fleet.plan import Candidate, Retire


class Replacements(msgspec.Struct, frozen=True, kw_only=True):
    """The actions for sound nodes with a reason to be replaced."""

    begin: tuple[Candidate, ...] = ()
    """Buy a successor for each, if there is room."""
    retire: tuple[Retire, ...] = ()
    """Nodes with a successor that serves, and successors that are no longer needed."""


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


def plan_replacements(
    pool: Pool, nodes: Sequence[Node], *, for_sale: Offering | None, now: datetime
) -> Replacements:
    """Return which replacements start and which end now, within the pool's budget."""
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
    retire = []
    for old, successor in coming.items():
        if old not in wanted:
            reason = f"{old} stays after all"
            retire.append(Retire(node=successor.id, reason=reason, surplus=True))
        elif successor.serving:
            retire.append(Retire(node=old, reason=wanted[old].reason))
    begin: list[Candidate] = []
    for candidate in wanted.values():
        if candidate.node in coming or pool.held is not None:
            continue
        busy = [*coming, *(x.node for x in begin)]
        if room(pool, nodes, busy, candidate.cause, now) > 0:
            begin.append(candidate)
    return Replacements(begin=tuple(begin), retire=tuple(retire))


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
