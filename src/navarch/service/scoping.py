"""The store as a caller sees it: the part of the fleet that belongs to the caller's pools.

Services over this store answer for those pools only, whatever the question: a record that they
cannot see does not exist for them.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from navarch.core.access import Identity, Scope, caller
from navarch.core.alert import Alert, AlertSilence
from navarch.core.bringup import BringUpLog
from navarch.core.budget import Budget, BudgetOf
from navarch.core.errors import NavarchError, NotFoundError, PermissionDeniedError
from navarch.core.event import Event, Recorded, Subject
from navarch.core.fleet import NO_NODES, Change, Fleet
from navarch.core.ids import NodeId, PoolName
from navarch.core.incident import EvidenceNote, Incident
from navarch.core.instance import Inventory
from navarch.core.job import Job
from navarch.core.launch import Launch
from navarch.core.node import POOL_LABEL, Node
from navarch.core.ownership import Cluster
from navarch.core.pool import Pool
from navarch.core.receipt import KeptEvidence
from navarch.core.records import Table, evolve
from navarch.ports.evidence import Archive
from navarch.ports.shell import BringUpLogs
from navarch.ports.store import Committed, Store, StoreInfo

K = TypeVar("K")
V = TypeVar("V")

PAGE = 1_000
"""How many events or launches are read at a time to find those of a scope."""

WRITABLE = frozenset(
    {
        "pools",
        "nodes",
        "commands",
        "jobs",
        "alert_silences",
        "launches",
        "inventories",
        "events",
        "guards",
    }
)
"""What a caller with a scope may write, if it belongs to its pools."""


class CallersStore:
    """A store for one scope. Every commit names the caller in its events."""

    def __init__(self, store: Store, scope: Scope) -> None:
        self._store = store
        self._scope = scope
        self._seen: Fleet | None = None

    @property
    def cluster(self) -> Cluster:
        """The identity under which machines are bought."""
        return self._store.cluster

    @property
    def term(self) -> int:
        """The number of times this state was opened."""
        return self._store.term

    @property
    def journal_start(self) -> int:
        """The revision after which the journal is complete."""
        return self._store.journal_start

    async def info(self) -> StoreInfo:
        """Return what this store is; its place is for callers for the whole fleet."""
        found = await self._store.info()
        return found if self._scope.everything else evolve(found, place="")

    async def confirm(self) -> None:
        """Return if this process led a moment ago."""
        await self._store.confirm()

    def fleet(self) -> Fleet:
        """Return the caller's part of the fleet."""
        fleet = self._store.fleet()
        if self._scope.everything:
            return fleet
        if self._seen is None or self._seen.revision != fleet.revision:
            self._seen = visible_part(fleet, self._scope)
        return self._seen

    async def commit(self, change: Change, *, based_on: int) -> Fleet:
        """Write a change of the caller; PermissionDeniedError beyond its pools."""
        if not self._scope.everything:
            check_change(change, self._store.fleet(), self._scope)
        signed = evolve(change, events=[_signed(event, caller()) for event in change.events])
        await self._store.commit(signed, based_on=based_on)
        return self.fleet()

    def subscribe(self, listener: Callable[[Committed], None]) -> Callable[[], None]:
        """Call `listener` after each commit, also after those of other scopes."""
        return self._store.subscribe(listener)

    async def events(self, *, limit: int = PAGE, **window: Any) -> Sequence[Recorded]:  # noqa: ANN401
        """Return the part of the journal that concerns the caller's pools."""
        if self._scope.everything:
            return await self._store.events(limit=limit, **window)
        found: list[Recorded] = []
        backwards = bool(window.get("newest_first"))
        while page := await self._store.events(limit=PAGE, **window):
            fleet = self.fleet()
            launches = {node.launch.token for node in fleet.nodes.values() if node.launch}
            for entry in page:
                if sees_event(fleet, entry.event, launches):
                    found.append(evolve(entry, event=_trimmed(fleet, entry.event, launches)))
                    if len(found) == limit:
                        return found
            if len(page) < PAGE:
                break
            window["before" if backwards else "after"] = page[-1].number
        return found

    def cursor(self, reader: str) -> int | None:
        """Return the cursor of `reader` in the journal."""
        return self._store.cursor(reader)

    async def prune(self, before: datetime, **_limits: Any) -> Any:  # noqa: ANN401, ARG002
        """Refuse: pruning is not for callers."""
        raise PermissionDeniedError("the journal is pruned by the control plane only")

    async def shrink(self) -> bool:
        """Refuse: the space is given back by the control plane only."""
        raise PermissionDeniedError("the store is shrunk by the control plane only")

    async def launches(
        self,
        *,
        pool: PoolName | None = None,
        after: Launch | None = None,
        limit: int | None = None,
    ) -> Sequence[Launch]:
        """Return the launches of the caller's pools that are over."""
        if self._scope.everything:
            return await self._store.launches(pool=pool, after=after, limit=limit)
        pools = self.fleet().pools
        found: list[Launch] = []
        while page := await self._store.launches(pool=pool, after=after, limit=PAGE):
            found += [each for each in page if _sees_launch(pools, self._scope, each)]
            if limit is not None and len(found) >= limit:
                return found[:limit]
            after = page[-1]
        return found

    async def inventory(self, node: NodeId) -> Inventory | None:
        """Return the inventory of one of the caller's nodes."""
        if node not in self.fleet().nodes:
            return None
        return await self._store.inventory(node)

    async def inventories(self, nodes: Collection[NodeId]) -> Mapping[NodeId, Inventory]:
        """Return the inventories of those that are the caller's nodes."""
        seen = self.fleet().nodes
        return await self._store.inventories([node for node in nodes if node in seen])


