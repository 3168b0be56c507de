"""The figures of one run."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from navarch.core.event import Recorded
from navarch.core.health import Health
from navarch.core.launch import Launch
from navarch.core.records import is_record, record_fields
from navarch.sim.figures.durations import DurationStats
from navarch.sim.figures.goodput import Goodput, JobRecord, goodput_of
from navarch.sim.figures.reactions import count_false_cordons, measure_reactions
from navarch.sim.figures.timeline import Timelines, read_timelines
from navarch.sim.figures.truth import GroundTruth
from navarch.sim.figures.usage import GpuHours, Money, count_hours, count_money


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
        false_cordons=count_false_cordons(timelines.nodes, truth),
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
