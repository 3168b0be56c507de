"""The figures of one run."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from navarch.core.event import Recorded
from navarch.core.health import Health
from navarch.core.launch import Launch
from navarch.core.records import is_record, record_fields
from navarch.sim.figures.disturbances import count_disturbances
from navarch.sim.figures.interruptions import Interruption, best_ettr, faults_by_job
from navarch.sim.figures.reactions import DurationStats, measure_reactions
from navarch.sim.figures.timeline import GroundTruth, InjectedFault, Timelines, read_timelines
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
    restart_s: float = 0.0
    """The time between a start and its first work."""
    checkpoint_every_s: float = 0.0
    """The work between two checkpoints; 0 without checkpoints."""
    checkpoint_takes_s: float = 0.0


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
    ettr_bound: float | None = None
    """The ratio that perfect reactions to the same faults would leave; of jobs with checkpoints."""
    interruptions_per_fault: float | None = None
    """How often a fault that interrupted a job did so; 1 if every job moved on at once."""
    unprovoked_interruptions: int = 0
    """Interruptions that no fault of a machine explains: preemptions, and drains of sound nodes."""


def goodput_of(
    jobs: Iterable[JobRecord],
    *,
    ended: datetime,
    interruptions: Sequence[Interruption] = (),
    faults: Sequence[InjectedFault] = (),
) -> Goodput:
    """Return the goodput of `jobs` until `ended`, given why they were interrupted."""
    behind = faults_by_job(interruptions, faults)
    provoked = sum(map(len, behind.values()))
    distinct = {name: len(set(found)) for name, found in behind.items()}
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
        ettr_bound=_ettr_bound(known, distinct, ended),
        interruptions_per_fault=round(provoked / sum(distinct.values()), 6) if provoked else None,
        unprovoked_interruptions=len(interruptions) - provoked,
    )


def _ettr_bound(
    jobs: Iterable[JobRecord], faults: Mapping[str, int], ended: datetime
) -> float | None:
    """Return the mean bound of the jobs with checkpoints, weighted by their GPUs and time."""
    weights = bounds = 0.0
    for job in jobs:
        span_s = ((job.finished or ended) - job.submitted).total_seconds()
        if not job.checkpoint_every_s or span_s <= 0:
            continue
        bound = best_ettr(
            faults=faults.get(job.name, 0),
            span_s=span_s,
            restart_s=job.restart_s,
            every_s=job.checkpoint_every_s,
            takes_s=job.checkpoint_takes_s,
        )
        weights += span_s * job.gpus
        bounds += bound * span_s * job.gpus
    return round(bounds / weights, 6) if weights else None


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
    interruptions: Sequence[Interruption] = (),
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
        goodput=goodput_of(
            jobs, ended=truth.ended, interruptions=interruptions, faults=truth.faults
        ),
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
