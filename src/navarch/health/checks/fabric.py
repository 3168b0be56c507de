"""Check the state of the NVSwitch fabric, as each GPU sees it."""

from collections.abc import Iterator
from dataclasses import dataclass

from navarch.core.inventory import Gpu
from navarch.health.checks.issues import GpuCheck, Issue, degraded, unhealthy
from navarch.ports.checks import MachineView
from navarch.ports.gpu import GpuHealth

COMPLETED = 3
_YES = 1

_FLAGS = (
    # Two bits each: 0 not reported, 1 yes, 2 no.
    (0, "has degraded bandwidth", False),
    (2, "is being routed around a fault", False),
    (4, "has an unhealthy route", True),
    (6, "is recovering from an access that timed out", False),
)
_CONFIGURATION_SHIFT, _CONFIGURATION_MASK, _RIGHT = 8, 0xF, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricCheck(GpuCheck):
    """Decodes the fabric's state and health mask. A fabric that is still starting is skipped."""

    name: str = "fabric"

    def _find_issues(self, _view: MachineView, gpu: Gpu, health: GpuHealth) -> Iterator[Issue]:
        fabric, name = health.fabric, f"GPU {gpu.index}"
        if fabric is None or fabric.state != COMPLETED:
            return
        if fabric.status:
            yield unhealthy(f"{name} was rejected by the NVLink fabric (status {fabric.status})")
        for shift, words, bad in _FLAGS:
            if fabric.health_mask >> shift & 0b11 == _YES:
                yield (unhealthy if bad else degraded)(f"{name} {words} in the NVLink fabric")
        configuration = fabric.health_mask >> _CONFIGURATION_SHIFT & _CONFIGURATION_MASK
        if configuration > _RIGHT:
            yield unhealthy(
                f"{name} is configured wrongly in the NVLink fabric (kind {configuration})"
            )
