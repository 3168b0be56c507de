"""Check for GPUs held by processes that have ended."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from navarch.core.health import CheckResult
from navarch.core.inventory import Gpu
from navarch.health.checks.issues import Issue, check_each_gpu, degraded
from navarch.ports.checks import MachineView
from navarch.ports.gpu import GpuHealth

DEAD = frozenset({"Z", "X"})


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldersCheck:
    """Finds ended processes with GPU memory that was not released.

    That memory is not available to other processes, and the driver refuses a reset while it is
    held.
    """

    name: str = "holders"
    interval: timedelta | None = None

    def run(self, view: MachineView) -> Iterator[CheckResult]:
        """Check every GPU."""
        yield check_each_gpu(self.name, view, lambda gpu, facts: _find_issues(view, gpu, facts))


def _find_issues(view: MachineView, gpu: Gpu, facts: GpuHealth) -> Iterator[Issue]:
    if not facts.holders:
        return
    states = view.host.process_states(facts.holders)
    if states is None:
        return  # Inside a container, processes of other namespaces would look dead.
    dead = [pid for pid in facts.holders if states.get(pid, "X") in DEAD]
    if dead:
        pids = ", ".join(map(str, dead))
        yield degraded(f"GPU {gpu.index} is held by a process that has ended: {pids}")
