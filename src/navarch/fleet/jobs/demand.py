"""The demand of the fleet's own jobs, per pool, and remedies for waiting jobs."""

from math import ceil

from navarch.autoscale.strategies import Work
from navarch.core.event import Remedy, Step, StepKind
from navarch.core.fleet import Fleet
from navarch.core.ids import PoolName
from navarch.core.job import Job, JobState
from navarch.core.launch import Offering
from navarch.core.limits import NODES_PER_POOL_MAX
from navarch.core.pool import Pool
from navarch.fleet.jobs.cluster import is_of_type, why_not_scheduled


def work_of(fleet: Fleet, pool: PoolName) -> list[Work]:
    """Return the work that runs on or waits for `pool`, without waiting jobs above the limit."""
    work = []
    for job in fleet.jobs.values():
        if job.over or why_not_scheduled(job):
            continue
        parts = _tasks_in(fleet, job, pool)
        if parts:
            waiting = job.state is JobState.WAITING
            work.append(Work(gpus=job.gpus, parts=parts, waiting=waiting))
    return work


def _tasks_in(fleet: Fleet, job: Job, pool: PoolName) -> int:
    """Return how many tasks of a job run in `pool`, or wait for it.

    A job without a pool may run on several; while it waits, it counts for the first that could grow
    for it.
    """
    if job.pool is not None:
        return job.tasks if job.pool == pool else 0
    if job.nodes:
        places = map(fleet.nodes.get, job.nodes)
        return sum(node is not None and node.pool == pool for node in places)
    suitable = _suitable(fleet, job)
    return job.tasks if suitable and suitable[0].name == pool else 0


def growth(fleet: Fleet, job: Job, *, missing: int = 1) -> list[Remedy]:
    """Return the remedies by which pools could place a job's `missing` tasks."""
    suitable = _suitable(fleet, job)
    asked = f"{job.gpus} GPUs" + (f" of type {job.gpu_type}" if job.gpu_type else "")
    if not suitable:
        where = f"pool {job.pool}" if job.pool else "a pool"
        step = Step(kind=StepKind.ADD_POOL, pool=job.pool or "", asks_for=asked)
        says = f"{where} with machines that have {asked}: there is none yet"
        return [Remedy(says=says, steps=(step,))]
    found = []
    for pool in suitable:
        # How many more nodes the missing tasks need at least, in whole gangs of machines.
        most = max(offering.gpus for offering in pool.offerings if _suits(offering, job))
        nodes = ceil(missing / (most // job.gpus))
        nodes = ceil(nodes / max(1, pool.gang)) * max(1, pool.gang)
        found.append(_growth(fleet, pool, nodes, asked))
    return found


def _growth(fleet: Fleet, pool: Pool, nodes: int, asked: str) -> Remedy:
    members = fleet.in_pool(pool.name).values()
    coming = sum(node.counts and not node.serving for node in members)
    soon = f", of which {coming} take no work now" if coming else ""
    has = f"has {pool.size} of at most {pool.nodes_max} nodes{soon}"
    wanted = pool.size + nodes
    if wanted > NODES_PER_POOL_MAX:
        return Remedy(
            says=f"one more pool: pool {pool.name} {has} and would need {wanted}, "
            f"above the limit of {NODES_PER_POOL_MAX} nodes per pool",
            steps=(Step(kind=StepKind.ADD_POOL, asks_for=asked),),
        )
    scale = Step(kind=StepKind.SCALE_POOL, pool=pool.name, count=wanted)
    if wanted > pool.nodes_max:
        return Remedy(
            says=f"a higher max_nodes for pool {pool.name}: it {has} and would need {wanted}",
            steps=(Step(kind=StepKind.RAISE_POOL_MAX, pool=pool.name, count=wanted), scale),
        )
    return Remedy(
        says=f"more nodes in pool {pool.name}: it {has} (navarch pool scale {pool.name} {wanted})",
        steps=(scale,),
    )


def _suitable(fleet: Fleet, job: Job) -> list[Pool]:
    """Return the pools with suitable machines for the job, by name."""
    found = [
        pool
        for pool in fleet.pools.values()
        if not pool.deleted
        and job.pool in (None, pool.name)
        and any(_suits(offering, job) for offering in pool.offerings)
    ]
    return sorted(found, key=lambda pool: pool.name)


def _suits(offering: Offering, job: Job) -> bool:
    right_type = not job.gpu_type or is_of_type(offering, job.gpu_type)
    return offering.gpus >= job.gpus and right_type
