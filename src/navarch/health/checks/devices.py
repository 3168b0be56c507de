"""Checks that every GPU is listed, readable, free, and needs no recovery."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from navarch.core.health import CheckResult, Health
from navarch.core.instance import Gpu
from navarch.health.checks.boot import expected_gpus
from navarch.health.checks.issues import GpuCheck, Issue, combine, degraded, not_checked, unhealthy
from navarch.ports.checks import MachineView
from navarch.ports.gpu import GpuError, GpuHealth, GpuLostError

DEAD = frozenset({"Z", "X"})
"""The states of a process that has ended."""
WORDS = {
    1: "a reset of the GPU",
    2: "a reboot",
    3: "an end of peer-to-peer work",
    4: "a drain and a GPU reset",
    5: "a restart of the IMEX service",
    6: "a reset of the bus",
    7: "a reboot",
}
"""Keyed by number: the driver's wording has changed between versions, the numbers have not."""
_KEEPS_WORKING = frozenset({3, 4, 5})


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


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldersCheck(GpuCheck):
    """Finds ended processes with GPU memory that was not released.

    That memory is not available to other processes, and the driver refuses a reset while it is
    held.
    """

    name: str = "holders"

    def _find_issues(self, view: MachineView, gpu: Gpu, health: GpuHealth) -> Iterator[Issue]:
        if not health.holders:
            return
        states = view.host.process_states(health.holders)
        if states is None:
            return  # Inside a container, processes of other namespaces would look dead.
        dead = [pid for pid in health.holders if states.get(pid, "X") in DEAD]
        if dead:
            pids = ", ".join(map(str, dead))
            yield degraded(f"GPU {gpu.index} is held by a process that has ended: {pids}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryCheck(GpuCheck):
    """Reports the driver's recovery action, even if no XID was seen."""

    name: str = "recovery"
    interval: timedelta | None = timedelta(seconds=1)

    def _find_issues(self, _view: MachineView, gpu: Gpu, health: GpuHealth) -> Iterator[Issue]:
        action = health.recovery_action
        if not action:
            return
        words = f"the driver requires {WORDS.get(action, f'action {action}')}"
        issue = degraded if action in _KEEPS_WORKING or action not in WORDS else unhealthy
        yield issue(f"GPU {gpu.index}: {words}")


def _find_heat(name: str, heat_c: float | None, hot_c: float, limit_c: float) -> Iterator[Issue]:
    if heat_c is None:
        return
    if heat_c >= limit_c:
        yield unhealthy(f"{name} is at {heat_c:.0f} °C, above its limit")
    elif heat_c >= hot_c:
        yield degraded(f"{name} is at {heat_c:.0f} °C")
