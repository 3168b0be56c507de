"""The figures of one run."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from navarch.core.event import Recorded
from navarch.core.health import Health
from navarch.core.launch import Launch
from navarch.core.records import is_record, record_fields
from navarch.sim.figures.disturbances import count_disturbances
from navarch.sim.figures.reactions import DurationStats, measure_reactions
from navarch.sim.figures.timeline import GroundTruth, Timelines, read_timelines
from navarch.sim.figures.usage import GpuHours, Money, count_hours, count_money


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The behaviour of the control plane, measured from its journal and the bills."""

    injured: int = 0
    """Injected faults, including errors of programs that leave the machine sound."""
    recovered: int = 0
    detection: DurationStats = field(default_factory=DurationStats)
    cordon: DurationStats = field(default_factory=DurationStats)
    replacement: DurationStats = field(default_factory=DurationStats)
    undetected: int = 0
    false_cordons: int = 0
    """Sound nodes that automation acted on, except as planned."""
    sound_destroyed: int = 0
    """Nodes that automation removed, except as planned, although their hardware was sound."""
    planned_replacements: int = 0
    """Nodes replaced for their age, drift, price or maintenance."""
    leaks: int = 0
    """Bought machines that still run at the end without a node."""
    availability: float | None = None
    gpu_hours: GpuHours = field(default_factory=GpuHours)
    goodput: Goodput = field(default_factory=Goodput)
    money: Money = field(default_factory=Money)


def measure(
    journal: Sequence[Recorded],
    truth: GroundTruth,
    *,
    timelines: Timelines | None = None,
    launches: Sequence[Launch] = (),
    claimed: Collection[str] = (),
    jobs: Sequence[JobRecord] = (),
) -> Figures:
    """Return the figures of a run, given its journal, its ledger and the ground truth.

    `timelines` are those of the journal, if the caller has read them already.
    """
    timelines = read_timelines(journal) if timelines is None else timelines
    reactions = measure_reactions(timelines.nodes, truth)
    disturbances = count_disturbances(timelines.nodes, truth)
    hours = count_hours(timelines, truth)
    return Figures(
        injured=len(truth.faults),
        recovered=sum(
            fault.cleared_at is not None and fault.true_health is not Health.HEALTHY
            for fault in truth.faults
        ),
        detection=reactions.detection,
        cordon=reactions.cordon,
        replacement=reactions.replacement,
        undetected=reactions.undetected,
        false_cordons=disturbances.acted_on,
        sound_destroyed=disturbances.destroyed,
        planned_replacements=disturbances.planned,
        leaks=sum(
            lease.ended is None and lease.token != "" and lease.token not in claimed
            for lease in truth.leases
        ),
        availability=None if hours.availability is None else round(hours.availability, 6),
        gpu_hours=hours,
        goodput=goodput_of(jobs, ended=truth.ended),
        money=count_money(truth, launches, hours),
    )


def flatten(figures: object, prefix: str = "") -> dict[str, float | None]:
    """Return every figure by its dotted name: `detection.p95_s`."""
    found: dict[str, float | None] = {}
    for each in record_fields(figures):
        value = getattr(figures, each.name)
        if is_record(value):
            found |= flatten(value, f"{prefix}{each.name}.")
        else:
            found[f"{prefix}{each.name}"] = float(value) if isinstance(value, Decimal) else value
    return found


FIGURE_NAMES = tuple(flatten(Figures()))
"""The names under which assertions refer to figures."""
