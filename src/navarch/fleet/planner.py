"""The size of a pool: who is missing, who is too many, who never came."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from navarch.core.health import Health
from navarch.core.ids import NodeId, Token
from navarch.core.launch import Launch
from navarch.core.node import Node, Phase
from navarch.core.pool import Pool
from navarch.fleet.plan import Action, AskAgain, Plan, Request, Retire
from navarch.fleet.selection import choose_offering
from navarch.ports.provision import FirstAvailable, ProvisionScheduler


def plan_pool(
    pool: Pool,
    nodes: Iterable[Node],
    *,
    now: datetime,
    new_tokens: Iterator[Token],
    scheduler: ProvisionScheduler | None = None,
) -> Plan:
    """Return what brings `pool` closer to its size.

    Every machine that may exist counts towards the maximum, whatever its state; only
    those that are meant to stay count towards the size.
    """
    launches = _Launches(pool, now, new_tokens, scheduler or FirstAvailable())
    known = list(nodes)
    late = [
        Retire(node=node.id, reason=f"did not register within {pool.boot_deadline}")
        for node in known
        if node.counts and node.phase is Phase.BOOTING and now >= node.since + pool.boot_deadline
    ]
    given_up = {retire.node for retire in late}
    staying = [node for node in known if node.counts and node.id not in given_up]
    actions: list[Action] = [
        *late,
        *_grow(pool, known, staying, launches),
        *_shrink(pool, staying),
    ]
    leaving = {action.node for action in actions if isinstance(action, Retire)}
    kept = [node for node in staying if node.id not in leaving]
    actions += _ask_again(kept, launches)
    return Plan(pool=pool.name, actions=tuple(actions), wake_at=_wake_at(pool, kept, now))


class _Launches:
    """Writes the attempts of one plan."""

    def __init__(
        self,
        pool: Pool,
        now: datetime,
        new_tokens: Iterator[Token],
        scheduler: ProvisionScheduler,
    ) -> None:
        self._pool = pool
        self.now = now
        self._new_tokens = new_tokens
        self._scheduler = scheduler

    def launch(self, node: NodeId, attempts: int) -> Launch:
        """Return the next attempt to buy a machine for `node`."""
        offering = choose_offering(self._pool, attempts, self._scheduler)
        return Launch(
            token=next(self._new_tokens),
            node=node,
            pool=self._pool.name,
            offering=offering,
            asked_at=self.now,
            price_per_hour=offering.price_per_hour,
        )


def _grow(
    pool: Pool, known: Sequence[Node], staying: Sequence[Node], launches: _Launches
) -> Iterator[Request]:
    missing = pool.size - len(staying)
    room = pool.nodes_max - sum(not node.gone for node in known)
    unreplaced = _unreplaced(known)
    for extra in range(min(missing, room)):
        index = pool.next_index + extra
        yield Request(
            launch=launches.launch(pool.node_id(index), 0),
            reason=f"{len(staying)} of {pool.size} nodes",
            replaces=next(unreplaced, None),
        )


def _shrink(pool: Pool, staying: Sequence[Node]) -> Iterator[Retire]:
    surplus = len(staying) - pool.size
    if surplus <= 0:
        return
    reason = "the pool was deleted" if pool.deleted else f"{len(staying)} of {pool.size} nodes"
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
            launch = launches.launch(node.id, node.attempts)
            yield AskAgain(launch=launch, reason=f"attempt {node.attempts + 1}: {launch.offering}")


def _waits_to_ask(node: Node) -> bool:
    return node.phase is Phase.REQUESTED and node.launch is None


def _wake_at(pool: Pool, kept: Sequence[Node], now: datetime) -> datetime | None:
    moments = [node.since + pool.boot_deadline for node in kept if node.phase is Phase.BOOTING]
    moments += [node.retry_at for node in kept if _waits_to_ask(node) and node.retry_at]
    return min((moment for moment in moments if moment > now), default=None)


def _unreplaced(known: Sequence[Node]) -> Iterator[NodeId]:
    replaced = {node.replaces for node in known}
    for node in known:
        if node.retiring is not None and not node.retiring.surplus and node.id not in replaced:
            yield node.id
