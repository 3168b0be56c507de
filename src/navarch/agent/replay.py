"""Replays a recording into the real agent, in real, scaled or virtual time."""

import asyncio
import selectors
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from datetime import datetime, timedelta
from typing import Any, TypeVar

import msgspec

from navarch.agent.agent import Agent
from navarch.agent.event_sources import EventSources
from navarch.agent.recording import Record, Recording
from navarch.agent.settings import Identity
from navarch.agent.spool.disk import MemoryDisk
from navarch.core.ids import NodeId
from navarch.core.instance import Gpu, GpuMetrics
from navarch.health.xid.line import parse_record
from navarch.ports.agents import Link
from navarch.ports.checks import HealthCheck
from navarch.ports.clock import Clock, Entropy
from navarch.ports.gpu import GpuError, GpuEvent, GpuHealth
from navarch.ports.host import Host, KernelRecord

T = TypeVar("T")

DRAIN_S = 5.0
"""How long the agent runs after the last record, to upload its reports."""

XID_EVENT = 0x8
"""The only NVML event type that is an error; clock events occur hundreds of times a minute."""


class InlineOffload:
    """An Offload that runs calls inline, since replayed readings never block."""

    async def run(self, call: Callable[[], T]) -> T:
        """Return the result of `call`."""
        return call()


class NullBookmark:
    """A Bookmark that stores nothing."""

    def load(self, boot_id: str) -> int:
        """Return the position before the first record."""
        del boot_id
        return -1

    def save(self, boot_id: str, sequence: int) -> None:
        """Do nothing."""


async def replay(
    clock: Clock,
    entropy: Entropy,
    recording: Recording,
    link: Link,
    host: Host,
    checks: Sequence[HealthCheck],
    *,
    node: NodeId,
) -> EventSources:
    """Run an agent on `recording`; return its event sources with their counts."""
    event_sources = EventSources(
        clock,
        ReplayedGpus(clock, recording),
        [ReplayedKernelLog(clock, recording)],
        bookmark=NullBookmark(),
        boot_id=recording.boot_id,
    )
    agent = Agent(
        clock,
        entropy,
        link,
        event_sources,
        host,
        MemoryDisk(),
        identity=Identity(node=node, boot_id=recording.boot_id),
        checks=checks,
        offload=InlineOffload(),
        probe_offload=InlineOffload(),
        sources=event_sources.sources,
    )
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(agent.run())
        await clock.sleep(recording.length.total_seconds() + DRAIN_S)
        agent.stop()
    return event_sources


class ReplayedGpus:
    """A GpuReader that returns each recorded reading from its time onwards."""

    def __init__(self, clock: Clock, recording: Recording) -> None:
        self._clock = clock
        self._recording = recording
        self._began = clock.monotonic()
        self._samples = recording.of("nvml")
        self._happened = [
            record for record in recording.of("nvml_event") if record.facts["type"] == XID_EVENT
        ]
        self._settled = 0

    def list_gpus(self) -> Sequence[Gpu]:
        """Return the recorded GPUs."""
        return self._recording.gpus

    def metrics(self, gpu: Gpu) -> GpuMetrics:
        """Return the latest metrics of a GPU."""
        facts = self._latest(gpu)
        if "metrics" in facts:
            return msgspec.convert(facts["metrics"], GpuMetrics)
        return GpuMetrics(
            temperature_c=float(facts.get("temp", 0.0)),
            power_w=facts.get("power_mw", 0) / 1000.0,
            utilization_pct=float(facts.get("util", [0])[0]),
            memory_used_bytes=float(facts.get("mem_used", 0)),
        )

    def health(self, gpu: Gpu) -> GpuHealth:
        """Return the latest health of a GPU."""
        facts = self._latest(gpu)
        if "trouble" in facts:
            raise GpuError(str(facts["trouble"]))
        return _health(facts["health"] if "health" in facts else _from_short_names(facts))

    def events(self) -> Sequence[GpuEvent]:
        """Return the unsettled XIDs up to now."""
        now = self._clock.now()
        return [
            GpuEvent(
                number=number,
                at=now - timedelta(seconds=max(0.0, self._t() - record.t)),
                gpu=self._uuid(int(record.facts.get("gpu", 0))),
                code=int(record.facts["data"]),
            )
            for number, record in enumerate(self._happened, start=1)
            if number > self._settled and record.t <= self._t()
        ]

    def settle(self, number: int) -> None:
        """Settle events up to `number`."""
        self._settled = max(self._settled, number)

    def close(self) -> None:
        """Do nothing."""

    def _t(self) -> float:
        return self._clock.monotonic() - self._began

    def _uuid(self, index: int) -> str:
        return next((gpu.uuid for gpu in self.list_gpus() if gpu.index == index), f"gpu-{index}")

    def _latest(self, gpu: Gpu) -> Mapping[str, Any]:
        own = [record for record in self._samples if record.facts.get("gpu", 0) == gpu.index]
        if not own:
            raise GpuError("the recording has no samples of this GPU")
        # Before the first reading, the first one is the best estimate.
        return next((r for r in reversed(own) if r.t <= self._t()), own[0]).facts


