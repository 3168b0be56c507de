"""Report the job and the speed of each busy GPU."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta

from navarch.core.health import CheckResult, Health
from navarch.core.instance import Gpu
from navarch.health.checks.issues import not_checked
from navarch.ports.checks import MachineView
from navarch.ports.gpu import GpuError, GpuHealth
from navarch.ports.host import HostError

WORK = "work/"
"""Prefix of the facts that describe a busy GPU; the GPU's UUID follows."""

BUSY_FROM_PCT = 50.0
"""Below this utilization a GPU is waiting, and its clock is not comparable."""

_JOB_MAX = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuWork:
    """The job of one GPU, and its speed."""

    gpu: str
    job: str
    clock_mhz: float
    power_w: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkCheck:
    """Reports the GPUs that work for a job. It is always healthy.

    The control plane compares them with the job's other GPUs to find stragglers.
    """

    name: str = "work"
    interval: timedelta | None = None

    def run(self, view: MachineView) -> Iterator[CheckResult]:
        """Report every GPU."""
        try:
            gpus = view.gpus.list_gpus()
        except GpuError as error:
            yield not_checked(self.name, error)
            return
        busy = {f"{WORK}{gpu.uuid}": words for gpu in gpus if (words := _work(view, gpu))}
        yield CheckResult(check=self.name, health=Health.HEALTHY, facts=busy)


def gpus_at_work(facts: Mapping[str, str]) -> Iterator[GpuWork]:
    """Yield each busy GPU in the facts of a result; malformed facts are skipped."""
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
    """Return a GPU's clock, power and job; empty if it is not busy with a single job."""
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
        return ""  # The speed of an unassigned or shared GPU depends on other work.
    job = "".join(letter if letter.isprintable() else "?" for letter in jobs.pop())[:_JOB_MAX]
    return f"{facts.sm_clock_mhz} {facts.power_w:.1f} {job}"
