"""Is the hardware there at all?"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from navarch.core.health import BOOT, CheckResult, Health
from navarch.ports.checks import MachineView
from navarch.ports.gpu import GpuError


@dataclass(frozen=True, slots=True, kw_only=True)
class BootCheck:
    """Vouches for the hardware after a start: the driver answers and shows every GPU.

    A machine without a driver is not a machine without work for us: it says why it is of no
    use, and is replaced.
    """

    name: str = BOOT
    interval: timedelta | None = timedelta(0)

    def run(self, view: MachineView) -> Iterator[CheckResult]:
        """Count the GPUs."""
        trouble = _trouble(view)
        health = Health.UNHEALTHY if trouble else Health.HEALTHY
        yield CheckResult(check=self.name, health=health, reason=trouble)


def _trouble(view: MachineView) -> str:
    try:
        count = len(view.gpus.list_gpus())
    except GpuError as error:
        return f"the GPU driver does not answer: {error}"
    expected = view.gpus_expected
    if expected is not None and count != expected:
        return f"{count} of {expected} GPUs found"
    return "" if count or expected == 0 else "no GPUs found"
