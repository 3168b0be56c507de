"""A control plane that starts on a store in which an older version left a pool of absurd size."""

import asyncio
import signal
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import FrameType

import pytest

from navarch.core.disruption import Disruption
from navarch.core.event import Event, about
from navarch.core.fleet import Change
from navarch.core.ids import PoolName
from navarch.core.ownership import Cluster
from navarch.core.records import evolve
from navarch.ports.store import Store
from navarch.sim.kernel.clock import InlineOffload, SeededEntropy
from navarch.sim.kernel.loop import SimLoop
from navarch.sim.world.world import World, simulate
from navarch.stores.sqlite import SqliteStore
from navarch.testing.worlds import NOW, a_job, a_pool

TRAINING = PoolName("training")
OTHER = PoolName("other")
HUGE = a_pool(size=0, nodes_max=2**53, nodes_wanted=10**9)
STUCK_S = 30
"""No story here takes a tenth of that. A loop over a billion nodes takes hours."""


@pytest.fixture(autouse=True)
def _no_loop_gets_stuck() -> Iterator[None]:
    def stop(_number: int, _frame: FrameType | None) -> None:
        raise AssertionError(f"the event loop was stuck for {STUCK_S} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(STUCK_S)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def left_by_an_older_version(directory: Path, change: Change) -> None:
    """Write records through the store, and close it."""

    async def main() -> None:
        store = opened(directory)
        await store.commit(change, based_on=store.fleet().revision)
        store.close()

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(main())


def opened(directory: Path) -> SqliteStore:
    return SqliteStore.open(directory, InlineOffload(), SeededEntropy("cluster"))


def test_a_restart_with_a_stored_pool_of_a_billion_nodes_serves_and_heals_after_a_scale_down(
    tmp_path: Path,
) -> None:
    event = Event(at=NOW, about=about("pool", TRAINING), kind="pool.scaled", reason="0 to 1e9")
    left_by_an_older_version(tmp_path, Change(pools=[HUGE], events=[event]))

    def store(_: Cluster) -> Store:
        return opened(tmp_path)

    async def story(world: World) -> None:
        assert world.fleet().pools[TRAINING] == HUGE, "the stored record stays as it is"
        await world.until(lambda: len(world.serving(OTHER)) == 2, within_s=1800)
        assert world.nodes(TRAINING) == []
        status = await world.ask(lambda fleet: fleet.status())
        notes = {pool.spec.name: pool.note for pool in status.pools}
        assert notes[TRAINING] == (
            "paused: 1000000000 nodes are above the limit of 100000 nodes per pool; "
            "scale it to 100000 nodes or fewer: navarch pool scale training NODES"
        )
        world.crash()
        await world.clock.sleep(60)
        assert world.nodes(TRAINING) == []

        await world.ask(lambda fleet: fleet.scale(TRAINING, 3, reason="as meant"))
        await world.until(lambda: len(world.serving(TRAINING)) == 3, within_s=1800)
        assert (await world.ask(lambda fleet: fleet.get_pool(TRAINING))).note == ""

    simulate(story, seed=1, pools=[a_pool("other", size=2)], store=store)


def test_the_nodes_of_a_stored_pool_above_the_limit_stay(tmp_path: Path) -> None:
    """A share of a billion nodes would let all of them go at once: the empty and the old ones."""
    disruption = Disruption(empty_after=timedelta(hours=1), lifetime_max=timedelta(hours=2))

    async def story(world: World) -> None:
        await world.until(lambda: len(world.serving(TRAINING)) == 3, within_s=1800)
        before = world.serving(TRAINING)
        pool = evolve(world.fleet().pools[TRAINING], nodes_max=2**53, nodes_wanted=10**9)
        event = Event(at=NOW, about=about("pool", TRAINING), kind="pool.scaled", reason="3 to 1e9")
        change = Change(pools=[pool], events=[event])
        await world.store.commit(change, based_on=world.fleet().revision)
        world.crash()
        await world.clock.sleep(6 * 3600)
        assert world.serving(TRAINING) == before
        assert [node.id for node in world.nodes(TRAINING)] == before

    def idle(world: World) -> None:
        world.hosts.load = lambda _: 0.0

    pool = a_pool(size=0, nodes_max=6, nodes_wanted=3, disruption=disruption)
    simulate(story, seed=2, pools=[pool], store=lambda _: opened(tmp_path), prepare=idle)


def test_a_restart_with_a_stored_job_of_a_billion_tasks_places_the_others(tmp_path: Path) -> None:
    change = Change(jobs=[a_job("huge", tasks=10**9), a_job("next")])
    left_by_an_older_version(tmp_path, change)

    async def story(world: World) -> None:
        await world.until(lambda: len(world.serving(TRAINING)) == 1, within_s=1800)
        await world.clock.sleep(120)
        held = {job.name: len(job.nodes) for job in world.fleet().jobs.values()}
        assert held == {"huge": 0, "next": 1}

    simulate(story, seed=3, pools=[a_pool(size=1)], store=lambda _: opened(tmp_path))