class ReplayedKernelLog:
    """A KernelLog that returns each record at its recorded time."""

    name = "kmsg"
    lost = 0

    def __init__(self, clock: Clock, recording: Recording) -> None:
        self._clock = clock
        self._began = clock.monotonic()
        self._waiting = recording.of("kmsg")

    def read(self) -> Sequence[KernelRecord]:
        """Return the records since the last call."""
        t = self._clock.monotonic() - self._began
        due = [record for record in self._waiting if record.t <= t]
        self._waiting = self._waiting[len(due) :]
        parsed = (self._parse(record, t) for record in due)
        return [record for record in parsed if record is not None]

    def fileno(self) -> int:
        """Return -1: there is no file to wait on."""
        return -1

    def close(self) -> None:
        """Do nothing."""

    def _parse(self, record: Record, t: float) -> KernelRecord | None:
        at = self._clock.now() - timedelta(seconds=max(0.0, t - record.t))
        return parse_record(str(record.facts["raw"]).encode(), now=at, uptime_s=None)


_KNOWN = {item.name for item in fields(GpuHealth)}


def _health(facts: Mapping[str, Any]) -> GpuHealth:
    """Return recorded health without the fields that this version does not have."""
    return msgspec.convert({k: v for k, v in facts.items() if k in _KNOWN}, GpuHealth)


def _from_short_names(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return a sample's short field names as the fields of GpuHealth."""
    remapped = facts.get("remap") or [None, None, None, None]
    pcie = facts.get("pcie") or [None, None, None]
    return {
        "temperature_c": facts.get("temp"),
        "power_w": facts["power_mw"] / 1000.0 if "power_mw" in facts else None,
        "utilization_pct": (facts.get("util") or [None])[0],
        "sm_clock_mhz": facts.get("sm_mhz"),
        "clock_reasons": facts.get("reasons"),
        "ecc_uncorrected": facts.get("ecc_unc"),
        "ecc_corrected": facts.get("ecc_cor"),
        "rows_remapped": remapped[1],
        "remap_pending": None if remapped[2] is None else bool(remapped[2]),
        "remap_failed": None if remapped[3] is None else bool(remapped[3]),
        "pcie_generation": pcie[0],
        "pcie_width": pcie[1],
        "pcie_replays": pcie[2],
    }


class ScaledTimeLoop(asyncio.SelectorEventLoop):
    """An event loop on which time passes `speed` times as fast.

    Every timer of the agent is a timer of its loop, so the agent needs no changes.
    """

    def __init__(self, speed: float) -> None:
        self._speed = speed
        self._born = time.monotonic()  # noqa: TID251 - this is what makes the clock
        super().__init__(_ScaledSelector(speed))

    def time(self) -> float:
        """Return the scaled time in seconds."""
        return (time.monotonic() - self._born) * self._speed  # noqa: TID251


class _ScaledSelector(selectors.DefaultSelector):
    def __init__(self, speed: float) -> None:
        super().__init__()
        self._timing = speed

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait for `timeout` in scaled time."""
        return super().select(None if timeout is None else timeout / self._timing)


class LoopClock:
    """A Clock that starts at `start` and follows the running loop's time."""

    def __init__(self, start: datetime) -> None:
        self._start = start
        self._began = asyncio.get_running_loop().time()

    def now(self) -> datetime:
        """Return the recorded wall time."""
        return self._start + timedelta(seconds=self.monotonic() - self._began)

    def monotonic(self) -> float:
        """Return the loop's seconds."""
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        """Sleep in the loop's time."""
        await asyncio.sleep(seconds)  # noqa: TID251
