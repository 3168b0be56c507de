"""The pace of reports: a node that sends too many is delayed, and a sound one never."""

import asyncio
import gzip
import hashlib
from collections.abc import Awaitable, Callable

import pytest
from tests.support.archives import MemoryArchive

from navarch.core.access import Identity, acting_as
from navarch.core.errors import UnreachableError
from navarch.core.fleet import Change
from navarch.core.health import CheckResult, Health, HealthReport
from navarch.core.ids import NodeId
from navarch.core.incident import Evidence, EvidenceNote
from navarch.core.limits import FAULTS_PER_REPORT, REPORTS_WAITING
from navarch.core.ownership import Cluster
from navarch.service import pace
from navarch.service.evidence import EvidenceKeys, EvidenceService
from navarch.service.pace import ReportPace
from navarch.signatures import Ed25519
from navarch.sim.kernel.clock import SeededEntropy, SimClock
from navarch.sim.kernel.loop import SimLoop
from navarch.stores.memory import MemoryStore
from navarch.testing.worlds import NOW, a_node

NODE = NodeId("gpu-1")
HEALTHY = HealthReport(results=(CheckResult(check="gpu", health=Health.HEALTHY),) * 30)
FULL = HealthReport(
    results=(CheckResult(check="gpu", health=Health.UNHEALTHY),) * FAULTS_PER_REPORT.most
)


def play(story: Callable[[ReportPace, SimClock], Awaitable[None]]) -> None:
    clock = SimClock()

    async def run() -> None:
        await story(ReportPace(clock), clock)

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(run())


def test_the_reports_of_a_night_without_a_network_are_not_delayed() -> None:
    async def story(paced: ReportPace, clock: SimClock) -> None:
        began = clock.monotonic()
        for _ in range(590):
            await paced.turn(NODE, HEALTHY)
        assert clock.monotonic() == began

    play(story)


def test_a_node_that_reports_without_pause_is_slowed_to_a_full_report_in_two_seconds() -> None:
    async def story(paced: ReportPace, clock: SimClock) -> None:
        began = clock.monotonic()
        for _ in range(115):
            await paced.turn(NODE, FULL)
        assert clock.monotonic() - began == pytest.approx(2.05 * 115 - 30, abs=3)

    play(story)


def test_a_node_that_is_slowed_slows_no_other() -> None:
    async def story(paced: ReportPace, clock: SimClock) -> None:
        for _ in range(20):
            await paced.turn(NODE, FULL)
        began = clock.monotonic()
        await paced.turn(NodeId("gpu-2"), FULL)
        assert clock.monotonic() == began

    play(story)


def test_a_report_that_finds_others_waiting_is_to_be_sent_again() -> None:
    async def story(paced: ReportPace, _clock: SimClock) -> None:
        for _ in range(16):
            await paced.turn(NODE, FULL)
        turns = [paced.turn(NODE, FULL) for _ in range(REPORTS_WAITING.most + 3)]
        results = await asyncio.gather(*turns, return_exceptions=True)
        refused = [each for each in results if each is not None]
        assert len(refused) == 3
        assert all(isinstance(each, UnreachableError) for each in refused)
        await paced.turn(NODE, FULL)

    play(story)


def test_the_table_of_nodes_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(paced: ReportPace, _clock: SimClock) -> None:
        for number in range(50):
            await paced.turn(NodeId(f"gpu-{number}"), HEALTHY)
        assert len(paced._nodes) == 20

    monkeypatch.setattr(pace, "NODES_MAX", 20)
    play(story)


def test_bundles_of_evidence_are_paced_too() -> None:
    async def story(_paced: ReportPace, clock: SimClock) -> None:
        store = MemoryStore(Cluster(id="test", secret=bytes(32)))
        await store.commit(Change(nodes=[a_node(NODE)]), based_on=0)
        keys = EvidenceKeys(clock, SeededEntropy("keys"), store, Ed25519())
        service = EvidenceService(clock, store, MemoryArchive(), keys)
        content = gzip.compress(b"{}")
        sha256 = hashlib.sha256(content).hexdigest()
        began = clock.monotonic()
        for number in range(30):
            note = EvidenceNote(
                id=f"e{number}",
                node=NODE,
                taken_at=NOW,
                why="",
                sha256=sha256,
                size_bytes=len(content),
            )
            with acting_as(Identity(subject="agent")):
                await service.report_evidence(Evidence(note=note, content=content))
        assert clock.monotonic() - began == pytest.approx(60, abs=4)

    play(story)
