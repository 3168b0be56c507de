"""Check after a boot that the hardware is complete and works."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from navarch.core.health import BOOT, CheckResult, Health
from navarch.core.instance import Gpu
from navarch.health.checks.links import COMPLETED
from navarch.ports.checks import MachineView, NotRunError, TestFailedError
from navarch.ports.gpu import GpuError, GpuHealth
from navarch.ports.host import HostError

MEMORY_SHARE = 0.9
"""The memory a GPU reports is a little below its nominal size: ECC uses some of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BootCheck:
    """Verifies the hardware after a boot; a node is ready only once this passes.

    The driver responds and matches its kernel module, every GPU is present with its memory and full
    PCIe width, links and fabric are up, and each GPU accepts a context, a write and a read. A
    machine without a working driver is reported as unhealthy, with the reason, and gets replaced. A
    fabric that is still being configured gives UNKNOWN, not a fault.
    """

    name: str = BOOT
    interval: timedelta | None = timedelta(0)

    def run(self, view: MachineView) -> Iterator[CheckResult]:
        """Check the machine as a whole, then each GPU."""
        try:
            gpus = view.gpus.list_gpus()
        except GpuError as error:
            reason = f"the GPU driver does not respond: {error}"
            yield CheckResult(check=self.name, health=Health.UNHEALTHY, reason=reason)
            return
        faults = [*_machine_faults(view, gpus)]
        waiting: list[str] = []
        for gpu in gpus:
            try:
                facts = view.gpus.health(gpu)
            except GpuError as error:
                faults.append(f"GPU {gpu.index} cannot be read: {error}")
                continue
            faults += [f"GPU {gpu.index} {words}" for words in _card_faults(view, gpu, facts)]
            if facts.fabric is not None and facts.fabric.state != COMPLETED:
                waiting.append(f"GPU {gpu.index} is waiting for the NVLink fabric")
        if not (faults or waiting):
            # Run this only if all else passed: it is slow, and would fail for the same reasons.
            faults += [words for gpu in gpus for words in _touch(view, gpu)]
        health = Health.UNKNOWN if waiting else Health.HEALTHY
        yield CheckResult(
            check=self.name,
            health=Health.UNHEALTHY if faults else health,
            reason="; ".join(faults or waiting),
        )


def expected_gpus(view: MachineView) -> int | None:
    """Return how many GPUs the machine should have; None if that is unknown."""
    if view.gpus_expected is None and view.kind is not None:
        return view.kind.gpus
    return view.gpus_expected


def _machine_faults(view: MachineView, gpus: Sequence[Gpu]) -> Iterator[str]:
    """Yield missing GPUs, and a driver library that does not match the loaded kernel module."""
    expected = expected_gpus(view)
    if expected is not None and len(gpus) != expected:
        yield f"{len(gpus)} of {expected} GPUs found"
    elif not gpus and expected != 0:
        yield "no GPUs found"
    try:
        module = view.host.gpu_module_version()
    except HostError:
        return
    versions = {gpu.driver_version for gpu in gpus}
    for version in sorted(versions - {"", module}):
        if module:
            yield f"the kernel module has version {module}, the driver library {version}"


def _card_faults(view: MachineView, gpu: Gpu, facts: GpuHealth) -> Iterator[str]:
    gib = gpu.memory_bytes / (1 << 30)
    if view.kind is not None and gpu.memory_bytes and gib < MEMORY_SHARE * view.kind.gpu_memory_gib:
        yield f"has {gib:.0f} GiB of memory instead of {view.kind.gpu_memory_gib:g}"
    if facts.pcie_width and facts.pcie_width_max and facts.pcie_width < facts.pcie_width_max:
        yield f"uses {facts.pcie_width} of {facts.pcie_width_max} PCIe lanes"
    if facts.remap_failed:
        yield "failed to remap a bad memory row"
    down = [str(link.index) for link in facts.nvlinks if not link.active]
    # If all links are down the machine does not use NVLink, such as one GPU of a larger board.
    if down and len(down) < len(facts.nvlinks):
        yield f"has NVLink {', '.join(down)} down"
    if facts.fabric is not None and facts.fabric.state == COMPLETED and facts.fabric.status:
        yield f"was rejected by the NVLink fabric (status {facts.fabric.status})"


def _touch(view: MachineView, gpu: Gpu) -> Iterator[str]:
    """Create a context, write and read back on one GPU.

    A GPU in use is skipped: it has accepted a context, and may not accept another.
    """
    if view.diagnostics is None or view.gpus.health(gpu).holders:
        return
    try:
        view.diagnostics.touch(gpu)
    except NotRunError:
        return
    except TestFailedError as error:
        yield f"GPU {gpu.index} does not work: {error}"
