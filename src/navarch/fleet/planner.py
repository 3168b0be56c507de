"""The size of a pool: nodes to buy, nodes to remove, and machines that never came up."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from operator import attrgetter

from navarch.core.ids import NodeId, ProviderName, Token
from navarch.core.launch import Gang, Launch, Offering, pause
from navarch.core.node import Node, Phase
from navarch.core.pool import Pool
from navarch.fleet.boot_times import AS_CONFIGURED, BootWatch
from navarch.fleet.disruption.replacement import Replacements, successors
from navarch.fleet.disruption.surplus import Loads, surplus, surplus_in_gangs
from navarch.fleet.disruption.unregistered import unregistered
from navarch.fleet.gangs import GangPlan, group, plan_gangs, worth_keeping
from navarch.fleet.launch_breaker import LaunchBreaker, QuarantinedOffering
from navarch.fleet.plan import Action, Plan, Request, Retire, RetryLaunch, SetLaunchBreaker
from navarch.fleet.pool_index import NO_STEADY_NODES, SteadyNodes
from navarch.fleet.replacement_loop import fell_ill_at
from navarch.fleet.selection import NONE_QUARANTINED, Market
from navarch.fleet.sizing import why_paused
from navarch.fleet.stockouts import Scope, Stockouts, scopes
from navarch.ports.provider import ProvisionScheduler
from navarch.provision import FirstAvailable

LOOK_AGAIN = timedelta(seconds=30)
"""How often to query a closed market: it may open without a known date."""


REQUESTS_PER_ROUND = 250
"""The most nodes that one round requests for a pool; the next round follows at once. Heartbeats and
calls are answered between two rounds."""


def plan_pool(
    pool: Pool,
    nodes: Iterable[Node],
    *,
    now: datetime,
    new_tokens: Iterator[Token],
    scheduler: ProvisionScheduler | None = None,
    market: Market | None = None,
    replacements: Replacements | None = None,
    surveyed: Collection[ProviderName] = (),
    loads: Loads = lambda _: {},
    breaker: LaunchBreaker | None = None,
    quarantined: Mapping[Scope, QuarantinedOffering] = NONE_QUARANTINED,
    steady: SteadyNodes = NO_STEADY_NODES,
    boots: BootWatch = AS_CONFIGURED,
) -> Plan:
    """Return the actions that bring `pool` closer to its size.

    Machines that may exist count towards the maximum, nodes that are meant to stay towards the
    size. Nothing is requested while the market is closed; once it opens, the nodes that waited
    longest come first. A pool above the limit is paused.

    `surveyed` lists the providers that report where their machines are, `loads` returns how busy
    nodes are, `breaker` limits purchases, `quarantined` lists offerings at which machines did not
    come up, `steady` counts the nodes that are not in `nodes`, `boots` decides how long they boot.
    """
    known = list(nodes)
    market = market or Market(Stockouts(), now=now)
    if why_paused(pool) is not None:
        market.expect(pool.name, 0)
        return Plan(pool=pool.name)
    replacements = replacements or Replacements()
    removals = _plan_removals(pool, known, replacements, surveyed, loads, boots, now)
    kept = [node for node in known if node.counts and node.id not in removals.nodes]
    missing = pool.target - len(removals.staying) - steady.nodes
    # How many machines the pool still has to find.
    wanted = max(missing, 0) + sum(_waits_to_retry(node) for node in kept)
    market.expect(pool.name, wanted)
    scheduler = scheduler or FirstAvailable()
    launches = _Launches(
        pool, known, steady, now, new_tokens, scheduler, market, breaker, dict(quarantined)
    )
    retried = list(_retry_launches(known, kept, launches))
    room = pool.nodes_max - steady.nodes - sum(not node.gone for node in known)
    if pool.gang:
        grown = list(_grow_gangs(pool, known, removals, room, launches))
    else:
        grown = list(_grow(pool, known, missing, room, launches))
    more = min(missing, room) > len(grown) >= REQUESTS_PER_ROUND
    market.expect(pool.name, max(wanted - len(grown) - len(retried), 0))
    grown += _succeed(pool, known, removals, room, len(grown), replacements, launches)
    reason = breaker.reason if breaker is not None and breaker.pauses else None
    actions: list[Action] = [SetLaunchBreaker(reason=reason)] if reason != pool.braked else []
    gangs = removals.gangs
    actions += [*removals.late, *gangs.release, *gangs.abandon, *gangs.retire]
    actions += [*grown, *removals.surplus, *retried]
    actions += [each for each in replacements.closures if each.node not in removals.nodes]
    later = (_wake_at(pool, kept, boots, now), launches.look_again_at(), gangs.wake_at)
    wake_at = now if more else _first(*later, steady.late_at)
    return Plan(pool=pool.name, actions=tuple(actions), wake_at=wake_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Removals:
    """The nodes that a plan removes, and those that stay."""

    late: Sequence[Retire]
    """Nodes past their boot deadline, and nodes with a replacement that serves."""
    gangs: GangPlan
    surplus: Sequence[Retire]
    staying: Sequence[Node]
    """The nodes that count towards the size before the surplus is removed. Successors of nodes
    that still serve are not among them: they are extra until they take over."""
    nodes: frozenset[NodeId]
    """The names of all nodes that are removed."""


def _plan_removals(
    pool: Pool,
    known: Sequence[Node],
    replacements: Replacements,
    surveyed: Collection[ProviderName],
    loads: Loads,
    boots: BootWatch,
    now: datetime,
) -> _Removals:
    late = unregistered(pool, known, boots, now=now)
    removed = {retire.node for retire in late}
    late += [retire for retire in replacements.retire if retire.node not in removed]
    removed = {retire.node for retire in late}
    staying = [node for node in known if node.counts and node.id not in removed]
    extra = {node.id for node in successors(staying).values()}
    staying = [node for node in staying if node.id not in extra]
    gangs = plan_gangs(pool, group(known, staying), surveyed=surveyed, now=now)
    removed |= {retire.node for retire in gangs.retire}
    removed.update(name for each in gangs.abandon for name in each.nodes)
    staying = [node for node in staying if node.id not in removed]
    if pool.gang:
        groups = worth_keeping(pool, group(known, staying), now=now)
        too_many = list(surplus_in_gangs(pool, staying, groups, loads))
    else:
        too_many = list(surplus(pool, staying, loads))
    removed.update(retire.node for retire in too_many)
    return _Removals(
        late=late, gangs=gangs, surplus=too_many, staying=staying, nodes=frozenset(removed)
    )


def seen_by_size(node: Node) -> object:
    """Return the part of `node` that a plan of the size depends on.

    While it stays the same, the plan holds. How often a fault was seen, notifications and the
    latest report are not part of it.
    """
    if node.retiring is not None and node.gang is None:
        # It no longer counts. Only its end matters, not the phases on the way.
        gone_since = node.since if node.gone else None
        facts = (gone_since, node.retiring, node.replaces, node.registered_at, node.launch)
        return *facts, fell_ill_at(node)
    held_against = [(x.check, x.health, x.reason) for x in node.conditions]
    return _seen(node), held_against


_seen = attrgetter(
    *("phase", "since", "retiring", "replaces", "registered_at"),
    *("launch", "attempts", "retry_at", "offering"),
    *("gang", "waiting", "topology", "cordoned", "health"),
)


@dataclass
class _Launches:
    """The launch attempts of one plan, written as the market allows them."""

    pool: Pool
    known: Sequence[Node]
    steady: SteadyNodes
    now: datetime
    new_tokens: Iterator[Token]
    scheduler: ProvisionScheduler
    market: Market
    breaker: LaunchBreaker | None
    quarantined: dict[Scope, QuarantinedOffering]
    written: int = 0
    refused: bool = False
    """Whether something was not for sale."""

    @cached_property
    def _held(self) -> defaultdict[ProviderName, int]:
        """How many machines the pool has at each provider; counted once a plan buys."""
        held = defaultdict(int, self.steady.held)
        for node in self.known:
            if not node.gone and (provider := node.provider) is not None:
                held[provider] += 1
        return held

    def launch(
        self,
        node: NodeId,
        instead_of: Node | None = None,
        *,
        gang: Gang | None = None,
        only: Offering | None = None,
    ) -> tuple[Launch, str] | None:
        """Return the next launch attempt for `node` and its options; None if there is none now.

        `instead_of` is the broken or lost node that it replaces, `gang` the gang that it joins;
        `only` restricts it to one offering.
        """
        if self._exceeds_allowance(1, is_replacement=instead_of is not None):
            return None
        bought = None if instead_of is None else instead_of.launch or instead_of.offering
        price = None if bought is None else bought.price_per_hour
        if gang is not None:
            place = self.quarantined.get(scopes(gang.offering)[0])
            is_closed = place is not None and self.now < place.tried_at
            if is_closed or self.market.join(self.pool, gang, instead_of=price) is not None:
                self.refused = True
                return None
            return self._written(node, gang.offering, gang), ""
        choice = self.market.choose(
            self.pool,
            self.scheduler,
            self._held,
            instead_of=price,
            quarantined=self.quarantined,
            only=only,
        )
        if choice is None:
            self.refused = True
            return None
        return self._written(node, choice.offering, zones=choice.zones), choice.table

    def begin(self, gang: str, names: Sequence[NodeId]) -> tuple[list[Launch], str] | None:
        """Return launch attempts for a whole gang at one offering; None while not for sale."""
        if self._exceeds_allowance(len(names), is_replacement=False):
            return None
        choice = self.market.choose(
            self.pool,
            self.scheduler,
            self._held,
            gang=len(names),
            quarantined=self.quarantined,
        )
        if choice is None:
            self.refused = True
            return None
        found = Gang(id=gang, nodes=len(names), offering=choice.offering)
        return [self._written(name, found.offering, found) for name in names], choice.table

    def _written(
        self,
        node: NodeId,
        offering: Offering,
        gang: Gang | None = None,
        zones: tuple[str, ...] = (),
    ) -> Launch:
        self._held[offering.provider] += 1
        self.written += 1
        if self.quarantined and (place := scopes(offering)[0]) in self.quarantined:
            self.quarantined[place] = replace(self.quarantined[place], trying=True)
        return Launch(
            token=next(self.new_tokens),
            node=node,
            pool=self.pool.name,
            team=self.pool.team,
            offering=offering,
            asked_at=self.now,
            price_per_hour=offering.price_per_hour,
            setup_digest=self.pool.setup_digest,
            request=self.pool.request_digest,
            gang=gang,
            zones=zones,
        )

    def _exceeds_allowance(self, machines: int, *, is_replacement: bool) -> bool:
        breaker = self.breaker
        if breaker is None or (breaker.lets_grow and not is_replacement):
            return False
        return self.written + machines > breaker.allowance

    def look_again_at(self) -> datetime | None:
        """Return when to retry what the market or the launch breaker does not allow now."""
        breaker = self.breaker
        if breaker is not None and breaker.pauses and self.now < breaker.until:
            return breaker.until
        if not self.refused:
            return None
        return _first(self.market.opens_at(self.pool), self.now + LOOK_AGAIN)


def _grow(
    pool: Pool, known: Sequence[Node], missing: int, room: int, launches: _Launches
) -> Iterator[Request]:
    """Yield requests for missing nodes, as far as there is room."""
    if missing <= 0:
        return
    unreplaced = _unreplaced(pool, known)
    for extra in range(min(missing, room, REQUESTS_PER_ROUND)):
        lost = next(unreplaced, None)
        found = launches.launch(pool.node_id(pool.next_index + extra), lost)
        if found is None:
            return
        launch, table = found
        yield Request(
            launch=launch,
            reason=f"{pool.target - missing} of {pool.target} nodes",
            replaces=None if lost is None else lost.id,
            table=table,
        )


def _grow_gangs(
    pool: Pool, known: Sequence[Node], removals: _Removals, room: int, launches: _Launches
) -> Iterator[Request]:
    """Yield requests for missing members of gangs, then for whole gangs, within the maximum."""
    groups = group(known, [x for x in removals.staying if x.id not in removals.nodes])
    index = pool.next_index
    for each in groups:
        unreplaced = _unreplaced(pool, [node for node in known if node.gang == each.gang])
        for _ in range(min(each.missing, room)):
            lost = next(unreplaced, None)
            found = launches.launch(pool.node_id(index), lost, gang=each.gang)
            if found is None:
                return
            index, room = index + 1, room - 1
            yield Request(
                launch=found[0],
                reason=f"{len(each.members)} of {each.gang.nodes} in {each.gang.id}",
                replaces=None if lost is None else lost.id,
                waiting=each.waiting,
            )
    if removals.gangs.abandon:
        # An abandoned gang closes its offering in the journal. The next gang starts after that is
        # stored, so that it is bought elsewhere.
        return
    # Every gang that is worth keeping counts as complete.
    covered = launches.steady.nodes + sum(node.gang is None for node in removals.staying)
    covered += sum(each.gang.nodes for each in worth_keeping(pool, groups, now=launches.now))
    while covered < pool.target and room >= pool.gang:
        names = [pool.node_id(index + extra) for extra in range(pool.gang)]
        begun = launches.begin(f"{pool.name}-g{index}", names)
        if begun is None:
            return
        members, table = begun
        for launch in members:
            yield Request(
                launch=launch,
                reason=f"{covered} of {pool.target} nodes, in gangs of {pool.gang}",
                table=table,
                waiting=True,
            )
        index, room, covered = index + pool.gang, room - pool.gang, covered + pool.gang


def _succeed(
    pool: Pool,
    known: Sequence[Node],
    removals: _Removals,
    room: int,
    grown: int,
    replacements: Replacements,
    launches: _Launches,
) -> Iterator[Request]:
    """Yield requests for successors of sound nodes, as long as the maximum has room for both."""
    staying = [each for each in replacements.begin if each.node not in removals.nodes]
    gangs = {node.id: node.gang for node in known}
    for extra, candidate in enumerate(staying[: max(room - grown, 0)], start=grown):
        name = pool.node_id(pool.next_index + extra)
        found = launches.launch(name, gang=gangs[candidate.node], only=candidate.successor)
        if found is None:
            return
        launch, table = found
        yield Request(launch=launch, reason=candidate.reason, replaces=candidate.node, table=table)


def _retry_launches(
    known: Sequence[Node], kept: Sequence[Node], launches: _Launches
) -> Iterator[RetryLaunch]:
    due = []
    for node in kept:
        retries_at = _retries_at(node)
        if _waits_to_retry(node) and (retries_at is None or retries_at <= launches.now):
            due.append(node)
    if not due:
        return
    broken = {node.id: node for node in known if not node.counts}
    # Replacements of broken nodes come first: a budget may allow those and nothing else.
    for node in sorted(due, key=lambda node: node.replaces not in broken):
        lost = None if node.replaces is None else broken.get(node.replaces)
        found = launches.launch(node.id, lost, gang=node.gang)
        if found is None:
            return
        launch, table = found
        reason = f"attempt {node.attempts + 1}: {launch.offering}"
        yield RetryLaunch(launch=launch, reason=reason, table=table)


def _waits_to_retry(node: Node) -> bool:
    return node.phase is Phase.REQUESTED and node.launch is None


def _retries_at(node: Node) -> datetime | None:
    """Return when a refused node may retry; a gang member keeps its own back-off."""
    if node.retry_at is None or node.gang is None:
        return node.retry_at
    return node.retry_at + pause(node.attempts)


def _wake_at(pool: Pool, kept: Sequence[Node], boots: BootWatch, now: datetime) -> datetime | None:
    moments: list[datetime | None] = []
    for node in kept:
        if node.phase is Phase.BOOTING:
            moments.append(boots.deadline(pool, node).at)
        elif _waits_to_retry(node):
            moments.append(_retries_at(node))
    return _first(*(moment for moment in moments if moment is not None and moment > now))


def _first(*moments: datetime | None) -> datetime | None:
    return min((moment for moment in moments if moment is not None), default=None)


def _unreplaced(pool: Pool, known: Sequence[Node]) -> Iterator[Node]:
    """Yield the nodes that need a replacement: leaving ones, and lost ones."""
    replaced = {node.replaces for node in known}
    for node in known:
        leaves = not node.gone and node.retiring is not None and not node.retiring.surplus
        if node.id not in replaced and (leaves or was_lost(pool, node)):
            yield node


def was_lost(pool: Pool, node: Node) -> bool:
    """Return whether `node` served `pool` at its present size and ended without being surplus.

    Nodes lost before the latest change of size need no replacement.
    """
    if not node.gone or node.registered_at is None:
        return False
    if pool.scaled_at is not None and node.since < pool.scaled_at:
        return False
    return node.retiring is None or not node.retiring.surplus
