"""Check that every GPU is readable, not too hot, and free of uncorrected errors."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from navarch.core.health import CheckResult, Health
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
        issues: list[Issue] = []
        for gpu in gpus:
            name = f"GPU {gpu.index}"
            try:
                issues += self._find_issues(name, view.gpus.health(gpu))
            except GpuLostError as error:
                issues.append(unhealthy(f"{name} is lost: {error}", fatal=True))
            except GpuError as error:
                issues.append(unhealthy(f"{name} cannot be read: {error}"))
        yield combine(self.name, issues)

    def _find_issues(self, name: str, health: GpuHealth) -> Iterator[Issue]:
        if health.ecc_uncorrected:
            yield unhealthy(f"{name} has {health.ecc_uncorrected} uncorrected memory errors")
        limit_c = health.slowdown_c or self.too_hot_c
        yield from _find_heat(name, health.temperature_c, self.hot_c, limit_c)
        if health.memory_max_c is not None:
            # Memory may run hotter than the chip, so it is compared with its own limit only.
            limit_c = health.memory_max_c
            yield from _find_heat(
                f"{name} memory", health.memory_temperature_c, limit_c - 2.0, limit_c
            )


def _find_heat(name: str, heat_c: float | None, hot_c: float, limit_c: float) -> Iterator[Issue]:
    if heat_c is None:
        return
    if heat_c >= limit_c:
        yield unhealthy(f"{name} is at {heat_c:.0f} °C, above its limit")
    elif heat_c >= hot_c:
        yield degraded(f"{name} is at {heat_c:.0f} °C")
