"""A recorded machine that behaves as it did, on whatever clock it is given."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import timedelta
from typing import Any

import msgspec

from navarch.agent.recording.recording import Record, Recording
from navarch.core.inventory import Gpu
from navarch.core.metrics import GpuMetrics
from navarch.health.xid.line import parse_record
from navarch.ports.clock import Clock
from navarch.ports.gpu import GpuError, GpuEvent, GpuHealth
from navarch.ports.host import KernelRecord

XID_EVENT = 0x8
"""Of NVML's events only these are errors; clocks alone change hundreds of times a minute."""


class ReplayedGpus:
    """A GpuReader that shows each reading from the moment it was taken."""

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
        """Return the GPUs that the recording is of."""
        return self._recording.gpus

    def metrics(self, gpu: Gpu) -> GpuMetrics:
        """Return the latest readings of a GPU."""
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
        """Return what a GPU last said of its own condition."""
        facts = self._latest(gpu)
        if "trouble" in facts:
            raise GpuError(str(facts["trouble"]))
        return _health(facts["health"] if "health" in facts else _spelt_out(facts))

    def events(self) -> Sequence[GpuEvent]:
        """Return the XIDs up to now that are not settled."""
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
        """Forget events up to `number`."""
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
            raise GpuError("never read in this recording")
        # What comes before the first reading is best described by it.
        return next((r for r in reversed(own) if r.t <= self._t()), own[0]).facts


class ReplayedLog:
    """A KernelLog that shows each record from the moment it was read."""

    name = "kmsg"
    lost = 0

    def __init__(self, clock: Clock, recording: Recording) -> None:
        self._clock = clock
        self._began = clock.monotonic()
        self._waiting = recording.of("kmsg")

    def read(self) -> Sequence[KernelRecord]:
        """Return what has come in since the last call."""
        t = self._clock.monotonic() - self._began
        due = [record for record in self._waiting if record.t <= t]
        self._waiting = self._waiting[len(due) :]
        parsed = (self._parse(record, t) for record in due)
        return [record for record in parsed if record is not None]

    def fileno(self) -> int:
        """There is nothing to wait on."""
        return -1

    def close(self) -> None:
        """Do nothing."""

    def _parse(self, record: Record, t: float) -> KernelRecord | None:
        at = self._clock.now() - timedelta(seconds=max(0.0, t - record.t))
        return parse_record(str(record.facts["raw"]).encode(), now=at, uptime_s=None)


_KNOWN = {item.name for item in fields(GpuHealth)}


def _health(facts: Mapping[str, Any]) -> GpuHealth:
    """Return readings of whatever version of Navarch; what this one does not know is left out."""
    return msgspec.convert({k: v for k, v in facts.items() if k in _KNOWN}, GpuHealth)


def _spelt_out(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the readings of a sample in the short spelling, under our own names."""
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
