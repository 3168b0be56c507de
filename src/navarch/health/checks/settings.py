"""Check the configuration of each GPU."""

from collections.abc import Iterator
from dataclasses import dataclass

from navarch.core.inventory import Gpu
from navarch.health.checks.issues import GpuCheck, Issue, degraded
from navarch.ports.checks import MachineView
from navarch.ports.gpu import GpuHealth


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsCheck(GpuCheck):
    """Expects ECC and persistence mode to be on.

    Without ECC, memory errors go unnoticed. Without persistence mode, every start of a program
    takes seconds and resets the GPU's error counters.
    """

    name: str = "settings"

    def _find_issues(self, _view: MachineView, gpu: Gpu, health: GpuHealth) -> Iterator[Issue]:
        name = f"GPU {gpu.index}"
        if health.ecc_on is False:
            yield degraded(f"{name} has error correction off")
        if health.ecc_on is not None and health.ecc_on_next not in (None, health.ecc_on):
            word = "on" if health.ecc_on_next else "off"
            yield degraded(f"{name} will have error correction {word} after a restart")
        if health.persistent is False:
            yield degraded(f"{name} has persistence mode off")
