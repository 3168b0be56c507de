"""The size of a pool: who is missing, who is too many, who never came."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from operator import attrgetter

from navarch.core.gang import Gang
from navarch.core.health import Health
from navarch.core.ids import NodeId, ProviderName, Token
from navarch.core.launch import Launch
from navarch.core.node import Node, Phase
from navarch.core.offering import Offering
from navarch.core.pool import Pool
from navarch.fleet.disruption.replacement import Replacements, successors
from navarch.fleet.disruption.surplus import Loads, surplus, surplus_in_gangs
from navarch.fleet.disruption.unregistered import unregistered
from navarch.fleet.gangs import Group, group, plan_gangs, worth_keeping
from navarch.fleet.launch_breaker import LaunchBreaker, QuarantinedOffering
from navarch.fleet.pacing import pause
from navarch.fleet.pauses import why_paused
from navarch.fleet.plan import Action, Plan, Request, RetryLaunch, SetLaunchBreaker
from navarch.fleet.pool_index import NO_STEADY_NODES, SteadyNodes
from navarch.fleet.replacement_loop import fell_ill_at
from navarch.fleet.selection import NOTHING_SHUNNED, Choice, Market
from navarch.fleet.stockouts import Scope, Stockouts, scopes
from navarch.ports.provision import ProvisionScheduler
from navarch.provision.strategies import FirstAvailable

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
    surveyed: Collection[ProviderName] = (),
    loads: Loads = lambda _: {},
    brake: LaunchBreaker | None = None,
    shunned: Mapping[Scope, QuarantinedOffering] = NOTHING_SHUNNED,
    beside: SteadyNodes = NO_STEADY_NODES,
) -> Plan:
    """Return what brings `pool` closer to its size.

    Every machine that may exist counts towards the maximum, whatever its state; only
    those that are meant to stay count towards the size. Nothing is asked for where the
    market is closed: those who wait longest are served first when it opens. `surveyed`
    are the providers that say where machines stand; `loads` says how busy nodes are: of
    those that are too many, the idle go first. A `brake` says how much may be bought at all.
    `shunned` are places where machines did not come up, and `beside` nodes that only count.
    A pool above the limit is paused: nothing is asked for, and its nodes stay as they are.
    """
    known = list(nodes)
    market = market or Market(Stockouts(), now=now)
    if why_paused(pool) is not None:
        market.expect(pool.name, 0)
        return Plan(pool=pool.name)
    launches = _Launches(
        pool,
        known,
        now,
        new_tokens,
        scheduler or FirstAvailable(),
        market,
        brake,
        shunned,
        beside.held,
    )
    if beside is not NO_STEADY_NODES and not any(node.counts for node in known):
        return _plan_growth(pool, known, beside, launches, market, brake)
    late = unregistered(pool, known, now=now)
    replacements = replacements or Replacements()
    given_up = {retire.node for retire in late}
    if replacements.retire:
        late += [retire for retire in replacements.retire if retire.node not in given_up]
        given_up = {retire.node for retire in late}
    staying = [node for node in known if node.counts and node.id not in given_up]
    # Successors of nodes that still serve come on top of the size, until they take over.
    if extra := {node.id for node in successors(staying).values()}:
        staying = [node for node in staying if node.id not in extra]
    groups = group(known, staying)
    gangs = plan_gangs(pool, groups, surveyed=surveyed, now=now)
    gone = {name for each in gangs.give_up for name in each.nodes}
    gone |= {retire.node for retire in gangs.retire}
    if gone:
        staying = [node for node in staying if node.id not in gone]
    if pool.gang:
        groups = worth_keeping(pool, group(known, staying), now=now)
        extra_nodes = list(surplus_in_gangs(pool, staying, groups, loads))
    else:
        # Who only counts is never too many: where somebody is, all are shown.
        extra_nodes = [] if beside.nodes else list(surplus(pool, staying, loads))
    leaving = given_up | gone | {retire.node for retire in extra_nodes}
    kept = [node for node in known if node.counts and node.id not in leaving]
    wanted = _wanted(pool, len(staying) + beside.nodes, kept)
    market.expect(pool.name, wanted)
    asked_again = list(_ask_again(known, kept, launches))
    if pool.gang:
        groups = group(known, [node for node in staying if node.id not in leaving])
        # Where one is given up, the next begins when that is remembered, so that it goes elsewhere.
        begin = not gangs.give_up
        grown = list(_grow_gangs(pool, known, staying, groups, launches, begin=begin))
    else:
        target = pool.target
        missing = target - len(staying) - beside.nodes
        grown = _grow(pool, known, beside.nodes, missing, target, launches)
    still_wanted = wanted - len(grown) - len(asked_again)
    grown += _succeed(pool, known, leaving, len(grown), beside.nodes, replacements, launches)
    waited_for = _first(_wake_at(pool, kept, now), launches.look_again_at(), gangs.wake_at)
    reason = None if brake is None else brake.reason
    actions: tuple[Action, ...] = (
        *([] if reason == pool.braked else [SetLaunchBreaker(reason=reason)]),
        *late,
        *gangs.release,
        *gangs.give_up,
        *gangs.retire,
        *grown,
        *extra_nodes,
        *asked_again,
    )
    # Where neither gangs nor age, kind or price matter, who is asked for now only counts from here.
    settled = beside is not NO_STEADY_NODES and all(
        isinstance(x, Request | RetryLaunch) for x in actions
    )
    if settled:
        market.expect(pool.name, still_wanted)
    return Plan(
        pool=pool.name,
        actions=actions,
        wake_at=_first(waited_for, beside.late_at(pool)),
        settled=settled,
        at_rest=settled and waited_for is None and brake is None and not still_wanted,
    )


def _plan_growth(
    pool: Pool,
    known: Sequence[Node],
    beside: SteadyNodes,
    launches: "_Launches",
    market: Market,
    brake: LaunchBreaker | None,
) -> Plan:
    """Return the plan of a pool in which whoever does not only count does not count at all.

    Most failures come to that: nobody can be late, too many or replaced, or wait to ask again. All
    that is left is who is missing.
    """
    target = pool.target
    wanted = max(target - beside.nodes, 0)
    market.expect(pool.name, wanted)
    grown = _grow(pool, known, beside.nodes, wanted, target, launches)
    still_wanted = wanted - len(grown)
    reason = None if brake is None else brake.reason
    settled = reason == pool.braked
    if settled:
        market.expect(pool.name, still_wanted)
    waited_for = launches.look_again_at()
    return Plan(
        pool=pool.name,
        actions=tuple(grown) if settled else (SetLaunchBreaker(reason=reason), *grown),
        wake_at=_first(waited_for, beside.late_at(pool)),
        settled=settled,
        at_rest=settled and waited_for is None and brake is None and not still_wanted,
    )


def seen_by_size(node: Node) -> object:
    """Return what a plan of the size looks at in `node`: where nothing of it changes, it holds.

    How often something was seen, who was told of it and what an agent said last is not in it.
    """
    if node.retiring is not None and node.gang is None:
        # It counts no more. How it comes by its end is not looked at, only that it has.
        gone_since = node.since if node.gone else None
        ill_at = fell_ill_at(node)
        return gone_since, node.retiring, node.replaces, node.registered_at, node.launch, ill_at
    held_against = list(map(_held_against, node.conditions))
    return _seen(node), node.health is Health.UNHEALTHY, held_against


def matters_to_size(before: Node, node: Node) -> bool:
    """Return whether a plan of the size sees something else in `node` than it saw `before`.

    Mostly a node at work has moved on, or is to go: then nothing else need be compared.
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
    """Writes the attempts of one plan."""

    def __init__(
        self,
        pool: Pool,
        known: Sequence[Node],
        now: datetime,
        new_tokens: Iterator[Token],
        scheduler: ProvisionScheduler,
        market: Market,
        brake: LaunchBreaker | None,
        shunned: Mapping[Scope, QuarantinedOffering],
        beside: Mapping[ProviderName, int],
    ) -> None:
        self._pool = pool
        self._shunned = dict(shunned)
        self._brake = brake
        self._allowance = None if brake is None else brake.allowance
        self.now = now
        self._new_tokens = new_tokens
        self._scheduler = scheduler
        self._market = market
        self._known = known
        self._beside = beside
        self._held: defaultdict[ProviderName, int] | None = None
        self._turned_away = False

    def _held_at(self) -> defaultdict[ProviderName, int]:
        """Return how many machines the pool has at each provider; most plans buy none."""
        held = self._held
        if held is None:
            held = self._held = defaultdict(int, self._beside)
            for node in self._known:
                if not node.gone and (provider := node.provider) is not None:
                    held[provider] += 1
        return held

    def launch(
        self, node: NodeId, instead_of: Node | None = None, only: Offering | None = None
    ) -> tuple[Launch, Choice] | None:
        """Return the next attempt to buy a machine for `node`; None while nobody would sell.

        `instead_of` is the node whose place it takes, if that one is broken or lost; `only` is
        what it must be, if not anything will do.
        """
        if self._is_braked(1):
            return None
        price = None if instead_of is None else _price(instead_of)
        choice = self._market.choose(
            self._pool,
            self._scheduler,
            self._held_at(),
            instead_of=price,
            shunned=self._shunned,
            only=only,
        )
        if choice is None:
            self._turned_away = True
            return None
        return self._written(node, choice.offering), choice

    def begin(self, gang: str, names: Sequence[NodeId]) -> tuple[list[Launch], Choice] | None:
        """Return attempts to buy a whole gang at one place; None while nobody would sell it."""
        if self._is_braked(len(names)):
            return None
        choice = self._market.choose(
            self._pool, self._scheduler, self._held_at(), gang=len(names), shunned=self._shunned
        )
        if choice is None:
            self._turned_away = True
            return None
        found = Gang(id=gang, nodes=len(names), offering=choice.offering)
        return [self._written(name, found.offering, found) for name in names], choice

    def join(self, node: NodeId, gang: Gang, instead_of: Node | None = None) -> Launch | None:
        """Return an attempt to buy one more machine for a gang; None if that may not be."""
        if self._is_braked(1):
            return None
        place = self._shunned.get(scopes(gang.offering)[0])
        if place is not None and self.now < place.tried_at:
            self._turned_away = True
            return None
        price = None if instead_of is None else _price(instead_of)
        if self._market.join(self._pool, gang, instead_of=price) is not None:
            self._turned_away = True
            return None
        return self._written(node, gang.offering, gang)

    def _written(self, node: NodeId, offering: Offering, gang: Gang | None = None) -> Launch:
        self._held_at()[offering.provider] += 1
        if self._allowance is not None:
            self._allowance -= 1
        if self._shunned and (place := scopes(offering)[0]) in self._shunned:
            self._shunned[place] = replace(self._shunned[place], trying=True)
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

    def _is_braked(self, machines: int) -> bool:
        return self._allowance is not None and self._allowance < machines

    def look_again_at(self) -> datetime | None:
        """Return when to try again what nobody would sell, or what the brake keeps back."""
        if self._brake is not None and self.now < self._brake.until:
            return self._brake.until
        if not self._turned_away:
            return None
        return _first(self._market.opens_at(self._pool), self.now + LOOK_AGAIN)


