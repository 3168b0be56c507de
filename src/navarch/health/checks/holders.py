"""Is a GPU held by somebody who no longer lives?"""

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
    """Finds processes that have ended and whose memory on the card was not given back.

    Their memory is missing to everybody else, and a reset is refused while they hold it.
    """

    name: str = "holders"
    interval: timedelta | None = None

    def run(self, view: MachineView) -> Iterator[CheckResult]:
        """Look at every GPU."""
        yield check_each_gpu(self.name, view, lambda gpu, facts: _find_issues(view, gpu, facts))


def _find_issues(view: MachineView, gpu: Gpu, facts: GpuHealth) -> Iterator[Issue]:
    if not facts.holders:
        return
    states = view.host.process_states(facts.holders)
    if states is None:
        return  # From inside a container everybody else looks dead.
    dead = [pid for pid in facts.holders if states.get(pid, "X") in DEAD]
    if dead:
        pids = ", ".join(map(str, dead))
        yield degraded(f"GPU {gpu.index} is held by a process that has ended: {pids}")
