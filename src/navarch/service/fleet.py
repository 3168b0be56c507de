"""What operators may do, in-process."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from navarch.core.command import Command, CommandKind
from navarch.core.errors import InvalidError, NotFoundError, NotPossibleError
from navarch.core.event import Event, Subject, about
from navarch.core.fleet import Change, Fleet
from navarch.core.ids import CommandId, NodeId, PoolName
from navarch.core.node import Node, Phase, Retirement, node_status
from navarch.core.pool import Pool
from navarch.fleet.changes import retired
from navarch.fleet.verdicts import overridden
from navarch.ports.api import Why
from navarch.ports.clock import Clock, Entropy
from navarch.ports.store import Store
from navarch.service.attempts import until_no_conflict
from navarch.service.why import explain

COMMAND_EXPIRES = timedelta(hours=1)


class FleetService:
    """Serves the use cases by writing intents down; the control loops carry them out."""

    def __init__(self, clock: Clock, entropy: Entropy, store: Store) -> None:
        self._clock = clock
        self._entropy = entropy
        self._store = store

    def pools(self) -> Sequence[Pool]:
        """Return every pool, by name."""
        known = self._store.fleet().pools.values()
        return sorted((pool for pool in known if not pool.deleted), key=lambda pool: pool.name)

    def nodes(self, pool: PoolName | None = None) -> Sequence[Node]:
        """Return every node, or those of one pool."""
        fleet = self._store.fleet()
        return list((fleet.nodes if pool is None else fleet.in_pool(pool)).values())

    def node(self, name: NodeId) -> Node:
        """Return one node."""
        return _node(self._store.fleet(), name)

    async def put_pool(self, pool: Pool, *, reason: str) -> Pool:
        """Create a pool, or change the one of that name."""

        async def attempt() -> Pool:
            fleet = self._store.fleet()
            before = fleet.pools.get(pool.name)
            wanted = before.nodes_wanted if before and not before.deleted else None
            after = replace(
                pool,
                next_index=before.next_index if before else pool.next_index,
                nodes_wanted=pool.nodes_wanted if pool.nodes_wanted is not None else wanted,
                deleted=False,
            )
            if after == before:
                return after
            kind = "pool.created" if before is None or before.deleted else "pool.changed"
            return await self._commit_pool(fleet, after, kind, reason)

        return await until_no_conflict(attempt)

    async def scale(self, pool: PoolName, nodes: int, *, reason: str) -> Pool:
        """Ask for a size within the pool's bounds."""

        async def attempt() -> Pool:
            fleet = self._store.fleet()
            before = _pool(fleet, pool)
            if not before.nodes_min <= nodes <= before.nodes_max:
                raise InvalidError(
                    f"pool {pool} holds {before.nodes_min} to {before.nodes_max} nodes, not {nodes}"
                )
            if before.size == nodes and before.nodes_wanted == nodes:
                return before
            after = replace(before, nodes_wanted=nodes)
            text = f"{before.size} to {nodes} nodes: {reason}"
            return await self._commit_pool(fleet, after, "pool.scaled", text)

        return await until_no_conflict(attempt)

    async def delete_pool(self, pool: PoolName, *, reason: str) -> None:
        """Drain and give back every node of a pool, then the pool."""

        async def attempt() -> None:
            fleet = self._store.fleet()
            after = replace(_pool(fleet, pool), deleted=True, nodes_wanted=None)
            await self._commit_pool(fleet, after, "pool.deleted", reason)

        await until_no_conflict(attempt)

    async def _commit_pool(self, fleet: Fleet, pool: Pool, kind: str, reason: str) -> Pool:
        event = Event(
            at=self._clock.now(),
            about=about("pool", pool.name),
            kind=kind,
            reason=reason,
            facts={
                "nodes_min": str(pool.nodes_min),
                "nodes_max": str(pool.nodes_max),
                "size": str(pool.size),
            },
        )
        await self._store.commit(Change(pools=[pool], events=[event]), based_on=fleet.revision)
        return pool

    async def cordon(self, node: NodeId, *, reason: str) -> Node:
        """Keep new work off a node."""

        def cordoned(before: Node, now: datetime) -> tuple[Node, list[Event]]:
            after = replace(before, cordoned=reason or "cordoned by hand")
            if before.phase is Phase.DRAINING and before.retiring is None:
                after = after.to(Phase.READY, at=now)
            return after, [_event(after, "node.cordoned", after.cordoned or "", now)]

        return await self._amend(node, cordoned)

    async def uncordon(self, node: NodeId) -> Node:
        """Lift a cordon, and nothing else."""

        def uncordoned(before: Node, now: datetime) -> tuple[Node, list[Event]]:
            if before.retiring is not None:
                raise NotPossibleError(
                    f"node {before.id} is being given back: {before.retiring.reason}"
                )
            if before.cordoned is None:
                raise NotPossibleError(
                    f"node {before.id} is not cordoned (current status: {_word(before)})"
                )
            after = replace(before, cordoned=None)
            return after, [_event(after, "node.uncordoned", "by hand", now)]

        return await self._amend(node, uncordoned)

    async def drain(self, node: NodeId, *, reason: str) -> Node:
        """Move the work off a node, which stays."""

        def draining(before: Node, now: datetime) -> tuple[Node, list[Event]]:
            if before.phase is Phase.DRAINING:
                return before, []
            if before.phase is not Phase.READY:
                raise NotPossibleError(f"node {before.id} cannot be drained: it is {before.phase}")
            why = reason or "drained by hand"
            after = replace(before, cordoned=before.cordoned or why).to(Phase.DRAINING, at=now)
            return after, [_event(after, "node.draining", why, now)]

        return await self._amend(node, draining)

    async def retire(self, node: NodeId, *, reason: str) -> Node:
        """Drain a node and give its machine back."""

        def retiring(before: Node, now: datetime) -> tuple[Node, list[Event]]:
            if before.launch is None and before.phase is not Phase.REQUESTED:
                raise NotPossibleError(f"node {before.id} was not bought here; stop it where it is")
            if before.retiring is not None:
                return before, []
            after = retired(before, Retirement(reason=reason), now=now)
            return after, [_event(after, "node.retiring", reason, now)]

        return await self._amend(node, retiring)

    async def declare_healthy(self, node: NodeId, *, reason: str) -> Node:
        """Override what the checks say about a node."""
        if not reason.strip():
            raise InvalidError("an override needs a reason")
        return await self._amend(node, lambda before, now: overridden(before, reason, now=now))

    async def _amend(
        self, name: NodeId, change: Callable[[Node, datetime], tuple[Node, list[Event]]]
    ) -> Node:
        async def attempt() -> Node:
            fleet = self._store.fleet()
            before = _node(fleet, name)
            if before.gone:
                raise NotPossibleError(f"node {name} is gone")
            after, events = change(before, self._clock.now())
            if after != before or events:
                launches = [after.launch] if after.gone and after.launch else []
                written = Change(nodes=[after], launches=launches, events=events)
                await self._store.commit(written, based_on=fleet.revision)
            return after

        return await until_no_conflict(attempt)

    async def issue(
        self, node: NodeId, kind: CommandKind, parameters: dict[str, str] | None = None
    ) -> Command:
        """Ask a node's agent to do something."""
        _node(self._store.fleet(), node)
        now = self._clock.now()
        command = Command(
            id=CommandId(self._entropy.new_id("command")),
            node=node,
            kind=kind,
            parameters=parameters or {},
            issued_at=now,
            expires_at=now + COMMAND_EXPIRES,
        )
        event = Event(
            at=now,
            about=about("command", command.id),
            kind="command.issued",
            reason=f"{kind} for {node}",
            because=(about("node", node),),
        )
        change = Change(commands=[command], events=[event])
        await self._store.commit(change, based_on=self._store.fleet().revision)
        return command

    async def why(self, about: Subject) -> Why:
        """Return the reasons behind the state of a node, a pool or a launch."""
        return await explain(self._store, about)


def _node(fleet: Fleet, name: NodeId) -> Node:
    node = fleet.nodes.get(name)
    if node is None:
        raise NotFoundError(f"node not found: {name}")
    return node


def _pool(fleet: Fleet, name: PoolName) -> Pool:
    pool = fleet.pools.get(name)
    if pool is None or pool.deleted:
        raise NotFoundError(f"pool not found: {name}")
    return pool


def _word(node: Node) -> str:
    return str(node_status(node) or node.phase)


def _event(node: Node, kind: str, reason: str, now: datetime) -> Event:
    facts = {"phase": str(node.phase)}
    return Event(at=now, about=about("node", node.id), kind=kind, reason=reason, facts=facts)
