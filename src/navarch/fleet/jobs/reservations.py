"""Reservations: the nodes that a job gets back after it has left a slow one."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from navarch.core.event import Event, about
from navarch.core.fleet import Fleet
from navarch.core.ids import JobName, NodeId
from navarch.core.job import Job, JobState, Reservation
from navarch.core.node import Node, Phase
from navarch.core.records import evolve
from navarch.fleet.lifecycle import node_event

RESERVED_FOR = timedelta(minutes=30)
"""How long a place is kept. A job that is not preemptible leaves by itself, after it has saved its
work; until then its spare is idle."""


def reserve(
    job: Job, swaps: Sequence[tuple[Node, Node]], *, now: datetime
) -> tuple[Job, list[Event]]:
    """Return `job` with its next place reserved: each slow node exchanged for its spare.

    The other nodes of the job are part of it: they are free, too, once it is interrupted.
    """
    known = job.reservation.nodes if job.reservation is not None else ()
    slow = {node.id: spare.id for node, spare in swaps}
    place = dict.fromkeys((*(slow.get(name, name) for name in job.nodes), *known))
    until = now + RESERVED_FOR
    reservation = Reservation(nodes=tuple([x for x in place if x not in slow]), until=until)
    limit = f"until {until:%H:%M} UTC at the latest"
    news = [
        node_event(
            spare,
            "node.reserved",
            f"reserved for job {job.name}, which leaves {node.id}, {limit}",
            now=now,
            because=(about("node", node.id),),
        )
        for node, spare in swaps
    ]
    leaves = ", ".join(f"{spare.id} instead of {node.id}" for node, spare in swaps)
    reason = f"gets {leaves}; no other job gets its place {limit}"
    because = tuple([about("node", node.id) for node, _ in swaps])
    event = Event(
        at=now, about=about("job", job.name), kind="job.reserved", reason=reason, because=because
    )
    return evolve(job, reservation=reservation), [*news, event]


def ended_reservations(
    fleet: Fleet, jobs: Iterable[Job], *, now: datetime
) -> list[tuple[Job, Event]]:
    """Return those of `jobs` that need their reservation no more, or too long, without it."""
    found = []
    for job in jobs:
        why = _why_ended(fleet, job, now)
        if why is None:
            continue
        reason = f"{why}: other jobs may get the place that was reserved"
        event = Event(
            at=now, about=about("job", job.name), kind="job.reservation_ended", reason=reason
        )
        found.append((evolve(job, reservation=None), event))
    return found


def _why_ended(fleet: Fleet, job: Job, now: datetime) -> str | None:
    if job.reservation is None:
        return None
    if now >= job.reservation.until:
        return f"not placed within {RESERVED_FOR}"
    nodes = [fleet.nodes.get(name) for name in job.nodes]
    stays = job.state is JobState.PLACED and not any(
        node is None or node.phase is not Phase.READY for node in nodes
    )
    return "the drain of its slow node was cancelled" if stays else None


def reserved_nodes(jobs: Iterable[Job]) -> dict[NodeId, JobName]:
    """Return the nodes that only one job gets, with its name.

    The nodes that a job still holds are not among them: it may share them with others.
    """
    return {
        name: job.name
        for job in jobs
        if job.reservation is not None
        for name in job.reservation.nodes
        if job.state is not JobState.PLACED or name not in job.nodes
    }
