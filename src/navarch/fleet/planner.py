"""The size of a pool: nodes to buy, nodes to remove, and machines that never came up."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from operator import attrgetter

from navarch.core.health import Health
from navarch.core.ids import NodeId, ProviderName, Token
from navarch.core.launch import Gang, Launch, Offering
from navarch.core.node import Node, Phase
from navarch.core.pool import Pool
from navarch.fleet.disruption.replacement import Replacements, successors
from navarch.fleet.disruption.surplus import Loads, surplus, surplus_in_gangs
from navarch.fleet.disruption.unregistered import unregistered
from navarch.fleet.gangs import GangPlan, Group, group, plan_gangs, worth_keeping
from navarch.fleet.launch_breaker import LaunchBreaker, QuarantinedOffering
from navarch.fleet.pacing import pause
from navarch.fleet.plan import Action, Plan, Request, Retire, RetryLaunch, SetLaunchBreaker
from navarch.fleet.pool_index import NO_STEADY_NODES, SteadyNodes
from navarch.fleet.replacement_loop import fell_ill_at
from navarch.fleet.selection import NONE_QUARANTINED, Choice, Market
from navarch.fleet.sizing import why_paused
from navarch.fleet.stockouts import Scope, Stockouts, scopes
from navarch.ports.provision import ProvisionScheduler
from navarch.provision.strategies import FirstAvailable

LOOK_AGAIN = timedelta(seconds=30)
"""How often to query a closed market: it may open without a known date."""


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
) -> Plan:
    """Return the actions that bring `pool` closer to its size.

    Every machine that may exist counts towards the maximum; only nodes that are meant to stay count
    towards the size. Nothing is requested while the market is closed; once it opens, the nodes that
    have waited longest come first. A pool above the limit is paused and stays as it is.

    `surveyed` lists the providers that report where their machines are, `loads` returns how busy
    nodes are, `breaker` limits purchases, `quarantined` lists offerings at which machines did not
    come up, and `steady` counts the nodes that are not in `nodes`.
    """
    known = list(nodes)
    market = market or Market(Stockouts(), now=now)
    if why_paused(pool) is not None:
        market.expect(pool.name, 0)
        return Plan(pool=pool.name)
    replacements = replacements or Replacements()
    removals = _plan_removals(pool, known, replacements, steady, surveyed, loads, now)
    kept = [node for node in known if node.counts and node.id not in removals.nodes]
    wanted = _wanted(pool, len(removals.staying) + steady.nodes, kept)
    market.expect(pool.name, wanted)
    scheduler = scheduler or FirstAvailable()
    launches = _Launches(
        pool, known, now, new_tokens, scheduler, market, breaker, quarantined, steady.held
    )
    retried = list(_retry_launches(known, kept, launches))
    grown = _grow(pool, known, removals, steady.nodes, launches)
    still_wanted = wanted - len(grown) - len(retried)
    grown += _succeed(pool, known, removals.nodes, len(grown), steady.nodes, replacements, launches)
    changed = _breaker_change(pool, breaker)
    actions = (*changed, *removals.first, *grown, *removals.surplus, *retried)
    if _is_settled(steady, actions):
        market.expect(pool.name, still_wanted)
    wake_at = _first(_wake_at(pool, kept, now), launches.look_again_at(), removals.gangs.wake_at)
    return Plan(
        pool=pool.name,
        actions=actions,
        wake_at=_first(wake_at, steady.late_at(pool)),
    )


def _is_settled(steady: SteadyNodes, actions: Iterable[Action]) -> bool:
    """Return whether a plan of those actions leaves nothing else to plan.

    The nodes that it requests only count from now on.
    """
    buys_only = all(isinstance(action, Request | RetryLaunch) for action in actions)
    return steady is not NO_STEADY_NODES and buys_only


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

    @property
    def first(self) -> tuple[Action, ...]:
        """The actions that come before the requests of a plan."""
        gangs = self.gangs
        return (*self.late, *gangs.release, *gangs.abandon, *gangs.retire)


def _plan_removals(
    pool: Pool,
    known: Sequence[Node],
    replacements: Replacements,
    steady: SteadyNodes,
    surveyed: Collection[ProviderName],
    loads: Loads,
    now: datetime,
) -> _Removals:
    late = unregistered(pool, known, now=now)
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
    too_many: list[Retire] = []
    if pool.gang:
        groups = worth_keeping(pool, group(known, staying), now=now)
        too_many = list(surplus_in_gangs(pool, staying, groups, loads))
    elif not steady.nodes:
        # A pool with surplus nodes has no steady nodes: a plan then sees all of them.
        too_many = list(surplus(pool, staying, loads))
    removed.update(retire.node for retire in too_many)
    return _Removals(
        late=late, gangs=gangs, surplus=too_many, staying=staying, nodes=frozenset(removed)
    )


def _breaker_change(pool: Pool, breaker: LaunchBreaker | None) -> tuple[SetLaunchBreaker, ...]:
    """Return the action that records the state of the breaker, if it changed."""
    reason = None if breaker is None else breaker.reason
    return () if reason == pool.braked else (SetLaunchBreaker(reason=reason),)


def seen_by_size(node: Node) -> object:
    """Return the part of `node` that a plan of the size depends on.

    While it stays the same, the plan holds. How often a fault was seen, notifications and the
    latest report are not part of it.
    """
    if node.retiring is not None and node.gang is None:
        # It no longer counts. Only its end matters, not the phases on the way.
        gone_since = node.since if node.gone else None
        ill_at = fell_ill_at(node)
        return gone_since, node.retiring, node.replaces, node.registered_at, node.launch, ill_at
    held_against = list(map(_held_against, node.conditions))
    return _seen(node), node.health is Health.UNHEALTHY, held_against


def matters_to_size(before: Node, node: Node) -> bool:
    """Return whether `node` differs from `before` in a way that can change a plan of the size.

    A change of phase or retirement is decisive for most nodes, so it is compared first.
    """
    was_leaving = before.retiring is not None and node.retiring is not None
    moved_on = before.phase is not node.phase or before.retiring is not node.retiring
    if moved_on and not was_leaving:
        return True
    return seen_by_size(before) != seen_by_size(node)


_seen = attrgetter(
    *("phase", "since", "retiring", "replaces", "registered_at"),
    *("launch", "attempts", "retry_at", "offering"),
    *("gang", "waiting", "topology", "cordoned"),
)
_held_against = attrgetter("check", "health", "reason")


class _Launches:
    """The launch attempts of one plan, written as the market allows them."""

    def __init__(
        self,
        pool: Pool,
        known: Sequence[Node],
        now: datetime,
        new_tokens: Iterator[Token],
        scheduler: ProvisionScheduler,
        market: Market,
        breaker: LaunchBreaker | None,
        quarantined: Mapping[Scope, QuarantinedOffering],
        steady: Mapping[ProviderName, int],
    ) -> None:
        self._pool = pool
        self._quarantined = dict(quarantined)
        self._breaker = breaker
        self._allowance = None if breaker is None else breaker.allowance
        self.now = now
        self._new_tokens = new_tokens
        self._scheduler = scheduler
        self._market = market
        self._known = known
        self._steady = steady
        self._held: defaultdict[ProviderName, int] | None = None
        self._refused = False

    def _held_at(self) -> defaultdict[ProviderName, int]:
        """Return how many machines the pool has at each provider; computed once a plan buys."""
        held = self._held
        if held is None:
            held = self._held = defaultdict(int, self._steady)
            for node in self._known:
                if not node.gone and (provider := node.provider) is not None:
                    held[provider] += 1
        return held

    def launch(
        self, node: NodeId, instead_of: Node | None = None, only: Offering | None = None
    ) -> tuple[Launch, Choice] | None:
        """Return the next launch attempt for `node`; None while nothing can be bought.

        `instead_of` is the broken or lost node that it replaces; `only` restricts it to one
        offering.
        """
        if self._exceeds_allowance(1):
            return None
        price = None if instead_of is None else _price(instead_of)
        choice = self._market.choose(
            self._pool,
            self._scheduler,
            self._held_at(),
            instead_of=price,
            quarantined=self._quarantined,
            only=only,
        )
        if choice is None:
            self._refused = True
            return None
        return self._written(node, choice.offering), choice

    def begin(self, gang: str, names: Sequence[NodeId]) -> tuple[list[Launch], Choice] | None:
        """Return launch attempts for a whole gang at one offering; None while not for sale."""
        if self._exceeds_allowance(len(names)):
            return None
        choice = self._market.choose(
            self._pool,
            self._scheduler,
            self._held_at(),
            gang=len(names),
            quarantined=self._quarantined,
        )
        if choice is None:
            self._refused = True
            return None
        found = Gang(id=gang, nodes=len(names), offering=choice.offering)
        return [self._written(name, found.offering, found) for name in names], choice

    def join(self, node: NodeId, gang: Gang, instead_of: Node | None = None) -> Launch | None:
        """Return a launch attempt for one more member of a gang; None while not for sale."""
        if self._exceeds_allowance(1):
            return None
        place = self._quarantined.get(scopes(gang.offering)[0])
        if place is not None and self.now < place.tried_at:
            self._refused = True
            return None
        price = None if instead_of is None else _price(instead_of)
        if self._market.join(self._pool, gang, instead_of=price) is not None:
            self._refused = True
            return None
        return self._written(node, gang.offering, gang)

    def _written(self, node: NodeId, offering: Offering, gang: Gang | None = None) -> Launch:
        self._held_at()[offering.provider] += 1
        if self._allowance is not None:
            self._allowance -= 1
        if self._quarantined and (place := scopes(offering)[0]) in self._quarantined:
            self._quarantined[place] = replace(self._quarantined[place], trying=True)
        return Launch(
            token=next(self._new_tokens),
            node=node,
            pool=self._pool.name,
            team=self._pool.team,
            offering=offering,
            asked_at=self.now,
            price_per_hour=offering.price_per_hour,
            told=self._pool.tells,
            gang=gang,
        )

    def _exceeds_allowance(self, machines: int) -> bool:
        return self._allowance is not None and self._allowance < machines

    def look_again_at(self) -> datetime | None:
        """Return when to retry what the market or the launch breaker does not allow now."""
        if self._breaker is not None and self.now < self._breaker.until:
            return self._breaker.until
        if not self._refused:
            return None
        return _first(self._market.opens_at(self._pool), self.now + LOOK_AGAIN)


def _grow(
    pool: Pool,
    known: Sequence[Node],
    removals: _Removals,
    steady: int,
    launches: _Launches,
) -> list[Request]:
    """Return the requests for missing nodes, as far as there is room."""
    if not pool.gang:
        missing = pool.target - len(removals.staying) - steady
        return _grow_by_nodes(pool, known, steady, missing, launches)
    kept = [node for node in removals.staying if node.id not in removals.nodes]
    # An abandoned gang closes its offering in the journal. The next gang starts after that is
    # stored, so that it is bought elsewhere.
    begin = not removals.gangs.abandon
    groups = group(known, kept)
    return list(_grow_gangs(pool, known, removals.staying, groups, launches, begin=begin))


def _grow_by_nodes(
    pool: Pool, known: Sequence[Node], steady: int, missing: int, launches: _Launches
) -> list[Request]:
    grown: list[Request] = []
    if missing <= 0:
        return grown
    room = pool.nodes_max - steady - sum(not node.gone for node in known)
    unreplaced = _unreplaced(pool, known)
    for extra in range(min(missing, room)):
        lost = next(unreplaced, None)
        found = launches.launch(pool.node_id(pool.next_index + extra), lost)
        if found is None:
            break
        launch, choice = found
        request = Request(
            launch=launch,
            reason=f"{pool.target - missing} of {pool.target} nodes",
            replaces=None if lost is None else lost.id,
            table=choice.table,
        )
        grown.append(request)
    return grown


def _grow_gangs(
    pool: Pool,
    known: Sequence[Node],
    staying: Sequence[Node],
    groups: Sequence[Group],
    launches: _Launches,
    *,
    begin: bool,
) -> Iterator[Request]:
    """Yield requests for missing members of gangs, then for whole gangs, within the maximum."""
    room = pool.nodes_max - sum(not node.gone for node in known)
    index = pool.next_index
    unreplaced = {
        gang: _unreplaced(pool, [x for x in known if x.gang == gang]) for gang in _gangs(known)
    }
    for each in groups:
        for _ in range(min(each.missing, room)):
            lost = next(unreplaced[each.gang], None)
            launch = launches.join(pool.node_id(index), each.gang, lost)
            if launch is None:
                return
            index, room = index + 1, room - 1
            yield Request(
                launch=launch,
                reason=f"{len(each.members)} of {each.gang.nodes} in {each.gang.id}",
                replaces=None if lost is None else lost.id,
                waiting=each.waiting,
            )
    if not begin:
        return
    covered = _covered(staying, worth_keeping(pool, groups, now=launches.now))
    while covered < pool.target and room >= pool.gang:
        names = [pool.node_id(index + extra) for extra in range(pool.gang)]
        found = launches.begin(f"{pool.name}-g{index}", names)
        if found is None:
            return
        begun, choice = found
        for launch in begun:
            yield Request(
                launch=launch,
                reason=f"{covered} of {pool.target} nodes, in gangs of {pool.gang}",
                table=choice.table,
                waiting=True,
            )
        index, room, covered = index + pool.gang, room - pool.gang, covered + pool.gang


def _covered(staying: Iterable[Node], groups: Iterable[Group]) -> int:
    """Return the number of nodes with every gang counted as complete."""
    loose = sum(node.gang is None for node in staying)
    return loose + sum(each.gang.nodes for each in groups)


def _gangs(known: Iterable[Node]) -> dict[Gang, None]:
    return {node.gang: None for node in known if node.gang is not None}


def _succeed(
    pool: Pool,
    known: Sequence[Node],
    leaving: Set[NodeId],
    grown: int,
    steady: int,
    replacements: Replacements,
    launches: _Launches,
) -> Iterator[Request]:
    """Yield requests for successors of sound nodes, as long as the maximum has room for both."""
    if not replacements.begin:
        return
    room = pool.nodes_max - steady - sum(not node.gone for node in known) - grown
    staying = [each for each in replacements.begin if each.node not in leaving]
    gangs = {node.id: node.gang for node in known if node.gang is not None}
    for extra, candidate in enumerate(staying[: max(room, 0)], start=grown):
        name = pool.node_id(pool.next_index + extra)
        if candidate.node in gangs:
            joined = launches.join(name, gangs[candidate.node])
            found = None if joined is None else (joined, "")
        else:
            alone = launches.launch(name, only=candidate.successor)
            found = None if alone is None else (alone[0], alone[1].table)
        if found is None:
            return
        launch, table = found
        yield Request(launch=launch, reason=candidate.reason, replaces=candidate.node, table=table)


def _retry_launches(
    known: Sequence[Node], kept: Sequence[Node], launches: _Launches
) -> Iterator[RetryLaunch]:
    waiting = [node for node in kept if _waits_to_retry(node)]
    if not waiting:
        return
    broken = {node.id: node for node in known if not node.counts}
    due = [node for node in waiting if _may_retry(node, launches.now)]
    # Replacements of broken nodes come first: a budget may allow those and nothing else.
    for node in sorted(due, key=lambda node: node.replaces not in broken):
        lost = None if node.replaces is None else broken.get(node.replaces)
        if node.gang is not None:
            joined = launches.join(node.id, node.gang, lost)
            found = None if joined is None else (joined, "")
        else:
            alone = launches.launch(node.id, lost)
            found = None if alone is None else (alone[0], alone[1].table)
        if found is None:
            return
        launch, table = found
        reason = f"attempt {node.attempts + 1}: {launch.offering}"
        yield RetryLaunch(launch=launch, reason=reason, table=table)


def _wanted(pool: Pool, staying: int, kept: Sequence[Node]) -> int:
    """Return how many machines the pool still has to find."""
    return max(pool.target - staying, 0) + sum(_waits_to_retry(node) for node in kept)


def _waits_to_retry(node: Node) -> bool:
    return node.phase is Phase.REQUESTED and node.launch is None


def _may_retry(node: Node, now: datetime) -> bool:
    retries_at = _retries_at(node)
    return retries_at is None or retries_at <= now


def _retries_at(node: Node) -> datetime | None:
    """Return when a refused node may retry; a gang member keeps its own back-off."""
    if node.retry_at is None or node.gang is None:
        return node.retry_at
    return node.retry_at + pause(node.attempts)


def _wake_at(pool: Pool, kept: Sequence[Node], now: datetime) -> datetime | None:
    moments = [node.since + pool.boot_deadline for node in kept if node.phase is Phase.BOOTING]
    moments += [
        at for node in kept if _waits_to_retry(node) and (at := _retries_at(node)) is not None
    ]
    return min((moment for moment in moments if moment > now), default=None)


def _first(*moments: datetime | None) -> datetime | None:
    first = None
    for moment in moments:
        if moment is not None and (first is None or moment < first):
            first = moment
    return first


def _unreplaced(pool: Pool, known: Sequence[Node]) -> Iterator[Node]:
    """Yield the nodes that need a replacement: leaving ones, and lost ones."""
    replaced = {node.replaces for node in known}
    for node in known:
        if node.id in replaced:
            continue
        if was_lost(pool, node) or (not node.gone and _is_replaced(node)):
            yield node


def _is_replaced(node: Node) -> bool:
    return node.retiring is not None and not node.retiring.surplus


def was_lost(pool: Pool, node: Node) -> bool:
    """Return whether `node` served `pool` at its present size and ended without being surplus.

    Nodes lost before the latest change of size need no replacement.
    """
    if not node.gone or node.registered_at is None:
        return False
    if pool.scaled_at is not None and node.since < pool.scaled_at:
        return False
    return node.retiring is None or not node.retiring.surplus


def _price(node: Node) -> Decimal | None:
    if node.launch is not None:
        return node.launch.price_per_hour
    return None if node.offering is None else node.offering.price_per_hour
