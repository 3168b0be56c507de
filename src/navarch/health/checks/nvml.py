"""Check that every GPU is readable, not too hot, and free of uncorrected errors."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from navarch.core.health import CheckResult, Health
from navarch.core.inventory import Gpu
from navarch.health.checks.issues import Issue, combine, degraded, unhealthy
from navarch.ports.checks import MachineView
from navarch.ports.gpu import GpuError, GpuHealth, GpuLostError


@dataclass(frozen=True, slots=True, kw_only=True)
class NvmlCheck:
    """Reads every GPU once and returns one result, as bad as the worst GPU.

    This check reports a driver that fails or hangs; the other GPU checks then return UNKNOWN.
    """

    name: str = "gpu"
    interval: timedelta | None = timedelta(seconds=1)
    hot_c: float = 85.0
    too_hot_c: float = 95.0
    """The default for GPUs that report no slowdown threshold."""

    def run(self, view: MachineView) -> Iterator[CheckResult]:
        """Check every GPU."""
        try:
            gpus = view.gpus.list_gpus()
        except GpuError as error:
            yield CheckResult(check=self.name, health=Health.UNHEALTHY, reason=str(error))
            return
        yield combine(self.name, [issue for gpu in gpus for issue in self._check_gpu(view, gpu)])

    def _check_gpu(self, view: MachineView, gpu: Gpu) -> Iterator[Issue]:
        name = f"GPU {gpu.index}"
        try:
            facts = view.gpus.health(gpu)
        except GpuLostError as error:
            yield unhealthy(f"{name} is lost: {error}", fatal=True)
            return
        except GpuError as error:
            yield unhealthy(f"{name} cannot be read: {error}")
            return
        if facts.ecc_uncorrected:
            yield unhealthy(f"{name} has {facts.ecc_uncorrected} uncorrected memory errors")
        yield from self._check_heat(name, facts)

    def _check_heat(self, name: str, facts: GpuHealth) -> Iterator[Issue]:
        yield from _heat_issue(
            name,
            facts.temperature_c,
            hot_c=self.hot_c,
            too_hot_c=facts.slowdown_c or self.too_hot_c,
        )
        if facts.memory_max_c is not None:
            # Memory may run hotter than the chip, so it is compared with its own limit only.
            yield from _heat_issue(
                f"{name} memory",
                facts.memory_temperature_c,
                hot_c=facts.memory_max_c - 2.0,
                too_hot_c=facts.memory_max_c,
            )


def _heat_issue(
    name: str, heat_c: float | None, *, hot_c: float, too_hot_c: float
) -> Iterator[Issue]:
    if heat_c is None:
        return
    if heat_c >= too_hot_c:
        yield unhealthy(f"{name} is at {heat_c:.0f} °C, above its limit")
    elif heat_c >= hot_c:
        yield degraded(f"{name} is at {heat_c:.0f} °C")
