"""The telemetry table: heartbeats and metrics by node."""

from datetime import datetime, timedelta

import pytest

from navarch.core.ids import NodeId
from navarch.core.instance import GpuMetrics, NodeMetrics, Reading, Sample
from navarch.stores.telemetry import TelemetryTable
from navarch.testing.worlds import NOW

TIMEOUT = timedelta(seconds=90)
A, B = NodeId("a"), NodeId("b")


class HandClock:
    def __init__(self) -> None:
        self.moment = NOW
        self.steady_s = 0.0

    def now(self) -> datetime:
        return self.moment

    def monotonic(self) -> float:
        return self.steady_s

    async def sleep(self, seconds: float) -> None:
        self.wait(seconds)

    def wait(self, seconds: float) -> None:
        self.moment += timedelta(seconds=seconds)
        self.steady_s += seconds

    def set(self, seconds: float) -> None:
        """Set the wall clock ahead by that much."""
        self.moment += timedelta(seconds=seconds)


def readings(gpus: int, start: float = 60.0) -> NodeMetrics:
    return NodeMetrics(
        cpu_pct=12.5,
        memory_pct=50.0,
        gpus=tuple(
            GpuMetrics(
                temperature_c=start + i,
                power_w=600.0,
                utilization_pct=97.0,
                memory_used_bytes=float(40 << 30),
            )
            for i in range(gpus)
        ),
    )


def test_a_node_is_silent_once_the_timeout_has_passed() -> None:
    clock = HandClock()
    table = TelemetryTable(clock, timeout=TIMEOUT)
    table.record_heartbeat(A)
    clock.wait(89)
    assert table.silent_since(A) is None
    assert table.silent() == {}
    clock.wait(1)
    assert table.silent_since(A) == NOW
    assert table.silent() == {A: NOW}


def test_the_next_change_is_when_the_first_node_becomes_silent() -> None:
    clock = HandClock()
    table = TelemetryTable(clock, timeout=TIMEOUT)
    assert table.next_change() is None
    table.record_heartbeat(A)
    clock.wait(10)
    table.record_heartbeat(B)
    change = table.next_change()
    assert change is not None
    clock.wait((change - clock.moment).total_seconds())
    assert table.silent() == {A: NOW}
    later = table.next_change()
    assert later is not None
    clock.wait((later - clock.moment).total_seconds())
    assert set(table.silent()) == {A, B}
    assert table.next_change() is None


def test_overdue_from_names_the_first_overdue_node_before_and_after_its_deadline() -> None:
    clock = HandClock()
    table = TelemetryTable(clock, timeout=TIMEOUT)
    assert table.overdue_from() is None
    table.record_heartbeat(A)
    clock.wait(10)
    table.record_heartbeat(B)
    overdue_from = table.overdue_from()
    assert overdue_from == table.next_change()
    clock.wait(85)
    assert table.silent() == {A: NOW}
    assert table.overdue_from() == overdue_from
    table.record_heartbeat(A)
    assert table.overdue_from() == table.next_change()
    table.forget(A)
    table.forget(B)
    assert table.overdue_from() is None


def test_a_node_with_a_new_heartbeat_is_no_longer_silent() -> None:
    clock = HandClock()
    table = TelemetryTable(clock, timeout=TIMEOUT)
    table.record_heartbeat(A)
    clock.wait(500)
    table.record_heartbeat(A)
    assert table.silent() == {}


def test_time_before_the_start_does_not_count_as_silence() -> None:
    clock = HandClock()
    table = TelemetryTable(clock, timeout=TIMEOUT, nodes=[A])
    clock.wait(60)
    assert table.silent() == {}
    clock.wait(60)
    assert table.silent() == {A: NOW}


def test_a_forgotten_node_is_never_silent_and_its_row_is_used_again() -> None:
    clock = HandClock()
    table = TelemetryTable(clock, timeout=TIMEOUT)
    table.record_heartbeat(A, readings(8))
    table.forget(A)
    table.forget(A)
    clock.wait(1000)
    assert table.silent() == {}
    assert table.metrics(A) is None
    table.record_heartbeat(B)
    assert table.metrics(B) == NodeMetrics()


@pytest.mark.parametrize("gpus", [0, 1, 4, 8, 9, 16, 20])
def test_readings_are_returned_unchanged(gpus: int) -> None:
    table = TelemetryTable(HandClock(), timeout=TIMEOUT)
    table.record_heartbeat(A, readings(gpus))
    table.record_heartbeat(B, readings(gpus, start=30.0))
    assert table.metrics(A) == readings(gpus)
    assert table.metrics(B) == readings(gpus, start=30.0)


