"""Evidence: collected at detection, stored on disk, delivered to the control plane and shown."""

import asyncio
import gzip
import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.support.archives import MemoryArchive
from tests.support.direct_link import DirectLink
from tests.support.fake_control_plane import FakeControlPlane
from tests.support.local_api import LocalApi, build_local_api

from navarch.agent.agent import Agent
from navarch.agent.evidence import EvidenceCollector, pack, unpack
from navarch.agent.settings import Identity
from navarch.agent.spool.disk import MemoryDisk
from navarch.agent.spool.outbox import EVIDENCE_MAX, EvidenceQueue
from navarch.clock import SystemClock
from navarch.core.access import Identity as Caller
from navarch.core.access import acting_as
from navarch.core.errors import InvalidError, NotFoundError, UnreachableError
from navarch.core.health import CheckResult, Health
from navarch.core.ids import NodeId
from navarch.core.incident import INFLATED_BYTES_MAX, Evidence, EvidenceNote
from navarch.core.limits import REASON_LENGTH
from navarch.core.receipt import KeptEvidence
from navarch.core.recovery import CommandKind
from navarch.gpus.simulated import SimulatedGpus
from navarch.health.checks.standard import standard_checks
from navarch.hosts.facts import LinuxFacts
from navarch.hosts.simulated import SimulatedHost
from navarch.ports.evidence import Archive
from navarch.service.evidence import EvidenceKeys, EvidenceService
from navarch.signatures import Ed25519
from navarch.sim.kernel.clock import InlineOffload, SeededEntropy, SimClock
from navarch.sim.kernel.loop import SimLoop
from navarch.stores.evidence import KEPT_MAX as ARCHIVED_MAX
from navarch.stores.evidence import FolderArchive

NODE = NodeId("m")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def received(bundle: Evidence) -> KeptEvidence:
    return KeptEvidence(note=bundle.note, content=bundle.content)


def the_service(local: LocalApi, archive: Archive) -> EvidenceService:
    keys = EvidenceKeys(SystemClock(), SeededEntropy("keys"), local.store, Ed25519())
    return EvidenceService(SystemClock(), local.store, archive, keys)


class Facts:
    def __init__(self, *lines: str) -> None:
        self.lines = lines

    def kernel_log(self) -> Sequence[str]:
        return self.lines

    def pcie(self) -> Mapping[str, Mapping[str, str]]:
        return {"0000:03:00.0": {"current_link_width": "16"}}

    def processes(self) -> Sequence[Mapping[str, str]]:
        return [{"pid": "7", "name": "python", "state": "D"}]

    def versions(self) -> Mapping[str, str]:
        return {"kernel": "6.18"}


@dataclass
class Desk:
    kept: list[Evidence] = field(default_factory=list)
    cut: bool = False

    async def report_evidence(self, evidence: Evidence) -> None:
        if self.cut:
            raise UnreachableError("no route")
        self.kept.append(evidence)


class Harness:
    def __init__(self, tasks: asyncio.TaskGroup) -> None:
        self.clock, self.desk, self.disk = SimClock(), Desk(), MemoryDisk()
        self.plane = FakeControlPlane()
        self.gpus = SimulatedGpus(self.clock, SeededEntropy("g"), count=4, seed="m")
        self.agent = Agent(
            self.clock,
            SeededEntropy("a"),
            DirectLink(self.clock, lambda: self.plane, evidence=self.desk),
            self.gpus,
            SimulatedHost(self.clock, SeededEntropy("h"), "m"),
            self.disk,
            identity=Identity(node=NODE),
            checks=standard_checks(),
            offload=InlineOffload(),
            probe_offload=InlineOffload(),
            facts=Facts("4,1,2,-;NVRM: Xid (PCI:0000:03:00): 79, gone"),
        )
        self.run_task = tasks.create_task(self.agent.run())


def test_a_lost_gpu_leaves_one_bundle_and_a_crashed_program_none() -> None:
    async def main() -> None:
        async with asyncio.TaskGroup() as tasks:
            harness = Harness(tasks)
            await harness.clock.sleep(5)
            harness.gpus.xid(31, index=1)
            await harness.clock.sleep(5)
            assert harness.desk.kept == []
            harness.gpus.xid(79, index=2, text="GPU has fallen off the bus.")
            await harness.clock.sleep(60)
            harness.agent.stop()
        evidence = harness.desk.kept[0]
        content = unpack(evidence)
        assert "XID 79 on GPU 2" in evidence.note.why
        assert evidence.note.sha256 == hashlib.sha256(evidence.content).hexdigest()
        assert content["kernel_log"] == ["4,1,2,-;NVRM: Xid (PCI:0000:03:00): 79, gone"]
        assert content["processes"][0]["name"] == "python"
        assert content["pcie"]["0000:03:00.0"]["current_link_width"] == "16"
        assert content["versions"] == {"kernel": "6.18"}
        assert "GPU is lost" in content["gpus"][2]["trouble"]
        assert content["gpus"][1]["health"]["temperature_c"] > 0
        assert sum("XID 79" in kept.note.why for kept in harness.desk.kept) == 1
        assert not any(name.startswith("evidence-") for name in harness.disk.files)

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(main())


