"""The size of a pool: who is missing, who is too many, who never came."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from datetime import datetime, timedelta

from navarch.core.health import Health
from navarch.core.ids import NodeId, ProviderName, Token
from navarch.core.launch import Launch
from navarch.core.node import Node, Phase
from navarch.core.pool import Pool
from navarch.fleet.disruption.replacement import Replacements, successors
from navarch.fleet.plan import Action, AskAgain, Plan, Request, Retire
from navarch.fleet.selection import Choice, Market
from navarch.fleet.stockouts import Stockouts
from navarch.ports.provision import ProvisionScheduler
from navarch.provision.first_available import FirstAvailable

LOOK_AGAIN = timedelta(seconds=30)
"""How often to look at a market that is closed: it may open for a reason that has no date."""


def plan_pool(
    pool: Pool,
    nodes: Iterable[Node],
    *,
    now: datetime,
    new_tokens: Iterator[Token],
    scheduler: ProvisionScheduler | None = None,
    market: Market | None = None,
    replacements: Replacements | None = None,
) -> Plan:
    """Return what brings `pool` closer to its size.

    Every machine that may exist counts towards the maximum, whatever its state; only
    those that are meant to stay count towards the size. Nothing is asked for where the
    market is closed: those who wait longest are served first when it opens.
    """
    known = list(nodes)
    market = market or Market(Stockouts(), now=now)
    launches = _Launches(pool, known, now, new_tokens, scheduler or FirstAvailable(), market)
    late = [
        Retire(node=node.id, reason=f"did not register within {pool.boot_deadline}")
        for node in known
        if node.counts and node.phase is Phase.BOOTING and now >= node.since + pool.boot_deadline
    ]
    replacements = replacements or Replacements()
    given_up = {retire.node for retire in late}
    late += [retire for retire in replacements.retire if retire.node not in given_up]
    given_up |= {retire.node for retire in late}
    staying = [node for node in known if node.counts and node.id not in given_up]
    # Successors of nodes that still serve come on top of the size, until they take over.
    extra = {node.id for node in successors(staying).values()}
    staying = [node for node in staying if node.id not in extra]
    surplus = list(_shrink(pool, staying))
    leaving = given_up | {retire.node for retire in surplus}
    kept = [node for node in known if node.counts and node.id not in leaving]
    asked_again = list(_ask_again(kept, launches))
    grown = list(_grow(pool, known, staying, launches))
    grown += _succeed(pool, known, leaving, len(grown), replacements, launches)
    wake_at = _first(_wake_at(pool, kept, now), launches.look_again_at())
    actions: tuple[Action, ...] = (*late, *grown, *surplus, *asked_again)
    return Plan(pool=pool.name, actions=actions, wake_at=wake_at)


class _Launches:
    """Writes the attempts of one plan."""

    def __init__(
        self,
        pool: Pool,
        known: Sequence[Node],
        now: datetime,
        new_tokens: Iterator[Token],
        scheduler: ProvisionScheduler,
        market: Market,
    ) -> None:
        self._pool = pool
        self.now = now
        self._new_tokens = new_tokens
        self._scheduler = scheduler
        self._market = market
        self._held: Counter[ProviderName] = Counter(
            node.provider for node in known if not node.gone and node.provider is not None
        )
        self._turned_away = False

    def launch(self, node: NodeId) -> tuple[Launch, Choice] | None:
        """Return the next attempt to buy a machine for `node`; None while nobody would sell."""
        choice = self._market.choose(self._pool, self._scheduler, self._held)
        if choice is None:
            self._turned_away = True
            return None
        offering = choice.offering
        self._held[offering.provider] += 1
        launch = Launch(
            token=next(self._new_tokens),
            node=node,
            pool=self._pool.name,
            team=self._pool.team,
            offering=offering,
            asked_at=self.now,
            price_per_hour=offering.price_per_hour,
        )
        return launch, choice

    def look_again_at(self) -> datetime | None:
        """Return when to try again what nobody would sell."""
        if not self._turned_away:
            return None
        return _first(self._market.opens_at(self._pool), self.now + LOOK_AGAIN)


def _grow(
    pool: Pool, known: Sequence[Node], staying: Sequence[Node], launches: _Launches
) -> Iterator[Request]:
    missing = pool.target - len(staying)
    room = pool.nodes_max - sum(not node.gone for node in known)
    unreplaced = _unreplaced(known)
    for extra in range(min(missing, room)):
        found = launches.launch(pool.node_id(pool.next_index + extra))
        if found is None:
            return
        launch, choice = found
        yield Request(
            launch=launch,
            reason=f"{len(staying)} of {pool.target} nodes",
            replaces=next(unreplaced, None),
            table=choice.table,
        )


def _succeed(
    pool: Pool,
    known: Sequence[Node],
    leaving: Set[NodeId],
    grown: int,
    replacements: Replacements,
    launches: _Launches,
) -> Iterator[Request]:
    """Yield successors for sound nodes, where the maximum has room for both."""
    room = pool.nodes_max - sum(not node.gone for node in known) - grown
    staying = [each for each in replacements.begin if each.node not in leaving]
    for extra, candidate in enumerate(staying[: max(room, 0)], start=grown):
        found = launches.launch(pool.node_id(pool.next_index + extra))
        if found is None:
            return
        launch, choice = found
        yield Request(
            launch=launch, reason=candidate.reason, replaces=candidate.node, table=choice.table
        )


def _shrink(pool: Pool, staying: Sequence[Node]) -> Iterator[Retire]:
    surplus = len(staying) - pool.target
    if surplus <= 0:
        return
    reason = "the pool was deleted" if pool.deleted else f"{len(staying)} of {pool.target} nodes"
    for node in sorted(staying, key=_worth)[:surplus]:
        yield Retire(node=node.id, reason=reason, surplus=True)


def _worth(node: Node) -> tuple[int, datetime, NodeId]:
    """Rank nodes by how little is lost with them: what never ran first, then the oldest."""
    if node.phase is Phase.REQUESTED:
        rank = 0 if node.launch is None else 1
    elif node.phase is Phase.BOOTING:
        rank = 2
    elif node.health is Health.UNHEALTHY:
        rank = 3
    elif node.phase is Phase.DRAINING or node.cordoned is not None:
        rank = 4
    else:
        rank = 5
    return rank, node.created_at, node.id


def _ask_again(kept: Sequence[Node], launches: _Launches) -> Iterator[AskAgain]:
    for node in kept:
        if _waits_to_ask(node) and (node.retry_at is None or node.retry_at <= launches.now):
            found = launches.launch(node.id)
            if found is None:
                return
            launch, choice = found
            reason = f"attempt {node.attempts + 1}: {launch.offering}"
            yield AskAgain(launch=launch, reason=reason, table=choice.table)


def _waits_to_ask(node: Node) -> bool:
    return node.phase is Phase.REQUESTED and node.launch is None


def _wake_at(pool: Pool, kept: Sequence[Node], now: datetime) -> datetime | None:
    moments = [node.since + pool.boot_deadline for node in kept if node.phase is Phase.BOOTING]
    moments += [node.retry_at for node in kept if _waits_to_ask(node) and node.retry_at]
    return min((moment for moment in moments if moment > now), default=None)


def _first(*moments: datetime | None) -> datetime | None:
    return min((moment for moment in moments if moment is not None), default=None)


def _unreplaced(known: Sequence[Node]) -> Iterator[NodeId]:
    replaced = {node.replaces for node in known}
    for node in known:
        if node.retiring is not None and not node.retiring.surplus and node.id not in replaced:
            yield node.id
