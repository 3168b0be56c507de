"""Recordings and their replay by the agent."""

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.support.direct_link import DirectLink
from tests.support.fake_control_plane import FakeControlPlane

from navarch.agent.event_sources import EventSources
from navarch.agent.recording import (
    Recorder,
    Recording,
    RecordingError,
    read_recording,
    write_recording,
)
from navarch.agent.replay import LoopClock, ReplayedGpus, ScaledTimeLoop, replay
from navarch.core.health import CheckResult, Health
from navarch.core.ids import NodeId
from navarch.gpus.simulated import SimulatedGpus
from navarch.health.checks.standard import standard_checks
from navarch.hosts.simulated import SimulatedHost
from navarch.sim.kernel.clock import SeededEntropy, SimClock
from navarch.sim.kernel.loop import SimLoop

TRACE = Path(__file__).parents[4] / "shared" / "data" / "h200" / "h200_trace.jsonl"
OURS = Path(__file__).parents[2] / "data" / "h200-xid31.jsonl"
BY_COMMAND = OURS.with_name("h200-agent-record.jsonl")
H200 = "GPU-00000000-0000-0000-0000-000000000000"


def trace() -> list[bytes]:
    if not TRACE.exists():
        pytest.skip(f"no {TRACE}")
    return TRACE.read_bytes().splitlines()


def played(recording: Recording) -> tuple[FakeControlPlane, EventSources]:
    async def main() -> tuple[FakeControlPlane, EventSources]:
        clock, plane = SimClock(), FakeControlPlane()
        host = SimulatedHost(clock, SeededEntropy("host"), "recorded")
        event_sources = await replay(
            clock,
            SeededEntropy("replay"),
            recording,
            DirectLink(clock, lambda: plane),
            host,
            standard_checks(),
            node=NodeId("recorded"),
        )
        return plane, event_sources

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        return runner.run(main())


def xids(plane: FakeControlPlane) -> list[CheckResult]:
    return [result for result in plane.results() if result.check.startswith("xid/")]


def test_the_recorded_h200_converts_without_loss() -> None:
    lines = trace()

    header, *records = write_recording(read_recording(lines))

    assert json.loads(header)["navarch_recording"] == 1
    assert [json.loads(line) for line in records] == [json.loads(line) for line in lines]
    again = read_recording([header, *records])
    assert list(write_recording(again)) == [header, *records]
    (gpu,) = again.gpus
    assert (gpu.uuid, gpu.pci_bus_id) == (H200, "0000:00:06.0")
    assert (gpu.name, gpu.driver_version) == ("NVIDIA H200", "580.159.04")


def test_faults_of_user_code_on_a_real_h200_are_found_and_cordon_no_node() -> None:
    plane, _ = played(read_recording(trace()))

    found = xids(plane)
    codes = (13, 31, 43)
    assert {result.check.rpartition("/")[0] for result in found} == {
        f"xid/{c}/{H200}" for c in codes
    }
    assert len({result.facts["pid"] for result in found}) == 8, (
        "each process is reported separately"
    )
    assert {result.health for result in found} == {Health.HEALTHY}
    assert not any(result.fatal for result in plane.results())
    reasons = " ".join(result.reason for result in found)
    assert "ACCESS_TYPE_VIRT_WRITE" in reasons
    assert "restart the application" in reasons
    assert [r for r in plane.results() if r.health in (Health.DEGRADED, Health.UNHEALTHY)] == []


def test_six_hundred_clock_events_make_no_flood_and_each_fault_is_one_event() -> None:
    plane, event_sources = played(read_recording(trace()))

    kmsg, nvml = event_sources.sources()
    # Nine faults: a killed program leaves no trace, an overflowing stack leaves two.
    assert (kmsg.events, nvml.events, nvml.missed) == (9, 8, 1)
    assert kmsg.lines == 15
    assert not kmsg.silent
    assert not nvml.silent
    assert len(plane.reports) < 15


def test_a_new_recording_can_be_replayed() -> None:
    lines: list[bytes] = []

    async def record() -> None:
        clock = SimClock()
        gpus = SimulatedGpus(clock, SeededEntropy("g"), count=2, seed="m")
        recorder = Recorder(clock, gpus, None, lines.append, boot_id="boot-7")
        recorder.begin()
        for second in range(20):
            await clock.sleep(1.0)
            if second == 10:
                gpus.xid(48, index=1)
            recorder.poll()
            recorder.sample()

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(record())
    recording = read_recording(lines)
    plane, _ = played(recording)

    assert (recording.boot_id, len(recording.gpus)) == ("boot-7", 2)
    assert [result.check for result in xids(plane)] == ["xid/48/GPU-m-1"]
    assert any(result.fatal for result in xids(plane))


