"""The history of a pool's load and its sources."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from navarch.autoscale.strategies import Work, nodes_needed
from navarch.control.pools.loads import QUARTERS_MAX, RECENT_MAX, Loads, Usage
from navarch.core.errors import MetricsError
from navarch.core.fleet import Change
from navarch.core.health import Health
from navarch.core.ids import NodeId, PoolName
from navarch.core.instance import GpuMetrics, NodeMetrics
from navarch.core.ownership import Cluster
from navarch.meters.pools import CombinedMeter, HeartbeatMeter, JobsMeter
from navarch.ports.autoscaler import PoolMetrics
from navarch.sim.kernel.clock import SimClock
from navarch.sim.kernel.loop import SimLoop
from navarch.stores.memory import MemoryStore
from navarch.stores.telemetry import TelemetryTable
from navarch.testing.worlds import a_node, a_pool

TRAINING = PoolName("training")
NOON = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
LOOK = timedelta(seconds=30)


def looked(count: int, *, since: datetime = NOON, used: float = 50.0) -> Loads:
    loads = Loads()
    for number in range(count):
        loads.note(TRAINING, since + number * LOOK, utilization=used + number % 2, nodes=4)
    return loads


def test_history_is_one_series_in_order_of_time_for_all_nodes() -> None:
    """The Go system appended the samples of one node to those of another."""
    loads = Loads()
    for number, used in enumerate((10.0, 20.0, 30.0)):
        loads.note(TRAINING, NOON + number * LOOK, utilization=used, nodes=40)

    assert loads.recent(TRAINING, NOON + 3 * LOOK) == (10.0, 20.0, 30.0)


def test_samples_before_a_gap_are_not_part_of_the_trend() -> None:
    loads = looked(5)
    later = NOON + timedelta(minutes=10)

    assert loads.recent(TRAINING, later) == ()
    loads.note(TRAINING, later, utilization=7.0, nodes=4)
    assert loads.recent(TRAINING, later + LOOK) == (7.0,)


def test_quarters_of_an_hour_are_averaged_as_busy_nodes() -> None:
    loads = looked(31)

    (quarter,) = loads.quarters(TRAINING)
    assert quarter.at == NOON
    assert quarter.busy_nodes == pytest.approx(4 * 0.505)


def test_history_is_bounded() -> None:
    loads = looked(10 * 96 * 30)

    assert len(loads.recent(TRAINING, NOON + 10 * 96 * 30 * LOOK)) == RECENT_MAX
    assert len(loads.quarters(TRAINING)) == QUARTERS_MAX


def test_history_survives_a_restart() -> None:
    before = looked(100)
    after = Loads()

    assert after.restore(before.dump())
    now = NOON + 100 * LOOK
    assert after.recent(TRAINING, now) == before.recent(TRAINING, now)
    assert after.quarters(TRAINING) == before.quarters(TRAINING)
    for loads in (before, after):
        loads.note(TRAINING, NOON + timedelta(hours=1), utilization=1.0, nodes=4)
    assert after.quarters(TRAINING) == before.quarters(TRAINING)


def test_the_history_of_a_deleted_pool_is_dropped() -> None:
    loads = looked(40)
    loads.forget_all_but([TRAINING])
    assert loads.quarters(TRAINING)

    loads.forget_all_but([])

    assert loads.dump() == b"{}"


@pytest.mark.parametrize("dumped", [b"", b"{", b"[]", b'{"training": {"recent": "x"}}'])
def test_an_unreadable_history_is_ignored(dumped: bytes) -> None:
    assert not Loads().restore(dumped)


class FixedReadings:
    def __init__(self, **used: float | None) -> None:
        self.used = used

    def utilization(self, nodes: Sequence[NodeId]) -> list[float | None]:
        return [self.used.get(node) for node in nodes]


def test_peaks_are_known_only_for_nodes_that_were_watched_throughout() -> None:
    readings = FixedReadings(a=90.0)
    usage = Usage(readings)
    both = [NodeId("a"), NodeId("b")]
    keep = timedelta(minutes=5)
    for number in range(12):
        usage.note(both, NOON + number * LOOK, keep=keep)
        readings.used = {"a": 3.0, "b": 4.0}
    now = NOON + 11 * LOOK

    assert usage.peaks(both, now - keep) == {"a": 3.0, "b": 4.0}
    assert usage.peaks(both, now - timedelta(minutes=6)) == {}
    usage.forget_all_but({NodeId("a"): None})
    assert usage.peaks(both, now - keep) == {"a": 3.0}


async def a_store(*names: str, health: Health = Health.HEALTHY) -> MemoryStore:
    store = MemoryStore(Cluster(id="c", secret=b"s"))
    nodes = [a_node(name, health=health) for name in names]
    await store.commit(Change(pools=[a_pool()], nodes=nodes), based_on=0)
    return store


def test_heartbeats_report_the_utilization_of_serving_nodes() -> None:
    async def main() -> None:
        store = await a_store("a", "b", "c")
        meter = HeartbeatMeter(store, FixedReadings(a=10.0, b=50.0))
        assert (await meter.pool_metrics(TRAINING)).utilization == 30.0

    asyncio.run(main())


def test_missing_heartbeats_are_not_idleness() -> None:
    async def main() -> None:
        with pytest.raises(MetricsError, match="none of 2 nodes has reported its utilization"):
            await HeartbeatMeter(await a_store("a", "b"), FixedReadings()).pool_metrics(TRAINING)
        unhealthy = HeartbeatMeter(await a_store("a", health=Health.UNHEALTHY), FixedReadings())
        assert (await unhealthy.pool_metrics(TRAINING)).utilization == 0.0

    asyncio.run(main())


def test_columns_average_over_each_nodes_own_gpus() -> None:
    async def main() -> None:
        columns = TelemetryTable(SimClock(), timeout=timedelta(minutes=1))
        for name, used in (("small", (10.0, 30.0)), ("large", (5.0,) * 8 + (15.0,) * 8)):
            gpus = tuple(GpuMetrics(utilization_pct=each) for each in used)
            columns.record_heartbeat(NodeId(name), NodeMetrics(gpus=gpus))
        columns.record_heartbeat(NodeId("mute"))
        columns.forget(NodeId("small"))
        one = NodeMetrics(gpus=(GpuMetrics(utilization_pct=40.0),))
        columns.record_heartbeat(NodeId("new"), one)
        asked = [NodeId(name) for name in ("new", "large", "mute", "stranger")]
        assert columns.utilization(asked) == [40.0, 10.0, None, None]
        assert columns.utilization([]) == []

    with asyncio.Runner(loop_factory=lambda: SimLoop(0.0)) as runner:
        runner.run(main())


@pytest.mark.parametrize(
    ("work", "nodes"),
    [
        ([], 0),
        ([Work(gpus=8)], 1),
        ([Work(gpus=8, parts=4)], 4),
        ([Work(gpus=4, parts=3)], 2),
        ([Work(gpus=1, parts=9)], 2),
        ([Work(gpus=6), Work(gpus=2), Work(gpus=5), Work(gpus=3)], 2),
        ([Work(gpus=20)], 3),
        ([Work(gpus=20), Work(gpus=4)], 3),
        ([Work(gpus=0)], 0),
    ],
)
def test_work_needs_as_many_nodes_as_its_parts_fill(work: list[Work], nodes: int) -> None:
    assert nodes_needed(work, 8) == nodes


class Waiting:
    async def work(self, _pool: PoolName) -> list[Work]:
        return [Work(gpus=8, parts=3, waiting=True), Work(gpus=4), Work(gpus=4)]


def test_pending_gangs_and_running_jobs_are_demand() -> None:
    async def main() -> None:
        found = await JobsMeter(await a_store(), Waiting()).pool_metrics(TRAINING)
        assert found == PoolMetrics(pending_jobs=1, queue_depth=3, nodes_needed=4)

    asyncio.run(main())


class Known:
    def __init__(self, metrics: PoolMetrics | None) -> None:
        self.metrics = metrics

    async def pool_metrics(self, _pool: PoolName) -> PoolMetrics:
        if self.metrics is None:
            raise MetricsError("down")
        return self.metrics


def test_sources_are_merged_and_one_failure_fails_all() -> None:
    async def main() -> None:
        jobs = Known(PoolMetrics(pending_jobs=2, nodes_needed=3))
        gpus = Known(PoolMetrics(utilization=40.0, nodes_needed=1))
        both = await CombinedMeter([jobs, gpus]).pool_metrics(TRAINING)
        assert both == PoolMetrics(utilization=40.0, pending_jobs=2, nodes_needed=3)
        with pytest.raises(MetricsError):
            await CombinedMeter([Known(None), gpus]).pool_metrics(TRAINING)

    asyncio.run(main())