def test_each_node_has_its_own_row() -> None:
    names = [NodeId(f"n{i}") for i in range(1000)]
    table = TelemetryTable(HandClock(), timeout=TIMEOUT, nodes=names[:500])
    for i, name in enumerate(names):
        table.record_heartbeat(name, readings(1, start=float(i)))
    assert all(table.metrics(name) == readings(1, start=float(i)) for i, name in enumerate(names))
    assert len(table) == 1000


def test_a_node_costs_less_than_512_bytes() -> None:
    names = [NodeId(f"node-{i}") for i in range(10_000)]
    table = TelemetryTable(HandClock(), timeout=TIMEOUT, nodes=names)
    assert table.bytes_per_node() < 512


def test_readings_survive_a_restart_for_nodes_that_are_still_known() -> None:
    before = TelemetryTable(HandClock(), timeout=TIMEOUT, nodes=[A, B])
    before.record_heartbeat(A, readings(8))
    before.record_heartbeat(B, readings(4))
    dumped = before.dump()

    clock = HandClock()
    clock.wait(3600)
    after = TelemetryTable(clock, timeout=TIMEOUT, nodes=[B, NodeId("c")])
    assert after.restore(dumped)
    assert after.metrics(B) == readings(4)
    assert after.metrics(A) is None
    assert after.silent() == {}, "the hour in between counts against nobody"


@pytest.mark.parametrize("share", [0.0, 0.02, 0.1, 0.5, 0.99])
def test_a_torn_snapshot_is_ignored(share: float) -> None:
    table = TelemetryTable(HandClock(), timeout=TIMEOUT, nodes=[A])
    table.record_heartbeat(A, readings(8))
    dumped = table.dump()
    torn = dumped[: int(len(dumped) * share)]
    assert not TelemetryTable(HandClock(), timeout=TIMEOUT, nodes=[A]).restore(torn)


@pytest.mark.parametrize("gpus", [0, 1, 8, 9, 20])
def test_the_utilization_of_a_node_is_the_same_alone_and_in_a_batch(gpus: int) -> None:
    table = TelemetryTable(HandClock(), timeout=TIMEOUT)
    table.record_heartbeat(B, readings(8))
    table.record_heartbeat(A, readings(gpus))

    assert table.utilization([A]) == [97.0 if gpus else None]
    assert table.utilization([A, B])[:1] == table.utilization([A])
    assert table.utilization([NodeId("unknown")]) == [None]


@pytest.mark.parametrize("jump_s", [3600.0, -3600.0, 91.0, 86400.0])
def test_setting_the_clock_neither_makes_nodes_silent_nor_hides_silence(jump_s: float) -> None:
    clock = HandClock()
    table = TelemetryTable(clock, timeout=TIMEOUT)
    table.record_heartbeat(A)
    clock.wait(60)
    table.record_heartbeat(B)
    clock.set(jump_s)

    assert table.silent() == {}
    assert table.silent_since(A) is None
    assert table.next_change() == pytest.approx(
        clock.moment + timedelta(seconds=30), abs=timedelta(seconds=1)
    )
    clock.wait(31)
    assert table.silent().keys() == {A}, "what was silent before the clock was set counts"
    table.record_heartbeat(A)
    clock.wait(60)
    assert table.silent().keys() == {B}


def test_a_heartbeat_right_after_the_clock_was_set_counts_as_now() -> None:
    clock = HandClock()
    table = TelemetryTable(clock, timeout=TIMEOUT)
    table.record_heartbeat(A)
    clock.set(3600)
    table.record_heartbeat(A)
    clock.wait(89)
    assert table.silent() == {}
    clock.wait(2)
    assert table.silent().keys() == {A}


def test_listeners_are_notified_of_unexpected_heartbeats_only() -> None:
    clock = HandClock()
    table = TelemetryTable(clock, timeout=TIMEOUT, nodes=[A])
    moments: list[datetime] = []
    table.subscribe(moments.append)
    assert not table.has_reported(A)

    table.record_heartbeat(A)
    assert moments == [NOW], "the node had not reported before"
    assert table.has_reported(A)
    clock.wait(45)
    table.record_heartbeat(A)
    assert len(moments) == 1

    table.record_heartbeat(B)
    late = moments[1] - clock.now()
    assert TIMEOUT <= late <= TIMEOUT + timedelta(microseconds=2), "it is new"
    clock.wait(90)
    table.record_heartbeat(A)
    assert moments[2] == clock.now(), "it was overdue"


