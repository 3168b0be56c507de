"""Can every GPU be read, and is none too hot?"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from navarch.core.health import CheckResult, Health
from navarch.core.inventory import Gpu
from navarch.ports.checks import MachineView
from navarch.ports.gpu import GpuError, GpuHealth, GpuLostError

_RANK = {Health.HEALTHY: 0, Health.DEGRADED: 1, Health.UNHEALTHY: 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuCheck:
    """Reads every GPU once. One result for all of them, as bad as the worst."""

    name: str = "gpu"
    interval: timedelta | None = None
    hot_c: float = 85.0
    too_hot_c: float = 95.0
    """Where the card does not name a threshold of its own."""

    def run(self, view: MachineView) -> Iterator[CheckResult]:
        """Look at every GPU."""
        try:
            gpus = view.gpus.list_gpus()
        except GpuError as error:
            yield CheckResult(check=self.name, health=Health.UNHEALTHY, reason=str(error))
            return
        opinions = [self._look(view, gpu) for gpu in gpus]
        worst = max((health for health, _, _ in opinions), key=_RANK.__getitem__, default=None)
        yield CheckResult(
            check=self.name,
            health=worst or Health.HEALTHY,
            reason="; ".join(reason for _, reason, _ in opinions if reason),
            fatal=any(fatal for _, _, fatal in opinions),
        )

    def _look(self, view: MachineView, gpu: Gpu) -> tuple[Health, str, bool]:
        name = f"GPU {gpu.index}"
        try:
            facts = view.gpus.health(gpu)
        except GpuLostError as error:
            return Health.UNHEALTHY, f"{name} is lost: {error}", True
        except GpuError as error:
            return Health.UNHEALTHY, f"{name} cannot be read: {error}", False
        if facts.ecc_uncorrected:
            errors = f"{facts.ecc_uncorrected} uncorrected memory errors"
            return Health.UNHEALTHY, f"{name} has {errors}", False
        return self._feel(name, facts)

    def _feel(self, name: str, facts: GpuHealth) -> tuple[Health, str, bool]:
        heat = facts.temperature_c
        if heat is None:
            return Health.HEALTHY, "", False
        if heat >= (facts.slowdown_c or self.too_hot_c):
            return Health.UNHEALTHY, f"{name} is at {heat:.0f} °C, too hot to work", False
        if heat >= self.hot_c:
            return Health.DEGRADED, f"{name} is at {heat:.0f} °C", False
        return Health.HEALTHY, "", False