def test_evidence_stays_on_disk_until_it_is_delivered() -> None:
    async def main() -> None:
        async with asyncio.TaskGroup() as tasks:
            harness = Harness(tasks)
            harness.desk.cut = True
            await harness.clock.sleep(5)
            harness.gpus.xid(79, index=2)
            await harness.clock.sleep(30)
            assert any(name.startswith("evidence-") for name in harness.disk.files)
            harness.desk.cut = False
            await harness.clock.sleep(120)
            harness.agent.stop()
        assert len(harness.desk.kept) >= 1

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(main())


def test_evidence_is_collected_before_the_machine_terminates() -> None:
    async def main() -> None:
        async with asyncio.TaskGroup() as tasks:
            harness = Harness(tasks)
            await harness.clock.sleep(5)
            harness.plane.command(CommandKind.TERMINATE, name="c", at=harness.clock.now())
            await harness.run_task
        assert [kept.note.why for kept in harness.desk.kept] == ["before the machine is given back"]

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(main())


def test_a_bundle_is_readable_without_a_driver_and_stays_small() -> None:
    async def main() -> None:
        clock = SimClock()
        gpus = SimulatedGpus(clock, SeededEntropy("g"), count=1, seed="m")
        gpus.break_driver()
        lines = [os.urandom(600).hex() for _ in range(2000)]
        taker = EvidenceCollector(clock, SeededEntropy("e"), gpus, Facts(*lines), boot_id="b")
        evidence = taker.collect(NODE, "driver", [])
        content = unpack(evidence)
        assert content["gpus"] == [{"trouble": "Driver/library version mismatch"}]
        assert evidence.note.size_bytes <= 700_000
        assert content["kernel_log"] == lines[-len(content["kernel_log"]) :]
        assert content["kernel_log_left_out"] + len(content["kernel_log"]) == 2000

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(main())


def test_the_same_bundle_is_the_same_bytes() -> None:
    parts = {"kernel_log": ["a"], "why": "x"}

    assert pack(dict(parts)) == pack(dict(parts))


def test_the_queue_keeps_the_latest_bundles_across_a_restart() -> None:
    disk = MemoryDisk()
    box = EvidenceQueue(disk)
    for number in range(EVIDENCE_MAX + 2):
        box.add(a_bundle(f"e{number}"))
    disk.files["evidence-0000000003"] = b"{"

    after = EvidenceQueue(disk)
    found = after.oldest()

    assert found is not None
    assert found[1].note.id == "e3", "the damaged one is passed over"
    after.drop(found[0])
    after.add(a_bundle("new"))
    assert max(disk.files) == f"evidence-{EVIDENCE_MAX + 3:010d}"