def pool_of(node: Node) -> PoolName | None:
    """Return the pool that a node belongs to, or serves or served as a host."""
    if node.pool is not None or not node.self_registered:
        return node.pool
    return PoolName(node.labels.get(POOL_LABEL, "")) or None


def sees_budget(scope: Scope, pools: Mapping[PoolName, Pool], budget: Budget) -> bool:
    """Return whether a budget belongs to the scope."""
    match budget.of:
        case BudgetOf.POOL:
            return _sees_pool(pools, scope, PoolName(budget.name))
        case BudgetOf.TEAM:
            return scope.covers_team(budget.name)
        case BudgetOf.FLEET:
            return scope.everything


def visible_part(fleet: Fleet, scope: Scope) -> Fleet:
    """Return the fleet with the records of some pools only."""
    pools = _only(fleet.pools, scope.covers)
    nodes = _only(fleet.nodes, lambda node: _sees_pool(pools, scope, pool_of(node)))
    return Fleet(
        revision=fleet.revision,
        pools=pools,
        nodes=nodes,
        commands=_only(fleet.commands, lambda each: each.node in nodes),
        incidents=_trimmed_incidents(fleet.incidents, nodes),
        recoveries=_only(fleet.recoveries, lambda each: each.node in nodes),
        jobs=_only(fleet.jobs, lambda each: _sees_pool(pools, scope, each.pool)),
        alerts=_only(fleet.alerts, lambda each: _sees_alert(pools, scope, each)),
        alert_silences=_only(fleet.alert_silences, lambda each: _sees_silence(pools, scope, each)),
        by_pool={name: fleet.by_pool[name] for name in fleet.by_pool if name in pools},
        hosts={
            name: fleet.hosts.get(name, NO_NODES)
            for name in fleet.hosts
            if _sees_pool(pools, scope, name)
        },
    )


def _only(table: Table[K, V], sees: Callable[[V], bool]) -> Table[K, V]:
    return Table({key: value for key, value in table.items() if sees(value)})


def _sees_pool(pools: Mapping[PoolName, Pool], scope: Scope, name: PoolName | None) -> bool:
    return name is not None and (name in pools or scope.covers_pool(name))


def _sees_alert(pools: Mapping[PoolName, Pool], scope: Scope, alert: Alert) -> bool:
    return _sees_pool(pools, scope, alert.pool) or scope.covers_team(alert.team)


def _sees_silence(pools: Mapping[PoolName, Pool], scope: Scope, silence: AlertSilence) -> bool:
    # Every pattern of a silence must match, so one that names a pool is limited to it.
    patterns = any(mark in silence.pool for mark in "*?[")
    own_pool = not patterns and bool(silence.pool)
    if own_pool and _sees_pool(pools, scope, PoolName(silence.pool)):
        return True
    return scope.covers_team(silence.team)


def _sees_launch(pools: Mapping[PoolName, Pool], scope: Scope, launch: Launch) -> bool:
    return _sees_pool(pools, scope, launch.pool) or scope.covers_team(launch.team)


def _trimmed_incidents(table: Table[K, Incident], nodes: Table[NodeId, Node]) -> Table[K, Incident]:
    """Return the incidents of some nodes, without the symptoms on others."""
    return Table(
        {
            key: evolve(
                each,
                nodes=tuple(name for name in each.nodes if name in nodes),
                symptoms=tuple(x for x in each.symptoms if x.node in nodes),
            )
            for key, each in table.items()
            if each.node in nodes
        }
    )


def sees_event(fleet: Fleet, event: Event, launches: set[Any]) -> bool:
    """Return whether an event is about something in a part of the fleet."""
    if _sees_subject(fleet, event.about, launches):
        return True
    # The launch of a node that has another one by now, or none.
    behind = (x for x in event.because if x.startswith("node/"))
    return event.about.startswith("launch/") and any(
        _sees_subject(fleet, each, launches) for each in behind
    )


