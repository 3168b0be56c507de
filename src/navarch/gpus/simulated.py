"""Simulated GPUs with faults on request."""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from navarch.core.instance import Gpu, GpuMetrics
from navarch.ports.clock import Clock, Entropy
from navarch.ports.gpu import GpuError, GpuEvent, GpuHealth, GpuLostError, SpareRows

MEMORY_BYTES = 80 * 1024**3
MODEL = "NVIDIA H100 80GB HBM3"
SLOWDOWN_C = 92.0
LOG_LINES_MAX = 200
_LINK = {
    "driver": "nvidia",
    "current_link_speed": "32.0 GT/s PCIe",
    "current_link_width": "16",
    "max_link_speed": "32.0 GT/s PCIe",
    "max_link_width": "16",
}
_LINK_LOST = _LINK | {"current_link_speed": "Unknown", "current_link_width": "63"}
"""What Linux reads from a device that no longer responds: all bits set."""


class _Work(NamedTuple):
    pid: int
    clock_mhz: int
    power_w: float


class SimulatedGpus:
    """The GPUs of one simulated machine.

    Faults last until cleared; XIDs happen once.
    """

    def __init__(
        self, clock: Clock, entropy: Entropy, *, count: int, seed: str, model: str = MODEL
    ) -> None:
        self._clock = clock
        self._entropy = entropy
        self._gpus = tuple(
            Gpu(
                index=index,
                uuid=f"GPU-{seed}-{index}",
                name=model,
                pci_bus_id=f"00000000:{index + 1:02X}:00.0",
                memory_bytes=MEMORY_BYTES,
                driver_version="simulated",
            )
            for index in range(count)
        )
        self._events: list[GpuEvent] = []
        self._happened = 0
        self._log: deque[str] = deque(maxlen=LOG_LINES_MAX)
        self._lost: set[int] = set()
        self._absent: set[int] = set()
        self._heat: dict[int, float] = {}
        self._ecc: dict[int, int] = {}
        self._driver_trouble = ""
        self._worn: dict[int, SpareRows] = {}
        self._work: dict[int, _Work] = {}

    @property
    def count(self) -> int:
        """The number of GPUs, including lost and removed ones."""
        return len(self._gpus)

    # Faults

    def xid(
        self,
        code: int,
        *,
        index: int = 0,
        text: str = "",
        pid: int | None = None,
        process: str = "",
    ) -> None:
        """Raise an XID. 79 also takes the GPU off the bus."""
        self._happened += 1
        event = GpuEvent(
            number=self._happened,
            at=self._clock.now(),
            gpu=self._gpus[index].uuid,
            code=code,
            text=text,
            pid=pid,
            process=process,
            pci=self._gpus[index].pci_bus_id,
        )
        self._events = [*self._events, event]
        self._log.append(_kernel_record(event, uptime_s=self._clock.monotonic()))
        if code == 79:
            self.lose(index)

    def heat(self, temperature_c: float, *, index: int = 0) -> None:
        """Set a GPU's temperature."""
        self._heat[index] = temperature_c

    def corrupt(self, errors: int, *, index: int = 0) -> None:
        """Give a GPU uncorrected memory errors."""
        self._ecc[index] = errors

    def wear(self, rows: SpareRows, *, index: int = 0) -> None:
        """Set the spare memory rows of a GPU. `repair` does not reset them."""
        self._worn[index] = rows

    def work(self, pid: int, *, clock_mhz: int, power_w: float, index: int = 0) -> None:
        """Make a process keep a GPU busy."""
        self._work[index] = _Work(pid, clock_mhz, power_w)

    def lose(self, index: int = 0) -> None:
        """Take a GPU off the bus: the driver still lists it, but cannot reach it."""
        self._lost.add(index)

    def remove(self, index: int = 0) -> None:
        """Remove a GPU from the driver's list."""
        self._absent.add(index)

    def break_driver(self, trouble: str = "Driver/library version mismatch") -> None:
        """Make every driver call fail."""
        self._driver_trouble = trouble

    def repair(self) -> None:
        """Clear every fault. XIDs that were raised remain."""
        self._lost.clear()
        self._absent.clear()
        self._heat.clear()
        self._ecc.clear()
        self._driver_trouble = ""

    # Reading

    def list_gpus(self) -> Sequence[Gpu]:
        """Return the GPUs that were not removed."""
        self._ask_driver()
        return [gpu for gpu in self._gpus if gpu.index not in self._absent]

    def metrics(self, gpu: Gpu) -> GpuMetrics:
        """Return the metrics of a GPU at light load."""
        self._ask(gpu)
        load = self._entropy.uniform(0.0, 100.0)
        return GpuMetrics(
            temperature_c=self._temperature(gpu),
            power_w=100.0 + 5.0 * load,
            utilization_pct=load,
            memory_used_bytes=float(int(MEMORY_BYTES * load / 125.0)),
        )

    def health(self, gpu: Gpu) -> GpuHealth:
        """Return the health readings of a GPU."""
        self._ask(gpu)
        work = self._work.get(gpu.index)
        return GpuHealth(
            temperature_c=self._temperature(gpu),
            slowdown_c=SLOWDOWN_C,
            ecc_uncorrected=self._ecc.get(gpu.index, 0),
            spare_rows=self._worn.get(gpu.index),
            utilization_pct=99.0 if work else None,
            sm_clock_mhz=work.clock_mhz if work else None,
            power_w=work.power_w if work else None,
            holders=(work.pid,) if work else (),
        )

    def events(self) -> Sequence[GpuEvent]:
        """Return the XIDs; the kernel log is readable even without a driver."""
        return self._events

    def kernel_log(self) -> Sequence[str]:
        """Return the records that the driver would have written to the kernel log."""
        return tuple(self._log)

    def on_bus(self) -> Mapping[str, Mapping[str, str]]:
        """Return the PCIe state of each GPU; one that fell off the bus has no link."""
        return {
            gpu.pci_bus_id[4:].lower(): _LINK_LOST if gpu.index in self._lost else _LINK
            for gpu in self._gpus
            if gpu.index not in self._absent
        }

    def settle(self, number: int) -> None:
        """Forget events up to `number`."""
        self._events = [event for event in self._events if event.number > number]

    def close(self) -> None:
        """Do nothing."""

    def _ask(self, gpu: Gpu) -> None:
        self._ask_driver()
        if gpu.index in self._lost:
            raise GpuLostError("GPU is lost")

    def _ask_driver(self) -> None:
        if self._driver_trouble:
            raise GpuError(self._driver_trouble)

    def _temperature(self, gpu: Gpu) -> float:
        return self._heat.get(gpu.index, self._entropy.uniform(38.0, 62.0))


def _kernel_record(event: GpuEvent, *, uptime_s: float) -> str:
    """Return an event as `/dev/kmsg` shows it: level, number, microseconds, text."""
    pid = "'<unknown>'" if event.pid is None else event.pid
    text = f", {event.text}" if event.text else ""
    return (
        f"4,{event.number},{int(uptime_s * 1e6)},-;NVRM: Xid (PCI:{event.pci[4:14].lower()}): "
        f"{event.code}, pid={pid}, name={event.process or '<unknown>'}{text}"
    )
