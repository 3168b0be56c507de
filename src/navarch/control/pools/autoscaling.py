"""Autoscaling: turns the recommendation of each pool's autoscaler into its size."""

import asyncio
import contextlib
import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from navarch.autoscale.factory import build_autoscaler
from navarch.control.pools.loads import Loads, Readings, Usage
from navarch.control.pools.sizing import commit_size
from navarch.control.runtime.controller import Controller
from navarch.control.runtime.extensions import (
    Extension,
    ExtensionGuard,
    ExtensionKind,
    name_of,
)
from navarch.core.autoscaling import Autoscaling
from navarch.core.errors import ConflictError, ExtensionFailedError, NavarchError
from navarch.core.event import Event, about
from navarch.core.fleet import Change, Fleet
from navarch.core.health import Health
from navarch.core.ids import NodeId, PoolName
from navarch.core.node import Node, Phase
from navarch.core.pool import Pool
from navarch.core.records import evolve
from navarch.fleet.sizing import Opinion, Sizing, bounds_at, choose_surplus, plan_size
from navarch.ports.autoscaler import (
    Autoscaler,
    MetricsSource,
    PoolMetrics,
    PoolState,
    Recommendation,
)
from navarch.ports.clock import Clock
from navarch.ports.store import Committed, Store

ALL_POOLS = "all pools"

METRICS_WITHIN = timedelta(seconds=20)
"""How long a source may take to answer. Less than the usual interval between rounds."""

FAILURES_BEFORE_NEWS = 2
"""How many failures of a source in a row are reported. One is normal while a pool's first node
starts."""


@dataclass(slots=True)
class _Memory:
    """What is kept about a pool from one round to the next."""

    opinions: deque[Opinion] = field(default_factory=deque)
    autoscaling: Autoscaling | None = None
    autoscaler: Autoscaler | None = None
    trouble: str = ""
    """What was wrong in the last round, if anything."""
    failures: int = 0
    """Failures in a row."""
    reported: str = ""
    """The trouble that was reported last."""
    kept_busy: bool = False
    """Whether it was reported that the pool would be smaller if its nodes were not in use."""


