"""Which job does each GPU work for, and how fast does it go?"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta

from navarch.core.health import CheckResult, Health
from navarch.core.inventory import Gpu
from navarch.ports.checks import MachineView
from navarch.ports.gpu import GpuError, GpuHealth
from navarch.ports.host import HostError

WORK = "work/"
"""How a fact begins that tells of a GPU at work; the GPU's UUID follows."""

BUSY_FROM_PCT = 50.0
"""A GPU that is used less than this waits for somebody, and its clock says nothing."""

_JOB_MAX = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuWork:
    """What one GPU does for a job."""

    gpu: str
    job: str
    clock_mhz: float
    power_w: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkCheck:
    """Tells of the GPUs that work for a job. It finds nothing wrong: it has nobody to compare with.

    Whether one falls behind its peers only shows where all of them are known, which is in the
    control plane.
    """

    name: str = "work"
    interval: timedelta | None = None

    def run(self, view: MachineView) -> Iterator[CheckResult]:
        """Look at every GPU."""
        try:
            gpus = view.gpus.list_gpus()
        except GpuError as error:
            reason = f"not looked at: {error}"
            yield CheckResult(check=self.name, health=Health.UNKNOWN, reason=reason)
            return
        told = {f"{WORK}{gpu.uuid}": words for gpu in gpus if (words := _work(view, gpu))}
        yield CheckResult(check=self.name, health=Health.HEALTHY, facts=told)


def gpus_at_work(facts: Mapping[str, str]) -> Iterator[GpuWork]:
    """Yield each GPU of whose work the facts of a result tell; nonsense is left out."""
    for name, words in facts.items():
        if not name.startswith(WORK):
            continue
        parts = words.split(maxsplit=2)
        if len(parts) != 3:
            continue
        try:
            clock_mhz, power_w = float(parts[0]), float(parts[1])
        except ValueError:
            continue
        if 0 < clock_mhz < 1e5 and 0 < power_w < 1e5:
            gpu = name.removeprefix(WORK)
            yield GpuWork(gpu=gpu, job=parts[2], clock_mhz=clock_mhz, power_w=power_w)


def _work(view: MachineView, gpu: Gpu) -> str:
    """Return how fast a GPU goes, and for which job; empty if it does not work for one."""
    try:
        facts: GpuHealth = view.gpus.health(gpu)
        if not facts.sm_clock_mhz or not facts.power_w:
            return ""
        if (facts.utilization_pct or 0.0) < BUSY_FROM_PCT:
            return ""
        jobs = {job for pid in facts.holders if (job := view.host.job_of(pid))}
    except (GpuError, HostError):
        return ""
    if len(jobs) != 1:
        return ""  # Nobody's, or shared: then its speed depends on the others.
    job = "".join(letter if letter.isprintable() else "?" for letter in jobs.pop())[:_JOB_MAX]
    return f"{facts.sm_clock_mhz} {facts.power_w:.1f} {job}"
