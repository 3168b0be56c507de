"""Pools and jobs above the limits, as an older version may have stored them.

Nothing is planned for them: to plan a billion nodes stops the control plane, now and after every
restart. That a record is above a limit follows from the record itself, which stays as it is. So
each of them goes on by itself once its size is legal.
"""

from navarch.core.job import Job, JobState
from navarch.core.limits import NODES_PER_POOL_MAX, PAUSED, TASKS_PER_JOB_MAX
from navarch.core.pool import Pool


def why_paused(pool: Pool) -> str | None:
    """Return why nothing is planned for `pool` and what to do about it; None if it is planned."""
    if pool.size <= NODES_PER_POOL_MAX:
        return None
    if pool.nodes_min > NODES_PER_POOL_MAX:
        remedy = (
            f"set its minimum to {NODES_PER_POOL_MAX} nodes or fewer: `min_nodes` in the "
            f"configuration file, or PUT /v1/pools/{pool.name}"
        )
    else:
        remedy = (
            f"scale it to {NODES_PER_POOL_MAX} nodes or fewer: navarch pool scale {pool.name} NODES"
        )
    return (
        f"{PAUSED}{pool.size} nodes are above the limit of {NODES_PER_POOL_MAX} nodes per pool; "
        f"{remedy}"
    )


def why_not_scheduled(job: Job) -> str | None:
    """Return why the scheduler does not see `job`, which waits; None if it does.

    A job that has its GPUs keeps them, whatever its size: its tasks are as many as its nodes.
    """
    if job.state is not JobState.WAITING or job.tasks <= TASKS_PER_JOB_MAX:
        return None
    return (
        f"{job.tasks} tasks are above the limit of {TASKS_PER_JOB_MAX} tasks per job; "
        f"cancel it and submit smaller jobs: navarch job cancel {job.name}"
    )
