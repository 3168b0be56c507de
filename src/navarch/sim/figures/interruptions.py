"""Interruptions of jobs, by the fault that caused them, and the effective time at best."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from navarch.core.ids import NodeId
from navarch.sim.figures.timeline import InjectedFault


@dataclass(frozen=True, slots=True, kw_only=True)
class Interruption:
    """The end of one run of a job before its work was done."""

    job: str
    at: datetime
    node: NodeId | None = None
    """The node because of which it ended; None if it ended for another job."""


FaultOfJob = tuple[NodeId, datetime]
"""The node and the time of a fault that interrupted a job."""


def faults_by_job(
    interruptions: Iterable[Interruption], faults: Iterable[InjectedFault]
) -> Mapping[str, list[FaultOfJob]]:
    """Return the fault behind each interruption of each job that a fault explains.

    A fault that ends several runs of a job is listed as often, such as when the job is started
    again on the broken machine, or when the machine is drained after the job had failed on it.
    """
    known: dict[NodeId, list[datetime]] = {}
    for fault in faults:
        known.setdefault(fault.node, []).append(fault.at)
    found: dict[str, list[FaultOfJob]] = {}
    for each in interruptions:
        before = [at for at in known.get(each.node, ()) if at <= each.at] if each.node else []
        if each.node is not None and before:
            found.setdefault(each.job, []).append((each.node, max(before)))
    return found


def best_ettr(
    *, faults: int, span_s: float, restart_s: float, every_s: float, takes_s: float
) -> float:
    """Return the effective training time ratio that perfect reactions to `faults` would leave.

    With N machines that fail at the rate r, restarts of u0, checkpoints every dt and writes of w,
    it is (1 - N r (u0 + dt/2)) / (1 + w/dt), as in "Revisiting Reliability in Large-Scale Machine
    Learning Research Clusters"; N r is the rate of the faults that occurred.
    """
    lost = faults * (restart_s + every_s / 2) / span_s
    return max(1 - lost, 0.0) / (1 + takes_s / every_s)
