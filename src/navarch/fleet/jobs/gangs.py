"""Gangs of jobs: nodes that share a job are interrupted together, in one pool or in several."""

from collections.abc import Collection, Iterable
from datetime import datetime

from navarch.core.fleet import Fleet
from navarch.core.ids import JobName, NodeId, PoolName
from navarch.core.job import Job
from navarch.core.node import Phase
from navarch.fleet.disruption.replacement import successors


def nodes_by_gang(jobs: Iterable[Job], nodes: Collection[NodeId]) -> list[tuple[NodeId, ...]]:
    """Return `nodes` in groups that share jobs, in order of the first node of each group."""
    groups = {name: {name: None} for name in nodes}
    for job in jobs:
        shared = [name for name in dict.fromkeys(job.nodes) if name in groups]
        for name in shared[1:]:
            if groups[name] is not groups[shared[0]]:
                groups[shared[0]] |= groups[name]
                for member in groups[name]:
                    groups[member] = groups[shared[0]]
    order = {name: place for place, name in enumerate(nodes)}
    found = {min(group, key=order.__getitem__): group for group in groups.values()}
    return [tuple(sorted(found[name], key=order.__getitem__)) for name in nodes if name in found]


def pools_of_jobs(fleet: Fleet, jobs: Iterable[Job]) -> set[PoolName]:
    """Return the pools of those of `jobs` that may run on several, by all of their nodes."""
    shared = (fleet.nodes.get(name) for name in _beside(jobs))
    return {node.pool for node in shared if node is not None and node.pool is not None}


def awaits_other_pools(
    fleet: Fleet, pool: PoolName, jobs: Collection[Job], *, now: datetime
) -> bool:
    """Return whether nodes of `jobs` in other pools have successors that boot.

    They are waited for until the boot deadline of their pool.
    """
    names = pools_of_jobs(fleet, jobs) - {pool}
    others = [fleet.pools[name] for name in names if name in fleet.pools]
    if not others:
        return False
    beside = _beside(jobs)
    return any(
        old in beside and not node.serving and now < node.created_at + other.boot_deadline
        for other in others
        for old, node in successors(fleet.in_pool(other.name).values()).items()
    )


def interrupted_jobs(fleet: Fleet, jobs: Iterable[Job]) -> set[JobName]:
    """Return those of `jobs` with a draining node: they are interrupted on all of their nodes."""
    return {
        job.name
        for job in jobs
        if any(
            node is not None and node.phase is Phase.DRAINING
            for node in map(fleet.nodes.get, job.nodes)
        )
    }


def _beside(jobs: Iterable[Job]) -> set[NodeId]:
    """Return the nodes of all jobs without a pool."""
    return {name for job in jobs if job.pool is None for name in job.nodes}
