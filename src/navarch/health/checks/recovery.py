"""Check the recovery action that the driver reports for each GPU."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from navarch.core.inventory import Gpu
from navarch.health.checks.issues import GpuCheck, Issue, degraded, unhealthy
from navarch.ports.checks import MachineView
from navarch.ports.gpu import GpuHealth

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
