"""Deferred actions: listing, release and alerts."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from navarch.core.disruption import Deferred, DeferredBy
from navarch.core.errors import InvalidError, NotFoundError, NotPossibleError
from navarch.core.fleet import Change
from navarch.core.ids import NodeId, PoolName
from navarch.core.node import Node
from navarch.core.ownership import Cluster
from navarch.core.records import evolve
from navarch.service.fleet_health import HeldService
from navarch.sim.kernel.clock import SimClock
from navarch.sim.kernel.loop import SimLoop
from navarch.stores.memory import MemoryStore
from navarch.testing.worlds import NOW, a_node, a_pool

BUDGET = Deferred(
    action="replace", reason="XID 79", because="budget", by=DeferredBy.BUDGET, since=NOW
)
DRY = evolve(BUDGET, by=DeferredBy.DRY_RUN)
UNDECIDED = evolve(
    BUDGET,
    action="remediate",
    by=DeferredBy.REMEDIATOR,
    because="remediator mine:Own failed: ValueError: no rack",
)


def play(story: Callable[[MemoryStore, HeldService], Awaitable[None]], *nodes: Node) -> MemoryStore:
    store = MemoryStore(Cluster(id="c", secret=b"x" * 32))

    async def main() -> None:
        await store.commit(Change(pools=[a_pool()], nodes=nodes), based_on=0)
        await story(store, HeldService(SimClock(), store))

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(main())
    return store


def waiting(name: str, held: Deferred = BUDGET) -> Node:
    return a_node(name, held=held)


def test_deferred_actions_are_listed_oldest_first() -> None:
    later = evolve(BUDGET, since=NOW.replace(minute=30))

    async def story(_: MemoryStore, held: HeldService) -> None:
        assert [x.node for x in await held.list_held()] == ["training-2", "training-1"]
        with pytest.raises(NotFoundError):
            await held.list_held(pool=PoolName("nobody"))

    play(story, a_node("training-0"), waiting("training-1", later), waiting("training-2"))


def test_a_node_is_released_and_the_reason_kept() -> None:
    async def story(store: MemoryStore, held: HeldService) -> None:
        await held.release_held([NodeId("training-1")], reason="looked at it")
        node = store.fleet().nodes[NodeId("training-1")]
        assert node.held is not None
        assert node.held.released == "looked at it"
        (event,) = [x.event for x in await store.events()]
        assert (event.kind, event.reason) == ("node.released", "looked at it")

    play(story, waiting("training-1"))


def test_releasing_a_pool_releases_every_action_except_dry_runs() -> None:
    async def story(_: MemoryStore, held: HeldService) -> None:
        found = await held.release_held(pool=PoolName("training"), reason="")
        assert [x.node for x in found] == ["training-1", "training-2"]

    play(story, waiting("training-1"), waiting("training-2"), waiting("training-3", DRY))


@pytest.mark.parametrize(
    ("node", "error", "message"),
    [
        ("training-0", NotPossibleError, "nothing is held back"),
        ("training-1", NotPossibleError, "dry run"),
        ("nobody", NotFoundError, "node not found"),
    ],
)
def test_a_refused_release_states_the_reason(
    node: str, error: type[Exception], message: str
) -> None:
    async def story(_: MemoryStore, held: HeldService) -> None:
        with pytest.raises(error, match=message):
            await held.release_held([NodeId(node)], reason="")
        with pytest.raises(InvalidError):
            await held.release_held(reason="")

    play(story, a_node("training-0"), waiting("training-1", DRY))


def test_a_pool_with_suspended_replacement_replaces_again_after_its_release() -> None:
    async def story(store: MemoryStore, held: HeldService) -> None:
        pool = evolve(a_pool(), held="replacements fall ill")
        await store.commit(Change(pools=[pool]), based_on=store.fleet().revision)
        await held.release_held(pool=pool.name, reason="the image is mended")
        assert store.fleet().pools[pool.name].brake_released_at is not None

    play(story)


def test_an_undecided_action_cannot_be_released_and_the_refusal_has_a_remedy() -> None:
    async def story(store: MemoryStore, held: HeldService) -> None:
        for request in (
            held.release_held([NodeId("training-1")], reason=""),
            held.release_held(pool=PoolName("training"), reason=""),
        ):
            with pytest.raises(
                NotPossibleError, match="ValueError: no rack; repair the remediator"
            ):
                await request
        assert store.fleet().nodes[NodeId("training-1")].held == UNDECIDED

    play(story, waiting("training-1", UNDECIDED))


def test_releasing_a_pool_skips_undecided_actions() -> None:
    async def story(_: MemoryStore, held: HeldService) -> None:
        found = await held.release_held(pool=PoolName("training"), reason="")
        assert [x.node for x in found] == ["training-1"]

    play(story, waiting("training-1"), waiting("training-2", UNDECIDED))
