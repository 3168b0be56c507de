"""Pools, nodes, jobs and clouds for tests."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Generic, TypeVar

from navarch.control.runtime.controller import Controller
from navarch.core.ids import JobName, NodeId, PoolName, ProviderName, Token
from navarch.core.job import Job, JobState
from navarch.core.launch import Launch, Offering
from navarch.core.node import Node, Phase
from navarch.core.pool import Pool
from navarch.core.records import evolve
from navarch.ports.clock import Clock
from navarch.ports.store import Store
from navarch.providers.simulated import Habits
from navarch.state.index import Index

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)

H100 = Offering(
    provider=ProviderName("sim"),
    instance_type="h100-8x",
    region="region-1",
    gpus=8,
    gpu_type="h100",
    price_per_hour=Decimal("98.32"),
)

STORMY = Habits(
    listing_lag_s=60.0,
    sold_out=0.15,
    transient=0.1,
    mute=0.05,
    lie=0.1,
    both=0.03,
    hang=0.02,
    dead_on_arrival=0.1,
)
"""A cloud with every fault at once."""


def storm(seed: int) -> Habits:
    """Return a cloud with every fault; for every other seed it ignores tokens, too."""
    return replace(STORMY, remembers_tokens=bool(seed % 2))


def a_pool(
    name: str = "training",
    *,
    size: int = 2,
    nodes_max: int | None = None,
    offerings: tuple[Offering, ...] = (H100,),
    **settings: object,
) -> Pool:
    """Return a pool that keeps `size` nodes and has room for one more."""
    return Pool(
        name=PoolName(name),
        offerings=offerings,
        nodes_min=size,
        nodes_max=size + 1 if nodes_max is None else nodes_max,
        **settings,  # type: ignore[arg-type]
    )


def a_node(
    name: str, pool: str = "training", *, phase: Phase = Phase.READY, **facts: object
) -> Node:
    """Return a node with the attributes that are usual in `phase`."""
    born = NOW - timedelta(hours=1)
    launch = Launch(
        token=Token(f"launch-{name}"),
        node=NodeId(name),
        pool=PoolName(pool),
        offering=H100,
        asked_at=born,
        price_per_hour=H100.price_per_hour,
    )
    if phase is not Phase.REQUESTED:
        instance = facts.pop("instance", f"i-{name}")
        launch = evolve(launch, instance=instance, launched_at=born)  # type: ignore[arg-type]
    ran = phase not in (Phase.REQUESTED, Phase.BOOTING)
    return Node(
        **{
            "id": NodeId(name),
            "pool": PoolName(pool),
            "phase": phase,
            "since": born,
            "created_at": born,
            "launch": launch,
            "registered_at": born if ran else None,
            **facts,
        }  # type: ignore[arg-type]
    )


def a_job(name: str, *, on: tuple[str, ...] = (), **facts: object) -> Job:
    """Return a pending job, or a running one with a task on each node of `on`."""
    placed = {"state": JobState.PLACED, "nodes": tuple(map(NodeId, on)), "tasks": len(on)}
    return Job(
        **{
            "name": JobName(name),
            "submitted_at": NOW - timedelta(hours=1),
            "since": NOW - timedelta(hours=1),
            "gpus": 8,
            **(placed if on else {}),
            **facts,
        }  # type: ignore[arg-type]
    )


C = TypeVar("C", bound=Controller)


def indexed(store: Store) -> Index:
    """Return an index that follows the commits of `store`."""
    index = Index(store.fleet())
    store.subscribe(index.advance)
    return index


class ControllerDriver(Generic[C]):
    """Runs the rounds of one controller, one per call."""

    def __init__(self, clock: Clock, store: Store, controller: C) -> None:
        self.controller = controller
        self._clock = clock
        store.subscribe(controller.on_commit)

    async def reconcile(self) -> datetime | None:
        """Reconcile the keys that are due; return when the next one is."""
        queue = self.controller.queue
        keys = queue.take(self._clock.now())
        if keys:
            try:
                await self.controller.reconcile(keys)
            except BaseException:
                queue.retry()
                raise
            queue.done()
        return self.due_at()

    def due_at(self) -> datetime | None:
        """Return when the next round is due: now if a key is ready, None if there is none."""
        due = self.controller.queue.next_due()
        return None if due is None else max(due, self._clock.now())
