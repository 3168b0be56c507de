"""Check the configuration of each GPU."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from navarch.core.health import CheckResult
from navarch.core.inventory import Gpu
from navarch.health.checks.issues import Issue, check_each_gpu, degraded
from navarch.ports.checks import MachineView
from navarch.ports.gpu import GpuHealth


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsCheck:
    """Expects ECC and persistence mode to be on.

    Without ECC, memory errors go unnoticed. Without persistence mode, every start of a program
    takes seconds and resets the GPU's error counters.
    """

    name: str = "settings"
    interval: timedelta | None = None

    def run(self, view: MachineView) -> Iterator[CheckResult]:
        """Check every GPU."""
        yield check_each_gpu(self.name, view, _find_issues)


def _find_issues(gpu: Gpu, facts: GpuHealth) -> Iterator[Issue]:
    name = f"GPU {gpu.index}"
    if facts.ecc_on is False:
        yield degraded(f"{name} has error correction off")
    if facts.ecc_on is not None and facts.ecc_on_next not in (None, facts.ecc_on):
        word = "on" if facts.ecc_on_next else "off"
        yield degraded(f"{name} will have error correction {word} after a restart")
    if facts.persistent is False:
        yield degraded(f"{name} has persistence mode off")