@pytest.mark.parametrize("kind", ["memory", "folder"])
def test_the_archive_keeps_the_latest_bundles_of_each_node(kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        folder = FolderArchive(tmp_path / "evidence", InlineOffload())
        archive = MemoryArchive() if kind == "memory" else folder
        for number in range(ARCHIVED_MAX + 3):
            await archive.keep(
                received(a_bundle(f"e/{number}", at=NOW + timedelta(seconds=number)))
            )
        await archive.keep(received(a_bundle("e/22", at=NOW + timedelta(seconds=22))))
        await archive.keep(received(a_bundle("other", node="../n")))
        notes = await archive.list(NODE)
        assert [note.id for note in notes[:2]] == ["e/22", "e/21"]
        assert len(notes) == ARCHIVED_MAX
        assert (await archive.get(NODE, "e/21")).content == gzip.compress(b"{}")
        with pytest.raises(NotFoundError):
            await archive.get(NODE, "e/1")
        assert [note.id for note in await archive.list(NodeId("../n"))] == ["other"]
        assert await archive.list(NodeId("nobody")) == []

    asyncio.run(main())


@pytest.mark.parametrize(
    ("name", "kept"),
    [("e" * 200, True), ("e" * 201, False), ("é" * 33, True), ("é" * 34, False), ("", False)],
)
def test_a_bundle_is_refused_if_its_name_is_too_long_for_a_file(
    name: str, *, kept: bool, tmp_path: Path
) -> None:
    async def main() -> None:
        local = build_local_api()
        node = await local.register("é" * 42)
        service = the_service(local, FolderArchive(tmp_path, InlineOffload()))
        bundle = a_bundle(name, node=node)
        bundle = replace(bundle, note=replace(bundle.note, why="w" * 100_000))
        if not kept:
            with pytest.raises(InvalidError, match="unique name"):
                await service.report_evidence(bundle)
            return
        with acting_as(Caller(subject="agent")):
            await service.report_evidence(bundle)
        (note,) = await service.list_evidence(node)
        assert (note.id, len(note.why)) == (name, REASON_LENGTH.most)

    asyncio.run(main())


def test_the_control_plane_refuses_a_bundle_that_does_not_match_its_note() -> None:
    async def main() -> None:
        local = build_local_api()
        node = await local.register("gpu-1")
        service = the_service(local, MemoryArchive())
        with pytest.raises(NotFoundError):
            await service.report_evidence(a_bundle("e", node="stranger"))
        with pytest.raises(NotFoundError):
            await service.list_evidence(NodeId("stranger"))
        good = a_bundle("e", node=node)
        with acting_as(Caller(subject="agent")):
            await service.report_evidence(good)
            await service.report_evidence(good)
        assert [note.id for note in await service.list_evidence(node)] == ["e"]
        with pytest.raises(InvalidError):
            await service.report_evidence(replace(good, content=b"other"))
        bomb = gzip.compress(b"[]," * INFLATED_BYTES_MAX)
        note = replace(good.note, id="bomb", sha256=hashlib.sha256(bomb).hexdigest())
        with pytest.raises(InvalidError, match="larger than"):
            await service.report_evidence(Evidence(note=note, content=bomb))
        assert [note.id for note in await service.list_evidence(node)] == ["e"]

    asyncio.run(main())


def test_linux_facts_include_what_can_be_read(tmp_path: Path) -> None:
    device = tmp_path / "sys/bus/pci/devices/0000:03:00.0"
    device.mkdir(parents=True)
    (device / "vendor").write_text("0x10de\n")
    (device / "current_link_width").write_text("8\n")
    process = tmp_path / "proc/7"
    (process / "fd").mkdir(parents=True)
    (process / "comm").write_text("python\n")
    (process / "stat").write_text("7 (py) D 1 2")
    (process / "fd/3").symlink_to("/dev/nvidia0")
    (tmp_path / "proc/8/fd").mkdir(parents=True)

    facts = LinuxFacts(
        SimClock(), proc=tmp_path / "proc", sys=tmp_path / "sys", device=tmp_path / "kmsg"
    )

    assert facts.pcie() == {"0000:03:00.0": {"driver": "none", "current_link_width": "8"}}
    assert facts.processes() == [{"pid": "7", "name": "python", "state": "D"}]
    assert facts.kernel_log() == ()
    assert facts.versions()["kernel"]


def test_a_finding_that_recurs_later_gets_another_bundle() -> None:
    async def main() -> None:
        clock = SimClock()
        gpus = SimulatedGpus(clock, SeededEntropy("g"), count=1, seed="m")
        taker = EvidenceCollector(clock, SeededEntropy("e"), gpus, Facts(), boot_id="b")
        happened = CheckResult(check="xid/79", health=Health.UNHEALTHY, fatal=True, lasting=True)
        missing = CheckResult(check="count", health=Health.UNHEALTHY, reason="1 of 2 GPUs found")
        found = CheckResult(check="count", health=Health.HEALTHY)
        hot = CheckResult(check="thermal", health=Health.DEGRADED)
        assert taker.select([happened, missing, hot]) == [happened, missing]
        taker.collect(NODE, "x", [happened, missing])
        assert taker.select([happened, missing]) == []
        await clock.sleep(600)
        assert taker.select([happened, missing]) == [happened], "it is still missing: known"
        taker.select([found])
        assert taker.select([missing]) == [missing], "it went missing once more"

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(main())


def a_bundle(name: str, *, node: str = NODE, at: datetime = NOW) -> Evidence:
    content = gzip.compress(b"{}")
    note = EvidenceNote(
        id=name,
        node=NodeId(node),
        taken_at=at,
        why="a test",
        sha256=hashlib.sha256(content).hexdigest(),
        size_bytes=len(content),
    )
    return Evidence(note=note, content=content)