def _grow(
    pool: Pool, known: Sequence[Node], beside: int, missing: int, target: int, launches: _Launches
) -> list[Request]:
    """Return who is to be bought of those that are missing, as far as there is room."""
    grown: list[Request] = []
    if missing <= 0:
        return grown
    room = pool.nodes_max - beside - sum([not node.gone for node in known])
    unreplaced = _unreplaced(pool, known)
    for extra in range(min(missing, room)):
        lost = next(unreplaced, None)
        found = launches.launch(pool.node_id(pool.next_index + extra), lost)
        if found is None:
            break
        launch, choice = found
        request = Request(
            launch=launch,
            reason=f"{target - missing} of {target} nodes",
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
    """Yield who is missing in gangs that have begun, then whole gangs, as far as there is room."""
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
    """Return how many nodes there are, counting every gang as whole."""
    loose = sum(node.gang is None for node in staying)
    return loose + sum(each.gang.nodes for each in groups)


def _gangs(known: Iterable[Node]) -> dict[Gang, None]:
    return {node.gang: None for node in known if node.gang is not None}


def _succeed(
    pool: Pool,
    known: Sequence[Node],
    leaving: Set[NodeId],
    grown: int,
    beside: int,
    replacements: Replacements,
    launches: _Launches,
) -> Iterator[Request]:
    """Yield successors for sound nodes, where the maximum has room for both."""
    if not replacements.begin:
        return
    room = pool.nodes_max - beside - sum(not node.gone for node in known) - grown
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


def _ask_again(
    known: Sequence[Node], kept: Sequence[Node], launches: _Launches
) -> Iterator[RetryLaunch]:
    waiting = [node for node in kept if _waits_to_ask(node)]
    if not waiting:
        return
    broken = {node.id: node for node in known if not node.counts}
    due = [node for node in waiting if _may_ask(node, launches.now)]
    # Who takes the place of a broken node goes first: a budget may grant that and nothing else.
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
    """Return how many machines are still to be found."""
    return max(pool.target - staying, 0) + sum(_waits_to_ask(node) for node in kept)


def _waits_to_ask(node: Node) -> bool:
    return node.phase is Phase.REQUESTED and node.launch is None


def _may_ask(node: Node, now: datetime) -> bool:
    asks_at = _asks_at(node)
    return asks_at is None or asks_at <= now


def _asks_at(node: Node) -> datetime | None:
    """Return when a node that was refused may ask again: one of a gang has to keep its own pace."""
    if node.retry_at is None or node.gang is None:
        return node.retry_at
    return node.retry_at + pause(node.attempts)


def _wake_at(pool: Pool, kept: Sequence[Node], now: datetime) -> datetime | None:
    moments = [node.since + pool.boot_deadline for node in kept if node.phase is Phase.BOOTING]
    moments += [at for node in kept if _waits_to_ask(node) and (at := _asks_at(node)) is not None]
    return min((moment for moment in moments if moment > now), default=None)


def _first(*moments: datetime | None) -> datetime | None:
    first = None
    for moment in moments:
        if moment is not None and (first is None or moment < first):
            first = moment
    return first


def _unreplaced(pool: Pool, known: Sequence[Node]) -> Iterator[Node]:
    """Yield the nodes that are missed: those on their way out, and those that were lost."""
    replaced = {node.replaces for node in known}
    for node in known:
        if node.id in replaced:
            continue
        if was_lost(pool, node) or (not node.gone and _is_replaced(node)):
            yield node


def _is_replaced(node: Node) -> bool:
    return node.retiring is not None and not node.retiring.surplus


def was_lost(pool: Pool, node: Node) -> bool:
    """Return whether `node` served `pool` at its present size, and went without being told to.

    A change of size draws a line: what was lost before it is not missed any more.
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
