"""The GPUs of one machine, and what can be learnt from them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from navarch.core.errors import NavarchError
from navarch.core.inventory import Gpu
from navarch.core.metrics import GpuMetrics


class GpuError(NavarchError):
    """The driver did not answer, or said no: that is a finding, not a reason to stop."""


class GpuLostError(GpuError):
    """The driver says that the device is no longer there."""


class GpuHungError(GpuError):
    """The driver was asked and did not answer in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpareRows:
    """How many memory banks have how many spare rows left. Wear moves banks to the right."""

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
    """How the configuration ended; 0 is well."""
    health_mask: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuHealth:
    """What one GPU says of its own condition. None is what it cannot tell."""

    temperature_c: float | None = None
    slowdown_c: float | None = None
    """The card's own threshold, past which it slows itself down."""
    shutdown_c: float | None = None
    memory_temperature_c: float | None = None
    memory_max_c: float | None = None
    margin_c: float | None = None
    """How much hotter it may get before it slows itself down, where the card says so."""

    utilization_pct: float | None = None
    sm_clock_mhz: int | None = None
    clock_reasons: int | None = None
    """Why the clocks are where they are: NVML's bits."""
    thermal_slowdown_ns: int | None = None
    """For how long heat has slowed the card by hardware, since the driver was loaded."""
    software_slowdown_ns: int | None = None
    """For how long the driver has slowed it because of heat."""
    power_brake_ns: int | None = None
    """For how long the machine's power supply has braked it."""
    power_w: float | None = None
    power_limit_w: float | None = None
    power_default_w: float | None = None
    """The limit the card is made for."""

    ecc_uncorrected: int | None = None
    """Since the driver was loaded."""
    ecc_corrected: int | None = None
    ecc_uncorrected_ever: int | None = None
    """Over the life of the card."""
    ecc_corrected_ever: int | None = None
    ecc_on: bool | None = None
    ecc_on_next: bool | None = None
    """Whether it will be on after the next restart."""
    sram_worn: bool | None = None
    """Whether errors in the card's static memory have passed its maker's threshold."""
    rows_remapped: int | None = None
    """Because of errors that could not be corrected."""
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    spare_rows: SpareRows | None = None
    pages_retired: int | None = None
    """Before there were spare rows, bad pages were taken out of use."""
    pages_pending: bool | None = None

    pcie_generation: int | None = None
    pcie_generation_max: int | None = None
    pcie_width: int | None = None
    pcie_width_max: int | None = None
    pcie_replays: int | None = None
    nvlinks: tuple[NvLink, ...] = ()
    fabric: Fabric | None = None

    persistent: bool | None = None
    """Whether the driver stays loaded while nobody uses the card."""
    recovery_action: int | None = None
    """What the driver says must be done, as a number; 0 is nothing."""
    holders: tuple[int, ...] = ()
    """The processes that compute on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuEvent:
    """Something that happened on a GPU, once: an XID."""

    number: int
    """Counts up within one reader; see `GpuReader.settle`."""
    at: datetime
    gpu: str
    """The GPU's uuid, or whatever else its source knows it by."""
    code: int
    text: str = ""
    pid: int | None = None
    """The process it happened to, where the driver says."""
    process: str = ""
    pci: str = ""
    sources: tuple[str, ...] = ()
    """Who saw it, such as the kernel's log and NVML."""


class GpuReader(Protocol):
    """Reads the GPUs of one machine. Calls block, and raise only GpuError.

    Events stay until they are settled, so that an agent that dies between seeing one and
    writing it down sees it again.
    """

    def list_gpus(self) -> Sequence[Gpu]:
        """Return every GPU the driver knows; none is an answer, no driver is an error."""
        ...

    def metrics(self, gpu: Gpu) -> GpuMetrics:
        """Return what a GPU is doing."""
        ...

    def health(self, gpu: Gpu) -> GpuHealth:
        """Return what a GPU says of its own condition."""
        ...

    def events(self) -> Sequence[GpuEvent]:
        """Return what has happened and is not settled yet, oldest first."""
        ...

    def settle(self, number: int) -> None:
        """Forget events up to `number`: they are safely written down elsewhere."""
        ...

    def close(self) -> None:
        """Let go of the driver."""
        ...