class AutoscalingController(Controller):
    """Turns recommendations into target sizes.

    An autoscaler that is passed in for a pool takes precedence over the one stored with it. Past
    recommendations are lost with the process, except for the load of past days; the delay before a
    pool shrinks then begins again.
    """

    name = "autoscaling"

    def __init__(
        self,
        clock: Clock,
        store: Store,
        autoscalers: Mapping[PoolName, Autoscaler],
        source: MetricsSource,
        *,
        readings: Readings,
        interval: timedelta,
        loads: Loads | None = None,
        guard: ExtensionGuard | None = None,
    ) -> None:
        super().__init__(clock, store, [ALL_POOLS])
        self._guard = guard or ExtensionGuard(clock.now)
        self._given = autoscalers
        self._source = source
        self._interval = interval
        self._loads = loads or Loads()
        self._usage = Usage(readings)
        self._memories: dict[PoolName, _Memory] = {}
        self._idle = True
        """Whether no pool had an autoscaler in the last round."""

    def on_commit(self, committed: Committed) -> None:
        """Queue a round at once if it may be the first with an autoscaler."""
        if self._idle and committed.reshaped:
            self.queue.add(ALL_POOLS)

    async def reconcile(self, _keys: Sequence[str]) -> None:
        """Scale every pool that has an autoscaler."""
        now, fleet = self._clock.now(), self._store.fleet()
        # Also without any: a reload may give one to a pool without a commit.
        self.queue.add_at(ALL_POOLS, now + self._interval)
        scaled = [pool.name for pool in fleet.pools.values() if self._is_scaled(pool)]
        self._idle = not scaled
        self._usage.forget_all_but(fleet.nodes)
        self._loads.forget_all_but(scaled)
        self._forget_failures_of_all_but(scaled)
        self._memories = {name: self._memories.get(name, _Memory()) for name in scaled}
        # Concurrently: one slow source must not delay every pool.
        async with asyncio.TaskGroup() as tasks:
            queries = {name: tasks.create_task(self._query(name)) for name in scaled}
        for name, answer in queries.items():
            await self._scale(name, answer.result(), now)

    def _forget_failures_of_all_but(self, scaled: Iterable[PoolName]) -> None:
        kept = {about("pool", name) for name in scaled}
        kinds = (ExtensionKind.AUTOSCALER, ExtensionKind.METRICS_SOURCE)
        roles = [role for role in self._guard.failures if role[0] in kinds and role[1] not in kept]
        self._guard.forget(roles)

    def _is_scaled(self, pool: Pool) -> bool:
        return not pool.deleted and (pool.name in self._given or pool.autoscaling is not None)

    async def _query(self, pool: PoolName) -> PoolMetrics | str:
        """Return the pool's metrics, or why there are none."""

        async def query() -> PoolMetrics:
            return _checked_metrics(await self._source.pool_metrics(pool))

        extension = Extension(
            kind=ExtensionKind.METRICS_SOURCE,
            name=name_of(self._source),
            subject=about("pool", pool),
        )
        try:
            return await self._guard.wait_for(
                extension,
                self._source,
                query,
                within=METRICS_WITHIN,
                answers=(NavarchError,),
                pauses=True,
            )
        except NavarchError as error:
            return f"no metrics: {error}"

    async def _scale(self, name: PoolName, metrics: PoolMetrics | str, now: datetime) -> None:
        fleet = self._store.fleet()
        pool = fleet.pools.get(name)
        if pool is None or not self._is_scaled(pool):
            return
        memory = self._memories[name]
        self._usage.note(_working(fleet, pool), now, keep=pool.shrink_after)
        if isinstance(metrics, str):
            await self._trouble(pool, memory, metrics, now, at_once=False)
        else:
            await self._recommend(fleet, pool, memory, metrics, now)
        sizing = plan_size(pool, list(memory.opinions), now=now)
        if sizing.nodes != pool.size:
            await self._write(fleet, pool, memory, sizing, now)
        else:
            memory.kept_busy = False

    async def _recommend(
        self, fleet: Fleet, pool: Pool, memory: _Memory, metrics: PoolMetrics, now: datetime
    ) -> None:
        autoscaler = self._autoscaler(pool, memory)
        state = _state(fleet, pool, now)
        shown = evolve(
            metrics,
            utilization_history=self._loads.recent(pool.name, now),
            load_history=self._loads.quarters(pool.name),
        )
        # Nodes that take no work are not part of the average.
        members = (*fleet.in_pool(pool.name).values(), *fleet.hosts_of(pool.name))
        serving = sum(node.serving for node in members)
        self._loads.note(pool.name, now, utilization=metrics.utilization, nodes=serving)
        name = name_of(autoscaler)
        extension = Extension(
            kind=ExtensionKind.AUTOSCALER, name=name, subject=about("pool", pool.name)
        )
        try:
            advice = self._guard.call(
                extension,
                autoscaler,
                lambda: _checked(autoscaler.recommend(evolve(state, metrics=shown))),
            )
        except ExtensionFailedError as error:
            await self._trouble(pool, memory, str(error), now, at_once=True)
            return
        memory.trouble, memory.failures, memory.reported = "", 0, ""
        memory.opinions.append(
            Opinion(
                at=now,
                nodes=advice.target_nodes,
                reason=f"{name}: {advice.reason}",
                nodes_needed=max(metrics.nodes_needed, _pending(fleet, pool)),
            )
        )
        # One earlier opinion is kept, as proof that the pool was watched all the time.
        while len(memory.opinions) > 1 and memory.opinions[1].at <= now - pool.shrink_after:
            memory.opinions.popleft()

    def _autoscaler(self, pool: Pool, memory: _Memory) -> Autoscaler:
        if pool.name in self._given:
            return self._given[pool.name]
        assert pool.autoscaling is not None, pool.name
        if memory.autoscaler is None or memory.autoscaling != pool.autoscaling:
            # An opinion of another strategy is no reason to shrink under this one.
            memory.opinions.clear()
            memory.autoscaling = pool.autoscaling
            memory.autoscaler = build_autoscaler(pool.autoscaling)
        return memory.autoscaler

    async def _trouble(
        self, pool: Pool, memory: _Memory, trouble: str, now: datetime, *, at_once: bool
    ) -> None:
        """Report once what prevents the pool from being scaled; earlier opinions are void."""
        memory.opinions.clear()
        memory.failures = memory.failures + 1 if memory.trouble else 1
        memory.trouble = trouble
        if trouble == memory.reported or not (at_once or memory.failures >= FAILURES_BEFORE_NEWS):
            return
        memory.reported = trouble
        await self._record_unscaled(pool, f"stays at {pool.size} nodes: {trouble}", now)

    async def _write(
        self, fleet: Fleet, pool: Pool, memory: _Memory, sizing: Sizing, now: datetime
    ) -> None:
        members = list(fleet.in_pool(pool.name).values())
        present = sum(node.counts for node in members) + len(fleet.hosts_of(pool.name))
        leaving: list[NodeId] = []
        if sizing.nodes < min(present, pool.size):
            # Idle ones leave, not simply the oldest.
            peaks = self._usage.peaks(_working(fleet, pool), now - pool.shrink_after)
            leaving = choose_surplus(members, peaks, present - sizing.nodes)
        size = sizing.nodes
        if size < pool.size and bounds_at(pool, now).clamp(pool.size) == pool.size:
            # Nothing forces it to shrink, so busy nodes stay.
            size = max(size, present - len(leaving))
        if sizing.nodes < pool.size <= size:
            if not memory.kept_busy:
                memory.kept_busy = True
                instead = f"else {sizing.nodes} would do: {sizing.reason}"
                why = f"stays at {pool.size} nodes, which are in use; {instead}"
                await self._record_unscaled(pool, why, now)
            return
        memory.kept_busy = False
        reason = f"{pool.size} to {size} nodes: {sizing.reason}"
        if size > sizing.nodes:
            reason += "; nodes in use stay"
        await commit_size(
            self._store, fleet, pool, size, leaving=leaving, reason=reason, news=reason, now=now
        )

    async def _record_unscaled(self, pool: Pool, reason: str, now: datetime) -> None:
        event = Event(at=now, about=about("pool", pool.name), kind="pool.not_scaled", reason=reason)
        with contextlib.suppress(ConflictError):
            await self._store.commit(Change(events=[event]), based_on=self._store.fleet().revision)


