"""Does the driver drive every GPU that is in the machine?"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from navarch.core.health import CheckResult, Health
from navarch.ports.checks import MachineView
from navarch.ports.gpu import GpuError


@dataclass(frozen=True, slots=True, kw_only=True)
class CountCheck:
    """Compares the driver's count with the PCI bus, and with what the machine should have."""

    name: str = "count"
    interval: timedelta | None = None

    def run(self, view: MachineView) -> Iterator[CheckResult]:
        """Count."""
        try:
            driven = len(view.gpus.list_gpus())
        except GpuError as error:
            reason = f"not looked at: {error}"
            yield CheckResult(check=self.name, health=Health.UNKNOWN, reason=reason)
            return
        present = view.host.gpu_functions()
        wanted = view.gpus_expected
        if wanted is None and view.kind is not None:
            wanted = view.kind.gpus
        trouble = ""
        if wanted is not None and driven < wanted:
            trouble = f"{driven} of {wanted} GPUs found"
        # A container may see fewer functions than it may use; more is what counts.
        elif present is not None and driven < present:
            trouble = f"the driver drives {driven} of {present} GPUs on the PCI bus"
        health = Health.UNHEALTHY if trouble else Health.HEALTHY
        yield CheckResult(check=self.name, health=health, reason=trouble)