def test_a_replay_is_the_same_every_time() -> None:
    recording = read_recording(trace())

    first, second = (played(recording)[0].reports for _ in range(2))

    assert [report.results for report in first] == [report.results for report in second]


def test_a_replay_can_run_faster_than_real_time() -> None:
    async def main() -> tuple[float, datetime]:
        clock = LoopClock(datetime(2026, 1, 1, tzinfo=UTC))
        began = clock.monotonic()
        await clock.sleep(60.0)
        return clock.monotonic() - began, clock.now()

    with asyncio.Runner(loop_factory=lambda: ScaledTimeLoop(1000.0)) as runner:
        took, now = runner.run(main())

    assert took >= 60.0
    assert now >= datetime(2026, 1, 1, 0, 1, tzinfo=UTC)


def test_readings_appear_at_their_recorded_time() -> None:
    lines = [
        b'{"t": 1.0, "kind": "nvml", "gpu": 0, "temp": 45, "power_mw": 128529, "util": [7, 0]}',
        b'{"t": 9.0, "kind": "nvml", "gpu": 0, "temp": 50, "remap": [0, 2, 1, 0]}',
    ]

    async def main() -> None:
        clock = SimClock()
        gpus = ReplayedGpus(clock, read_recording(lines))
        (gpu,) = gpus.list_gpus()
        await clock.sleep(2.0)
        assert gpus.metrics(gpu).power_w == 128.529
        assert gpus.health(gpu).temperature_c == 45
        await clock.sleep(10.0)
        assert gpus.health(gpu).temperature_c == 50
        assert gpus.health(gpu).remap_pending is True

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(main())


@pytest.mark.parametrize(
    "line", [b"{", b"[]", b'{"t": "x", "kind": "a"}', b'{"t": 1}', b'{"navarch_recording": 2}']
)
def test_a_file_that_is_not_a_recording_is_refused(line: bytes) -> None:
    with pytest.raises(RecordingError):
        read_recording([line])


def test_a_real_page_fault_is_one_event_of_two_sources_and_no_reason_to_cordon() -> None:
    """Recorded on an H200 with Recorder: an out-of-bounds kernel, twice."""
    recording = read_recording(OURS.read_bytes().splitlines())

    plane, event_sources = played(recording)

    kmsg, nvml = event_sources.sources()
    assert (kmsg.lines, kmsg.events, kmsg.missed) == (2, 2, 0)
    assert (nvml.lines, nvml.events, nvml.missed) == (2, 2, 0)
    found = xids(plane)
    assert {result.check for result in found} == {f"xid/31/{H200}/{pid}" for pid in (409, 415)}
    seen_by = {result.check: result.facts["sources"] for result in found}
    assert set(seen_by.values()) == {"kmsg,nvml"}, "the second source is reported as well"
    assert "FAULT_PDE ACCESS_TYPE_VIRT_WRITE" in found[0].reason
    assert [r for r in plane.results() if r.health in (Health.DEGRADED, Health.UNHEALTHY)] == []


def test_a_recording_by_agent_record_replays_as_one_event_of_two_sources() -> None:
    """Recorded by `navarch agent record` itself on an H200: an out-of-bounds kernel, once."""
    recording = read_recording(BY_COMMAND.read_bytes().splitlines())

    plane, event_sources = played(recording)

    assert [(s.lines, s.events, s.missed) for s in event_sources.sources()] == [
        (1, 1, 0),
        (1, 1, 0),
    ]
    assert {result.facts["sources"] for result in xids(plane)} == {"kmsg,nvml"}
    assert {result.action for result in xids(plane)} == {"restart_app"}


@pytest.mark.parametrize("path", [OURS, BY_COMMAND], ids=["recorder", "command"])
def test_readings_of_a_real_card_have_plausible_units(path: Path) -> None:
    recording = read_recording(path.read_bytes().splitlines())
    for record in recording.of("nvml"):
        health, metrics = record.facts["health"], record.facts["metrics"]
        assert 20 < health["temperature_c"] < 90
        assert 50 < metrics["power_w"] < 750
        assert 0 <= metrics["utilization_pct"] <= 100
        assert metrics["memory_used_bytes"] < recording.gpus[0].memory_bytes
        assert (health["ecc_uncorrected"], health["recovery_action"]) == (0, 0)
