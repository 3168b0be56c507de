"""Check that the driver lists every GPU in the machine."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from navarch.core.health import CheckResult, Health
from navarch.health.checks.boot import expected_gpus
from navarch.health.checks.issues import not_checked
from navarch.ports.checks import MachineView
from navarch.ports.gpu import GpuError


@dataclass(frozen=True, slots=True, kw_only=True)
class CountCheck:
    """Compares the driver's GPU count with the PCI bus and with the expected count."""

    name: str = "count"
    interval: timedelta | None = None

    def run(self, view: MachineView) -> Iterator[CheckResult]:
        """Count the GPUs."""
        try:
            listed = len(view.gpus.list_gpus())
        except GpuError as error:
            yield not_checked(self.name, error)
            return
        present = view.host.gpu_functions()
        wanted = expected_gpus(view)
        fault = ""
        if wanted is not None and listed < wanted:
            fault = f"{listed} of {wanted} GPUs found"
        # A container may see fewer PCI functions than it may use, so only a surplus counts.
        elif present is not None and listed < present:
            fault = f"the driver lists {listed} of {present} GPUs on the PCI bus"
        health = Health.UNHEALTHY if fault else Health.HEALTHY
        yield CheckResult(check=self.name, health=health, reason=fault)
