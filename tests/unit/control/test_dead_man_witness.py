"""Dead-man leases of silent nodes: what is to be expected, and that it proves nothing."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from navarch.control.health.witnesses import DeadManWitness
from navarch.core.fleet import Change
from navarch.core.ids import NodeId
from navarch.core.instance import GpuMetrics, NodeMetrics
from navarch.core.ownership import Cluster
from navarch.core.records import evolve
from navarch.sim.kernel.clock import SimClock
from navarch.sim.kernel.loop import run_simulated
from navarch.stores.memory import MemoryStore
from navarch.stores.telemetry import TelemetryTable
from navarch.testing.worlds import a_job, a_node, a_pool

X = NodeId("x")
TERM_S = 6 * 3600
IDLE = NodeMetrics(cpu_pct=1.0, gpus=(GpuMetrics(memory_used_bytes=2e8),) * 8)


class Room:
    def __init__(self) -> None:
        self.clock = SimClock()
        self.store = MemoryStore(Cluster(id="c", secret=b"x" * 32))
        self.liveness = TelemetryTable(self.clock, timeout=timedelta(seconds=90))
        self.witness = DeadManWitness(self.clock, self.store, self.liveness)

    async def commit(self, change: Change) -> None:
        await self.store.commit(change, based_on=self.store.fleet().revision)

    async def reason(self) -> str:
        found = await self.witness.observe([self.store.fleet().nodes[X]])
        if X not in found:
            return ""
        assert found[X].alive is None, "it proves nothing"
        return found[X].reason


def run(
    story: Callable[[Room], Awaitable[None]],
    *,
    metrics: NodeMetrics | None = IDLE,
    term_s: int = TERM_S,
) -> None:
    async def main() -> None:
        room = Room()
        node = evolve(a_node("x"), dead_man_s=term_s)
        await room.commit(Change(pools=[a_pool()], nodes=[node]))
        room.liveness.record_heartbeat(X, metrics)
        await room.clock.sleep(120)
        await story(room)

    run_simulated(main())


def test_an_idle_machine_has_shut_itself_down_after_its_lease() -> None:
    async def story(room: Room) -> None:
        before = await room.reason()
        assert "its dead-man lease of 6h shuts it down by 2026-01-01 06:30 UTC" in before
        await room.clock.sleep(TERM_S + 1600)
        assert await room.reason() == before, "the sentence stays the same"
        await room.clock.sleep(120)
        assert "has shut it down by 2026-01-01 06:30 UTC, unless work" in await room.reason()

    run(story)


@pytest.mark.parametrize(
    "metrics",
    [
        None,
        NodeMetrics(cpu_pct=1.0),
        evolve(IDLE, cpu_pct=80.0),
        evolve(IDLE, gpus=(*IDLE.gpus, GpuMetrics(utilization_pct=1.0))),
        evolve(IDLE, gpus=(*IDLE.gpus, GpuMetrics(memory_used_bytes=2e9))),
    ],
)
def test_nothing_is_expected_of_a_machine_that_had_work(metrics: NodeMetrics | None) -> None:
    async def story(room: Room) -> None:
        await room.clock.sleep(2 * TERM_S)
        assert await room.reason() == ""

    run(story, metrics=metrics)


def test_nothing_is_expected_of_a_machine_with_a_job_that_just_began() -> None:
    async def story(room: Room) -> None:
        await room.commit(Change(jobs=[a_job("train", on=("x",))]))
        assert await room.reason() == ""

    run(story)


def test_nothing_is_expected_without_a_lease() -> None:
    async def story(room: Room) -> None:
        assert await room.reason() == ""

    run(story, term_s=0)


def test_nothing_is_expected_of_a_node_that_reports() -> None:
    async def story(room: Room) -> None:
        room.liveness.record_heartbeat(X, IDLE)
        assert await room.reason() == ""

    run(story)
