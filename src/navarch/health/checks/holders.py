"""Check for GPUs held by processes that have ended."""

from collections.abc import Iterator
from dataclasses import dataclass

from navarch.core.inventory import Gpu
from navarch.health.checks.issues import GpuCheck, Issue, degraded
from navarch.ports.checks import MachineView
from navarch.ports.gpu import GpuHealth

DEAD = frozenset({"Z", "X"})


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
