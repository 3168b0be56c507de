"""Is the hardware there, all of it, and does it work at all?"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from navarch.core.health import BOOT, CheckResult, Health
from navarch.core.inventory import Gpu
from navarch.ports.checks import MachineView
from navarch.ports.diagnostics import NotRunError, TestFailedError
from navarch.ports.gpu import GpuError, GpuHealth
from navarch.ports.host import HostError

MEMORY_SHARE = 0.9
"""A card shows a little less memory than it is sold with: its error correction takes some."""

_FABRIC_COMPLETED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class BootCheck:
    """Vouches for the hardware after a start: a machine that is active is not yet ready.

    The driver answers and is one piece, every GPU is there with its memory and its full width
    of PCIe, links and fabric are up, and each GPU takes a context, a write and a read. A machine
    without a driver is not a machine without work for us: it says why it is of no use, and is
    replaced. A fabric that is still being configured is waited for, and is no fault.
    """

    name: str = BOOT
    interval: timedelta | None = timedelta(0)

    def run(self, view: MachineView) -> Iterator[CheckResult]:
        """Look at the machine as a whole, then at each GPU."""
        try:
            gpus = view.gpus.list_gpus()
        except GpuError as error:
            yield self._failed(f"the GPU driver does not answer: {error}")
            return
        troubles = [*_count(view, gpus), *_versions(view, gpus)]
        waits: list[str] = []
        for gpu in gpus:
            try:
                facts = view.gpus.health(gpu)
            except GpuError as error:
                troubles.append(f"GPU {gpu.index} cannot be read: {error}")
                continue
            troubles += [f"GPU {gpu.index} {words}" for words in _card(view, gpu, facts)]
            waits += _still_starting(gpu, facts)
        if not (troubles or waits):
            # Only now: whatever is wrong already would be wrong here too, and take longer.
            troubles += [words for gpu in gpus for words in _touch(view, gpu)]
        if troubles:
            yield self._failed("; ".join(troubles))
        elif waits:
            yield CheckResult(check=self.name, health=Health.UNKNOWN, reason="; ".join(waits))
        else:
            yield CheckResult(check=self.name, health=Health.HEALTHY)

    def _failed(self, reason: str) -> CheckResult:
        return CheckResult(check=self.name, health=Health.UNHEALTHY, reason=reason)


def _count(view: MachineView, gpus: Sequence[Gpu]) -> Iterator[str]:
    found = len(gpus)
    expected = view.gpus_expected
    if expected is None and view.kind is not None:
        expected = view.kind.gpus
    if expected is not None and found != expected:
        yield f"{found} of {expected} GPUs found"
    elif not found and expected != 0:
        yield "no GPUs found"


def _versions(view: MachineView, gpus: Sequence[Gpu]) -> Iterator[str]:
    """Compare what is loaded into the kernel with what answers for it."""
    try:
        module = view.host.gpu_module_version()
    except HostError:
        return
    said = {gpu.driver_version for gpu in gpus}
    for version in sorted(said - {"", module}):
        if module:
            yield f"the kernel has driver {module}, its library says {version}"


def _card(view: MachineView, gpu: Gpu, facts: GpuHealth) -> Iterator[str]:
    gib = gpu.memory_bytes / (1 << 30)
    if view.kind is not None and gpu.memory_bytes and gib < MEMORY_SHARE * view.kind.gpu_memory_gib:
        yield f"has {gib:.0f} GiB of memory instead of {view.kind.gpu_memory_gib:g}"
    if facts.pcie_width and facts.pcie_width_max and facts.pcie_width < facts.pcie_width_max:
        yield f"uses {facts.pcie_width} of {facts.pcie_width_max} PCIe lanes"
    if facts.remap_failed:
        yield "has memory rows that could not be replaced"
    down = [str(link.index) for link in facts.nvlinks if not link.active]
    # A machine whose links are all down does not use them: a single GPU of a larger board, say.
    if down and len(down) < len(facts.nvlinks):
        yield f"has NVLink {', '.join(down)} down"
    if facts.fabric is not None and facts.fabric.state == _FABRIC_COMPLETED and facts.fabric.status:
        yield f"was refused by the NVLink fabric (status {facts.fabric.status})"


def _still_starting(gpu: Gpu, facts: GpuHealth) -> Iterator[str]:
    if facts.fabric is not None and facts.fabric.state != _FABRIC_COMPLETED:
        yield f"GPU {gpu.index} waits for the NVLink fabric"


def _touch(view: MachineView, gpu: Gpu) -> Iterator[str]:
    """Make a context, write and read; where that is impossible, leave it to what was read.

    A GPU that somebody computes on has proved that it takes contexts, and may take no other.
    """
    if view.diagnostics is None or view.gpus.health(gpu).holders:
        return
    try:
        view.diagnostics.touch(gpu)
    except NotRunError:
        return
    except TestFailedError as error:
        yield f"GPU {gpu.index} does not work: {error}"
