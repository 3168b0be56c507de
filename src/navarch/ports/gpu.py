"""The port for reading the GPUs of one machine."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from navarch.core.errors import NavarchError
from navarch.core.instance import Gpu, GpuMetrics


class GpuError(NavarchError):
    """The driver did not respond, or reported an error: a finding, not a reason to stop."""


class GpuLostError(GpuError):
    """The driver reports that the device is no longer present."""


class GpuHungError(GpuError):
    """The driver did not respond in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpareRows:
    """The number of memory banks by the spare rows they have left, from all to none."""

    full: int = 0
    high: int = 0
    partial: int = 0
    low: int = 0
    none: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NvLink:
    """One NVLink of one GPU. Counters are since the driver was loaded."""

    index: int
    active: bool
    replays: int = 0
    recoveries: int = 0
    crc_errors: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fabric:
    """A GPU's place in an NVSwitch fabric, in NVML's numbers."""

    state: int
    """1 not started, 2 in progress, 3 completed."""
    status: int = 0
    """The result of the configuration; 0 is success."""
    health_mask: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuHealth:
    """The condition of one GPU, as the driver reports it. None for what it does not report."""

    temperature_c: float | None = None
    slowdown_c: float | None = None
    """The temperature at which the card slows down."""
    shutdown_c: float | None = None
    memory_temperature_c: float | None = None
    memory_max_c: float | None = None
    margin_c: float | None = None
    """The difference to the temperature at which the card slows down, if the card reports it."""

    utilization_pct: float | None = None
    sm_clock_mhz: int | None = None
    clock_reasons: int | None = None
    """The reasons for the present clock frequencies, as NVML's bits."""
    thermal_slowdown_ns: int | None = None
    """The time of thermal slowdown by hardware since the driver was loaded."""
    software_slowdown_ns: int | None = None
    """The time of thermal slowdown by the driver."""
    power_brake_ns: int | None = None
    """The time of slowdown by the power supply of the machine."""
    power_w: float | None = None
    power_limit_w: float | None = None
    power_default_w: float | None = None
    """The default power limit of the card."""

    ecc_uncorrected: int | None = None
    """Since the driver was loaded."""
    ecc_corrected: int | None = None
    ecc_uncorrected_ever: int | None = None
    """Over the life of the card."""
    ecc_corrected_ever: int | None = None
    ecc_on: bool | None = None
    ecc_on_next: bool | None = None
    """Whether ECC is on after the next restart."""
    sram_worn: bool | None = None
    """Whether SRAM errors have passed the threshold of the manufacturer."""
    rows_remapped: int | None = None
    """Because of uncorrectable errors."""
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    spare_rows: SpareRows | None = None
    pages_retired: int | None = None
    """Bad pages out of use, on cards without spare rows."""
    pages_pending: bool | None = None

    pcie_generation: int | None = None
    pcie_generation_max: int | None = None
    pcie_width: int | None = None
    pcie_width_max: int | None = None
    pcie_replays: int | None = None
    nvlinks: tuple[NvLink, ...] = ()
    fabric: Fabric | None = None

    persistent: bool | None = None
    """Whether the driver stays loaded while the card is idle."""
    recovery_action: int | None = None
    """The recovery action that the driver requires, as a number; 0 is none."""
    holders: tuple[int, ...] = ()
    """The processes that compute on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuEvent:
    """Something that happened on a GPU, once: an XID."""

    number: int
    """Counts up within one reader; see `GpuReader.settle`."""
    at: datetime
    gpu: str
    """The UUID of the GPU, or another identifier that its source reports."""
    code: int
    text: str = ""
    pid: int | None = None
    """The affected process, if the driver reports it."""
    process: str = ""
    pci: str = ""
    sources: tuple[str, ...] = ()
    """The sources that reported it, such as the kernel log and NVML."""


class GpuReader(Protocol):
    """Reads the GPUs of one machine. Calls block, and raise only GpuError.

    Events stay until they are settled, so an agent that dies between reading an event and storing
    it reads the event again.
    """

    def list_gpus(self) -> Sequence[Gpu]:
        """Return every GPU of the driver, possibly none; a missing driver is an error."""

    def metrics(self, gpu: Gpu) -> GpuMetrics:
        """Return the present metrics of a GPU."""

    def health(self, gpu: Gpu) -> GpuHealth:
        """Return the condition of a GPU."""

    def events(self) -> Sequence[GpuEvent]:
        """Return the events that are not settled yet, oldest first."""

    def settle(self, number: int) -> None:
        """Drop events up to `number`, which are stored elsewhere by now."""

    def close(self) -> None:
        """Release the driver."""