def test_listeners_are_notified_of_a_shorter_timeout() -> None:
    clock = HandClock()
    table = TelemetryTable(clock, timeout=TIMEOUT, nodes=[A])
    moments: list[datetime] = []
    table.subscribe(moments.append)
    table.timeout = TIMEOUT / 2
    assert moments == [NOW]


def test_earlier_readings_fill_an_empty_row_and_create_none() -> None:
    table = TelemetryTable(HandClock(), timeout=TIMEOUT)
    table.record_heartbeat(A)
    before = [Sample(at=NOW, metrics=readings(2))]
    for node in (A, B):
        table.record_late_samples(node, before)
    assert (table.metrics(A), table.last_heartbeat(A)) == (readings(2), NOW)
    assert (table.metrics(B), table.last_heartbeat(B), len(table)) == (None, None, 1)


def watched(clock: HandClock, *nodes: NodeId) -> TelemetryTable:
    table = TelemetryTable(clock, timeout=TIMEOUT)
    for node in nodes:
        table.record_heartbeat(node)
    table.pulse()
    return table


@pytest.mark.parametrize("pause_s", [13.0, 60.0, 3600.0])
def test_time_in_which_the_process_did_not_run_is_no_silence(pause_s: float) -> None:
    clock = HandClock()
    table = watched(clock, A)
    clock.wait(pause_s)

    assert table.silent() == {}, "also before the next pulse"
    assert table.pulse() == timedelta(seconds=pause_s)
    assert table.pulse() == timedelta(0), "a pause is returned once"


def test_a_node_has_the_full_timeout_from_the_end_of_a_pause() -> None:
    clock = HandClock()
    table = watched(clock, A, B)
    for _ in range(40):
        clock.wait(2)
        table.pulse()
    clock.wait(600)
    table.pulse()
    resumed = clock.now()
    for _ in range(44):
        clock.wait(2)
        table.pulse()
    assert table.silent() == {}
    table.record_heartbeat(B)
    clock.wait(2)
    assert table.silent() == {A: resumed}
    assert table.last_heartbeat(A) == NOW, "the last heartbeat stays what it was"
    assert table.last_heartbeat(B) == clock.now() - timedelta(seconds=2)


def test_a_node_that_was_silent_before_a_pause_stays_silent_and_no_longer_for_it() -> None:
    clock = HandClock()
    table = watched(clock, A)
    for _ in range(50):
        clock.wait(2)
        table.pulse()
    assert table.silent() == {A: NOW}
    clock.wait(600)
    assert table.silent() == {A: NOW + timedelta(seconds=600)}
    assert table.last_heartbeat(A) == NOW


def test_a_process_that_runs_in_time_leaves_nothing_out() -> None:
    clock = HandClock()
    table = watched(clock, A)
    for _ in range(9):
        clock.wait(10)
        assert table.pulse() == timedelta(0)
    assert table.silent() == {A: NOW}


def test_with_a_short_timeout_a_third_of_it_is_a_pause() -> None:
    clock = HandClock()
    table = TelemetryTable(clock, timeout=timedelta(seconds=15))
    table.record_heartbeat(A)
    table.pulse()
    clock.wait(14)
    assert table.pulse() == timedelta(seconds=14)


def test_a_table_whose_process_is_not_watched_counts_all_time() -> None:
    clock = HandClock()
    table = TelemetryTable(clock, timeout=TIMEOUT)
    table.record_heartbeat(A)
    clock.wait(90)
    assert table.silent() == {A: NOW}


def test_a_silent_node_has_no_readings_of_its_gpus() -> None:
    clock = HandClock()
    table = TelemetryTable(clock, timeout=TIMEOUT)
    table.record_heartbeat(A, NodeMetrics(gpus=(GpuMetrics(temperature_c=20, power_w=300),)))
    clock.wait(60)
    table.record_heartbeat(B, readings(2))
    assert table.gpu_readings([A, NodeId("?")], Reading.POWER_W) == [[300], []]

    clock.wait(31)

    found = table.gpu_readings([A, B], Reading.TEMPERATURE_C)
    assert [len(each) for each in found] == [0, 2]
