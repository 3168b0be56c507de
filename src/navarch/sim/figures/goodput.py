"""Goodput: the share of their time that jobs spend on work that is kept."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """One job at the end of the run."""

    name: str
    queue: str
    gpus: int
    """The GPUs of all its tasks."""
    submitted: datetime
    finished: datetime | None
    kept_s: float
    """Work that was done and kept."""
    lost_s: float = 0.0
    """Work that was lost with a machine and has to be repeated."""
    waited_s: float = 0.0
    overhead_s: float = 0.0
    """Time spent on starting and on checkpoints."""
    slowed_s: float = 0.0
    """Time lost to GPUs that were slower than their peers."""
    starts: int = 0
    interruptions: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Goodput:
    """The totals of all jobs, each weighted by its GPUs."""

    jobs: int = 0
    finished: int = 0
    interruptions: int = 0
    kept_gpu_hours: float = 0.0
    lost_gpu_hours: float = 0.0
    overhead_gpu_hours: float = 0.0
    slowed_gpu_hours: float = 0.0
    waited_gpu_hours: float = 0.0
    ettr: float | None = None
    """Effective training time ratio: work kept, divided by the time from submission to end."""


def goodput_of(jobs: Iterable[JobRecord], *, ended: datetime) -> Goodput:
    """Return the goodput of `jobs` until `ended`."""
    known = [job for job in jobs if job.submitted <= ended]
    spent = sum(
        ((job.finished or ended) - job.submitted).total_seconds() * job.gpus for job in known
    )
    kept = sum(job.kept_s * job.gpus for job in known)
    return Goodput(
        jobs=len(known),
        finished=sum(job.finished is not None for job in known),
        interruptions=sum(job.interruptions for job in known),
        kept_gpu_hours=round(kept / 3600, 6),
        lost_gpu_hours=round(sum(job.lost_s * job.gpus for job in known) / 3600, 6),
        overhead_gpu_hours=round(sum(job.overhead_s * job.gpus for job in known) / 3600, 6),
        slowed_gpu_hours=round(sum(job.slowed_s * job.gpus for job in known) / 3600, 6),
        waited_gpu_hours=round(sum(job.waited_s * job.gpus for job in known) / 3600, 6),
        ettr=round(kept / spent, 6) if spent else None,
    )
