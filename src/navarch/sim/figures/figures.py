"""The figures of one run."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from navarch.core.event import Recorded
from navarch.core.health import Health
from navarch.core.launch import Launch
from navarch.core.records import is_record, record_fields
from navarch.sim.figures.career import Chronicle, read_journal
from navarch.sim.figures.false_cordons import false_cordons
from navarch.sim.figures.goodput import Goodput, JobRecord, goodput_of
from navarch.sim.figures.hours import GpuHours, count_hours
from navarch.sim.figures.leaks import leaks
from navarch.sim.figures.money import Money, count_money
from navarch.sim.figures.reaction import react
from navarch.sim.figures.spread import Spread
from navarch.sim.figures.truth import Truth


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What the system did, measured from its journal and its bills."""

    injured: int = 0
    """Machines that were broken, and passing errors of programs."""
    recovered: int = 0
    detection: Spread = field(default_factory=Spread)
    cordon: Spread = field(default_factory=Spread)
    replacement: Spread = field(default_factory=Spread)
    undetected: int = 0
    false_cordons: int = 0
    leaks: int = 0
    availability: float | None = None
    gpu_hours: GpuHours = field(default_factory=GpuHours)
    goodput: Goodput = field(default_factory=Goodput)
    money: Money = field(default_factory=Money)


def measure(
    journal: Sequence[Recorded],
    truth: Truth,
    *,
    told: Chronicle | None = None,
    launches: Sequence[Launch] = (),
    claimed: Collection[str] = (),
    jobs: Sequence[JobRecord] = (),
) -> Figures:
    """Return the figures of a run, given its journal, its ledger and what really happened.

    `told` is what the journal tells, where somebody has read it already.
    """
    told = read_journal(journal) if told is None else told
    reactions = react(told.careers, truth)
    hours = count_hours(told, truth)
    return Figures(
        injured=len(truth.injuries),
        recovered=sum(
            injury.over is not None and injury.harm is not Health.HEALTHY
            for injury in truth.injuries
        ),
        detection=reactions.detection,
        cordon=reactions.cordon,
        replacement=reactions.replacement,
        undetected=reactions.undetected,
        false_cordons=len(false_cordons(told.careers, truth)),
        leaks=len(leaks(truth, claimed)),
        availability=None if hours.availability is None else round(hours.availability, 6),
        gpu_hours=hours,
        goodput=goodput_of(jobs, ended=truth.ended),
        money=count_money(truth, launches, hours, ended=truth.ended),
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