def _sees_subject(fleet: Fleet, subject: Subject, launches: set[Any]) -> bool:
    kind, _, name = subject.partition("/")
    tables: dict[str, Any] = {
        "node": fleet.nodes,
        "pool": fleet.pools,
        "command": fleet.commands,
        "incident": fleet.incidents,
        "recovery": fleet.recoveries,
        "job": fleet.jobs,
        "alert": fleet.alerts,
        "silence": fleet.alert_silences,
        "launch": launches,
    }
    return name in tables.get(kind, ())


def _trimmed(fleet: Fleet, event: Event, launches: set[Any]) -> Event:
    """Return an event without the subjects that are not part of `fleet`."""
    because = tuple(x for x in event.because if _sees_subject(fleet, x, launches))
    return evolve(event, because=because)


def _signed(event: Event, who: Identity) -> Event:
    if who.subject.startswith("system:"):
        return event
    return evolve(event, facts={**event.facts, "caller": who.subject})


def check_change(change: Change, fleet: Fleet, scope: Scope) -> None:
    """Raise PermissionDeniedError if a change writes anything beyond the pools of a scope."""
    for name in change.__struct_fields__:
        if name not in WRITABLE and getattr(change, name):
            raise PermissionDeniedError(f"this needs a role for the whole fleet ({name})")
    part = visible_part(fleet, scope)
    pools = {**part.pools, **{pool.name: pool for pool in change.pools}}
    for problem in _beyond(change, fleet, part, pools, scope):
        raise PermissionDeniedError(problem)


def _beyond(
    change: Change, fleet: Fleet, part: Fleet, pools: Mapping[PoolName, Pool], scope: Scope
) -> Iterator[str]:
    """Yield what a change writes outside of `part`, before or after."""
    for pool in change.pools:
        if pool.name in fleet.pools and pool.name not in part.pools:
            yield f"the name {pool.name} is taken by a pool of another team; choose another name"
        elif not scope.covers(pool):
            yield f"pool {pool.name} would not belong to {_names(scope)}; name one of these"
    for node in change.nodes:
        known = node.id not in fleet.nodes or node.id in part.nodes
        if not known or not _sees_pool(pools, scope, pool_of(node)):
            yield f"node {node.id} does not belong to {_names(scope)}"
    for job in change.jobs:
        yield from _beyond_jobs(job, fleet, part, pools, scope)
    for name in [*(each.node for each in change.commands), *change.inventories]:
        if name not in part.nodes:
            yield f"node {name} does not belong to {_names(scope)}"
    for silence in change.alert_silences:
        if not _sees_silence(pools, scope, silence):
            yield f"a silence must name one of {_names(scope)}, without *"
    for launch in change.launches:
        if not _sees_launch(pools, scope, launch):
            yield f"pool {launch.pool} does not belong to {_names(scope)}"


def _beyond_jobs(
    job: Job, fleet: Fleet, part: Fleet, pools: Mapping[PoolName, Pool], scope: Scope
) -> Iterator[str]:
    if job.name in fleet.jobs and job.name not in part.jobs:
        yield f"the name {job.name} is taken by a job of another team; choose another name"
    elif not _sees_pool(pools, scope, job.pool):
        yield f"a job must name its pool, one of {_names(scope)}"


def _names(scope: Scope) -> str:
    pools = [f"pool {name}" for name in scope.pools]
    return ", ".join([*pools, *(f"team {name}" for name in scope.teams)])


class CallersArchive:
    """An archive of evidence for one scope."""

    def __init__(self, archive: Archive, store: CallersStore, scope: Scope) -> None:
        self._archive = archive
        self._store = store
        self._scope = scope

    async def keep(self, evidence: KeptEvidence) -> None:
        """Store a bundle."""
        await self._archive.keep(evidence)

    async def list(self, node: NodeId) -> Sequence[EvidenceNote]:
        """Return the bundles of a node; none of another team's."""
        return await self._archive.list(node) if self._sees(node) else ()

    async def get(self, node: NodeId, name: str) -> KeptEvidence:
        """Return one bundle, or raise NotFoundError."""
        if not self._sees(node):
            raise _no_node(node)
        return await self._archive.get(node, name)

    def _sees(self, node: NodeId) -> bool:
        # Evidence outlives its node; without the node, its pool is not known.
        return self._scope.everything or node in self._store.fleet().nodes


class CallersBringUpLogs:
    """The bring-up logs for one scope."""

    def __init__(self, logs: BringUpLogs, store: CallersStore, scope: Scope) -> None:
        self._logs = logs
        self._store = store
        self._scope = scope

    async def keep(self, log: BringUpLog) -> None:
        """Store a log."""
        await self._logs.keep(log)

    async def list(self, node: NodeId) -> Sequence[BringUpLog]:
        """Return the logs of a node; none of another team's."""
        if not self._scope.everything and node not in self._store.fleet().nodes:
            return ()
        return await self._logs.list(node)


def _no_node(node: NodeId) -> NavarchError:
    return NotFoundError(f"no node {node}")