def _checked_metrics(metrics: object) -> PoolMetrics:
    """Return the metrics of a source, if they are valid."""
    if isinstance(metrics, PoolMetrics):
        counts = (metrics.pending_jobs, metrics.queue_depth, metrics.nodes_needed)
        if (
            math.isfinite(metrics.utilization)
            and metrics.utilization >= 0
            and all(type(count) is int and count >= 0 for count in counts)
        ):
            return metrics
    raise ValueError(f"{metrics!r} makes no sense")


def _checked(advice: object) -> Recommendation:
    """Return the recommendation of an autoscaler, if it is valid."""
    if not isinstance(advice, Recommendation):
        raise TypeError(
            f"{advice!r} is no recommendation: return Recommendation(target_nodes=..., reason=...)"
        )
    nodes: object = advice.target_nodes
    if type(nodes) is not int or nodes < 0:
        raise ValueError(f"{nodes!r} is no number of nodes")
    return evolve(advice, reason=str(advice.reason))


def _pending(fleet: Fleet, pool: Pool) -> int:
    """Return the nodes that an incomplete gang needs; its job is waiting for all of them."""
    starting = (Phase.REQUESTED, Phase.BOOTING)
    waits = any(
        node.counts and node.gang is not None and (node.waiting or node.phase in starting)
        for node in fleet.in_pool(pool.name).values()
    )
    return pool.size if waits else 0


def _working(fleet: Fleet, pool: Pool) -> list[NodeId]:
    members = fleet.in_pool(pool.name).values()
    return [n.id for n in members if n.counts and n.phase in (Phase.READY, Phase.DRAINING)]


def _state(fleet: Fleet, pool: Pool, now: datetime) -> PoolState:
    """Return the input of an autoscaler, without the metrics.

    The current size is the target size: missing nodes are on their way. With the number of nodes
    instead, a machine that cannot be bought yet would be a reason to shrink.
    """
    staying = [node for node in fleet.in_pool(pool.name).values() if node.counts]
    staying += fleet.hosts_of(pool.name)
    bounds = bounds_at(pool, now)
    size = bounds.clamp(pool.size)
    there = sum(
        node.phase in (Phase.READY, Phase.DRAINING) and not _is_replaced(node, pool, now)
        for node in staying
    )
    return PoolState(
        pool=pool.name,
        now=now,
        current_nodes=size,
        healthy_nodes=sum(
            node.phase is Phase.READY and node.health is not Health.UNHEALTHY for node in staying
        ),
        starting_nodes=max(size - there, 0),
        min_nodes=bounds.nodes_min,
        max_nodes=bounds.nodes_max,
        step=bounds.step,
    )


def _is_replaced(node: Node, pool: Pool, now: datetime) -> bool:
    """Whether an unhealthy node is about to be replaced: growing for it would buy a second one."""
    if not pool.auto_replace or node.health is not Health.UNHEALTHY:
        return False
    since = min((condition.since for condition in node.conditions), default=now)
    return now < since + pool.boot_deadline
